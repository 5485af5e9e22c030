"""The evaluator of integrity rules: mutations, loads and merges run it before they stage.

It finds every violation of a write, in a fixed order, by operations on whole columns; it reads only
the committed rows that the write can affect. It writes nothing and does not depend on the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from omnigraph.engine.commit.integrity.edges import (
    AbsentNodes,
    check_cardinality,
    check_put_edges,
    check_untouched_edges,
    find_absent_nodes,
)
from omnigraph.engine.commit.integrity.keys import (
    check_ids,
    check_unique_groups,
    drop_rows,
    find_duplicate_ids,
)
from omnigraph.engine.commit.integrity.values import check_values
from omnigraph.engine.commit.integrity.violations import Violations, concat_violations
from omnigraph.engine.commit.prepared_write import CommittedRows, TableChange, TableChanges
from omnigraph.engine.state.manifest import make_table_key, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, TypeKind
from omnigraph.model.errors import IntegrityError

CheckValues = Callable[[TableChange], Iterator[Violations]]
"""A check of the rules about values, for the rows of one type."""


def require_integrity(changes: TableChanges, *, catalog: Catalog, committed: CommittedRows) -> None:
    """Raise `IntegrityError` unless every rule of the schema holds after the write."""
    violations = find_violations(changes, catalog=catalog, committed=committed)
    if violations.count:
        raise IntegrityError(violations=violations.found, count=violations.count)


def find_violations(
    changes: TableChanges, *, catalog: Catalog, committed: CommittedRows
) -> Violations:
    """The violations of a write: by table key, then by rule, then in the order of rows or ids."""
    return find_violations_except_values(
        check_values, changes=changes, catalog=catalog, committed=committed
    )


def find_violations_except_values(
    check_values: CheckValues,
    *,
    changes: TableChanges,
    catalog: Catalog,
    committed: CommittedRows,
) -> Violations:
    """The violations of a write, with the rules about values checked by a given function.

    The rows of the changes may then consist of their keys alone.
    """
    absent = find_absent_nodes(changes, committed=committed)
    edge_by_key = {table_key_of(edge): edge for edge in catalog.edges.values()}
    found: list[Violations] = []
    # An edge type that the write does not touch can still lose the nodes of its edges.
    for table_key in sorted({*changes, *edge_by_key}):
        edge, change = edge_by_key.get(table_key), changes.get(table_key)
        if change is None:
            assert edge is not None
            found += check_untouched_edges(edge, changes=changes, committed=committed)
        else:
            found += check_values(change)
            found += _check_type(change, absent=absent, changes=changes, committed=committed)
    return concat_violations(found)


def _check_type(
    change: TableChange, *, absent: AbsentNodes, changes: TableChanges, committed: CommittedRows
) -> Iterator[Violations]:
    assert not any(change.put.column(name).null_count for name in ("id", *change.type.ends))
    repeats = find_duplicate_ids(change.put)
    distinct = replace(change, put=drop_rows(change.put, repeats))
    yield from check_unique_groups(distinct, committed=committed)
    yield check_ids(change, repeats)
    if isinstance(change.type, EdgeType):
        yield from check_put_edges(change, absent=absent)
        yield from check_untouched_edges(change.type, changes=changes, committed=committed)
        source_key = make_table_key(TypeKind.NODE, change.type.source)
        yield check_cardinality(distinct, node_change=changes.get(source_key), committed=committed)
