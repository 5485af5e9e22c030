"""A three-way merge over dictionaries, and the same question put to the engine's.

The oracle knows rows as plain values and looks at one id after the other, as the table of cases
is written down. `None` is an absent row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.merge.reconcile import Decisions, Granularity, Reconciled, reconcile
from omnigraph.engine.ops.diff import TypeChanges
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source
from tests.support.committed_rows import Row, find_type, rows_of

Rows = Mapping[str, Row]
"""The rows of a type by id, without the id itself."""

NOTHING: Rows = {}


def compile_catalog(schema: str) -> Catalog:
    """The catalog of a schema that is known to be right."""
    return compile_schema(Source("<schema>", schema))


# The oracle


@dataclass(frozen=True, slots=True)
class Merged:
    """The rows of the target after a merge, and the kind of conflict of each id that has one."""

    rows: Rows
    conflicts: Mapping[str, str]


def merge_rows(base: Rows, source: Rows, target: Rows, *, by_property: bool) -> Merged:
    """What a target becomes; an id in conflict stays as the target has it."""
    rows, conflicts = dict(target), {}
    for id in {*base, *source, *target}:
        outcome = _merge_row(base.get(id), source.get(id), target.get(id), by_property=by_property)
        if isinstance(outcome, str):
            conflicts[id] = outcome
        elif outcome is None:
            rows.pop(id, None)
        else:
            rows[id] = outcome
    return Merged(rows, conflicts)


def _merge_row(
    base: Row | None, source: Row | None, target: Row | None, *, by_property: bool
) -> Row | str | None:
    if source in (base, target):
        return target
    if target == base:
        return source
    if base is None:
        return "divergent_insert"
    if source is None or target is None:
        return "delete_vs_update"
    merged = dict(target)
    for group in _groups(base):
        was, mine, theirs = ([row[name] for name in group] for row in (base, source, target))
        if mine not in (was, theirs):
            if theirs != was or not by_property:
                return "divergent_update"
            merged |= dict(zip(group, mine, strict=True))
        elif theirs not in (was, mine) and not by_property:
            return "divergent_update"
    return merged


def _groups(row: Row) -> list[tuple[str, ...]]:
    """What changes as one: a property, or both ends of an edge."""
    ends = [("src", "dst")] if "src" in row else []
    return [*ends, *((name,) for name in row if name not in ("src", "dst"))]


# The engine


@dataclass(frozen=True, slots=True)
class Decided:
    """What a caller decided, by id."""

    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    rows: Rows = field(default_factory=dict)


def table_of(catalog: Catalog, name: str, rows: Rows) -> pa.Table:
    """Rows of a type as a table, in the order of ids."""
    return rows_of(catalog, name, [{"id": id, **rows[id]} for id in sorted(rows)])


def changes_of(catalog: Catalog, name: str, old: Rows, new: Rows) -> TypeChanges:
    """The net changes from one set of rows to another."""
    changed = {id for id in old.keys() & new.keys() if old[id] != new[id]}
    parts = (
        {id: new[id] for id in new.keys() - old.keys()},
        {id: old[id] for id in changed},
        {id: new[id] for id in changed},
        {id: old[id] for id in old.keys() - new.keys()},
    )
    return TypeChanges(*(table_of(catalog, name, each) for each in parts))


def reconcile_rows(
    catalog: Catalog,
    name: str,
    *,
    base: Rows,
    source: Rows,
    target: Rows,
    granularity: str = "row",
    decided: Decided | None = None,
) -> Reconciled:
    """What the engine does with three sets of rows."""
    decided = decided or Decided()
    return reconcile(
        find_type(catalog, name),
        source=changes_of(catalog, name, base, source),
        target=changes_of(catalog, name, base, target),
        granularity=Granularity(granularity),
        decisions=Decisions(
            pa.array(decided.source, pa.string()),
            pa.array(decided.target, pa.string()),
            table_of(catalog, name, decided.rows),
        ),
    )


def apply(reconciled: Reconciled, target: Rows) -> Rows:
    """The target once it has done what it has to do; fail if it cannot be done."""
    put = {str(row.pop("id")): row for row in reconciled.put.to_pylist()}
    removed = reconciled.removed.to_pylist()
    assert len(put) == reconciled.put.num_rows, "an id is put twice"
    assert len(set(removed)) == len(removed), "an id is removed twice"
    assert target.keys() >= set(removed), "what is removed is not there"
    assert not put.keys() & set(removed), "a row is put and removed"
    assert reconciled.is_adding is False or not put.keys() & target.keys()
    return {**{id: row for id, row in target.items() if id not in removed}, **put}
