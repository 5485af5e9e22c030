"""The terms of a merge: how finely two sides are compared, and what the caller decided.

Everything a caller may say is read here, with the loader's rules for values; afterwards decisions
are rows and ids. Does not know what is in conflict.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
import pyarrow as pa

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.reading.pieces import Means
from omnigraph.engine.ops.reading.sources import receive
from omnigraph.engine.ops.reading.type_names import find_type
from omnigraph.engine.ops.reconcile import Decisions, Granularity
from omnigraph.engine.state.history import Resolution
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.runtime import Runtime
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.external_blobs import NO_EXTERNAL_BLOBS
from omnigraph.storage.outside_files import OutsideFiles

SOURCE, TARGET, ROW = "source", "target", "row"


@dataclass(frozen=True, slots=True)
class Terms:
    """How a merge is to go: what was asked for, not yet read against a schema."""

    granularity: Granularity
    resolve: Mapping[tuple[str, str], object]
    is_dry_run: bool


NO_TERMS = Terms(Granularity.ROW, {}, is_dry_run=False)
"""Whole rows, and nothing decided."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The caller's decisions by table key, and the same as a commit records them."""

    by_table: Mapping[str, Decisions]
    resolutions: tuple[Resolution, ...]


def parse_terms(*, granularity: object, resolve: object, is_dry_run: bool) -> Terms:
    """The terms that a caller gives; `InvalidValueError` says what is wrong with them."""
    if granularity not in tuple(Granularity):
        raise InvalidValueError(
            subject="granularity",
            expected="row or property",
            value=granularity,
            problem=f"{granularity!r} is none of row and property",
        )
    given = {} if resolve is None else resolve
    if not isinstance(given, Mapping) or not all(_is_entity(key) for key in given):
        raise _refuse(resolve, "give a mapping from (type, id) to a decision")
    return Terms(Granularity(str(granularity)), dict(given), is_dry_run)


def read_decisions(terms: Terms, *, catalog: Catalog, runtime: Runtime) -> Decided:
    """The decisions of a caller against a schema.

    `NotFoundError` means that there is no such type, `InvalidValueError` that a row does not fit.
    """
    choices: dict[str, _Choices] = {}
    resolutions: dict[tuple[str, str], Resolution] = {}
    for (name, id), decision in sorted(terms.resolve.items(), key=lambda each: each[0]):
        declared = _get_type(name, catalog)
        key = table_key_of(declared)
        if (key, id) in resolutions:
            raise _refuse(name, f"{_show(declared, id)} is decided about twice; leave one out")
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


_CHOICES = 'decide with "source", "target" or the row that it shall be'


@dataclass(frozen=True, slots=True)
class _Choices:
    """Decisions about one type as they are gathered."""

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
        kinds = f"say 'node:{name}' or 'edge:{name}'"
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
    content = {**row, "id": row.get("id", id)}
    record: dict[str, object] = {"type": declared.name, "data": content}
    if isinstance(declared, EdgeType):
        ends = {"from": content.pop("src", None), "to": content.pop("dst", None)}
        record = {"edge": declared.name, **ends, "data": content}
    try:
        line = orjson.dumps(record)
        means = Means(catalog, NO_EXTERNAL_BLOBS, OutsideFiles({}, folder=""))
        (received,) = receive(io.BytesIO(line), means=means, runtime=runtime).values()
    except (InvalidValueError, orjson.JSONEncodeError) as error:
        raise _refuse(row, f"the row for {_show(declared, id)}: {error}") from error
    if received.rows["id"][0].as_py() != id:
        raise _refuse(row, f"the row for {_show(declared, id)} has another id")
    # The columns are those of a table, whatever way they came.
    return pa.table(received.rows.columns, schema=table_schema(declared))


def _show(declared: NodeType | EdgeType, id: str) -> str:
    return f"{declared.name} {show_text(id)}"


def _refuse(value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject="resolve", expected="decisions by type and id", value=value, problem=problem
    )
