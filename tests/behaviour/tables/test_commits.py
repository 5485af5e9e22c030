"""One attempt on one version, on a disk and on S3: applying, publishing, restoring, compacting."""

from functools import partial
from uuid import uuid4

import pytest

from omnigraph.model.errors import (
    CorruptError,
    ExpectedVersionMismatchError,
    NotFoundError,
    UnexpectedBaseError,
)
from omnigraph.storage.ports import TableVersion
from tests.support.lance_probes import keyed_rows
from tests.support.table_stores import (
    MAIN,
    PATH,
    Place,
    Stage,
    ages,
    append,
    create_keyed,
    create_people,
    numbered_people,
    people,
    publish,
    race,
    stage_delete,
    stage_merge,
    stage_overwrite,
    values,
)

# Applying


def test_a_write_that_conflicts_says_where_the_table_is_and_changes_nothing(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = create_people(ours, ann=1)
    staged = ours.stage_merge_insert(people(ann=5), onto=at)
    landed = theirs.apply(theirs.stage_merge_insert(people(ann=7), onto=at))

    with pytest.raises(ExpectedVersionMismatchError) as refusal:
        ours.apply(staged)

    error = refusal.value
    assert (error.table_key, error.expected, error.actual) == (PATH, 1, 2)
    assert ages(ours, landed) == {"ann": 7}
    assert ours.find_head(MAIN) == 2


def test_a_write_that_lance_moved_onto_another_version_is_not_taken_for_landed(
    place: Place,
) -> None:
    ours, theirs = place.open(), place.open()
    at = create_people(ours, ann=1)
    staged = ours.stage_append(people(bob=2), onto=at)
    append(theirs, at, rival=9)

    with pytest.raises(UnexpectedBaseError) as refusal:
        ours.apply(staged)

    assert (refusal.value.expected, refusal.value.found) == (2, 3)
    assert ages(ours, TableVersion(MAIN, 3)) == {"ann": 1, "rival": 9, "bob": 2}


def test_of_many_concurrent_writers_exactly_one_lands_at_its_version(place: Place) -> None:
    at = create_people(place.open(), ann=0)
    stores = [place.open() for _ in range(4)]
    staged = [
        store.stage_merge_insert(people(ann=number), onto=at) for number, store in enumerate(stores)
    ]

    outcomes = race(
        [partial(store.apply, each) for store, each in zip(stores, staged, strict=True)]
    )

    assert outcomes.count(TableVersion(MAIN, 2)) == 1
    assert sum(isinstance(each, ExpectedVersionMismatchError) for each in outcomes) == 3
    assert ages(place.open(), TableVersion(MAIN, 2)) == {
        "ann": outcomes.index(TableVersion(MAIN, 2))
    }


@pytest.mark.parametrize("stage", [stage_merge, stage_delete, stage_overwrite])
def test_a_write_that_landed_is_recognised_when_it_is_applied_again(
    place: Place, stage: Stage
) -> None:
    store = place.open()
    at = create_people(store, ann=1, bob=2)
    staged = stage(store, at)
    landed = store.apply(staged)

    assert place.open().apply(staged) == landed
    assert store.find_head(MAIN) == 2


def test_a_restored_version_is_the_newest_again(place: Place) -> None:
    store = place.open()
    first = create_people(store, ann=1)
    append(store, first, bob=2)

    landed = store.restore(first, uuid=str(uuid4()))

    assert landed == TableVersion(MAIN, 3)
    assert ages(store, landed) == ages(place.open(), landed) == {"ann": 1}


def test_a_version_that_is_not_there_cannot_be_restored(place: Place) -> None:
    store = place.open()
    create_people(store, ann=1)

    with pytest.raises(NotFoundError):
        store.restore(TableVersion(MAIN, 7), uuid=str(uuid4()))

    assert store.find_head(MAIN) == 1


# Publishing


def test_a_publish_replaces_and_adds_rows_in_one_version(place: Place) -> None:
    store = place.open()
    at = create_keyed(store, head=1, a=1)

    landed = publish(store, keyed_rows(head=2, b=2), onto=at)

    assert landed == TableVersion(at.ref, 2)
    assert values(store, landed) == values(place.open(), landed) == {"a": 1, "head": 2, "b": 2}
    assert values(store, at) == {"head": 1, "a": 1}


def test_the_second_publisher_of_a_row_is_refused_and_changes_nothing(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = create_keyed(ours, head=1)
    publish(theirs, keyed_rows(head=2, theirs=1), onto=at)

    assert publish(ours, keyed_rows(head=3, ours=1), onto=at) is None

    assert ours.find_head(at.ref) == 2
    assert values(ours, TableVersion(at.ref, 2)) == {"head": 2, "theirs": 1}


def test_a_publisher_finds_its_row_wherever_it_is(place: Place) -> None:
    store = place.open()
    at = create_keyed(store, head=1, b=1)
    at = store.apply(store.stage_append(keyed_rows(c=1), onto=at))

    landed = publish(store, keyed_rows(head=2), onto=at)

    assert landed is not None
    assert values(store, landed) == {"b": 1, "c": 1, "head": 2}


def test_a_publisher_of_a_missing_row_is_refused(place: Place) -> None:
    store = place.open()
    at = create_keyed(store, a=1)

    with pytest.raises(CorruptError, match="no row head"):
        publish(store, keyed_rows(head=1), onto=at)


def test_of_many_publishers_at_once_exactly_one_wins(place: Place) -> None:
    at = create_keyed(place.open(), head=0)
    stores = [place.open() for _ in range(4)]

    outcomes = race(
        [
            partial(publish, store, keyed_rows(head=number), onto=at)
            for number, store in enumerate(stores, start=1)
        ]
    )

    assert outcomes == [TableVersion(at.ref, 2)]
    assert place.open().find_head(at.ref) == 2


def test_of_many_publishers_through_one_store_exactly_one_wins(place: Place) -> None:
    store = place.open()
    at = create_keyed(store, head=0)

    attempt = partial(publish, store, keyed_rows(head=1), onto=at)

    assert race([attempt] * 4) == [TableVersion(at.ref, 2)]


def test_a_publish_after_an_overwrite_is_contention_too(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = create_keyed(ours, head=1)
    theirs.apply(theirs.stage_overwrite(keyed_rows(q=1), onto=at))

    assert publish(ours, keyed_rows(head=2), onto=at) is None


def test_a_reader_of_a_version_does_not_notice_publishers(place: Place) -> None:
    store = place.open()
    at = create_keyed(store, head=0)

    def publish_often() -> None:
        newest = at
        for number in range(10):
            landed = publish(store, keyed_rows(**{f"c{number}": 1, "head": number}), onto=newest)
            assert landed is not None
            newest = landed

    def read_often() -> set[int]:
        return {values(store, at)["head"] for _ in range(20)}

    assert race([publish_often, read_often, read_often]) == [{0}, {0}]


# Compaction


def test_compaction_joins_small_fragments_and_changes_no_row(place: Place) -> None:
    store = place.open()
    at = create_keyed(store, head=0)
    for number in range(4):
        landed = publish(store, keyed_rows(**{f"c{number}": number, "head": number}), onto=at)
        assert landed is not None
        at = landed
    before = values(store, at)

    compacted = store.compact(at, rows_per_fragment=1_024)

    assert compacted == TableVersion(at.ref, at.version + 1)
    assert store.fragment_row_counts(compacted) == (5,)
    assert values(store, compacted) == before


def test_compaction_leaves_large_fragments_alone(place: Place) -> None:
    store = place.open()
    at = store.create(PATH, numbered_people(100), config={})
    for number in range(3):
        at = append(store, at, **{f"x{number}": number})

    compacted = store.compact(at, rows_per_fragment=50)

    assert compacted is not None
    assert store.fragment_row_counts(compacted) == (100, 3)


def test_compacting_a_compact_table_creates_no_version(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    assert store.compact(at, rows_per_fragment=1_024) == at
    assert store.find_head(MAIN) == 1


def test_compaction_yields_to_another_writer(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = create_keyed(ours, head=1, a=1)
    landed = publish(ours, keyed_rows(head=2, b=1), onto=at)
    assert landed is not None
    newest = publish(theirs, keyed_rows(head=3), onto=landed)
    assert newest is not None

    assert ours.compact(landed, rows_per_fragment=1_024) is None

    head = ours.find_head(at.ref)
    assert head is not None
    assert values(ours, TableVersion(at.ref, head)) == values(ours, newest)


def test_a_publisher_yields_to_compaction(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = create_keyed(ours, head=1, a=1)
    landed = publish(ours, keyed_rows(head=2, b=1), onto=at)
    assert landed is not None
    theirs.compact(landed, rows_per_fragment=1_024)

    assert publish(ours, keyed_rows(head=3), onto=landed) is None
