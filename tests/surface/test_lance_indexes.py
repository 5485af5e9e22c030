"""Indexes without inline commits: built as segments, committed as a staged write."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import Index, LanceDataset, LanceOperation, ScanStatistics, Transaction
from lance.bitmap import Bitmap

from tests.support.lance_probes import (
    VALUE_INDEX,
    ArrowInvalid,
    append,
    apply,
    create_table,
    create_two_fragments,
    files_of,
    fragment_ids,
    head,
    searchable_rows,
    stage_compaction,
    stage_delete,
    stage_index,
    stage_overwrite,
    stage_upsert,
)

Build = Callable[[LanceDataset, list[int]], Index]


def create_searchable(path: Path) -> str:
    uri = create_table(path, searchable_rows("a", "b"))
    lance.write_dataset(searchable_rows("c", "d"), uri, mode="append")
    return uri


def build_btree(table: LanceDataset, fragments: list[int]) -> Index:
    return table.create_index_uncommitted("id", "BTREE", name="id_btree", fragment_ids=fragments)


def build_inverted(table: LanceDataset, fragments: list[int]) -> Index:
    return table.create_index_uncommitted(
        "text", "INVERTED", name="text_inverted", fragment_ids=fragments
    )


def build_ivf(
    table: LanceDataset, fragments: list[int], *, centres: list[list[float]] | None = None
) -> Index:
    return table.create_index_uncommitted(
        "vector",
        "IVF_FLAT",
        name="vector_ivf",
        metric="l2",
        num_partitions=1,
        ivf_centroids=None if centres is None else np.array(centres, np.float32),
        fragment_ids=fragments,
    )


def apply_index(uri: str, added: Sequence[Index], *, removed: Sequence[Index] = ()) -> int:
    operation = LanceOperation.CreateIndex(list(added), list(removed))
    return apply(uri, Transaction(head(uri), operation))


def by_uuid(uuid: str) -> Index:
    """Lance removes an index by its uuid alone, so nothing else has to be true."""
    return Index(uuid, "", fields=[], dataset_version=0, fragment_ids=Bitmap(), index_version=0)


def coverage(uri: str) -> list[tuple[str, set[int]]]:
    found = lance.dataset(uri).describe_indices()
    segments = [(index.name, segment) for index in found for segment in index.segments]
    return sorted((name, set(segment.fragment_ids)) for name, segment in segments)


def uuids(uri: str) -> list[str]:
    found = lance.dataset(uri).describe_indices()
    return [str(segment.uuid) for index in found for segment in index.segments]


def ids_by_key(uri: str, key: str) -> list[str]:
    return list(lance.dataset(uri).to_table(filter=f"id = '{key}'")["id"].to_pylist())


def ids_by_word(uri: str, *, only_indexed: bool = False) -> list[str]:
    found = lance.dataset(uri).scanner(
        columns=["id", "_score"], full_text_query="word", fast_search=only_indexed
    )
    return sorted(found.to_table()["id"].to_pylist())


def ids_near(uri: str, letter: str) -> list[str]:
    nearest = {"column": "vector", "q": np.full(2, ord(letter), np.float32), "k": 2}
    found = lance.dataset(uri).scanner(columns=["id", "_distance"], nearest=nearest)
    return list(found.to_table()["id"].to_pylist())


def ids_by_value(uri: str, value: int) -> list[str]:
    found = lance.dataset(uri).to_table(filter=f"value = {value}")
    return list(found["object_id"].to_pylist())


def uses_index(uri: str, predicate: str) -> bool:
    return "ScalarIndexQuery" in lance.dataset(uri).scanner(filter=predicate).explain_plan()


def test_a_segment_is_files_until_it_is_committed(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    before = files_of(uri)

    segment = build_btree(lance.dataset(uri), [0, 1])

    assert all(path.startswith(f"_indices/{segment.uuid}/") for path in files_of(uri) - before)
    assert head(uri) == 2
    assert coverage(uri) == []


def test_a_btree_is_one_staged_write(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")

    version = apply_index(uri, [build_btree(lance.dataset(uri), [0, 1])])

    assert version == 3
    assert uses_index(uri, "id = 'c'")
    assert ids_by_key(uri, "c") == ["c"]


def test_a_vector_index_is_one_staged_write(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")

    version = apply_index(uri, [build_ivf(lance.dataset(uri), [0, 1])])

    assert version == 3
    assert ids_near(uri, "c") == ["c", "b"]


def test_an_inverted_index_is_one_staged_write_once_its_segments_are_merged(
    tmp_path: Path,
) -> None:
    uri = create_searchable(tmp_path / "t")
    table = lance.dataset(uri)

    merged = table.merge_existing_index_segments([build_inverted(table, [0, 1])])
    version = apply_index(uri, [merged])

    assert version == 3
    assert ids_by_word(uri) == ["a", "b", "c", "d"]


def test_an_inverted_index_that_was_not_merged_commits_and_cannot_be_searched(
    tmp_path: Path,
) -> None:
    uri = create_searchable(tmp_path / "t")

    apply_index(uri, [build_inverted(lance.dataset(uri), [0, 1])])

    with pytest.raises(ArrowInvalid, match="Not found"):
        ids_by_word(uri)


def test_segments_built_apart_make_one_index(tmp_path: Path) -> None:
    # One worker a fragment; only the inverted kind needs the merge.
    uri = create_searchable(tmp_path / "t")
    table = lance.dataset(uri)
    words = [build_inverted(table, [fragment]) for fragment in (0, 1)]
    segments = [
        *(build_btree(table, [fragment]) for fragment in (0, 1)),
        *(build_ivf(table, [fragment]) for fragment in (0, 1)),
        table.merge_existing_index_segments(words),
    ]

    version = apply_index(uri, segments)

    assert version == 3
    assert coverage(uri) == [
        ("id_btree", {0}),
        ("id_btree", {1}),
        ("text_inverted", {0, 1}),
        ("vector_ivf", {0}),
        ("vector_ivf", {1}),
    ]
    assert ids_by_key(uri, "c") == ["c"]
    assert ids_by_word(uri) == ["a", "b", "c", "d"]
    assert ids_near(uri, "c") == ["c", "b"]


def test_vector_segments_trained_apart_cannot_be_merged(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    table = lance.dataset(uri)
    segments = [build_ivf(table, [fragment]) for fragment in (0, 1)]

    with pytest.raises(RuntimeError, match="IVF centroids mismatch"):
        table.merge_existing_index_segments(segments)


def test_segments_of_one_centre_are_merged_also_those_without_a_vector(tmp_path: Path) -> None:
    # Whatever the centre is: with one partition every vector is compared.
    uri = create_searchable(tmp_path / "t")
    bare = searchable_rows("e").set_column(2, "vector", pa.nulls(1, pa.list_(pa.float32(), 2)))
    lance.write_dataset(bare, uri, mode="append")
    table = lance.dataset(uri)
    segments = [build_ivf(table, [each], centres=[[0.0, 0.0]]) for each in (0, 1, 2)]
    sent = [pickle.loads(pickle.dumps(segment)) for segment in segments]

    apply_index(uri, [table.merge_existing_index_segments(sent)])

    assert coverage(uri) == [("vector_ivf", {0, 1, 2})]
    assert ids_near(uri, "c") == ["c", "b"]


def test_btrees_built_apart_are_merged_into_one(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    table = lance.dataset(uri)
    segments = [build_btree(table, [fragment]) for fragment in (0, 1)]

    apply_index(uri, [table.merge_existing_index_segments(segments)])

    assert coverage(uri) == [("id_btree", {0, 1})]
    assert ids_by_key(uri, "c") == ["c"]


def test_an_index_replaces_another_only_when_the_other_is_removed_by_uuid(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    first = build_btree(lance.dataset(uri), [0, 1])
    apply_index(uri, [first])
    second = lance.dataset(uri).create_index_uncommitted(
        "id", "BTREE", name="id_btree", fragment_ids=[0, 1], replace=True
    )

    apply_index(uri, [second], removed=[by_uuid(first.uuid)])

    assert uuids(uri) == [second.uuid]


def test_an_index_of_the_same_name_is_added_beside_the_first(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    table = lance.dataset(uri)
    first, second = build_btree(table, [0, 1]), build_btree(table, [0, 1])

    apply_index(uri, [first])
    apply_index(uri, [second])

    assert coverage(uri) == [("id_btree", {0, 1}), ("id_btree", {0, 1})]
    assert ids_by_key(uri, "c") == ["c"]


def test_building_under_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    apply_index(uri, [build_btree(lance.dataset(uri), [0, 1])])

    with pytest.raises(RuntimeError, match="Index name 'id_btree' already exists"):
        build_btree(lance.dataset(uri), [0, 1])


def test_an_index_is_dropped_by_a_staged_write(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    segment = build_btree(lance.dataset(uri), [0, 1])
    apply_index(uri, [segment])

    version = apply_index(uri, [], removed=[by_uuid(segment.uuid)])

    assert version == 4
    assert coverage(uri) == []


def test_the_fragments_to_index_must_be_named(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")

    with pytest.raises(ValueError, match="requires fragment_ids"):
        lance.dataset(uri).create_index_uncommitted("id", "BTREE", name="id_btree")


def test_rows_that_no_index_covers_are_found_all_the_same(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")
    table = lance.dataset(uri)
    words = table.merge_existing_index_segments([build_inverted(table, [0, 1])])
    apply_index(uri, [build_btree(table, [0, 1]), words, build_ivf(table, [0, 1])])

    lance.write_dataset(searchable_rows("e"), uri, mode="append")

    assert ids_by_key(uri, "e") == ["e"]
    assert ids_by_word(uri) == ["a", "b", "c", "d", "e"]
    assert ids_by_word(uri, only_indexed=True) == ["a", "b", "c", "d"]
    assert ids_near(uri, "e") == ["e", "d"]


def test_full_text_search_needs_an_index(tmp_path: Path) -> None:
    uri = create_searchable(tmp_path / "t")

    with pytest.raises(ValueError, match="unless an INVERTED index has been created"):
        ids_by_word(uri)


def test_an_index_is_correct_after_its_rows_were_updated(tmp_path: Path) -> None:
    # The row keeps its id and moves to another fragment: the old entry must not lead to it.
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_index(lance.dataset(uri)))

    apply(uri, stage_upsert(a=10)(lance.dataset(uri)))

    assert uses_index(uri, "value = 1")
    assert ids_by_value(uri, 1) == []
    assert ids_by_value(uri, 10) == ["a"]


def test_an_index_that_was_rebased_over_an_update_is_correct(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    staged = stage_index(lance.dataset(uri))
    apply(uri, stage_upsert(a=10)(lance.dataset(uri)))
    apply(uri, stage_delete("object_id = 'b'")(lance.dataset(uri)))

    apply(uri, staged)

    assert coverage(uri) == [(VALUE_INDEX, {0, 1})]
    assert [ids_by_value(uri, value) for value in (1, 2, 3, 10)] == [[], [], ["c"], ["a"]]


def test_an_overwrite_drops_the_indexes(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_index(lance.dataset(uri)))

    apply(uri, stage_overwrite(z=9)(lance.dataset(uri)))

    assert coverage(uri) == []


def test_a_staged_compaction_leaves_its_indexes_covering_nothing(tmp_path: Path) -> None:
    # Results stay correct and queries become scans, until the index is rebuilt.
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_index(lance.dataset(uri)))

    apply(uri, stage_compaction(lance.dataset(uri)))

    assert coverage(uri) == [(VALUE_INDEX, set())]
    assert not uses_index(uri, "value = 3")
    assert ids_by_value(uri, 3) == ["c"]


def test_an_index_carried_over_a_staged_compaction_by_hand_loses_rows(tmp_path: Path) -> None:
    # Stable row ids or not, the segment holds addresses: never fill in `rewritten_indices`.
    uri = create_two_fragments(tmp_path / "t")
    indexing = stage_index(lance.dataset(uri))
    apply(uri, indexing)
    compaction = stage_compaction(lance.dataset(uri)).operation
    assert isinstance(indexing.operation, LanceOperation.CreateIndex)
    assert isinstance(compaction, LanceOperation.Rewrite)
    (segment,) = indexing.operation.new_indices
    assert segment.index_details
    for group in compaction.groups:
        for fragment in group.new_fragments:
            fragment.id = 2

    carried = LanceOperation.RewrittenIndex(
        segment.uuid, segment.uuid, *segment.index_details, segment.index_version
    )
    apply(uri, Transaction(3, LanceOperation.Rewrite(compaction.groups, [carried])))

    assert coverage(uri) == [(VALUE_INDEX, {2})]
    assert ids_by_value(uri, 3) == []


def test_plain_compaction_rebuilds_the_indexes_it_moves(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_index(lance.dataset(uri)))
    before = uuids(uri)

    lance.dataset(uri).optimize.compact_files()

    assert uuids(uri) != before
    assert coverage(uri) == [(VALUE_INDEX, set(fragment_ids(lance.dataset(uri))))]
    assert ids_by_value(uri, 3) == ["c"]


def test_compaction_never_joins_fragments_that_an_index_separates(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    apply(uri, stage_index(lance.dataset(uri)))
    append(uri, e=5)

    lance.dataset(uri).optimize.compact_files()

    assert fragment_ids(lance.dataset(uri)) == [2, 3]


@pytest.mark.parametrize(
    ("predicate", "is_used"),
    [
        ("value = 1", True),
        ("value IN (1, 2)", True),
        ("value IS NULL", True),
        ("value > 1 AND value < 3", True),
        ("value = CAST(1 AS BIGINT)", True),
        ("value + 0 = 1", False),
    ],
)
def test_which_predicates_an_index_serves(tmp_path: Path, predicate: str, *, is_used: bool) -> None:
    uri = create_two_fragments(tmp_path / "t")

    apply(uri, stage_index(lance.dataset(uri)))

    assert uses_index(uri, predicate) is is_used


@pytest.mark.parametrize("build", [build_btree, build_ivf])
def test_an_index_over_no_fragments_can_be_built(tmp_path: Path, build: Build) -> None:
    uri = create_table(tmp_path / "t", searchable_rows("a").slice(0, 0))

    segment = build(lance.dataset(uri), [])

    assert apply_index(uri, [segment]) == 2


def test_the_statistics_of_a_scan_show_its_bytes_and_whether_an_index_was_searched(
    tmp_path: Path,
) -> None:
    table = lance.dataset(create_searchable(tmp_path))
    table.create_scalar_index("id", "BTREE")
    finished: list[ScanStatistics] = []

    for is_indexed in (True, True, False):
        table.scanner(
            filter="id = 'a'", use_scalar_index=is_indexed, scan_stats_callback=finished.append
        ).to_table()

    assert [each.index_comparisons > 0 for each in finished] == [True, True, False]
    assert all(each.bytes_read > 0 for each in finished)


def test_a_read_of_positions_is_counted_by_its_table(tmp_path: Path) -> None:
    table = lance.dataset(create_searchable(tmp_path))
    before = table.io_stats_snapshot().read_bytes

    table.take([0], columns=["id"])

    assert table.io_stats_snapshot().read_bytes > before
