"""Staged writes of rows, on a disk and on S3: unreferenced files, and what applying them does."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.model.errors import (
    CorruptError,
)
from omnigraph.storage.ports import StagedKind, TableVersion
from omnigraph.storage.predicates import equals
from tests.support.lance_probes import files_of
from tests.support.table_stores import (
    MAIN,
    PATH,
    Place,
    Stage,
    ages,
    append,
    create_people,
    must,
    numbered_people,
    people,
    people_of,
    place_on_disk,
    row_versions,
    stage_append,
    stage_delete,
    stage_merge,
    stage_overwrite,
)

EVERY_STAGE = pytest.mark.parametrize(
    "stage", [stage_append, stage_merge, stage_overwrite, stage_delete]
)


# Staging


@EVERY_STAGE
def test_staging_moves_nothing(place: Place, stage: Stage) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)

    staged = stage(store, at)

    assert staged.base == at
    assert store.find_head(MAIN) == place.open().find_head(MAIN) == 2
    assert ages(store, at) == {"ann": 1, "bob": 2, "cyd": 3}


@EVERY_STAGE
def test_a_staged_write_names_every_file_it_wrote(tmp_path: Path, stage: Stage) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)
    folder = f"{place.root}/{PATH}"
    before = files_of(folder)

    staged = stage(store, at)

    assert files_of(folder) - before == set(staged.files)
    assert staged.files


@pytest.mark.parametrize(
    ("stage", "kind", "expected", "added", "removed"),
    [
        (stage_append, StagedKind.APPEND, {"ann": 1, "bob": 2, "cyd": 3, "zoe": 9}, 1, 0),
        (stage_merge, StagedKind.MERGE, {"ann": 9, "bob": 2, "cyd": 3, "zoe": 9}, 1, 0),
        (stage_overwrite, StagedKind.OVERWRITE, {"zoe": 9}, 1, 3),
        (stage_delete, StagedKind.DELETE, {"bob": 2, "cyd": 3}, 0, 1),
    ],
)
def test_a_staged_write_does_what_it_says(
    place: Place,
    stage: Stage,
    kind: StagedKind,
    expected: dict[str, int],
    added: int,
    removed: int,
) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)

    staged = stage(store, at)
    landed = store.apply(staged)

    assert (staged.kind, staged.rows_added, staged.rows_removed) == (kind, added, removed)
    assert landed == TableVersion(MAIN, 3)
    assert ages(store, landed) == ages(place.open(), landed) == expected


@EVERY_STAGE
def test_a_version_is_identified_by_the_write_that_created_it(place: Place, stage: Stage) -> None:
    store = place.open()
    at = create_people(store, ann=1, bob=2)
    staged, other = stage(store, at), stage(store, at)

    landed = store.apply(staged)

    found = place.open().find_transaction(landed)
    assert found is not None
    assert found.uuid == staged.uuid != other.uuid
    assert found.read_version == 1
    assert store.find_transaction(TableVersion(MAIN, 9)) is None


def test_an_append_of_nothing_is_our_own_mistake(place: Place) -> None:
    store = place.open()
    at = create_people(store)

    with pytest.raises(AssertionError):
        store.stage_append(people(), onto=at)


def test_an_overwrite_may_leave_no_rows_and_other_columns(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    at = store.apply(store.stage_overwrite(people().drop_columns("age"), onto=at))

    assert store.schema(at).names == ["id"]
    assert store.count(at, predicate=None) == 0


# Merging


def test_a_merged_row_stays_the_row_it_was(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)
    before = row_versions(place, at)

    at = store.apply(store.stage_merge_insert(people(zoe=9, cyd=9, ann=9), onto=at))

    after = row_versions(place, at)
    assert after["bob"] == before["bob"]
    assert after["ann"] == before["ann"].updated_at(3)
    assert after["cyd"] == before["cyd"].updated_at(3)
    assert (after["zoe"].id, after["zoe"].created) == (3, 3)


def test_a_merge_that_replaces_a_whole_fragment_leaves_none_of_it(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)

    staged = store.stage_merge_insert(people(bob=8, ann=9), onto=at)
    at = store.apply(staged)

    assert (staged.rows_added, staged.rows_removed) == (0, 0)
    assert store.fragment_row_counts(at) == (1, 2)
    assert ages(store, at) == {"cyd": 3, "bob": 8, "ann": 9}


def test_an_exchange_puts_rows_and_removes_others_in_one_version(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3, dan=4)
    before = row_versions(place, at)
    removing = pa.array(["bob", "cyd", "absent"])

    staged = store.stage_exchange(people(zoe=9, ann=9), removing=removing, onto=at)
    landed = store.apply(staged)

    assert landed.version == at.version + 1
    assert (staged.rows_added, staged.rows_removed) == (1, 2)
    assert ages(store, landed) == {"dan": 4, "ann": 9, "zoe": 9}
    after = row_versions(place, landed)
    assert after["dan"] == before["dan"]
    assert after["ann"] == before["ann"].updated_at(3)


def test_an_exchange_of_rows_that_are_all_new_for_some_that_are_there(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1, bob=2)

    at = store.apply(
        store.stage_exchange(people(zoe=9), removing=pa.array(["ann", "bob"]), onto=at)
    )

    assert ages(store, at) == {"zoe": 9}
    assert store.fragment_row_counts(at) == (1,)


@pytest.mark.parametrize("count", [3, 3_000])
def test_a_merge_finds_rows_however_many_it_has(place: Place, count: int) -> None:
    store = place.open()
    at = store.create(PATH, numbered_people(2_000), config={})
    rows = people_of([f"p{number * 2}" for number in range(count)], [-1] * count)

    staged = store.stage_merge_insert(rows, onto=at)
    at = store.apply(staged)

    replaced = min(count, 1_000)
    assert staged.rows_added == count - replaced
    assert store.count(at, predicate=equals("age", -1)) == count
    assert store.count(at, predicate=None) == 2_000 + count - replaced


@pytest.mark.parametrize(
    "id", ["it's", "''", "a\\'b", '"', "größe", "line\nbreak", "nul\0", "", "%"]
)
def test_an_id_is_taken_as_it_is(place: Place, id: str) -> None:
    store = place.open()
    at = store.create(PATH, people_of([id, "other"], [1, 2]), config={})

    staged = store.stage_merge_insert(people_of([id], [9]), onto=at)

    assert staged.rows_added == 0
    assert ages(store, store.apply(staged)) == {id: 9, "other": 2}


@pytest.mark.parametrize("ids", [["ann", "ann"], ["ann", None]])
def test_a_merge_of_ids_that_are_not_distinct_is_our_own_mistake(
    place: Place, ids: list[str | None]
) -> None:
    store = place.open()
    at = create_people(store)

    with pytest.raises(AssertionError):
        store.stage_merge_insert(people_of(ids, [1, 2]), onto=at)


def test_a_merge_into_a_table_that_has_an_id_twice_is_refused(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), ann=2)

    with pytest.raises(CorruptError, match="more than once"):
        store.stage_merge_insert(people(ann=3), onto=at)


# Deleting


def test_a_delete_that_matches_nothing_is_nothing(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    assert store.stage_delete(pa.array(["zoe"]), onto=at) is None


@pytest.mark.parametrize(
    ("ids", "remaining"),
    [
        (["ann"], {"bob": 2, "cyd": 3, "dan": 4}),
        (["ann", "bob", "zoe"], {"cyd": 3, "dan": 4}),
        (["dan", "cyd", "bob"], {"ann": 1}),
        (["ann", "bob", "cyd", "dan"], {}),
    ],
)
def test_a_delete_removes_the_rows_with_its_ids(
    place: Place, ids: list[str], remaining: dict[str, int]
) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3, dan=4)

    staged = must(store.stage_delete(pa.array(ids), onto=at))

    assert staged.rows_removed == 4 - len(remaining)
    assert ages(store, store.apply(staged)) == remaining


def test_rows_are_deleted_from_a_fragment_again_and_again(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1, bob=2, cyd=3)

    for name in ("ann", "cyd", "bob"):
        staged = must(store.stage_delete(pa.array([name]), onto=at))
        assert staged.rows_removed == 1
        at = store.apply(staged)

    assert store.count(at, predicate=None) == 0
    assert store.fragment_row_counts(at) == ()


def test_a_delete_of_many_ids_does_not_keep_them(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = store.create(PATH, numbered_people(20_000), config={})
    among = pa.array([f"p{number}" for number in range(0, 20_000, 2)])

    at = store.apply(must(store.stage_delete(among, onto=at)))

    assert store.count(at, predicate=None) == 10_000
    size = store.describe(at).size
    assert size is not None
    assert size < 20_000
