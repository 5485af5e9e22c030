"""Columns changed by one projection: what Lance keeps, drops, reads as null, and refuses.

Lance knows a column by the number of its field, which data files repeat. A schema with numbers of
our choice can be made only from the parts into which Lance takes one apart to copy it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction, blob_field
from lance.commit import CommitConflictError
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from tests.support.lance_probes import (
    Stage,
    append,
    apply,
    contents,
    create_two_fragments,
    files_of,
    head,
    stage_append,
    stage_compaction,
    stage_config,
    stage_delete,
    stage_index,
    stage_overwrite,
    stage_restore,
    stage_schema_metadata,
    stage_upsert,
)

# The numbers of `object_id` and `value`, and the first that is free.
KEY, VALUE, FREE = 0, 1, 2

Edit = Callable[[list[bytes]], list[bytes]]


def records_of(schema: LanceSchema) -> list[bytes]:
    """What Lance records of each field of a schema."""
    taken = schema.__reduce__()
    assert isinstance(taken, tuple)
    _, (_, *records) = taken
    return list(map(bytes, records))


def remade(schema: LanceSchema, records: list[bytes]) -> LanceSchema:
    """The same schema with other fields."""
    taken = schema.__reduce__()
    assert isinstance(taken, tuple)
    remake, (metadata, *_) = taken
    made = remake(metadata, *records)
    assert isinstance(made, LanceSchema)
    return made


def numbers_of(schema: LanceSchema) -> dict[str, int]:
    """The number of each column."""
    return {field.name(): field.id() for field in schema.fields()}


def column(field: pa.Field, *, number: int) -> bytes:
    """The record of a new column without parts."""
    (record,) = records_of(LanceSchema.from_pyarrow(pa.schema([field])))
    return record + b"\x18" + bytes([number])


def renamed(record: bytes, name: str) -> bytes:
    """The record of a field under another name."""
    return record + b"\x12" + bytes([len(name)]) + name.encode()


EXTRA = column(pa.field("extra", pa.string()), number=FREE)


def add_extra(records: list[bytes]) -> list[bytes]:
    return [*records, EXTRA]


def drop_value(records: list[bytes]) -> list[bytes]:
    return [records[KEY]]


def rename_value(records: list[bytes]) -> list[bytes]:
    return [records[KEY], renamed(records[VALUE], "worth")]


EDITS: Mapping[str, Edit] = {"add": add_extra, "drop": drop_value, "rename": rename_value}
EVERY_EDIT = pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())


def stage_projection(edit: Edit, *, preserves_nullability: bool) -> Stage:
    """The columns that are left or made by an edit of their records."""

    def stage(table: LanceDataset) -> Transaction:
        schema = remade(table.lance_schema, edit(records_of(table.lance_schema)))
        operation = LanceOperation.Project(schema, preserves_nullability=preserves_nullability)
        return Transaction(table.version, operation)

    return stage


def project(uri: str, edit: Edit) -> LanceDataset:
    """The next version, of which the columns are edited."""
    apply(uri, stage_projection(edit, preserves_nullability=False)(lance.dataset(uri)))
    return lance.dataset(uri)


# Schemas with numbers of our choice


def test_a_schema_is_taken_apart_into_records_outermost_first() -> None:
    nested = pa.schema([pa.field("a", pa.list_(pa.int32())), blob_field("b"), ("c", pa.date64())])

    schema = LanceSchema.from_pyarrow(nested)

    (tags, blob, last) = schema.fields()
    inside = [field.id() for field in blob.children()]
    assert [tags.id(), tags.children()[0].id(), blob.id(), *inside, last.id()] == list(range(8))
    assert len(records_of(schema)) == 8
    assert remade(schema, records_of(schema)).to_pyarrow() == nested


def test_of_a_part_that_a_record_repeats_the_last_one_counts() -> None:
    schema = LanceSchema.from_pyarrow(pa.schema([("a", pa.int32()), ("b", pa.string())]))
    first, second = records_of(schema)

    edited = remade(schema, [renamed(second, "z") + b"\x18\x09", first])

    assert numbers_of(edited) == {"z": 9, "a": 0}
    assert edited.to_pyarrow() == pa.schema([("z", pa.string()), ("a", pa.int32())])


# One projection


def test_plain_calls_for_columns_commit_merges_and_projections(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    table = lance.dataset(uri)

    table.add_columns(pa.field("extra", pa.string()))
    renaming = {"path": "extra", "name": "other"}
    table.alter_columns(renaming)  # type: ignore[arg-type]  # its type hint says something else
    table.drop_columns(["other"])

    made_by = [table.read_transaction(version) for version in (3, 4, 5)]
    operations = [type(each.operation).__name__ for each in made_by if each]
    assert operations == ["Merge", "Project", "Project"]


def test_a_number_that_no_file_has_reads_as_null(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)

    table = project(uri, add_extra)

    assert table.to_table()["extra"].null_count == 4
    assert table.count_rows("extra IS NULL") == 4
    written = {path.split("/")[0] for path in files_of(uri) - before}
    assert written == {"_versions", "_transactions"}


def test_a_name_goes_to_another_number_in_one_projection_and_in_no_merge(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    fresh = column(pa.field("value", pa.int64()), number=FREE)
    table = lance.dataset(uri)
    schema = remade(table.lance_schema, [records_of(table.lance_schema)[KEY], fresh])
    fragments = [fragment.metadata for fragment in table.get_fragments()]

    with pytest.raises(OSError, match="remaps existing field"):
        apply(uri, Transaction(2, LanceOperation.Merge(fragments, schema)))
    apply(uri, Transaction(2, LanceOperation.Project(schema)))

    assert set(contents(uri).values()) == {None}


def test_columns_change_names_with_each_other_and_places(tmp_path: Path) -> None:
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    uri = str(tmp_path / "t")
    lance.write_dataset(rows, uri, data_storage_version="2.2", enable_stable_row_ids=True)

    table = project(uri, lambda old: [renamed(old[0], "b"), renamed(old[1], "a")])
    assert table.to_table().to_pydict() == {"b": [1, 2], "a": [3, 4]}

    table = project(uri, lambda old: [old[1], old[0]])
    assert table.schema.names == ["a", "b"]
    assert table.to_table().to_pydict() == {"a": [3, 4], "b": [1, 2]}


@EVERY_EDIT
def test_rows_stay_what_they_are_to_lance(tmp_path: Path, edit: Edit) -> None:
    uri = create_two_fragments(tmp_path / "t")
    lance.dataset(uri).delete("object_id = 'a'")
    columns = ["object_id", "_row_created_at_version", "_row_last_updated_at_version"]
    before = lance.dataset(uri)

    after = project(uri, edit)

    rows = [
        table.scanner(columns=columns, with_row_id=True, with_row_address=True).to_table()
        for table in (before, after)
    ]
    assert rows[0] == rows[1]
    assert list(map(repr, before.get_fragments())) == list(map(repr, after.get_fragments()))


def test_an_index_follows_its_column_keeps_its_name_and_goes_with_it(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_index(lance.dataset(uri)))

    table = project(uri, rename_value)

    (index,) = table.describe_indices()
    assert (index.name, index.field_names) == ("value_btree", ["worth"])
    assert [list(segment.fragment_ids) for segment in index.segments] == [[0, 1]]
    scanner = table.scanner(columns=["object_id"], filter="worth = 3")
    assert "ScalarIndexQuery" in scanner.explain_plan()
    assert scanner.to_table()["object_id"].to_pylist() == ["c"]
    assert not project(uri, drop_value).describe_indices()


# Which numbers are free


def test_the_highest_number_counts_what_files_have_and_the_schema_lacks(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    table = project(uri, drop_value)

    assert (numbers_of(table.lance_schema), table.max_field_id) == ({"object_id": KEY}, VALUE)


def test_the_highest_number_falls_when_nothing_has_it_any_more(tmp_path: Path) -> None:
    # So a number can come again, and then no file of the version holds anything under it.
    uri = create_two_fragments(tmp_path / "t")
    project(uri, add_extra)

    table = project(uri, lambda records: records[:FREE])

    assert table.max_field_id == VALUE


def test_the_numbers_of_an_overwrite_start_again(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    project(uri, add_extra)

    apply(uri, stage_overwrite(q=1)(lance.dataset(uri)))

    table = lance.dataset(uri)
    assert numbers_of(table.lance_schema) == {"object_id": KEY, "value": VALUE}
    assert table.max_field_id == VALUE


def test_a_number_that_a_file_has_brings_its_bytes_back(tmp_path: Path) -> None:
    # Lance does not check: the caller must choose a number that is free.
    uri = create_two_fragments(tmp_path / "t")
    project(uri, drop_value)

    taken = column(pa.field("fresh", pa.int64()), number=VALUE)
    table = project(uri, lambda records: [*records, taken])

    assert table.to_table()["fresh"].to_pylist() == [1, 2, 3, 4]


# Rivals

STAGES: Mapping[str, Stage] = {
    "append": stage_append(z=10),
    "insert": stage_upsert(z=10),
    "update": stage_upsert(a=10),
    "delete": stage_delete("object_id = 'a'"),
    "overwrite": stage_overwrite(q=10),
    "index": stage_index,
    "compact": stage_compaction,
    "restore": stage_restore(1),
    "config": stage_config,
    "metadata": stage_schema_metadata,
}

# What becomes of the second of two writes, as in the table of all other writes:
#   +  rebased: it lands one version further than it was staged for, and reports success
#   r  refused, retryable        x  refused, not retryable
OUTCOMES = """
               append insert update delete overwrite index compact restore config metadata
