"""Control objects: the same guarantees on a disk, in memory and on S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.model.errors import InvalidNameError
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import Listing, ObjectStore
from tests.support.control_objects import (
    CALLS,
    content,
    local_location,
    names,
    s3_location,
    token,
)
from tests.support.processes import race
from tests.support.s3_server import S3Server, serve_s3


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module; every test has a bucket of its own."""
    with serve_s3() as running:
        yield running


@pytest.fixture(params=["disk", "memory", "s3"])
def location(request: pytest.FixtureRequest, server: S3Server, tmp_path: Path) -> Location:
    """An empty place of either kind, for guarantees of all."""
    match request.param:
        case "disk":
            return local_location(tmp_path / "graph")
        case "memory":
            return parse_location(f"memory://{tmp_path.name}", storage_options={})
        case _:
            return s3_location(server, bucket=server.create_bucket())


@pytest.fixture
def objects(location: Location) -> ObjectStore:
    """The objects of an empty place of either kind."""
    return open_objects(location, is_durable=True)


# Reading and writing


def test_an_object_is_read_as_it_was_written(objects: ObjectStore) -> None:
    objects.put("folder/a.json", b"\x00one\n")

    assert content(objects, "folder/a.json") == b"\x00one\n"


def test_an_object_may_be_empty(objects: ObjectStore) -> None:
    objects.put("a.json", b"")

    assert content(objects, "a.json") == b""


def test_a_put_replaces(objects: ObjectStore) -> None:
    objects.put("a.json", b"a long first version")

    objects.put("a.json", b"2")

    assert content(objects, "a.json") == b"2"


@pytest.mark.parametrize("path", ["a.json", "folder/a.json", "folder", "there.json/a.json"])
def test_an_object_that_is_not_there_is_not_found(objects: ObjectStore, path: str) -> None:
    objects.put("folder/other.json", b"1")
    objects.put("there.json", b"1")

    assert objects.find(path) is None


def test_an_object_survives_the_store_that_wrote_it(location: Location) -> None:
    open_objects(location, is_durable=False).put("a.json", b"1")

    assert content(open_objects(location, is_durable=False), "a.json") == b"1"


# Conditions


def test_a_put_if_absent_creates_an_object(objects: ObjectStore) -> None:
    assert objects.put_if_absent("folder/a.json", b"1")

    assert content(objects, "folder/a.json") == b"1"


def test_a_put_if_absent_does_not_replace_an_object(objects: ObjectStore) -> None:
    objects.put("a.json", b"1")

    assert not objects.put_if_absent("a.json", b"2")

    assert content(objects, "a.json") == b"1"


def test_a_put_if_match_replaces_the_object_that_was_read(objects: ObjectStore) -> None:
    objects.put("a.json", b"1")

    written = objects.put_if_match("a.json", b"2", token=token(objects, "a.json"))

    assert written == token(objects, "a.json")
    assert content(objects, "a.json") == b"2"


def test_a_put_if_match_takes_the_token_of_a_put(objects: ObjectStore) -> None:
    written = objects.put("a.json", b"1")

    assert objects.put_if_match("a.json", b"2", token=written)


def test_a_put_if_match_leaves_an_object_that_was_replaced_since(objects: ObjectStore) -> None:
    written = objects.put("a.json", b"1")
    objects.put("a.json", b"2")

    assert objects.put_if_match("a.json", b"3", token=written) is None

    assert content(objects, "a.json") == b"2"


def test_a_put_if_match_does_not_create_an_object(objects: ObjectStore) -> None:
    written = objects.put("a.json", b"1")
    objects.delete("a.json")

    assert objects.put_if_match("a.json", b"2", token=written) is None

    assert objects.find("a.json") is None


def test_of_many_puts_if_absent_at_once_exactly_one_lands(location: Location) -> None:
    def claim(number: int) -> bool:
        return open_objects(location, is_durable=False).put_if_absent("claim", b"%d" % number)

    outcomes = race(claim, count=8)

    assert sorted(outcomes) == [False] * 7 + [True]
    stored = content(open_objects(location, is_durable=False), "claim")
    assert stored == b"%d" % outcomes.index(True)


def test_of_many_puts_if_match_at_once_exactly_one_lands(location: Location) -> None:
    first = open_objects(location, is_durable=False).put("a.json", b"start")

    def replace(number: int) -> bool:
        store = open_objects(location, is_durable=False)
        return store.put_if_match("a.json", b"%d" % number, token=first) is not None

    outcomes = race(replace, count=8)

    assert sorted(outcomes) == [False] * 7 + [True]
    stored = content(open_objects(location, is_durable=False), "a.json")
    assert stored == b"%d" % outcomes.index(True)


