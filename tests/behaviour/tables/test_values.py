"""Values of every property type through a table: stored, found and read unchanged."""

from datetime import date
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import IndexKind, IndexSpec, LayoutStep, TableVersion
from omnigraph.storage.predicates import Compare, IsNull, Operator
from omnigraph.storage.row_files import TIMESTAMP, table_schema
from tests.support.lance_probes import files_of
from tests.support.schemas import compile_text
from tests.support.table_stores import PATH, place_on_disk

EVERYTHING = """
node Thing {
  text: String?  flag: Bool?  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  day: Date?  moment: DateTime?  vector: Vector(2)?  texts: [String]?  moments: [DateTime]?
  blob: Blob?  required: Blob
}
"""
SCHEMA = table_schema(compile_text(EVERYTHING).nodes["Thing"])

# The first and last milliseconds of the range of DateTime, and one before 1970.
TIMESTAMPS = (-62_135_596_800_000, 253_402_300_799_999, -1)

FULL = {
    "id": "full",
    "text": "größe\x00'\"\n",
    "flag": True,
    "i32": -(2**31),
    "i64": -(2**63),
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "f32": 1.5,
    "f64": 1e300,
    "day": date(9999, 12, 31),
    "moment": TIMESTAMPS[0],
    "vector": [1.0, -2.5],
    "texts": ["a", "", None],
    "moments": list(TIMESTAMPS),
    "blob": b"\x00bytes",
    "required": b"",
}
EMPTY = dict.fromkeys(SCHEMA.names) | {"id": "empty", "required": b"x"}


def things(*rows: dict[str, object]) -> pa.Table:
    """Rows of the type that has everything; a column that a row leaves out is null."""
    return pa.Table.from_pylist([EMPTY | row for row in rows], schema=SCHEMA)


def read(store: LanceTables, at: TableVersion) -> pa.Table:
    return store.scan(at, columns=SCHEMA.names, predicate=None)


def test_every_value_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = place_on_disk(tmp_path).open()
    rows = things(FULL, EMPTY)

    at = store.create(PATH, rows, config={})

    found = read(store, at)
    assert found.schema == store.schema(at) == SCHEMA
    assert found.equals(rows)


@pytest.mark.parametrize("kind", ["append", "merge", "overwrite"])
def test_every_kind_of_write_keeps_values(tmp_path: Path, kind: str) -> None:
    store = place_on_disk(tmp_path).open()
    at = store.create(PATH, things(), config={})
    rows = things(FULL, EMPTY)
    staged = {
        "append": lambda: store.stage_append(rows, onto=at),
        "merge": lambda: store.stage_merge_insert(rows, onto=at),
        "overwrite": lambda: store.stage_overwrite(rows, onto=at),
    }[kind]()

    landed = store.apply(staged)

    assert read(store, landed).equals(rows)


def test_rows_that_were_read_can_be_written_back(tmp_path: Path) -> None:
    store = place_on_disk(tmp_path).open()
    at = store.create(PATH, things(FULL, EMPTY), config={})

    at = store.apply(store.stage_merge_insert(read(store, at), onto=at))

    assert read(store, at).equals(things(FULL, EMPTY))


def test_batches_hold_the_same_values_as_a_table(tmp_path: Path) -> None:
    store = place_on_disk(tmp_path).open()
    at = store.create(PATH, things(FULL, EMPTY), config={})

    batches = store.scan_by_id(at, columns=SCHEMA.names)

    assert pa.Table.from_batches(batches, SCHEMA).equals(things(EMPTY, FULL))


@pytest.mark.parametrize("timestamp", TIMESTAMPS)
def test_a_timestamp_is_found_by_its_value(tmp_path: Path, timestamp: int) -> None:
    store = place_on_disk(tmp_path).open()
    at = store.create(PATH, things({"id": "a", "moment": timestamp}, EMPTY), config={})

    by_timestamp = IndexSpec("moment", IndexKind.BTREE)
    for indexed in (at, store.apply(store.stage_indexes([by_timestamp], onto=at))):
        assert (
            store.count(indexed, predicate=Compare("moment", Operator.EQ, timestamp, TIMESTAMP))
            == 1
        )
        assert (
            store.count(indexed, predicate=Compare("moment", Operator.LT, timestamp, TIMESTAMP))
            == 0
        )
        assert store.count(indexed, predicate=IsNull("moment")) == 1


@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
def test_a_blob_of_any_size_is_stored(tmp_path: Path, size: int) -> None:
    store = place_on_disk(tmp_path).open()
    blob = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    at = store.create(PATH, things(), config={})

    at = store.apply(store.stage_append(things({"id": "a", "blob": blob}), onto=at))

    assert read(store, at)["blob"].to_pylist() == [blob]


def test_an_unrequested_blob_column_is_not_read(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = store.create(PATH, things({"id": "a", "blob": b"x" * 5_000_000}), config={})
    for file in files_of(place.root):
        if file.endswith(".blob"):
            Path(place.root, file).unlink()

    found = store.scan(at, columns=["id", "text"], predicate=None)

    assert found["id"].to_pylist() == ["a"]


def test_blobs_survive_a_compaction_and_a_branch(tmp_path: Path) -> None:
    store = place_on_disk(tmp_path).open()
    at = store.create(PATH, things({"id": "a", "blob": b"x" * 100_000}), config={})
    at = store.apply(store.stage_append(things({"id": "b", "blob": b"y"}), onto=at))

    compacted = store.compact(at, rows_per_fragment=1_024)
    assert compacted is not None
    branch = TableVersion(store.fork(compacted, branch="feature"), compacted.version)

    assert read(store, branch)["blob"].to_pylist() == [b"x" * 100_000, b"y"]


def test_a_null_in_a_required_column_is_an_internal_error(tmp_path: Path) -> None:
    store = place_on_disk(tmp_path).open()
    at = store.create(PATH, things(), config={})
    columns = {name: pa.nulls(1, SCHEMA.field(name).type) for name in SCHEMA.names}

    with pytest.raises(AssertionError):
        store.stage_append(pa.table(columns | {"id": ["a"]}), onto=at)


def test_an_index_of_the_old_type_is_released_before_its_column_is_converted(
    tmp_path: Path,
) -> None:
    store = place_on_disk(tmp_path).open()
    old = pa.table({"id": ["a", "b"], "at": pa.array([-1, TIMESTAMPS[1]]).cast(pa.date64())})
    spec = IndexSpec("at", IndexKind.BTREE)
    at = store.create(PATH, old, config={})
    at = store.apply(store.stage_indexes([spec], onto=at))

    steps = store.plan_layout(at, wanted=[spec]).steps
    for step in steps:
        staged = store.stage_layout(step, wanted=[spec], onto=at, uuid=str(uuid4()))
        at = store.apply(staged)

    assert steps == (LayoutStep.RELEASE, LayoutStep.CONVERT, LayoutStep.INDEX)
    assert store.indexes(at) == {spec: 2}
    assert store.count(at, predicate=Compare("at", Operator.EQ, TIMESTAMPS[1], TIMESTAMP)) == 1
    assert store.plan_layout(at, wanted=[spec]).steps == ()
