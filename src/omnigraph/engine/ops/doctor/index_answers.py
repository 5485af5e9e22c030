"""Indexes against rows: what an index of values answers must be what there is.

An index that cannot be read fails every look-up that would use it, though no row is lost. Each is
asked once, for a value that is there; an index of texts, which ids and ends of edges have, is asked
for all of them. Other kinds are not asked: reads do without those.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.scope import Findings, Scope, StoredType
from omnigraph.engine.state.snapshot import Entry
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.ports import TableStore
from omnigraph.storage.table_layout import IndexKind


def examine_answers(scope: Scope, findings: Findings, stored: StoredType) -> None:
    """Ask every index of values that a type has, and tell of those that answer wrongly."""
    tables, entry = scope.stores.tables, stored.entry
    advice = (
        "restore what is stored of the type from a copy of the graph, or export the type and load "
        'it again with `mode="overwrite"`, then `graph.ensure_indices()`'
    )
    with findings.noting(Trouble.INDEX_DAMAGED, stored.subject, advice=advice):
        named = {each.spec.column for each in tables.indexes(entry.at) if _is_asked(each.spec.kind)}
        for column in sorted(named & stored.columns):
            with findings.noting(Trouble.INDEX_DAMAGED, stored.subject, advice=advice):
                found, expected = _ask(tables, entry, column)
                if found != expected:
                    message = f"the index of {column} finds {found:,} of {expected:,} rows"
                    findings.add(Trouble.INDEX_DAMAGED, stored.subject, message, advice=advice)


def _is_asked(kind: IndexKind) -> bool:
    return kind is IndexKind.BTREE


def _ask(tables: TableStore, entry: Entry, column: str) -> tuple[int, int]:
    """How many rows an index finds, and how many there are."""
    if tables.schema(entry.at).field(column).type == pa.string():
        predicate = f"{column} >= ''"
        return tables.count(entry.at, predicate=predicate), _count_valid(tables, entry, column)
    for batch in tables.scan_by_id(entry.at, columns=[column]):
        value = _choose_values(batch[column]).slice(0, 1)
        if len(value):
            rows = tables.scan(entry.at, columns=[column], predicate=None)[column]
            expected = pc.sum(pc.equal(rows, value[0])).as_py()
            return tables.count(entry.at, predicate=render_in(column, value)), expected or 0
    return 0, 0


def _choose_values(cells: pa.Array) -> pa.Array:
    """The values on which all agree who equals them: no NaN, and no zero, which may have a sign."""
    known = cells.drop_null()
    if not pa.types.is_floating(known.type):
        return known
    return known.filter(pc.or_(pc.greater(known, 0), pc.less(known, 0)))


def _count_valid(tables: TableStore, entry: Entry, column: str) -> int:
    batches = tables.scan_by_id(entry.at, columns=[column])
    return sum(batch.num_rows - batch[column].null_count for batch in batches)
