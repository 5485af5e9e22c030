"""Lance's blob columns: what goes in, what comes out, and where it lies meanwhile."""

from collections.abc import Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import blob_array, blob_field
from lance.fragment import write_fragments

from tests.support.lance_probes import create_table, files_of

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), blob_field("blob")])


def blobs(*values: bytes | str | None) -> pa.Table:
    """Rows a, b, c and so on; a text is a reference."""
    ids = [chr(ord("a") + number) for number in range(len(values))]
    return pa.table({"id": ids, "blob": blob_array(list(values))}, schema=SCHEMA)


def read(uri: str) -> Sequence[bytes | None]:
    found = lance.dataset(uri).scanner(columns=["blob"], blob_handling="all_binary").to_table()
    assert found.schema.field("blob").type == pa.large_binary()
    return list(found["blob"].to_pylist())


def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    values = (b"abc", b"", None, b"x" * 100_000)

    uri = create_table(tmp_path / "t", blobs(*values))

    assert read(uri) == list(values)
    assert lance.dataset(uri).schema.field("blob").type == SCHEMA.field("blob").type


def test_large_ones_lie_in_a_folder_named_after_the_data_file(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", blobs(b"small", b"x" * 100_000))

    (file,) = [path for path in files_of(uri) if path.endswith(".lance")]
    (beside,) = [path for path in files_of(uri) if path.endswith(".blob")]
    assert beside.startswith(f"{file.removesuffix('.lance')}/")


def test_plain_bytes_are_not_taken_for_blobs(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", blobs(b"abc")))
    plain = pa.table({"id": ["b"], "blob": pa.array([b"abc"], pa.large_binary())})

    with pytest.raises(OSError, match="Append with different schema"):
        write_fragments(plain, table, mode="append")


def test_a_merge_insert_takes_no_references(tmp_path: Path) -> None:
    # And has no option that would allow them, unlike every other write.
    table = lance.dataset(create_table(tmp_path / "t", blobs(b"abc")))
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()

    with pytest.raises(OSError, match="outside registered external bases"):
        merge.execute_uncommitted(blobs("file:///elsewhere"))

    assert write_fragments(
        blobs("file:///elsewhere"), table, mode="append", allow_external_blob_outside_bases=True
    )


def test_a_part_of_a_blob_is_read_by_itself_and_not_behind_its_end(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", blobs(b"abc", None, b"", b"x" * 100_000)))

    found = table.take_blobs("blob", addresses=[3, 0, 1, 2], buffer_size=0)

    large, small, absent, empty = found
    assert absent is None
    assert large is not None
    assert small is not None
    assert empty is not None
    assert [each.size() for each in (large, small, empty)] == [100_000, 3, 0]
    assert (large.read_range(99_998, 2), small.read_range(1, 2)) == (b"xx", b"bc")
    with pytest.raises(ValueError, match="exceeds blob size"):
        small.read_range(1, 3)


def test_blobs_of_some_addresses_come_in_the_requested_order(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", blobs(b"abc", None, b"", b"x" * 100_000)))

    found = table.read_blobs("blob", addresses=[3, 1, 0, 2], preserve_order=True)

    assert found == [(3, b"x" * 100_000), (1, None), (0, b"abc"), (2, b"")]


def test_a_description_has_the_size_of_a_blob_and_is_null_where_it_is(tmp_path: Path) -> None:
    table = lance.dataset(create_table(tmp_path / "t", blobs(b"abc", None, b"", b"x" * 100_000)))

    found = table.scanner(columns=["blob"], blob_handling="all_descriptions").to_table()["blob"]

    sizes = [each and each["size"] for each in found.to_pylist()]
    assert sizes == [3, None, 0, 100_000]
