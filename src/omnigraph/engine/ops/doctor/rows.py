"""The rows of a type against the rules of the schema: the rules that writes are held to.

Values, ids and keys are judged a batch at a time. What must be different, and how many edges leave
a node, takes the columns of that rule as a whole. Blobs are not read. A rule over a column that the
type has yet to gain holds: every row is null there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.integrity.cardinality import check_cardinality
from omnigraph.engine.commit.integrity.identities import drop_rows, find_repeats
from omnigraph.engine.commit.integrity.uniqueness import check_unique_groups
from omnigraph.engine.commit.integrity.values import check_values
from omnigraph.engine.commit.integrity.violations import Violations, show_text
from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.scope import Findings, Scope, StoredType
from omnigraph.engine.ops.reading.identity import node_ids
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.state.snapshot import Snapshot
from omnigraph.model.catalog import (
    ANY_CARDINALITY,
    Check,
    Constraint,
    EdgeType,
    Index,
    Key,
    NodeType,
    Range,
    Unique,
)
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import MAIN
from omnigraph.storage.ports import TableStore

_MEND = "correct or delete those rows with `graph.mutate`"
_MEND_REPEATED = (
    "delete them with `graph.mutate`, which takes all rows of an id and its edges, and load again "
    "what should be there"
)
_UNREADABLE = "restore what is stored of the type from a copy of the graph"


class _Tally:
    """How many rows break each rule, and what the first of them is told to be."""

    def __init__(self) -> None:
        self._first: dict[tuple[Trouble, str], str] = {}
        self._count: dict[tuple[Trouble, str], int] = {}

    def add(self, code: Trouble, rule: str, *, count: int, example: str) -> None:
        self._first.setdefault((code, rule), example)
        self._count[code, rule] = self._count.get((code, rule), 0) + count

    def add_violations(self, parts: Iterable[Violations]) -> None:
        for part in parts:
            if part.count:
                first = part.found[0]
                rule = f"{first.rule} {first.property}"
                self.add(Trouble.RULE_BROKEN, rule, count=part.count, example=first.message)

    def tell(self, findings: Findings, subject: str) -> None:
        for (code, rule), example in self._first.items():
            count = self._count[code, rule]
            message = example if count == 1 else f"{example}; and {count - 1:,} more"
            advice = _MEND_REPEATED if code is Trouble.ID_REPEATED else _MEND
            findings.add(code, subject, message, advice=advice)


def examine_rows(scope: Scope, findings: Findings, stored: StoredType) -> bool:
    """Look at every row of a type and tell which rules are broken; whether all could be read."""
    judged = _without_unstored(stored)
    tally, is_read = _Tally(), False
    with findings.noting(Trouble.TYPE_DAMAGED, stored.subject, advice=_UNREADABLE):
        _judge_batches(judged, stored, tally, tables=scope.stores.tables)
        _judge_unique(judged, stored, tally, tables=scope.stores.tables)
        if isinstance(judged, EdgeType) and judged.cardinality != ANY_CARDINALITY:
            _judge_cardinality(judged, stored, tally, tables=scope.stores.tables)
        is_read = True
    tally.tell(findings, stored.subject)
    return is_read


def _judge_batches(
    judged: NodeType | EdgeType, stored: StoredType, tally: _Tally, *, tables: TableStore
) -> None:
    columns = ["id", *sorted(judged.properties)]
    last: str | None = None
    for batch in tables.scan_by_id(stored.entry.at, columns=columns):
        if batch.num_rows:
            rows = pa.Table.from_batches([batch])
            last = _judge_ids(rows["id"].combine_chunks(), tally, last=last, name=judged.name)
            if isinstance(judged, NodeType) and judged.key:
                _judge_keys(judged, rows, tally)
            tally.add_violations(check_values(_as_change(judged, rows)))


def _judge_ids(ids: pa.Array, tally: _Tally, *, last: str | None, name: str) -> str:
    """Count the ids that are the same as the one before, and return the last of them."""
    before = pa.concat_arrays([pa.array([last], ids.type), ids[:-1]])
    repeated = ids.filter(pc.equal(ids, before))
    if len(repeated):
        example = f"{name} {show_text(repeated[0].as_py())} is there more than once"
        tally.add(Trouble.ID_REPEATED, "id", count=len(repeated), example=example)
    return str(ids[-1].as_py())


def _judge_keys(judged: NodeType, rows: pa.Table, tally: _Tally) -> None:
    try:
        derived = node_ids(judged, rows)
    except InvalidValueError as error:
        tally.add(Trouble.RULE_BROKEN, "key", count=1, example=str(error))
        return
    wrong = rows["id"].filter(pc.not_equal(rows["id"], derived))
    if len(wrong):
        example = f"{judged.name} {show_text(wrong[0].as_py())} has another key than its id says"
        tally.add(Trouble.RULE_BROKEN, "key", count=len(wrong), example=example)


def _judge_unique(
    judged: NodeType | EdgeType, stored: StoredType, tally: _Tally, *, tables: TableStore
) -> None:
    for constraint in judged.constraints:
        if isinstance(constraint, Unique):
            rows = _read(tables, stored, ["id", *constraint.columns])
            alone = replace(judged, constraints=(constraint,))
            # As if all of them were written at once: then there is nothing else to compare with.
            change = _as_change(alone, drop_rows(rows, find_repeats(rows)))
            tally.add_violations(check_unique_groups(change, committed=_no_rows(tables)))


def _judge_cardinality(
    judged: EdgeType, stored: StoredType, tally: _Tally, *, tables: TableStore
) -> None:
    rows = _read(tables, stored, ["id", "src"])
    change = _as_change(judged, drop_rows(rows, find_repeats(rows)))
    found = check_cardinality(change, node_change=None, committed=_no_rows(tables))
    tally.add_violations([found])


def _read(tables: TableStore, stored: StoredType, columns: Sequence[str]) -> pa.Table:
    return tables.scan(stored.entry.at, columns=list(dict.fromkeys(columns)), predicate=None)


def _as_change(judged: NodeType | EdgeType, rows: pa.Table) -> TableChange:
    return TableChange(type=judged, put=rows, removed=pa.array([], pa.string()), is_overwrite=True)


def _no_rows(tables: TableStore) -> SnapshotRows:
    return SnapshotRows(Snapshot(MAIN, 0, {}), tables=tables)


def _without_unstored(stored: StoredType) -> NodeType | EdgeType:
    """A type with those of its properties and rules that stored rows can be judged by."""
    declared = stored.declared
    kept = {
        name: each
        for name, each in declared.properties.items()
        if name in stored.columns and not each.type.is_blob
    }
    rules = [each for each in declared.constraints if kept.keys() >= _columns_of(each)]
    return replace(declared, properties=kept, constraints=tuple(rules))


def _columns_of(constraint: Constraint) -> set[str]:
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return set(columns) - {"id", "src", "dst"}
        case Range(property=name) | Check(property=name):
            return {name}
