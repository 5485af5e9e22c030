"""Storage failures have clear messages: full, read-only, missing or unresponsive."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.model.errors import GraphError, InvalidValueError, Outcome, UnavailableError
from omnigraph.storage.locations import parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import Listing
from tests.support.control_objects import CALLS, local_objects, names, s3_location
from tests.support.processes import output_of, small_disk
from tests.support.s3_server import S3Server, serve_s3

WRITE_LITTLE_AND_MUCH = """
import json, os, sys
from omnigraph.model.errors import UnavailableError
from omnigraph.storage.locations import parse_location
from omnigraph.storage.objects import open_objects

objects = open_objects(parse_location(sys.argv[1], storage_options={}), is_durable=True)
if "unprivileged" in sys.argv and os.geteuid() == 0:
    os.setuid(65534)
reasons = []
for path, content in (("little", b"1"), ("much", b"1" * 200_000)):
    try:
        objects.put(path, content)
        reasons.append(None)
    except UnavailableError as error:
        reasons.append(error.reason)
print(json.dumps(reasons))
if "unprivileged" not in sys.argv:
    print(json.dumps(os.listdir(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module."""
    with serve_s3() as running:
        yield running


def test_a_file_where_a_folder_is_needed_is_named(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    objects.put("folder", b"1")

    with pytest.raises(UnavailableError, match="a file is where a folder is needed") as refusal:
        objects.put("folder/a.json", b"1")

    assert refusal.value.outcome is Outcome.UNCHANGED
    assert refusal.value.action == f"write {tmp_path}/folder/a.json"


def test_a_folder_where_a_file_is_needed_is_named(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    objects.put("folder/a.json", b"1")

    with pytest.raises(UnavailableError, match="a folder is where a file is needed"):
        objects.put("folder", b"1")

    assert names(objects.list("")) == []


def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)

    for call in ("find", "put", "put_if_absent", "put_if_match", "delete"):
        with pytest.raises(UnavailableError, match="longer than the file system allows"):
            CALLS[call](objects, "x" * 300)


def test_a_file_at_the_root_is_not_a_graph_and_a_write_names_it(
    tmp_path: Path,
) -> None:
    objects = local_objects(tmp_path / "graph")
    (tmp_path / "graph").write_text("not a folder")

    assert objects.find("a.json") is None
    assert objects.list("") == Listing({}, frozenset())
    for call in ("put", "put_if_absent"):
        with pytest.raises(UnavailableError, match="a file is where a folder is needed"):
            CALLS[call](objects, "a.json")


def test_a_folder_without_write_permission_is_named(tmp_path: Path) -> None:
    sealed = tmp_path / "sealed"
    sealed.mkdir(mode=0o500)

    printed = output_of(WRITE_LITTLE_AND_MUCH, str(sealed), "unprivileged")

    assert json.loads(printed) == ["no permission; check who owns the folder"] * 2


def test_a_full_disk_is_named_and_keeps_nothing_half_written(tmp_path: Path) -> None:
    disk = small_disk(tmp_path, options="size=64k")

    printed = output_of(WRITE_LITTLE_AND_MUCH, str(tmp_path), prefix=disk)

    reasons, files = (json.loads(line) for line in printed.splitlines())
    assert reasons == [None, "the disk is full; make room and try again"]
    assert sorted(files) == ["__locks", "little"]


def test_a_read_only_disk_is_named(tmp_path: Path) -> None:
    disk = small_disk(tmp_path, options="size=64k,ro")

    printed = output_of(WRITE_LITTLE_AND_MUCH, str(tmp_path), prefix=disk)

    assert json.loads(printed.splitlines()[0]) == ["the disk is mounted read-only"] * 2


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_bucket_is_named(server: S3Server, call: str) -> None:
    objects = open_objects(s3_location(server, bucket="nowhere"), is_durable=True)

    with pytest.raises(UnavailableError, match="the bucket does not exist") as refusal:
        CALLS[call](objects, "a.json")

    assert refusal.value.action.endswith("s3://nowhere/team/graph/a.json")


def test_an_endpoint_that_does_not_respond_is_named(server: S3Server) -> None:
    options = server.lance_options() | {"aws_endpoint": "http://127.0.0.1:9"}
    objects = open_objects(parse_location("s3://b/g", storage_options=options), is_durable=True)

    with pytest.raises(UnavailableError) as refusal:
        objects.find("a.json")

    assert refusal.value.reason == "the storage does not answer; check the network and the endpoint"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [("aws_regoin", "x", "'aws_regoin': S3 has no such option"), ("allow_http", "si", "boolean")],
)
def test_an_option_that_s3_does_not_take_is_refused(
    server: S3Server, name: str, value: str, problem: str
) -> None:
    location = parse_location("s3://b/g", storage_options=server.lance_options() | {name: value})

    with pytest.raises(InvalidValueError, match=problem):
        open_objects(location, is_durable=True)


def test_options_of_lance_alone_are_passed_through(server: S3Server) -> None:
    options = server.lance_options() | {"download_retry_count": "2", "client_max_retries": "3"}
    uri = f"s3://{server.create_bucket()}"

    objects = open_objects(parse_location(uri, storage_options=options), is_durable=True)

    assert objects.put_if_absent("a.json", b"1")
    assert names(objects.list("")) == ["a.json"]


def test_no_refusal_shows_a_secret(server: S3Server) -> None:
    secret = "a-secret-that-is-never-shown"
    options = server.lance_options() | {"aws_secret_access_key": secret}
    location = parse_location("s3://nowhere/g", storage_options=options)

    with pytest.raises(GraphError) as refusal:
        open_objects(location, is_durable=True).find("a.json")

    assert secret not in f"{refusal.value} {refusal.value.__cause__} {location!r}"
