"""Merge options: the granularity of the comparison, and the caller's decisions.

All input of the caller is parsed here, with the loader's rules for values; afterwards, decisions
are rows and ids. The module does not know which entities are in conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.input.batches import ReadContext
from omnigraph.engine.input.sources import read_input
from omnigraph.engine.merge.reconcile import Decisions, Granularity
from omnigraph.engine.state.history import Resolution
from omnigraph.engine.state.manifest import find_type, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError, show_text
from omnigraph.model.names import parse_word
from omnigraph.model.runtime import Runtime
from omnigraph.storage.external_files import NO_EXTERNAL_BLOBS, ExternalFiles
from omnigraph.storage.row_files import table_schema

SOURCE, TARGET, ROW = "source", "target", "row"


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """The options of a merge, not yet checked against a schema."""

    granularity: Granularity
    resolve: Mapping[tuple[str, str], object]
    is_dry_run: bool


DEFAULT_OPTIONS = MergeOptions(Granularity.ROW, {}, is_dry_run=False)
"""Whole rows, without decisions."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The caller's decisions by table key, and the form in which a commit records them."""

    by_table: Mapping[str, Decisions]
    resolutions: tuple[Resolution, ...]


def parse_options(*, granularity: object, resolve: object, is_dry_run: bool) -> MergeOptions:
    """Parse the options of a merge; raises `InvalidValueError` if they are invalid."""
    unit = parse_word(Granularity, granularity, subject="granularity")
    given = {} if resolve is None else resolve
    if not isinstance(given, Mapping) or not all(_is_entity(key) for key in given):
        raise _refuse(resolve, "pass a mapping from (type, id) to a decision")
    return MergeOptions(unit, dict(given), is_dry_run)


def read_decisions(options: MergeOptions, *, catalog: Catalog, runtime: Runtime) -> Decided:
    """Check the decisions of a caller against a schema.

    Raises `NotFoundError` if there is no such type, and `InvalidValueError` if a row does not match
    its type.
    """
    choices: dict[str, _Choices] = {}
    resolutions: dict[tuple[str, str], Resolution] = {}
    for (name, id), decision in sorted(options.resolve.items(), key=lambda each: each[0]):
        declared = _get_type(name, catalog)
        key = table_key_of(declared)
        if (key, id) in resolutions:
            raise _refuse(name, f"{_show(declared, id)} has two decisions; remove one")
        chosen = choices.setdefault(key, _Choices(declared, [], [], []))
        match decision:
            case "source":
                chosen.from_source.append(id)
            case "target":
                chosen.from_target.append(id)
            case Mapping():
                chosen.rows.append(_read_row(declared, id, decision, catalog, runtime))
            case _:
                raise _refuse(decision, f"{_show(declared, id)}: {_CHOICES}")
        choice = decision if isinstance(decision, str) else ROW
        resolutions[key, id] = Resolution(declared.name, id, choice)
    by_table = {key: each.freeze() for key, each in choices.items()}
    return Decided(by_table, tuple(resolutions.values()))


_CHOICES = 'decide with "source", "target" or a row'


@dataclass(frozen=True, slots=True)
class _Choices:
    """The decisions about one type while they are collected."""

    declared: NodeType | EdgeType
    from_source: list[str]
    from_target: list[str]
    rows: list[pa.Table]

    def freeze(self) -> Decisions:
        nothing = table_schema(self.declared).empty_table()
        return Decisions(
            from_source=pa.array(self.from_source, pa.string()),
            from_target=pa.array(self.from_target, pa.string()),
            rows=pa.concat_tables([nothing, *self.rows]),
        )


def _is_entity(key: object) -> bool:
    match key:
        case (str(), str()):
            return True
        case _:
            return False


def _get_type(name: str, catalog: Catalog) -> NodeType | EdgeType:
    try:
        declared = find_type(name, catalog)
    except InvalidValueError as error:
        kinds = f"write 'node:{name}' or 'edge:{name}'"
        raise _refuse(name, f"'{name}' is a node type and an edge type; {kinds}") from error
    if declared is None:
        advice = advise_name(name, {*catalog.nodes, *catalog.edges}) or ""
        raise NotFoundError(kind="type", name=name, advice=advice)
    return declared


def _read_row(
    declared: NodeType | EdgeType,
    id: str,
    row: Mapping[str, object],
    catalog: Catalog,
    runtime: Runtime,
) -> pa.Table:
    given = {table_key_of(declared): [{**row, "id": row.get("id", id)}]}
    try:
        context = ReadContext(catalog, NO_EXTERNAL_BLOBS, ExternalFiles({}, folder=""))
        (received,) = read_input(given, context=context, runtime=runtime).values()
    except InvalidValueError as error:
        raise _refuse(row, f"the row for {_show(declared, id)}: {error}") from error
    if received.rows["id"][0].as_py() != id:
        raise _refuse(row, f"the row for {_show(declared, id)} has another id")
    # The columns in the order and types of the table, regardless of how they were read.
    return pa.table(received.rows.columns, schema=table_schema(declared))


def _show(declared: NodeType | EdgeType, id: str) -> str:
    return f"{declared.name} {show_text(id)}"


def _refuse(value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject="resolve", expected="decisions by type and id", value=value, problem=problem
    )
