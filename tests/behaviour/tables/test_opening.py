"""Tables through their store, on a disk and on S3: creating, opening, and the cost of both."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    NotFoundError,
    UnavailableError,
)
from omnigraph.model.limits import OPEN_TABLES_MAX
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import TableRef, TableVersion
from omnigraph.storage.predicates import IsNull, Operator, compare, equals
from tests.support.lance_probes import keyed_rows, with_schema_metadata
from tests.support.s3_server import S3Server
from tests.support.table_stores import (
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

# Creating


def test_a_table_is_created_at_version_one_with_its_rows(place: Place) -> None:
    store = place.open()

    at = create_people(store, ann=1, bob=2)

    assert at == TableVersion(MAIN, 1)
    assert ages(store, at) == {"ann": 1, "bob": 2}


@pytest.mark.parametrize("rows", [people(), people(ann=1)], ids=["no-rows", "rows"])
def test_a_table_is_created_with_the_required_settings(place: Place, rows: object) -> None:
    at = place.open().create(PATH, rows, config={})

    table = place.open_table(at)
    assert table.has_stable_row_ids
    assert table.data_storage_version == "2.2"
    assert table.config() == {}


def test_a_table_has_its_stamp_from_the_first_version(place: Place) -> None:
    store = place.open()

    at = store.create(PATH, with_schema_metadata(people(), {"stamp": "4"}), config={})

    assert at.version == 1
    assert store.schema(at).metadata == {b"stamp": b"4"}


def test_a_configuration_takes_a_second_version(place: Place) -> None:
    at = place.open().create(PATH, people(ann=1), config={"managed": "true"})

    assert at.version == 2
    assert place.open_table(at).config() == {"managed": "true"}


def test_a_table_is_not_created_twice(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    with pytest.raises(AlreadyExistsError):
        create_people(place.open(), bob=2)

    assert store.find_head(MAIN) == 1
    assert ages(store, at) == {"ann": 1}


def test_of_many_concurrent_creations_of_a_table_exactly_one_succeeds(place: Place) -> None:
    makers = [partial(create_people, place.open(), ann=number) for number in range(4)]

    outcomes = race(makers)

    assert outcomes.count(TableVersion(MAIN, 1)) == 1
    assert sum(isinstance(outcome, AlreadyExistsError) for outcome in outcomes) == 3
    assert place.open().find_head(MAIN) == 1


def test_a_recreated_table_is_distinguished_from_its_predecessor(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    ages(store, at)
    place.remove(PATH)

    again = create_people(store, bob=2)

    assert again == at
    assert ages(store, again) == {"bob": 2}


# Reading


def test_there_is_no_head_where_there_is_no_table(place: Place) -> None:
    store = place.open()

    assert store.find_head(MAIN) is None
    create_people(store, ann=1)
    assert store.find_head(TableRef(PATH, "nowhere")) is None


def test_the_head_is_the_newest_version_of_any_writer(place: Place) -> None:
    ours, theirs = place.open(), place.open()
    at = create_people(ours, ann=1)
    assert ours.find_head(MAIN) == 1

    for number in range(3):
        at = append(theirs, at, **{f"p{number}": number})
        assert ours.find_head(MAIN) == at.version

    assert ours.find_head(MAIN) == 4


def test_a_table_that_was_deleted_has_no_head(place: Place) -> None:
    store = place.open()
    create_people(store, ann=1)
    assert store.find_head(MAIN) == 1

    place.remove(PATH)

    assert store.find_head(MAIN) is None


def test_every_version_stays_as_it_was(place: Place) -> None:
    store = place.open()
    first = create_people(store, ann=1)

    second = append(store, first, bob=2)
    third = store.apply(store.stage_overwrite(people(cyd=3), onto=second))

    assert ages(store, first) == {"ann": 1}
    assert ages(store, second) == {"ann": 1, "bob": 2}
    assert ages(store, third) == {"cyd": 3}


def test_a_scan_reads_only_the_requested_columns_and_rows(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1, bob=2, cyd=None)

    found = store.scan(at, columns=["id"], predicate=compare("age", Operator.GE, 2))

    assert found.to_pydict() == {"id": ["bob"]}
    assert store.count(at, predicate=IsNull("age")) == 1
    assert store.count(at, predicate=None) == 3


def test_batches_are_ordered_by_id_for_any_columns(place: Place) -> None:
    store = place.open()
    at = create_people(store, bob=2, nil=None, ann=1)

    batches = store.scan_by_id(at, columns=["age"])

    assert [age for batch in batches for age in batch["age"].to_pylist()] == [1, 2, None]


def test_new_rows_are_read_from_new_files_only(place: Place) -> None:
    store = place.open()
    first = create_people(store, ann=1, bob=2)
    second = append(store, first, cyd=3)
    third = store.apply(store.stage_merge_insert(people(ann=9), onto=second))

    assert new_ids(store, third, since=second) == ["ann"]
    assert new_ids(store, third, since=first) == ["cyd", "ann"]
    assert new_ids(store, third, since=third) == []
    assert new_ids(store, third, since=None) == ["bob", "cyd", "ann"]


def test_every_row_is_new_since_a_deleted_version(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    assert new_ids(store, at, since=TableVersion(MAIN, 7)) == ["ann"]


def test_a_version_says_where_it_is_described_without_a_request(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)

    described = store.describe(at)

    assert described.path == f"{PATH}/_versions/{2**64 - 1 - 2}.manifest"
    if place.is_local:
        assert described.size == Path(place.root, described.path).stat().st_size
    else:
        assert described.size is None


def test_fragments_are_counted_without_the_rows_they_lost(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)

    at = store.apply(must(store.stage_delete(pa.array(["ann"]), onto=at)))

    assert store.fragment_row_counts(at) == (1, 1)


def test_a_missing_version_is_distinguished_from_a_missing_table(place: Place) -> None:
    store = place.open()
    create_people(store, ann=1)

    with pytest.raises(NotFoundError) as missing:
        ages(store, TableVersion(MAIN, 7))
    with pytest.raises(CorruptError):
        ages(store, TableVersion(TableRef("nodes/absent", None), 1))

    assert missing.value.kind == "version"


def test_a_table_that_lost_a_file_is_corrupt(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    place.remove(f"{PATH}/data")

    with pytest.raises(CorruptError, match="missing"):
        ages(place.open(), at)
    with pytest.raises(CorruptError, match="missing"):
        list(place.open().scan_by_id(at, columns=["id"]))


@pytest.mark.parametrize("content", [b"", b"damaged", b"x" * 4096])
def test_a_table_whose_newest_version_is_damaged_is_corrupt(tmp_path: Path, content: bytes) -> None:
    place = place_on_disk(tmp_path)
    at = create_people(place.open(), ann=1)
    Path(place.root, place.open().describe(at).path).write_bytes(content)

    with pytest.raises(CorruptError):
        place.open().find_head(MAIN)


def test_an_invalid_predicate_is_an_internal_error(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    with pytest.raises(AssertionError, match="unknown"):
        store.scan(at, columns=["id"], predicate=equals("unknown", 1))
    with pytest.raises(AssertionError, match="unknown"):
        store.count(at, predicate=equals("unknown", 1))


def test_an_unavailable_storage_is_distinguished_from_an_empty_one(server: S3Server) -> None:
    place = place_on_s3(server)
    nowhere = {"aws_endpoint": "http://127.0.0.1:9", "client_max_retries": "0"}
    store = replace(place, storage_options={**place.storage_options, **nowhere}).open()

    with pytest.raises(UnavailableError, match="does not answer"):
        store.find_head(MAIN)
    with pytest.raises(UnavailableError, match="does not answer"):
        create_people(store, ann=1)


def test_a_file_in_place_of_a_table_is_a_storage_error(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    Path(place.root, PATH).parent.mkdir(parents=True)
    Path(place.root, PATH).write_bytes(b"no table")

    with pytest.raises(UnavailableError, match="a file is where a folder is needed"):
        place.open().find_head(MAIN)


# What it costs


def test_each_operation_makes_the_expected_s3_requests(server: S3Server) -> None:
    store = place_on_s3(server).open()
    at = append(store, create_people(store, ann=1), bob=2)

    with server.recording() as looking:
        store.find_head(MAIN)
    with server.recording() as staging:
        staged = store.stage_append(people(cyd=3), onto=at)
    with server.recording() as applying:
        at = store.apply(staged)
    with server.recording() as describing:
        store.describe(at)
        store.schema(at)
        store.fragment_row_counts(at)

    assert [len(looking), len(staging), len(applying), len(describing)] == [1, 1, 3, 0]


def test_open_tables_are_cached_up_to_a_bound(server: S3Server) -> None:
    store = place_on_s3(server).open()
    first = at = create_people(store, ann=1)
    for number in range(OPEN_TABLES_MAX + 1):
        at = append(store, at, **{f"p{number}": number})

    with server.recording() as newest:
        store.schema(at)
    with server.recording() as oldest:
        store.schema(first)

    assert len(newest) == 0
    assert len(oldest) == 1


@pytest.mark.parametrize("fragments", [2, 6])
def test_a_publish_makes_seven_s3_requests_for_any_number_of_files(
    server: S3Server, fragments: int
) -> None:
    store = place_on_s3(server).open()
    at = create_keyed(store, head=0, other=0)
    for number in range(fragments - 1):
        landed = publish(store, keyed_rows(**{f"c{number}": 1, "head": number}), onto=at)
        assert landed is not None
        at = landed

    with server.recording() as requests:
        publish(store, keyed_rows(new=1, head=9), onto=at)

    assert len(store.fragment_row_counts(at)) == fragments
    assert len(requests) <= 7


def test_a_publish_that_lost_reads_what_landed_with_two_requests(server: S3Server) -> None:
    place = place_on_s3(server)
    ours, theirs = place.open(), place.open()
    at = create_keyed(ours, head=1)
    values(ours, at)
    publish(theirs, keyed_rows(head=2), onto=at)
    assert publish(ours, keyed_rows(head=3), onto=at) is None

    with server.recording() as requests:
        head = ours.find_head(at.ref)
        assert head is not None
        found = ours.scan_new(TableVersion(at.ref, head), since=at, columns=["object_id"])

    assert found["object_id"].to_pylist() == ["head"]
    assert len(requests) == 2


def test_on_a_disk_the_head_is_found_without_listing_history(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    newest = Path(place.root, store.describe(at).path)

    # A listing would see it; a request for the version after this one does not.
    newest.with_name(f"{2**64 - 1 - 500}.manifest").write_bytes(newest.read_bytes())

    assert store.find_head(MAIN) == 2


def new_ids(store: LanceTables, at: TableVersion, *, since: TableVersion | None) -> list[str]:
    return list(store.scan_new(at, since=since, columns=["id"])["id"].to_pylist())
