"""The rules across rows of a write whose rows lie in files: asked of their keys alone.

The verdicts are those of the evaluator in process, which is asked the same. Keys are held whole:
who has more rows than that loads them by a job, which brings keys together on executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.engine.commit.changes import ChangeSet, TableChange
from omnigraph.engine.commit.committed import CommittedRows
from omnigraph.engine.commit.integrity.cardinality import check_cardinality
from omnigraph.engine.commit.integrity.endpoints import (
    check_put_edges,
    check_untouched_edges,
    find_absent_nodes,
)
from omnigraph.engine.commit.integrity.identities import check_ids, drop_rows, find_repeats
from omnigraph.engine.commit.integrity.uniqueness import check_unique_groups
from omnigraph.engine.commit.integrity.violations import Violations, gather
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, Unique
from omnigraph.model.errors import IntegrityError
from omnigraph.spark.refusals import gather_values
from omnigraph.spark.staged import StagedPortion
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.lance_parts import scan_file
from omnigraph.storage.table_parts import LineFolder, NewFile


def read_keys(
    declared: NodeType | EdgeType, files: Iterable[NewFile], folder: LineFolder
) -> pa.Table:
    """The columns of staged rows that rules across rows are about, in the order of the files."""
    columns = _key_columns(declared)
    schema = pa.schema([table_schema(declared).field(name) for name in columns])
    batches = [batch for file in files for batch in scan_file(folder, file, columns=columns)]
    return pa.table(pa.Table.from_batches(batches, schema=schema).columns, schema=schema)


def require_rules(
    change: TableChange,
    portions: Sequence[StagedPortion],
    *,
    catalog: Catalog,
    committed: CommittedRows,
) -> None:
    """Raise `IntegrityError` unless every rule holds once the rows have landed.

    The rows that `change` puts have the columns of `read_keys`; what their values break was found
    when they were staged.
    """
    values = gather(Violations(each.violations, each.count) for each in gather_values(portions))
    violations = gather(_check_all(change, values, catalog=catalog, committed=committed))
    if violations.count:
        raise IntegrityError(violations=violations.found, count=violations.count)


def _key_columns(declared: NodeType | EdgeType) -> list[str]:
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    key = declared.key if isinstance(declared, NodeType) else ()
    unique = [
        name for each in declared.constraints if isinstance(each, Unique) for name in each.columns
    ]
    return list(dict.fromkeys(["id", *ends, *key, *unique]))


def _check_all(
    change: TableChange, values: Violations, *, catalog: Catalog, committed: CommittedRows
) -> Iterator[Violations]:
    own_key = table_key_of(change.type)
    changes: ChangeSet = {own_key: change}
    edge_by_key = {table_key_of(edge): edge for edge in catalog.edges.values()}
    # An edge type that the write does not touch can still lose the nodes of its edges.
    for key in sorted({own_key, *edge_by_key}):
        if key != own_key:
            edge = edge_by_key[key]
            yield from check_untouched_edges(edge, changes=changes, committed=committed)
            continue
        yield values
        repeats = find_repeats(change.put)
        distinct = replace(change, put=drop_rows(change.put, repeats))
        yield from check_unique_groups(distinct, committed=committed)
        yield check_ids(change, repeats)
        if isinstance(change.type, EdgeType):
            absent = find_absent_nodes(changes, committed=committed)
            yield from check_put_edges(change, absent=absent)
            yield check_cardinality(distinct, node_change=None, committed=committed)
