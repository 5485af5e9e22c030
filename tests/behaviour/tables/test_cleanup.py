"""Cleaning up a table through its store: which versions are deleted and which retained."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.model.errors import CorruptError, NotFoundError
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import Cleaned, IndexKind, IndexSpec, TableVersion
from omnigraph.storage.predicates import OneOf
from tests.support.lance_probes import files_of
from tests.support.table_stores import (
    PATH,
    Place,
    ages,
    append,
    create_people,
    must,
    numbered_people,
    people,
    place_on_disk,
)

A_WEEK_AND_A_DAY_S = 8 * 24 * 3600


def overwrite(store: LanceTables, at: TableVersion, **age_by_id: int) -> TableVersion:
    return store.apply(store.stage_overwrite(people(**age_by_id), onto=at))


def test_versions_are_deleted_with_the_files_that_only_they_use(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    retained = overwrite(store, at, cyd=3)
    at = append(store, retained, dan=4)
    at = overwrite(store, at, eve=5)

    cleaned = store.clean(at.ref, [1, 2, 4])

    assert cleaned.versions == 3
    assert cleaned.size > 0
    assert store.versions(at.ref) == (3, 5)
    assert ages(store, retained) == {"cyd": 3}
    assert ages(store, at) == {"eve": 5}


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_version_that_was_cleaned_up_is_not_found(place: Place, *, is_cached: bool) -> None:
    store = place.open()
    old = create_people(store, ann=1)
    at = overwrite(store, old, bob=2)
    reader = place.open()
    if is_cached:
        ages(store, old)
        reader.schema(old)

    store.clean(at.ref, [1])

    for each in (store, reader):
        with pytest.raises(NotFoundError, match="cleaned up"):
            each.scan(old, columns=["id"], predicate=None)


def test_a_preview_reports_what_would_be_deleted_and_deletes_nothing(place: Place) -> None:
    store = place.open()
    at = overwrite(store, append(store, create_people(store, ann=1), bob=2), cyd=3)

    preview = store.preview_cleaning(at.ref, [1, 2])

    assert store.versions(at.ref) == (1, 2, 3)
    assert store.clean(at.ref, [1, 2]) == preview


def test_the_newest_version_is_retained_whatever_is_requested(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)

    store.clean(at.ref, [1, 2])

    assert store.versions(at.ref) == (2,)
    assert ages(place.open(), at) == {"ann": 1, "bob": 2}


def test_requesting_no_version_or_deleted_versions_has_no_effect(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)

    store.clean(at.ref, [1])

    assert store.clean(at.ref, [1]).versions == 0
    assert store.clean(at.ref, []) == store.preview_cleaning(at.ref, []) == Cleaned(0, 0)
    assert store.versions(at.ref) == (2,)


def test_the_base_version_of_a_branch_is_retained(place: Place) -> None:
    store = place.open()
    start = append(store, create_people(store, ann=1), bob=2)
    branch = TableVersion(store.fork(start, branch="feature"), start.version)
    branch = append(store, branch, cyd=3)
    at = overwrite(store, append(store, start, dan=4), eve=5)

    store.clean(at.ref, [1, 2, 3])

    assert store.versions(at.ref) == (2, 4)
    assert ages(place.open(), branch) == {"ann": 1, "bob": 2, "cyd": 3}


def test_cleaning_up_a_branch_does_not_change_its_base(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    branch = TableVersion(store.fork(at, branch="feature"), at.version)
    branch = append(store, append(store, branch, cyd=3), dan=4)

    cleaned = store.clean(branch.ref, [2, 3])

    assert cleaned.versions == 2
    assert store.versions(branch.ref) == (4,)
    assert store.versions(at.ref) == (1, 2)
    assert ages(place.open(), branch) == {"ann": 1, "bob": 2, "cyd": 3, "dan": 4}


def test_staged_files_of_living_writers_are_retained(place: Place) -> None:
    store, writer = place.open(), place.open()
    at = overwrite(store, append(store, create_people(store, ann=1), bob=2), cyd=3)
    rows = writer.stage_merge_insert(people(cyd=30, dan=4), onto=at)
    index = writer.stage_indexes([IndexSpec("id", IndexKind.BTREE)], onto=at)

    store.clean(at.ref, [1, 2])

    assert ages(store, writer.apply(rows)) == {"cyd": 30, "dan": 4}
    assert index.files
    if place.is_local:
        assert set(index.files) <= files_of(f"{place.root}/{PATH}")


@pytest.mark.parametrize("versions", [[1], []], ids=["with a version", "alone"])
def test_staged_files_of_dead_writers_are_deleted_after_a_week(
    tmp_path: Path, versions: list[int]
) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = overwrite(store, create_people(store, ann=1), cyd=3)
    staged = store.stage_append(people(dan=4), onto=at)
    young = store.stage_append(people(eve=5), onto=at)
    long_ago = time.time() - A_WEEK_AND_A_DAY_S
    for file in staged.files:
        os.utime(Path(place.root, PATH, file), (long_ago, long_ago))

    store.clean(at.ref, versions)

    left = files_of(f"{place.root}/{PATH}")
    assert not set(staged.files) & left
    assert set(young.files) <= left
    assert ages(store, at) == {"cyd": 3}
    assert set(store.versions(at.ref)) == {1, 2} - set(versions)


def test_a_partially_deleted_version_is_not_found_and_is_deleted_by_the_next_cleanup(
    tmp_path: Path,
) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    old = create_people(store, ann=1)
    at = overwrite(store, overwrite(store, old, bob=2), cyd=3)
    note = Path(place.root, PATH, "_cleaning", "versions.json")
    note.parent.mkdir()
    note.write_text('{"versions": [1, 2]}')
    lost = place.open_table(old).get_fragments()[0].data_files()[0].path
    Path(place.root, PATH, "data", str(lost)).unlink()

    with pytest.raises(NotFoundError, match="cleaned up"):
        place.open().scan(old, columns=["id"], predicate=None)
    store.clean(at.ref, [2])

    assert store.versions(at.ref) == (3,)
    assert not note.exists()


def test_a_version_that_lost_a_file_by_accident_is_damaged_and_not_cleaned_up(
    tmp_path: Path,
) -> None:
    place = place_on_disk(tmp_path)
    at = create_people(place.open(), ann=1)
    lost = place.open_table(at).get_fragments()[0].data_files()[0].path
    Path(place.root, PATH, "data", str(lost)).unlink()

    with pytest.raises(CorruptError):
        place.open().scan(at, columns=["id"], predicate=None)


def test_blobs_are_deleted_with_their_version(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()

    def blob(content: bytes) -> pa.Table:
        return pa.table({"id": ["a"], "blob": pa.array([content], pa.large_binary())})

    at = store.create(PATH, blob(b"x" * 100_000), config={})
    at = store.apply(store.stage_overwrite(blob(b"y" * 100_000), onto=at))

    assert store.clean(at.ref, [1]).size > 100_000

    assert len([file for file in files_of(f"{place.root}/{PATH}") if ".blob" in file]) == 1
    found = store.scan(at, columns=["blob"], predicate=None)
    assert found["blob"].to_pylist() == [b"y" * 100_000]


def test_indexes_are_correct_after_the_versions_that_built_them_are_deleted(place: Place) -> None:
    store = place.open()
    at = store.create(PATH, numbered_people(50), config={})
    at = store.apply(store.stage_indexes([IndexSpec("age", IndexKind.BTREE)], onto=at))
    at = store.apply(must(store.stage_delete(pa.array(["p7"]), onto=at)))

    store.clean(at.ref, [1, 2])

    found = place.open().scan(at, columns=["id"], predicate=OneOf("age", pa.array([7, 8])))
    assert found["id"].to_pylist() == ["p8"]


def test_the_version_of_a_timestamp_is_the_last_one_created_before_it(place: Place) -> None:
    store = place.open()
    before = datetime.now(UTC)
    at = append(store, create_people(store, ann=1), bob=2)
    between = datetime.now(UTC)
    at = append(store, at, cyd=3)

    found = [
        store.find_version_before(at.ref, instant)
        for instant in (before - timedelta(hours=1), between, datetime.now(UTC))
    ]

    assert found == [None, 2, 3]
