"""Deltas of a table through its store: the rows in which two versions differ.

A row may be reported as deleted and added though its values are equal, never the other way round;
so deltas are checked against the versions that they connect.
"""

from uuid import uuid4

import pyarrow as pa
import pytest

from omnigraph.model.errors import NotFoundError
from omnigraph.model.limits import PROBED_VALUES_MAX
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import IndexKind, IndexSpec, TableDelta, TableVersion
from tests.support.s3_server import S3Server
from tests.support.table_stores import (
    MAIN,
    PATH,
    Place,
    ages,
    append,
    create_people,
    must,
    numbered_people,
    people,
    place_on_s3,
)

COLUMNS = ["id", "age"]
# From more deletions of one file on, Lance writes them down in another way.
DELETIONS_IN_AN_ARRAY_MAX = 5_000


def merge(store: LanceTables, at: TableVersion, **age_by_id: int | None) -> TableVersion:
    """The next version, with some rows replaced or added."""
    return store.apply(store.stage_merge_insert(people(**age_by_id), onto=at))


def remove(store: LanceTables, at: TableVersion, *ids: str) -> TableVersion:
    """The next version, without some rows."""
    return store.apply(must(store.stage_delete(pa.array(ids), onto=at)))


def fork(store: LanceTables, at: TableVersion, branch: str) -> TableVersion:
    """The first version of a branch."""
    return TableVersion(store.fork(at, branch=branch), at.version)


def pairs(rows: pa.Table) -> set[tuple[str, int]]:
    """The rows, without duplicates."""
    found = list(zip(rows["id"].to_pylist(), rows["age"].to_pylist(), strict=True))
    assert len(set(found)) == len(found), "a row is listed twice"
    return set(found)


def delta(store: LanceTables, old: TableVersion, new: TableVersion) -> TableDelta:
    """The delta from one version to the other, checked in both directions."""
    there = store.find_delta(old, new, columns=COLUMNS)
    back = store.find_delta(new, old, columns=COLUMNS)
    before, after = set(ages(store, old).items()), set(ages(store, new).items())
    assert before - pairs(there.deleted) | pairs(there.added) == after
    assert pairs(there.deleted) <= before
    assert pairs(there.added) <= after
    assert (pairs(back.deleted), pairs(back.added)) == (pairs(there.added), pairs(there.deleted))
    require_positions(store, old, new)
    return there


def require_positions(store: LanceTables, old: TableVersion, new: TableVersion) -> None:
    """Require that deleted rows are found in a scan of `old`, and not in one of `new`."""
    in_old = store.follow_delta(old, new, base=old, columns=COLUMNS)
    scanned = store.scan(old, columns=COLUMNS, predicate=None)
    assert scanned.take(in_old.deleted_positions).equals(in_old.rows.deleted)
    in_new = store.follow_delta(old, new, base=new, columns=COLUMNS)
    assert (in_new.deleted_positions == -1).all()
    assert in_new.rows == in_old.rows


def test_a_deleted_row_is_found_by_its_position_in_an_earlier_version(place: Place) -> None:
    store = place.open()
    first = append(store, create_people(store, ann=1, bob=2, cyd=3), dan=4, eve=5)
    base = remove(store, first, "ann", "dan")
    old = append(store, merge(store, base, bob=7), fay=6)

    found = store.follow_delta(
        old, remove(store, old, "bob", "cyd", "eve", "fay"), base=base, columns=COLUMNS
    )

    ids = found.rows.deleted["id"].to_pylist()
    position = dict(zip(ids, found.deleted_positions.tolist(), strict=True))
    assert list(ages(store, base)) == ["bob", "cyd", "eve"]
    # The rows of bob and fay were written after the base.
    assert position == {"bob": -1, "cyd": 1, "eve": 2, "fay": -1}