columns-first  r      r      r      +      r         +     +       +       +      +
columns-second r      r      r      +      x         +     +       x       +      +
"""


def races(outcomes: str) -> list[tuple[str, bool, str]]:
    """Each rival, whether the columns came first, and what became of the second write."""
    rivals, *rows = (line.split() for line in OUTCOMES.strip().splitlines())
    return [
        (rival, order == "columns-first", outcome)
        for order, *found in rows
        for rival, outcome in zip(rivals, found, strict=True)
        if outcome in outcomes
    ]


def run_race(uri: str, rival: Stage, edit: Edit, *, is_columns_first: bool) -> Transaction:
    """Stage both writes on one version and apply the first; the second."""
    columns = stage_projection(edit, preserves_nullability=False)
    first, second = (columns, rival) if is_columns_first else (rival, columns)
    late = second(lance.dataset(uri))
    apply(uri, first(lance.dataset(uri)))
    return late


@EVERY_EDIT
@pytest.mark.parametrize(("rival", "is_columns_first", "outcome"), races("+"))
def test_a_rebased_change_of_columns_reports_success_one_version_too_far(
    tmp_path: Path, edit: Edit, rival: str, outcome: str, *, is_columns_first: bool
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    late = run_race(uri, STAGES[rival], edit, is_columns_first=is_columns_first)

    landed = apply(uri, late)

    assert (landed, head(uri), outcome) == (late.read_version + 2, 4, "+")
    lance.dataset(uri).validate()  # type: ignore[no-untyped-call]  # pylance


@EVERY_EDIT
@pytest.mark.parametrize(("rival", "is_columns_first", "outcome"), races("rx"))
def test_a_refused_change_of_columns_says_whether_to_retry_and_changes_nothing(
    tmp_path: Path, edit: Edit, rival: str, outcome: str, *, is_columns_first: bool
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    late = run_race(uri, STAGES[rival], edit, is_columns_first=is_columns_first)
    rows = lance.dataset(uri).to_table()

    with pytest.raises(CommitConflictError) as refusal:
        apply(uri, late)

    assert refusal.value.retryable is (outcome == "r")
    assert head(uri) == 3
    assert lance.dataset(uri).to_table() == rows


@EVERY_EDIT
@pytest.mark.parametrize("preserves_nullability", [True, False])
def test_of_two_changes_of_columns_the_second_is_refused(
    tmp_path: Path, edit: Edit, *, preserves_nullability: bool
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    stage = stage_projection(edit, preserves_nullability=preserves_nullability)
    late = stage(lance.dataset(uri))
    apply(uri, stage(lance.dataset(uri)))

    with pytest.raises(CommitConflictError):
        apply(uri, late)


@EVERY_EDIT
def test_a_projection_said_to_preserve_nullability_lets_appends_pass(
    tmp_path: Path, edit: Edit
) -> None:
    # Which is why ours never says so.
    uri = create_two_fragments(tmp_path / "t")
    late = stage_projection(edit, preserves_nullability=True)(lance.dataset(uri))
    append(uri, z=10)

    assert apply(uri, late) == 4
    assert lance.dataset(uri).count_rows() == 5


# Types that hold the same numbers


def test_a_column_is_read_by_the_type_that_a_version_declares(tmp_path: Path) -> None:
    numbers = [0, -1, 253_402_300_799_999, None]
    uri = str(tmp_path / "t")
    lance.write_dataset(_timestamps(numbers, pa.date64()), uri, data_storage_version="2.2")

    converted = project(uri, _with_timestamps)
    lance.write_dataset(_timestamps([7], TIMESTAMP), uri, mode="append")
    appended = lance.dataset(uri)
    appended.create_scalar_index("at", "BTREE")
    appended.optimize.compact_files(target_rows_per_fragment=100)

    read = lance.dataset(uri).to_table()
    assert converted.schema.field("at").type == TIMESTAMP
    assert read.schema.field("all").type.value_type == TIMESTAMP
    assert read["at"].cast(pa.int64()).to_pylist() == [*numbers, 7]
    assert read["all"].combine_chunks().values.cast(pa.int64()).to_pylist() == [*numbers, 7]
    literal = "arrow_cast(-1, 'Timestamp(Millisecond, Some(\"UTC\"))')"
    assert lance.dataset(uri).count_rows(f"`at` <= {literal}") == 1
    assert lance.dataset(uri, version=1).to_table()["at"].cast(pa.int64()).to_pylist() == numbers


def test_a_file_of_timestamps_is_read_as_the_type_of_its_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = lance.write_dataset(_timestamps([0], pa.date64()), uri, data_storage_version="2.2")
    written = write_fragments(
        _timestamps([-1, None], TIMESTAMP), uri, mode="overwrite", data_storage_version="2.2"
    )

    apply(uri, Transaction(table.version, LanceOperation.Append(written)))

    read = lance.dataset(uri).to_table()
    assert read.schema.field("at").type == pa.date64()
    assert read["at"].cast(pa.int64()).to_pylist() == [0, -1, None]


TIMESTAMP = pa.timestamp("ms", tz="UTC")


def _timestamps(numbers: list[int | None], type: pa.DataType) -> pa.Table:
    """A column of moments, and one of lists of them."""
    at = pa.array(numbers, pa.int64()).cast(type)
    offsets = list(range(len(numbers) + 1))
    return pa.table({"at": at, "all": pa.ListArray.from_arrays(offsets, at)})


def _with_timestamps(records: list[bytes]) -> list[bytes]:
    declared = b"timestamp:ms:UTC"
    return [
        record + b"\x2a" + bytes([len(declared)]) + declared if b"date64" in record else record
        for record in records
    ]
