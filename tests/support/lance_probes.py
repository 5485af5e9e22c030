"""Small Lance tables, and one function for every write that can be staged on one.

Guarantees that nothing here catches or retries: a surface test sees what pylance does. Does not
import OmniGraph.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, MergeInsertBuilder, Transaction
from lance.fragment import write_fragments
from lance.optimize import Compaction

VALUE_INDEX = "value_btree"
UNENFORCED_PRIMARY_KEY = "lance-schema:unenforced-primary-key"

# What a scan raises when a file is gone, typed here so that the tests need no pyarrow.
ArrowInvalid: type[ValueError] = pa.ArrowInvalid

Stage = Callable[[LanceDataset], Transaction]


def keyed_schema(*, is_annotated: bool) -> pa.Schema:
    """A key and a value; the annotation is what arms Lance's conflict filter."""
    metadata = {UNENFORCED_PRIMARY_KEY: "true"} if is_annotated else None
    key = pa.field("object_id", pa.string(), nullable=False, metadata=metadata)
    return pa.schema([key, pa.field("value", pa.int64())])


def keyed_rows(**value_by_id: int) -> pa.Table:
    """Rows in the order of the arguments."""
    return _rows(list(value_by_id), list(value_by_id.values()))


def repeated_key_rows(key: str, *, values: list[int]) -> pa.Table:
    """Several rows under one key, which `keyed_rows` cannot say."""
    return _rows([key] * len(values), values)


def without_annotation(rows: pa.Table) -> pa.Table:
    """The same rows, their key an ordinary column."""
    return rows.cast(keyed_schema(is_annotated=False))


def create_table(path: Path | str, rows: pa.Table) -> str:
    """Create a table the way OmniGraph creates every table, and return where it is."""
    lance.write_dataset(
        rows,
        str(path),
        mode="create",
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )
    return str(path)


def create_two_fragments(path: Path | str) -> str:
    """A table at version 2 with a=1, b=2 in fragment 0 and c=3, d=4 in fragment 1."""
    uri = create_table(path, keyed_rows(a=1, b=2))
    append(uri, c=3, d=4)
    return uri


def append(uri: str, **value_by_id: int) -> None:
    """Append and commit in one call, as a writer outside our protocol would."""
    lance.write_dataset(keyed_rows(**value_by_id), uri, mode="append")