# Tokens and listings


def test_a_listing_names_one_level_with_the_tokens_of_its_objects(objects: ObjectStore) -> None:
    written = objects.put("log/b", b"1")
    objects.put_if_absent("log/a", b"22")
    objects.put("log/sub/deep/c", b"333")
    objects.put("logs/d", b"4")

    found = objects.list("log")

    assert found.token_by_name == {"a": token(objects, "log/a"), "b": written}
    assert found.prefixes == {"sub"}


def test_the_root_is_listed_like_any_prefix(objects: ObjectStore) -> None:
    written = objects.put("a.json", b"1")
    objects.put("folder/b.json", b"1")

    assert objects.list("") == Listing({"a.json": written}, frozenset({"folder"}))


def test_a_listing_of_nothing_is_empty(objects: ObjectStore) -> None:
    nothing = Listing({}, frozenset())

    assert objects.list("") == nothing
    assert objects.list("nowhere") == nothing


def test_a_prefix_ends_with_the_last_object_below_it(objects: ObjectStore) -> None:
    objects.put("a/b/c.json", b"1")
    objects.put("z.json", b"1")

    objects.delete("a/b/c.json")

    assert objects.list("").prefixes == frozenset()


def test_a_listing_shows_every_change_of_content(objects: ObjectStore) -> None:
    seen = []
    for number in range(30):
        objects.put("a.json", b"%02d" % number)
        seen.append(objects.list("").token_by_name["a.json"])

    assert len(set(seen)) == 30


def test_a_name_is_taken_as_it_is(objects: ObjectStore) -> None:
    odd = ["with space", "ha#sh", "per%20cent", "größe", "a+b", "what?", "x:y", "*", "a\\b", "#1a"]
    for name in odd:
        objects.put(f"folder/{name}", name.encode())

    assert names(objects.list("folder")) == sorted(odd)
    assert [content(objects, f"folder/{name}") for name in odd] == [name.encode() for name in odd]


PATHS_OUT = ("..", "../a", "a/../b", "a/./b", "a//b", "/a", "a/", "a\0b", "a\nb", "a#1", "a\x7f")


@pytest.mark.parametrize("call", CALLS)
def test_a_path_that_could_leave_the_root_is_refused(objects: ObjectStore, call: str) -> None:
    refused = []
    for path in PATHS_OUT:
        with pytest.raises(InvalidNameError) as refusal:
            CALLS[call](objects, path)
        refused.append(refusal.value.name)

    assert refused == list(PATHS_OUT)


# Deleting


def test_a_deleted_object_is_not_found(objects: ObjectStore) -> None:
    objects.put("a.json", b"1")
    objects.put("b.json", b"2")

    objects.delete("a.json")

    assert names(objects.list("")) == ["b.json"]


def test_deleting_a_missing_object_succeeds(objects: ObjectStore) -> None:
    objects.put("folder/a.json", b"1")

    objects.delete("nowhere.json")
    objects.delete("folder")
    objects.delete_prefix("nowhere")

    assert content(objects, "folder/a.json") == b"1"


def test_deleting_a_prefix_deletes_everything_below_it_and_nothing_beside_it(
    objects: ObjectStore,
) -> None:
    for path in ("log/a", "log/sub/b", "logs/c", "log.json"):
        objects.put(path, b"1")

    objects.delete_prefix("log")

    assert objects.list("log") == Listing({}, frozenset())
    assert names(objects.list("")) == ["log.json"]
    assert objects.list("").prefixes == {"logs"}


def test_deleting_a_prefix_leaves_an_object_of_that_name(objects: ObjectStore) -> None:
    objects.put("log", b"1")

    objects.delete_prefix("log")

    assert content(objects, "log") == b"1"


# S3 requests


@pytest.mark.parametrize("call", sorted(CALLS.keys() - {"delete_prefix"}))
def test_a_call_is_one_request(server: S3Server, call: str) -> None:
    objects = open_objects(s3_location(server, bucket=server.create_bucket()), is_durable=True)
    for path in ("a.json", "b.json", "folder/c.json"):
        objects.put(path, b"1")

    with server.recording() as requests:
        CALLS[call](objects, "a.json")

    assert len(requests) == 1
