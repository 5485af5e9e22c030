"""Deleted rows: what Lance writes down of them, where, and how rows are read by their places."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.storage.lance.delta import Offsets, decode_bitmap, decode_list

ROWS = 200_000


def numbers(path: Path) -> LanceDataset:
    """A table of one file, the number of each row in it."""
    rows = pa.table({"number": np.arange(ROWS)})
    return lance.write_dataset(rows, path, enable_stable_row_ids=True, data_storage_version="2.2")


def delete(table: LanceDataset, places: Offsets) -> LanceDataset:
    """The next version, without the rows at some places of the first fragment."""
    left = table.get_fragments()[0].delete_rows(places.tolist())
    assert left is not None
    operation = LanceOperation.Delete([left], [], "true")
    return LanceDataset.commit(table.uri, Transaction(table.version, operation))


@pytest.mark.parametrize(
    ("places", "file_type", "ending"),
    [
        (np.array([7]), "array", "arrow"),
        (np.array([5, 70_000, ROWS - 1]), "array", "arrow"),
        (np.arange(0, 12_000, 2), "bitmap", "bin"),
        (np.arange(60_000, 150_000), "bitmap", "bin"),
        (np.union1d(np.arange(10_000), np.arange(100_000, ROWS, 50)), "bitmap", "bin"),
    ],
    ids=["one", "few", "sparse", "dense", "both"],
)
def test_deleted_rows_are_listed_or_marked_in_a_file(
    tmp_path: Path, places: Offsets, file_type: str, ending: str
) -> None:
    table = delete(numbers(tmp_path), places)

    (fragment,) = table.get_fragments()
    file = fragment.metadata.deletion_file
    assert file is not None
    content = Path(tmp_path, file.path(fragment.fragment_id)).read_bytes()
    decode = decode_list if file_type == "array" else decode_bitmap
    assert (file.file_type, file.num_deleted_rows) == (file_type, len(places))
    assert file.path(fragment.fragment_id).endswith(f".{ending}")
    assert decode(content).tolist() == places.tolist()


def test_a_bitmap_of_another_form_is_no_bitmap() -> None:
    with pytest.raises(ValueError, match="starts with"):
        decode_bitmap(b"\x3b\x30\x00\x00" * 4)
    with pytest.raises(ValueError, match="buffer"):
        decode_bitmap(b"")


def test_a_branch_says_in_which_folder_its_base_keeps_the_file(tmp_path: Path) -> None:
    table = delete(numbers(tmp_path), np.array([7]))

    branch = table.create_branch("team/feature")

    file = branch.get_fragments()[0].metadata.deletion_file
    assert file is not None
    assert file.base_id is not None
    assert branch.base_paths()[file.base_id].path == str(tmp_path)
    assert branch.get_fragments()[0].deletion_file() == table.get_fragments()[0].deletion_file()


def test_rows_are_found_by_their_addresses(tmp_path: Path) -> None:
    table = delete(numbers(tmp_path), np.array([7]))

    found = table.scanner(columns=["number"], filter="_rowaddr in (6, 7, 8, 199999)").to_table()

    assert found["number"].to_pylist() == [6, 8, 199_999]


def test_the_representation_of_a_fragment_names_its_number_its_files_and_its_deletions(
    tmp_path: Path,
) -> None:
    table = lance.write_dataset(pa.table({"id": ["a", "b"]}), tmp_path / "table")
    (whole,) = table.get_fragments()
    (file,) = whole.data_files()
    table.delete("id = 'a'")
    (deleted,) = table.get_fragments()

    assert repr(whole) == f"LanceFileFragment(id=0, data_files=['{file.path}'])"
    assert repr(deleted).startswith(repr(whole).removesuffix(")"))
    assert str(deleted.deletion_file()) in repr(deleted)


def test_deleted_rows_can_be_read_in_place_until_files_are_rewritten(
    tmp_path: Path,
) -> None:
    table = lance.write_dataset(pa.table({"id": ["a", "b", "c"]}), tmp_path / "table")
    table.delete("id = 'b'")

    rows = table.scanner(columns=["id"], with_row_id=True, include_deleted_rows=True).to_table()

    assert rows["id"].to_pylist() == ["a", "b", "c"]
    assert rows["_rowid"].is_null().to_pylist() == [False, True, False]
