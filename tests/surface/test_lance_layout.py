"""Compaction and indexes as staged writes: what joins, what Lance refuses, what stays correct.

`stage_layout` stands on these: a task that names its fragments itself, groups that an index knows
wholly or not at all, and indexes that grow by a segment.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import Index, LanceDataset, LanceOperation, Transaction, blob_array, blob_field
from lance.bitmap import Bitmap
from lance.optimize import Compaction, CompactionTask

from tests.support.lance_probes import (
    append,
    apply,
    contents,
    create_table,
    create_two_fragments,
    fragment_ids,
    head,
    keyed_rows,
    searchable_rows,
    stage_delete,
    stage_upsert,
)

WITH_BLOB = pa.schema([pa.field("id", pa.string()), blob_field("blob")])


def stage_join(table: LanceDataset, ids: Sequence[int]) -> Transaction:
    """Join the fragments that are named, past Lance's own plan."""
    old = [each.metadata for each in table.get_fragments() if each.fragment_id in ids]
    plan = Compaction.plan(table, {})
    document = {
        "task": {"fragments": [each.to_json() for each in old]},
        "read_version": table.version,
        "options": json.loads(plan.json())["options"],  # type: ignore[attr-defined]  # pylance
    }
    task = CompactionTask.from_json(json.dumps(document))  # type: ignore[attr-defined]  # pylance
    group = LanceOperation.RewriteGroup(old, task.execute(table).new_fragments)
    return Transaction(table.version, LanceOperation.Rewrite([group], []))


def build(table: LanceDataset, fragments: list[int]) -> list[Index]:
    """A segment of each kind of index over some fragments."""
    words = table.create_index_uncommitted(
        "text", "INVERTED", name="text_idx", fragment_ids=fragments, replace=True
    )
    return [
        table.create_index_uncommitted(
            "id", "BTREE", name="id_idx", fragment_ids=fragments, replace=True
        ),
        table.create_index_uncommitted(
            "vector",
            "IVF_FLAT",
            name="vector_idx",
            metric="l2",
            num_partitions=1,
            fragment_ids=fragments,
            replace=True,
        ),
        table.merge_existing_index_segments([words]),
    ]


def change_indexes(uri: str, added: Sequence[Index], *, removed: Sequence[str]) -> None:
    deleted = [
        Index(each, "", fields=[], dataset_version=0, fragment_ids=Bitmap(), index_version=0)
        for each in removed
    ]
    apply(uri, Transaction(head(uri), LanceOperation.CreateIndex(list(added), deleted)))


def index_value(uri: str, fragments: list[int]) -> str:
    """Index the value of some fragments; the id of the segment."""
    segment = lance.dataset(uri).create_index_uncommitted(
        "value", "BTREE", name="value_idx", fragment_ids=fragments, replace=True
    )
    change_indexes(uri, [segment], removed=[])
    return str(segment.uuid)


def coverage(uri: str, name: str) -> list[set[int]]:
    found = [each for each in lance.dataset(uri).describe_indices() if each.name == name]
    return sorted((set(each.fragment_ids) for index in found for each in index.segments), key=min)


def keys_in_order(uri: str) -> list[str]:
    return list(lance.dataset(uri).to_table()["object_id"].to_pylist())


def keys_of_value(uri: str, value: int) -> list[str]:
    found = lance.dataset(uri).to_table(filter=f"value = {value}")
    return list(found["object_id"].to_pylist())


