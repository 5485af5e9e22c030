"""The one evaluator of rules about rows: mutation, load and merge ask it before they stage.

Promises every violation of a write, in a fixed order, from whole-column work: committed rows are
asked only about what the write can affect. Writes nothing, and does not know who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from omnigraph.engine.commit.changes import ChangeSet, TableChange
from omnigraph.engine.commit.committed import CommittedRows
from omnigraph.engine.commit.integrity.cardinality import check_cardinality
from omnigraph.engine.commit.integrity.endpoints import (
    AbsentNodes,
    check_put_edges,
    check_untouched_edges,
    find_absent_nodes,
)
from omnigraph.engine.commit.integrity.identities import check_ids, drop_rows, find_repeats
from omnigraph.engine.commit.integrity.uniqueness import check_unique_groups
from omnigraph.engine.commit.integrity.values import check_values
from omnigraph.engine.commit.integrity.violations import Violations, gather
from omnigraph.engine.state.snapshot import make_table_key, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, TypeKind
from omnigraph.model.errors import IntegrityError

CheckValues = Callable[[TableChange], Iterator[Violations]]
"""What tells of the rules about values, for the rows of one type."""


def require_integrity(changes: ChangeSet, *, catalog: Catalog, committed: CommittedRows) -> None:
    """Raise `IntegrityError` unless every rule of the schema holds once the write has landed."""
    violations = find_violations(changes, catalog=catalog, committed=committed)
    if violations.count:
        raise IntegrityError(violations=violations.found, count=violations.count)


def find_violations(
    changes: ChangeSet, *, catalog: Catalog, committed: CommittedRows
) -> Violations:
    """What a write breaks: by table key, then by rule, then in the order of rows or ids."""
    return find_violations_beside(
        check_values, changes=changes, catalog=catalog, committed=committed
    )


def find_violations_beside(
    check_values: CheckValues,
    *,
    changes: ChangeSet,
    catalog: Catalog,
    committed: CommittedRows,
) -> Violations:
    """The same where somebody else tells what values break: rows may then be their keys alone."""
    return gather(_check_all(check_values, changes, catalog=catalog, committed=committed))


def _check_all(
    check_values: CheckValues,
    changes: ChangeSet,
    *,
    catalog: Catalog,
    committed: CommittedRows,
) -> Iterator[Violations]:
    absent = find_absent_nodes(changes, committed=committed)
    edge_by_key = {table_key_of(edge): edge for edge in catalog.edges.values()}
    # An edge type that the write does not touch can still lose the nodes of its edges.
    for table_key in sorted({*changes, *edge_by_key}):
        edge, change = edge_by_key.get(table_key), changes.get(table_key)
        if change is None:
            assert edge is not None
            yield from check_untouched_edges(edge, changes=changes, committed=committed)
        else:
            yield from check_values(change)
            yield from _check_type(change, absent=absent, changes=changes, committed=committed)


def _check_type(
    change: TableChange, *, absent: AbsentNodes, changes: ChangeSet, committed: CommittedRows
) -> Iterator[Violations]:
    ends = ("src", "dst") if isinstance(change.type, EdgeType) else ()
    assert not any(change.put.column(name).null_count for name in ("id", *ends))
    repeats = find_repeats(change.put)
    distinct = replace(change, put=drop_rows(change.put, repeats))
    yield from check_unique_groups(distinct, committed=committed)
    yield check_ids(change, repeats)
    if isinstance(change.type, EdgeType):
        yield from check_put_edges(change, absent=absent)
        yield from check_untouched_edges(change.type, changes=changes, committed=committed)
        source_key = make_table_key(TypeKind.NODE, change.type.source)
        yield check_cardinality(distinct, node_change=changes.get(source_key), committed=committed)
