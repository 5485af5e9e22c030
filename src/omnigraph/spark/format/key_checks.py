"""The rules across rows of a write whose rows lie in files: asked of their keys alone.

The verdicts are those of the evaluator in process, which is asked the same. Keys are held whole:
who has more rows than that loads them by a job, which brings keys together on executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.committed import CommittedRows
from omnigraph.engine.commit.integrity.evaluate import find_violations_beside
from omnigraph.engine.commit.integrity.violations import Violations
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, Unique
from omnigraph.model.errors import IntegrityError
from omnigraph.spark.loading.refusals import gather_values
from omnigraph.spark.loading.staged import StagedPortion
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.lance_parts import scan_file
from omnigraph.storage.table_parts import LineFolder, NewFile


def read_keys(
    declared: NodeType | EdgeType, files: Iterable[NewFile], folder: LineFolder
) -> pa.Table:
    """The columns of staged rows that rules across rows are about, in the order of the files."""
    columns = key_columns(declared)
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
    values = [Violations(each.violations, each.count) for each in gather_values(portions)]
    violations = find_violations_beside(
        lambda _: iter(values),
        changes={table_key_of(change.type): change},
        catalog=catalog,
        committed=committed,
    )
    if violations.count:
        raise IntegrityError(violations=violations.found, count=violations.count)


def key_columns(declared: NodeType | EdgeType) -> list[str]:
    """The columns of a type that rules across rows are about."""
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    key = declared.key if isinstance(declared, NodeType) else ()
    unique = [
        name for each in declared.constraints if isinstance(each, Unique) for name in each.columns
    ]
    return list(dict.fromkeys(["id", *ends, *key, *unique]))