def test_fragments_that_a_task_names_are_joined_and_come_last(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(uri, e=5)
    append(uri, f=6)

    apply(uri, stage_join(lance.dataset(uri), [1, 2]))

    assert fragment_ids(lance.dataset(uri)) == [0, 3, 4]
    assert keys_in_order(uri) == ["a", "b", "f", "c", "d", "e"]


def test_a_joined_fragment_has_no_deleted_rows(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_delete("object_id = 'a'")(lance.dataset(uri)))

    apply(uri, stage_join(lance.dataset(uri), [0, 1]))

    (joined,) = lance.dataset(uri).get_fragments()
    assert (joined.metadata.physical_rows, joined.metadata.num_deletions) == (3, 0)
    assert contents(uri) == {"b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize(
    ("known", "joined", "still_known"),
    [([0], [0, 1], set()), ([0, 1], [0, 1], set()), ([0, 1, 2], [0, 1], {2})],
)
def test_a_btree_knows_nothing_of_joined_fragments(
    tmp_path: Path, known: list[int], joined: list[int], still_known: set[int]
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(uri, e=5)
    index_value(uri, known)

    apply(uri, stage_join(lance.dataset(uri), joined))

    ((segment,),) = [index.segments for index in lance.dataset(uri).describe_indices()]
    assert set(segment.fragment_ids) == still_known
    assert [keys_of_value(uri, value) for value in (1, 3, 5)] == [["a"], ["c"], ["e"]]


@pytest.mark.parametrize("kind", [1, 2], ids=["vector", "text"])
def test_a_group_that_another_index_knows_in_part_is_refused(tmp_path: Path, kind: int) -> None:
    uri = create_table(tmp_path / "t", searchable_rows("a", "b"))
    lance.write_dataset(searchable_rows("c"), uri, mode="append")
    change_indexes(uri, [build(lance.dataset(uri), [0])[kind]], removed=[])
    staged = stage_join(lance.dataset(uri), [0, 1])

    with pytest.raises(OSError, match="a split of indexed and non-indexed data"):
        apply(uri, staged)


@pytest.mark.parametrize("kind", [1, 2], ids=["vector", "text"])
def test_another_index_that_knows_a_whole_group_claims_a_fragment_it_never_saw(
    tmp_path: Path, kind: int
) -> None:
    # Joined fragments have no number yet when Lance notes that the index knows them: it notes 0.
    uri = create_table(tmp_path / "t", searchable_rows("a"))
    for letter in "bc":
        lance.write_dataset(searchable_rows(letter), uri, mode="append")
    change_indexes(uri, [build(lance.dataset(uri), [1, 2])[kind]], removed=[])

    apply(uri, stage_join(lance.dataset(uri), [1, 2]))

    ((segment,),) = [index.segments for index in lance.dataset(uri).describe_indices()]
    assert set(segment.fragment_ids) == {0}


def test_one_segment_of_an_index_can_be_removed(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    _, removed = index_value(uri, [0]), index_value(uri, [1])

    change_indexes(uri, [], removed=[removed])

    assert coverage(uri, "value_idx") == [{0}]
    assert [keys_of_value(uri, value) for value in (1, 3)] == [["a"], ["c"]]


def test_an_index_that_grows_by_a_segment_is_correct(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", searchable_rows("a", "b"))
    lance.write_dataset(searchable_rows("c", "d"), uri, mode="append")
    change_indexes(uri, build(lance.dataset(uri), [0]), removed=[])

    change_indexes(uri, build(lance.dataset(uri), [1]), removed=[])

    table = lance.dataset(uri)
    assert all(coverage(uri, f"{name}_idx") == [{0}, {1}] for name in ("id", "text", "vector"))
    assert [table.to_table(filter=f"id = '{each}'")["id"].to_pylist() for each in "ac"] == [
        ["a"],
        ["c"],
    ]
    words = table.scanner(columns=["id", "_score"], full_text_query="word", fast_search=True)
    assert sorted(words.to_table()["id"].to_pylist()) == ["a", "b", "c", "d"]
    nearest = {"column": "vector", "q": np.full(2, ord("c"), np.float32), "k": 2}
    near = table.scanner(columns=["id", "_distance"], nearest=nearest, fast_search=True)
    assert near.to_table()["id"].to_pylist() == ["c", "b"]


def test_a_segment_beside_one_that_a_compaction_emptied_is_correct(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_upsert(a=10)(lance.dataset(uri)))
    emptied = index_value(uri, [0, 1, 2])
    apply(uri, stage_join(lance.dataset(uri), [0, 1, 2]))

    index_value(uri, [3])
    with_both = [keys_of_value(uri, value) for value in (1, 2, 3, 10)]
    change_indexes(uri, [], removed=[emptied])

    assert with_both == [[], ["b"], ["c"], ["a"]]
    assert [keys_of_value(uri, value) for value in (1, 2, 3, 10)] == with_both
    assert coverage(uri, "value_idx") == [{3}]


def test_a_vector_segment_over_no_vectors_cannot_be_built(tmp_path: Path) -> None:
    uri = create_table(tmp_path / "t", searchable_rows("a"))
    empty = pa.nulls(1, pa.list_(pa.float32(), 2))
    rows = searchable_rows("b").set_column(2, "vector", empty)
    lance.write_dataset(rows, uri, mode="append")
    table = lance.dataset(uri)

    with pytest.raises(RuntimeError, match="0 vectors"):
        table.create_index_uncommitted(
            "vector", "IVF_FLAT", name="v", num_partitions=1, fragment_ids=[1]
        )


def test_blobs_are_joined_whatever_their_size(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"elsewhere")
    values = [None, b"", b"small", b"x" * 100_000, b"y" * 5_000_000, f"file://{outside}"]
    uri = str(tmp_path / "t")
    for number, value in enumerate(values):
        rows = pa.table({"id": [str(number)], "blob": blob_array([value])}, schema=WITH_BLOB)
        lance.write_dataset(
            rows,
            uri,
            mode="append" if number else "create",
            enable_stable_row_ids=True,
            data_storage_version="2.2",
            allow_external_blob_outside_bases=True,
        )

    apply(uri, stage_join(lance.dataset(uri), range(len(values))))

    table = lance.dataset(uri)
    found = table.scanner(columns=["blob"], blob_handling="all_binary").to_table()
    assert len(fragment_ids(table)) == 1
    assert found["blob"].to_pylist() == [*values[:5], b"elsewhere"]


def test_a_reference_to_a_deleted_blob_is_joined_as_it_is(tmp_path: Path) -> None:
    uri, missing = str(tmp_path / "t"), f"file://{tmp_path}/missing.bin"
    for number, value in enumerate([b"here", missing]):
        rows = pa.table({"id": [str(number)], "blob": blob_array([value])}, schema=WITH_BLOB)
        lance.write_dataset(
            rows,
            uri,
            mode="append" if number else "create",
            enable_stable_row_ids=True,
            data_storage_version="2.2",
            allow_external_blob_outside_bases=True,
        )

    apply(uri, stage_join(lance.dataset(uri), [0, 1]))

    scanner = lance.dataset(uri).scanner(columns=["blob"], blob_handling="all_descriptions")
    assert [row["blob"]["blob_uri"] for row in scanner.to_table().to_pylist()] == ["", missing]


def test_rows_without_a_column_that_came_later_are_joined_with_those_that_have_it(
    tmp_path: Path,
) -> None:
    uri = create_table(tmp_path / "t", keyed_rows(a=1))
    table = lance.dataset(uri)
    table.add_columns([pa.field("later", pa.int64())])
    rows = keyed_rows(b=2).append_column("later", pa.array([7]))
    lance.write_dataset(rows, uri, mode="append")

    apply(uri, stage_join(lance.dataset(uri), [0, 1]))

    assert lance.dataset(uri).to_table()["later"].to_pylist() == [None, 7]
