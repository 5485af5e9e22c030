"""Open tables: what moves one, what a copy is, and how an open one learns of newer versions."""

import json
from copy import copy
from pathlib import Path

import lance
import pytest
from lance import LanceOperation, Transaction
from lance.dataset import ColumnOrdering
from lance.fragment import RowIdSequence, write_fragments

from tests.support.lance_probes import (
    append,
    apply,
    contents,
    create_two_fragments,
    head,
    keyed_rows,
    publish,
)


def test_a_copy_moves_alone(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))
    moved = copy(table)

    publish(moved, a=9)

    assert (table.version, moved.version) == (2, 3)


def test_a_table_on_a_recreated_branch_moves_to_the_new_one(tmp_path: Path) -> None:
    # Even where the version's number is the same: Lance compares what the storage says of the file.
    uri = create_two_fragments(tmp_path / "t")
    branch = lance.dataset(uri).create_branch("feature", 2).uri
    append(branch, old=1)
    table = lance.dataset(branch)
    lance.dataset(uri).branches.delete("feature")
    lance.dataset(uri).create_branch("feature", 2)
    append(branch, new=1)

    moved = copy(table)
    moved.checkout_latest()  # type: ignore[no-untyped-call]  # pylance

    assert (table.version, moved.version) == (3, 3)
    assert moved.get_version()["timestamp"] != table.get_version()["timestamp"]
    assert "new" in moved.to_table()["object_id"].to_pylist()


def test_on_a_disk_a_hint_says_which_version_is_the_newest(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    hint = Path(uri, "_versions/latest_version_hint.json")
    hints = [json.loads(hint.read_bytes())]

    append(uri, z=9)
    hints.append(json.loads(hint.read_bytes()))
    publish(lance.dataset(uri), a=9)
    hints.append(json.loads(hint.read_bytes()))

    assert hints == [{"version": version} for version in (2, 3, 4)]


def test_rows_are_deleted_from_a_fragment_by_their_offsets(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    fragment = lance.dataset(uri).get_fragments()[0]

    remaining = fragment.delete_rows([0])
    assert remaining
    assert remaining.deletion_file
    apply(uri, Transaction(2, LanceOperation.Delete([remaining], [], "by offset")))

    assert contents(uri) == {"b": 2, "c": 3, "d": 4}
    assert Path(uri, remaining.deletion_file.path(fragment.fragment_id)).is_file()
    assert fragment.delete_rows([0, 1]) is None


def test_a_rewritten_row_keeps_the_row_id_that_is_carried_over(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    table = lance.dataset(uri)
    remaining = table.get_fragments()[0].delete_rows([0])
    assert remaining
    (written,) = write_fragments(keyed_rows(a=9, z=9), table, mode="append")
    written.row_id_meta = RowIdSequence([0]).to_inline_metadata()

    operation = LanceOperation.Update(
        updated_fragments=[remaining], new_fragments=[written], update_mode="rewrite_rows"
    )
    apply(uri, Transaction(2, operation))

    columns = ["object_id", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = lance.dataset(uri).scanner(columns=columns, with_row_id=True).to_table().to_pylist()
    found = {row["object_id"]: list(row.values())[1:] for row in rows}
    assert head(uri) == 3
    assert found["a"] == [1, 3, 0]
    assert found["z"] == [3, 3, 4]


def test_rows_are_sorted_only_by_columns_that_are_read(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))
    by_value: list[ColumnOrdering | str] = [ColumnOrdering("value", ascending=False)]

    with pytest.raises(ValueError, match="TakeExec requires the input plan"):
        table.scanner(columns=["object_id"], order_by=by_value).to_table()

    rows = table.scanner(columns=["object_id", "value"], order_by=by_value).to_table()
    assert rows["object_id"].to_pylist() == ["d", "c", "b", "a"]