def upsert(table: LanceDataset) -> MergeInsertBuilder:
    """The publisher's merge-insert, not yet executed."""
    return (
        table.merge_insert("object_id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .conflict_retries(0)
        .use_index(use_index=False)
    )


def publish(table: LanceDataset, **value_by_id: int) -> None:
    """Write rows through the fence, on the version that `table` has open."""
    upsert(table).execute(keyed_rows(**value_by_id))


def stage_append(**value_by_id: int) -> Stage:
    """Write the rows' file; committing the transaction is left to the caller."""

    def stage(table: LanceDataset) -> Transaction:
        rows = keyed_rows(**value_by_id)
        return write_fragments(rows, table, mode="append", return_transaction=True)

    return stage


def stage_overwrite(**value_by_id: int) -> Stage:
    """Replace all rows; no arguments empties the table."""

    def stage(table: LanceDataset) -> Transaction:
        rows = keyed_rows(**value_by_id)
        return write_fragments(rows, table, mode="overwrite", return_transaction=True)

    return stage


def stage_upsert(**value_by_id: int) -> Stage:
    """The publisher's merge-insert as a staged write."""

    def stage(table: LanceDataset) -> Transaction:
        return upsert(table).execute_uncommitted(keyed_rows(**value_by_id))[0]

    return stage


def stage_delete(predicate: str) -> Stage:
    """Write a deletion file for every fragment that has a matching row."""

    def stage(table: LanceDataset) -> Transaction:
        updated, emptied = [], []
        for fragment in table.get_fragments():
            if fragment.count_rows(predicate) == 0:
                continue
            remaining = fragment.delete(predicate)
            if remaining is None:
                emptied.append(fragment.fragment_id)
            else:
                updated.append(remaining)
        return Transaction(table.version, LanceOperation.Delete(updated, emptied, predicate))

    return stage


def stage_index(table: LanceDataset) -> Transaction:
    """Build a BTREE over the value in every fragment."""
    segment = table.create_index_uncommitted(
        "value", "BTREE", name=VALUE_INDEX, fragment_ids=fragment_ids(table)
    )
    return Transaction(table.version, LanceOperation.CreateIndex([segment], []))


def stage_compaction(table: LanceDataset) -> Transaction:
    """Rewrite the small fragments into one, as a single operation."""
    groups = []
    for task in Compaction.plan(table, {}).tasks:
        rewritten = task.execute(table)
        groups.append(LanceOperation.RewriteGroup(task.fragments, rewritten.new_fragments))
    return Transaction(table.version, LanceOperation.Rewrite(groups, []))


def stage_restore(version: int) -> Stage:
    """Make an old version the newest."""

    def stage(table: LanceDataset) -> Transaction:
        return Transaction(table.version, LanceOperation.Restore(version))

    return stage


def stage_config(table: LanceDataset) -> Transaction:
    """Set a key of the table's configuration."""
    entries = LanceOperation.UpdateMap({"omnigraph:probe": "1"})
    return Transaction(table.version, LanceOperation.UpdateConfig(config_updates=entries))


def stage_schema_metadata(table: LanceDataset) -> Transaction:
    """Set a key of the schema's metadata."""
    entries = LanceOperation.UpdateMap({"omnigraph:probe": "1"})
    operation = LanceOperation.UpdateConfig(schema_metadata_updates=entries)
    return Transaction(table.version, operation)


def apply(uri: str, staged: Transaction) -> int:
    """Commit a staged write in one attempt and return the version that Lance reports."""
    return LanceDataset.commit(uri, staged, max_retries=0).version


def restore(uri: str, *, version: int) -> None:
    """Restore through the plain call."""
    lance.dataset(uri, version=version).restore()  # type: ignore[no-untyped-call]  # pylance


def head(uri: str) -> int:
    """The newest version, by a fresh open."""
    return lance.dataset(uri).version


def contents(uri: str, *, version: int | None = None) -> dict[str, int]:
    """The value of every key at HEAD or at a version; fails when a key is there twice."""
    rows = lance.dataset(uri, version=version).to_table().to_pylist()
    value_by_id = {row["object_id"]: row["value"] for row in rows}
    assert len(value_by_id) == len(rows), "a key is there twice"
    return value_by_id


def values_of(uri: str, key: str) -> list[int]:
    """Every value stored under a key, sorted: more than one when the fence was passed by."""
    found = lance.dataset(uri).to_table(filter=f"object_id = '{key}'")
    return sorted(found["value"].to_pylist())


def fragment_ids(table: LanceDataset) -> list[int]:
    """The ids of the fragments of the version that `table` has open."""
    return [fragment.fragment_id for fragment in table.get_fragments()]


def files_of(uri: str) -> frozenset[str]:
    """The files below a folder, as paths relative to it."""
    root = Path(uri)
    return frozenset(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def searchable_rows(*ids: str) -> pa.Table:
    """Rows with a text and a vector: each id is one letter, its vector the letter's number."""
    numbers = [float(ord(letter)) for letter in ids for _ in range(2)]
    columns: Mapping[str, object] = {
        "id": list(ids),
        "text": [f"word {letter}" for letter in ids],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(numbers, pa.float32()), 2),
    }
    return pa.table(columns)


def named_columns(**columns: Sequence[str | int | None]) -> pa.Table:
    """A table of the given columns, for tests about names."""
    return pa.table(columns)


def with_schema_metadata(rows: pa.Table, metadata: Mapping[str, str]) -> pa.Table:
    """The same rows under a schema that carries the metadata."""
    return rows.replace_schema_metadata(metadata)


def _rows(ids: list[str], values: list[int]) -> pa.Table:
    schema = keyed_schema(is_annotated=True)
    return pa.table({"object_id": ids, "value": values}, schema=schema)
