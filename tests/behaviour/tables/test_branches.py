"""Branches of a table through its store, and every way in which one can replace another."""

from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from omnigraph.model.errors import (
    AlreadyExistsError,
    NotFoundError,
    UnavailableError,
)
from omnigraph.storage.ports import TableRef, TableVersion
from tests.support.lance_probes import files_of, keyed_rows
from tests.support.s3_server import S3Server
from tests.support.table_stores import (
    FEATURE,
    MAIN,
    PATH,
    Place,
    ages,
    append,
    create_keyed,
    create_people,
    must,
    people,
    place_on_disk,
    place_on_s3,
    publish,
    race,
    values,
)


def test_a_branch_starts_with_the_rows_and_the_number_of_its_version(place: Place) -> None:
    store = place.open()
    first = create_people(store, ann=1)
    append(store, first, bob=2)

    ref = store.fork(first, branch="feature")

    assert ref == FEATURE
    assert store.find_head(ref) == place.open().find_head(ref) == 1
    assert ages(store, TableVersion(ref, 1)) == {"ann": 1}
    assert store.branches(PATH) == {"feature"}
    assert store.find_head(MAIN) == 2


def test_table_branches_are_isolated(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    branch = TableVersion(store.fork(at, branch="feature"), 1)

    ours = append(store, at, bob=2)
    theirs = append(store, branch, cyd=3)

    assert (ours, theirs) == (TableVersion(MAIN, 2), TableVersion(FEATURE, 2))
    assert ages(store, ours) == {"ann": 1, "bob": 2}
    assert ages(store, theirs) == {"ann": 1, "cyd": 3}


def test_every_kind_of_write_works_on_a_branch(place: Place) -> None:
    store = place.open()
    at = TableVersion(store.fork(create_people(store, ann=1, bob=2), branch="team/feature"), 1)

    at = append(store, at, cyd=3)
    at = store.apply(store.stage_merge_insert(people(ann=9, dan=4), onto=at))
    at = store.apply(must(store.stage_delete(pa.array(["bob"]), onto=at)))
    compacted = store.compact(at, rows_per_fragment=1_024)
    assert compacted is not None

    assert ages(store, compacted) == ages(place.open(), compacted) == {"cyd": 3, "ann": 9, "dan": 4}
    at = store.apply(store.stage_overwrite(people(eve=5), onto=compacted))
    assert ages(store, at) == {"eve": 5}
    assert ages(store, store.restore(TableVersion(at.ref, 2), uuid=str(uuid4()))) == {
        "ann": 1,
        "bob": 2,
        "cyd": 3,
    }


def test_files_staged_on_a_branch_are_named_from_the_table(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = TableVersion(store.fork(create_people(store, ann=1, bob=2), branch="team/feature"), 1)
    before = files_of(f"{place.root}/{PATH}")

    staged = store.stage_merge_insert(people(ann=9), onto=at)

    assert files_of(f"{place.root}/{PATH}") - before == set(staged.files)
    assert all(file.startswith("tree/team/feature/") for file in staged.files)


def test_a_version_on_a_branch_says_where_it_is_described(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = TableVersion(store.fork(create_people(store, ann=1), branch="team/feature"), 1)

    described = store.describe(at)

    assert described.path == f"{PATH}/tree/team/feature/_versions/{2**64 - 2}.manifest"
    assert described.size


def test_a_branch_may_start_at_a_version_of_another(place: Place) -> None:
    store = place.open()
    parent = TableVersion(store.fork(create_people(store, ann=1), branch="parent"), 1)
    parent = append(store, parent, bob=2)

    child = store.fork(parent, branch="child")

    assert ages(store, TableVersion(child, 2)) == {"ann": 1, "bob": 2}
    assert store.branches(PATH) == {"parent", "child"}


def test_publishers_of_different_branches_do_not_meet(place: Place) -> None:
    store = place.open()
    main = create_keyed(store, head=1)
    branch = TableVersion(store.fork(main, branch="feature"), 1)

    landed = [
        publish(store, keyed_rows(head=number), onto=at) for number, at in ((2, main), (3, branch))
    ]

    assert [values(store, at)["head"] for at in landed if at] == [2, 3]


def test_an_existing_branch_is_not_created_again(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    branch = append(store, TableVersion(store.fork(at, branch="feature"), 1), bob=2)

    with pytest.raises(AlreadyExistsError):
        place.open().fork(at, branch="feature")

    assert ages(store, branch) == {"ann": 1, "bob": 2}


def test_a_branch_does_not_start_at_a_deleted_version(place: Place) -> None:
    store = place.open()
    create_people(store, ann=1)

    with pytest.raises(NotFoundError):
        store.fork(TableVersion(MAIN, 7), branch="feature")

    assert store.branches(PATH) == frozenset()


def test_branches_are_created_concurrently_through_one_store(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    race([partial(store.fork, at, branch=f"b{number}") for number in range(4)])

    assert store.branches(PATH) == {"b0", "b1", "b2", "b3"}


def test_a_deleted_branch_leaves_nothing(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = create_people(store, ann=1)
    before = files_of(place.root)
    append(store, TableVersion(store.fork(at, branch="team/feature"), 1), bob=2)

    store.delete_branch(TableRef(PATH, "team/feature"))

    assert files_of(place.root) == before
    assert store.branches(PATH) == frozenset()


def test_deleting_a_branch_is_idempotent(place: Place) -> None:
    store = place.open()
    store.delete_branch(FEATURE)
    store.fork(create_people(store, ann=1), branch="feature")

    for _ in range(3):
        store.delete_branch(FEATURE)

    assert store.find_head(FEATURE) is None


def test_a_branch_with_children_is_not_deleted(place: Place) -> None:
    store = place.open()
    parent = append(
        store, TableVersion(store.fork(create_people(store, ann=1), branch="feature"), 1), bob=2
    )
    child = store.fork(parent, branch="child")

    with pytest.raises(UnavailableError, match="another branch was made from it"):
        store.delete_branch(FEATURE)

    assert ages(store, TableVersion(child, 2)) == {"ann": 1, "bob": 2}


def test_a_reader_of_a_deleted_branch_gets_not_found(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = append(ours, TableVersion(ours.fork(create_people(ours, ann=1), branch="feature"), 1), b=2)
    theirs.delete_branch(FEATURE)

    with pytest.raises(NotFoundError):
        ages(ours, at)

    assert ours.find_head(FEATURE) is None


def test_only_a_recreated_branch_invalidates_caches(place: Place) -> None:
    store, other = place.open(), place.open()
    at = create_people(store, ann=1)
    store.find_head(MAIN)
    before = store.generation()

    for name in ("one", "two"):
        store.fork(at, branch=name)
        assert store.find_head(TableRef(PATH, name)) == 1
        store.delete_branch(TableRef(PATH, name))
        assert store.find_head(TableRef(PATH, name)) is None
    assert store.generation() == before

    store.fork(at, branch="one")
    ours = store.generation()
    other.fork(at, branch="two")
    store.find_head(TableRef(PATH, "two"))
    assert before < ours < store.generation()


@pytest.mark.parametrize("is_same_store", [True, False])
def test_a_recreated_branch_has_no_rows_of_its_predecessor(
    place: Place, *, is_same_store: bool
) -> None:
    store = place.open()
    other = store if is_same_store else place.open()
    at = create_people(store, ann=1)
    old = append(store, TableVersion(store.fork(at, branch="feature"), 1), old=2)
    assert ages(store, old) == {"ann": 1, "old": 2}
    other.delete_branch(FEATURE)

    new = append(other, TableVersion(other.fork(at, branch="feature"), 1), new=3)

    assert new == old
    assert store.find_head(FEATURE) == 2
    assert ages(store, new) == {"ann": 1, "new": 3}


def test_a_longer_recreated_branch_is_distinguished_from_its_predecessor(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = create_people(ours, ann=1)
    old = append(ours, TableVersion(ours.fork(at, branch="feature"), 1), old=2)
    ages(ours, old)
    theirs.delete_branch(FEATURE)
    second = append(theirs, TableVersion(theirs.fork(at, branch="feature"), 1), new=3)
    third = append(theirs, second, newer=4)

    assert ours.find_head(FEATURE) == 3

    assert ages(ours, second) == {"ann": 1, "new": 3}
    assert ages(ours, third) == {"ann": 1, "new": 3, "newer": 4}


def test_other_tables_of_a_recreated_branch_are_distinguished_from_their_predecessors(
    place: Place,
) -> None:
    ours, theirs = place.open(), place.open()
    people_at, keyed_at = create_people(ours, ann=1), create_keyed(ours, head=0)
    keyed_ref = ours.fork(keyed_at, branch="feature")
    old = append(ours, TableVersion(ours.fork(people_at, branch="feature"), 1), old=2)
    ages(ours, old)
    for ref in (FEATURE, keyed_ref):
        theirs.delete_branch(ref)
    theirs.fork(keyed_at, branch="feature")
    new = append(theirs, TableVersion(theirs.fork(people_at, branch="feature"), 1), new=3)

    ours.find_head(keyed_ref)

    assert new == old
    assert ages(ours, new) == {"ann": 1, "new": 3}


def test_a_branch_advanced_by_another_store_is_followed(server: S3Server) -> None:
    place = place_on_s3(server)
    ours, theirs = place.open(), place.open()
    at = TableVersion(ours.fork(create_people(ours, ann=1), branch="feature"), 1)
    at = append(theirs, at, bob=2)

    with server.recording() as requests:
        assert ours.find_head(FEATURE) == 2

    assert len(requests) <= 4
    with server.recording() as requests:
        assert ours.find_head(FEATURE) == 2
    assert len(requests) == 1


# Interrupted operations


def test_a_branch_that_was_never_listed_is_deleted_and_recreated(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    append(store, TableVersion(store.fork(at, branch="team/feature"), 1), old=2)
    place.remove(f"{PATH}/_refs")
    late = place.open()
    assert late.branches(PATH) == frozenset()

    late.delete_branch(TableRef(PATH, "team/feature"))

    assert late.find_head(TableRef(PATH, "team/feature")) is None
    ref = late.fork(at, branch="team/feature")
    assert ages(late, TableVersion(ref, 1)) == {"ann": 1}


def test_a_branch_that_was_never_listed_does_not_block_its_name(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    append(store, TableVersion(store.fork(at, branch="feature"), 1), old=2)
    place.remove(f"{PATH}/_refs")

    ref = place.open().fork(at, branch="feature")

    late = place.open()
    assert late.branches(PATH) == {"feature"}
    assert late.find_head(ref) == 1
    assert ages(late, TableVersion(ref, 1)) == {"ann": 1}


def test_a_branch_inside_whose_folder_another_lies_is_not_deleted(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    for name in ("team", "team/data"):
        store.fork(at, branch=name)
    inner = append(store, TableVersion(TableRef(PATH, "team/data"), 1), bob=2)

    with pytest.raises(UnavailableError, match="'team/data' lies inside it"):
        store.delete_branch(TableRef(PATH, "team"))

    assert place.open().branches(PATH) == {"team", "team/data"}
    assert ages(place.open(), inner) == {"ann": 1, "bob": 2}


def test_removing_what_a_branch_left_spares_a_branch_inside_its_folder(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = create_people(store, ann=1)
    for name in ("team", "team/data"):
        store.fork(at, branch=name)
    inner = append(store, TableVersion(TableRef(PATH, "team/data"), 1), bob=2)
    Path(place.root, PATH, "_refs/branches/team.json").unlink()

    with pytest.raises(UnavailableError, match="'team/data' lies inside it"):
        place.open().fork(at, branch="team")

    assert ages(place.open(), inner) == {"ann": 1, "bob": 2}