def test_equal_versions_have_no_delta(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    found = delta(store, at, at)

    assert (found.deleted.num_rows, found.added.num_rows) == (0, 0)
    assert found.deleted.schema.names == found.added.schema.names == COLUMNS


def test_added_rows_are_in_the_delta(place: Place) -> None:
    store = place.open()
    old = create_people(store, ann=1)

    found = delta(store, old, append(store, old, bob=2, cyd=3))

    assert (pairs(found.deleted), pairs(found.added)) == (set(), {("bob", 2), ("cyd", 3)})


def test_a_replaced_row_is_deleted_and_added_in_the_delta(place: Place) -> None:
    store = place.open()
    old = create_people(store, ann=1, bob=2, cyd=3)

    found = delta(store, old, merge(store, old, bob=9))

    assert (pairs(found.deleted), pairs(found.added)) == ({("bob", 2)}, {("bob", 9)})


def test_only_rows_deleted_between_the_versions_are_in_the_delta(place: Place) -> None:
    store = place.open()
    old = remove(store, create_people(store, ann=1, bob=2, cyd=3, dan=4), "ann")

    found = delta(store, old, remove(store, remove(store, old, "bob"), "dan"))

    assert (pairs(found.deleted), pairs(found.added)) == ({("bob", 2), ("dan", 4)}, set())


def test_all_rows_of_a_fully_deleted_file_are_in_the_delta(place: Place) -> None:
    store = place.open()
    old = append(store, create_people(store, ann=1, bob=2), cyd=3)

    found = delta(store, old, remove(store, old, "ann", "bob"))

    assert (pairs(found.deleted), pairs(found.added)) == ({("ann", 1), ("bob", 2)}, set())


def test_branches_that_removed_different_rows_of_one_file_differ_in_both(place: Place) -> None:
    store = place.open()
    base = create_people(store, ann=1, bob=2, cyd=3)
    ours = remove(store, fork(store, base, "ours"), "ann")
    theirs = remove(store, fork(store, base, "theirs"), "bob")

    found = delta(store, ours, theirs)

    assert (pairs(found.deleted), pairs(found.added)) == ({("bob", 2)}, {("ann", 1)})


def test_a_nested_branch_has_the_deletions_of_its_ancestors(place: Place) -> None:
    store = place.open()
    base = remove(store, create_people(store, ann=1, bob=2, cyd=3, dan=4), "ann")
    child = remove(store, fork(store, base, "team/child"), "bob")
    grandchild = merge(store, fork(store, child, "grandchild"), cyd=9, eve=5)

    found = delta(store, base, grandchild)

    assert pairs(found.deleted) == {("bob", 2), ("cyd", 3)}
    assert pairs(found.added) == {("cyd", 9), ("eve", 5)}


def test_restored_rows_are_in_the_delta(place: Place) -> None:
    store = place.open()
    first = create_people(store, ann=1, bob=2)
    removed = remove(store, first, "bob")
    restored = store.restore(first, uuid=str(uuid4()))

    found = delta(store, removed, restored)

    assert (pairs(found.deleted), pairs(found.added)) == (set(), {("bob", 2)})
    assert not delta(store, first, restored).added.num_rows


def test_a_number_that_a_restore_gives_to_another_file_does_not_confuse(place: Place) -> None:
    store = place.open()
    first = create_people(store, ann=1)
    bob = append(store, first, bob=2)
    restored = store.restore(first, uuid=str(uuid4()))

    found = delta(store, bob, append(store, restored, cyd=3))

    assert (pairs(found.deleted), pairs(found.added)) == ({("bob", 2)}, {("cyd", 3)})


def test_an_overwrite_leads_from_all_to_all(place: Place) -> None:
    store = place.open()
    old = create_people(store, ann=1, bob=2)
    new = store.apply(store.stage_overwrite(people(bob=2, cyd=3), onto=old))

    found = delta(store, old, new)

    assert pairs(found.deleted) - pairs(found.added) == {("ann", 1)}
    assert pairs(found.added) - pairs(found.deleted) == {("cyd", 3)}


def test_a_compaction_changes_no_row(place: Place) -> None:
    store = place.open()
    old = remove(store, append(store, create_people(store, ann=1, bob=2), cyd=3), "ann")
    compacted = store.compact(old, rows_per_fragment=1_024)
    assert compacted is not None

    found = delta(store, old, merge(store, compacted, bob=9))

    assert pairs(found.deleted) - pairs(found.added) == {("bob", 2)}
    assert pairs(found.added) - pairs(found.deleted) == {("bob", 9)}


def test_an_index_changes_no_row(place: Place) -> None:
    store = place.open()
    old = create_people(store, ann=1, bob=2)
    indexed = store.apply(store.stage_indexes([IndexSpec("age", IndexKind.BTREE)], onto=old))

    found = delta(store, old, indexed)

    assert (found.deleted.num_rows, found.added.num_rows) == (0, 0)


@pytest.mark.parametrize(
    "removed",
    [PROBED_VALUES_MAX, PROBED_VALUES_MAX + 1, DELETIONS_IN_AN_ARRAY_MAX + 1],
    ids=["few", "more-than-are-looked-up", "more-than-fit-a-list"],
)
def test_many_rows_of_one_file_are_distinguished(place: Place, removed: int) -> None:
    store = place.open()
    first = store.create(PATH, numbered_people(3 * DELETIONS_IN_AN_ARRAY_MAX), config={})
    old = remove(store, first, "p1")
    new = remove(store, old, *(f"p{2 * number}" for number in range(1, removed)))

    found = delta(store, old, new)

    assert pairs(found.deleted) == {(f"p{2 * number}", 2 * number) for number in range(1, removed)}
    assert not found.added.num_rows


def test_a_version_gives_the_columns_that_it_has(place: Place) -> None:
    store = place.open()
    old = create_people(store, ann=1)
    wider = people(ann=1).append_column("city", pa.array(["Rome"]))
    new = store.apply(store.stage_overwrite(wider, onto=old))

    found = store.find_delta(old, new, columns=["id", "city"])

    assert found.deleted.to_pylist() == [{"id": "ann"}]
    assert found.added.to_pylist() == [{"id": "ann", "city": "Rome"}]


@pytest.mark.parametrize("count", [3, PROBED_VALUES_MAX + 3])
def test_blobs_come_as_bytes(place: Place, count: int) -> None:
    store = place.open()
    photos = pa.table(
        {
            "id": [f"p{number}" for number in range(count)],
            "photo": pa.array([None, b""] + [b"x" * 9] * (count - 2), pa.large_binary()),
        }
    )
    old = store.create(PATH, photos, config={})
    staged = store.stage_delete(photos["id"].slice(0, count - 1).combine_chunks(), onto=old)
    new = store.apply(must(staged))

    found = store.find_delta(old, new, columns=["id", "photo"])

    assert found.deleted.equals(photos.slice(0, count - 1))
    assert found.added.schema == found.deleted.schema


def test_a_version_that_is_not_there_has_no_delta(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    with pytest.raises(NotFoundError):
        store.find_delta(at, TableVersion(MAIN, 9), columns=COLUMNS)


@pytest.mark.parametrize("fragments", [2, 12])
def test_a_delta_reads_no_file_that_both_versions_have(server: S3Server, fragments: int) -> None:
    store = place_on_s3(server).open()
    old = create_people(store, ann=1, bob=2)
    for number in range(fragments - 1):
        old = append(store, old, **{f"p{number}": number})
    new = merge(store, old, ann=9)

    with server.recording() as requests:
        found = store.find_delta(old, new, columns=COLUMNS)

    assert (found.deleted.num_rows, found.added.num_rows) == (1, 1)
    assert len(requests) <= 9
