"""Tables and control objects on S3, and what each operation asks of the endpoint.

The endpoint is moto behind `serve_s3`. Counts of requests are exact: they are what a commit costs.
"""

import threading
from collections.abc import Iterator

import lance
import pytest
from lance import LanceDataset, Transaction
from lance.commit import CommitConflictError
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from tests.support.lance_probes import (
    keyed_rows,
    publish,
    stage_append,
    stage_overwrite,
    stage_upsert,
)
from tests.support.s3_server import S3Request, S3Server, serve_s3


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module; every test has a bucket of its own."""
    with serve_s3() as running:
        yield running


@pytest.fixture
def objects(server: S3Server) -> S3Store:
    """Control objects below one prefix of a bucket."""
    return server.object_store(server.create_bucket(), prefix="graph")


def create_table(server: S3Server) -> str:
    uri = f"s3://{server.create_bucket()}/graph/t"
    lance.write_dataset(
        keyed_rows(a=1, b=2),
        uri,
        mode="create",
        enable_stable_row_ids=True,
        data_storage_version="2.2",
        storage_options=server.lance_options(),
    )
    return uri


def open_table(server: S3Server, uri: str, *, version: int | None = None) -> LanceDataset:
    return lance.dataset(uri, version=version, storage_options=server.lance_options())


def apply(table: LanceDataset, staged: Transaction) -> LanceDataset:
    return LanceDataset.commit(table, staged, max_retries=0)


def contents(server: S3Server, uri: str) -> dict[str, int]:
    rows = open_table(server, uri).to_table().to_pylist()
    return {row["object_id"]: row["value"] for row in rows}


def summary(requests: list[S3Request]) -> list[str]:
    """Each request as method and folder, with `!` when it was conditional."""
    folders = [request.key.removeprefix("graph/t/").split("/")[0] for request in requests]
    return [
        f"{request.method}{'!' if request.is_conditional else ''} {folder or 'list'}"
        for request, folder in zip(requests, folders, strict=True)
    ]


def test_a_table_is_created_and_read(server: S3Server) -> None:
    uri = create_table(server)

    assert contents(server, uri) == {"a": 1, "b": 2}


def test_staged_writes_land_one_by_one(server: S3Server) -> None:
    uri = create_table(server)
    table = open_table(server, uri)

    table = apply(table, stage_append(c=3)(table))
    table = apply(table, stage_upsert(a=9)(table))

    assert table.version == 3
    assert contents(server, uri) == {"a": 9, "b": 2, "c": 3}


def test_the_second_publisher_of_a_key_is_refused(server: S3Server) -> None:
    uri = create_table(server)
    first, second = open_table(server, uri), open_table(server, uri)
    publish(first, new=10)

    with pytest.raises(OSError, match="Too many concurrent writers"):
        publish(second, new=20)

    assert contents(server, uri)["new"] == 10


def test_a_conflicting_commit_is_refused(server: S3Server) -> None:
    uri = create_table(server)
    table = open_table(server, uri)
    staged = stage_overwrite(q=1)(table)
    apply(table, stage_append(c=3)(table))

    with pytest.raises(CommitConflictError) as refusal:
        apply(table, staged)

    assert refusal.value.retryable
    assert open_table(server, uri).version == 2


def test_of_many_publishers_at_once_exactly_one_wins(server: S3Server) -> None:
    uri = create_table(server)
    tables = [open_table(server, uri) for _ in range(4)]
    start = threading.Barrier(len(tables))
    refused: list[OSError] = []

    def race(value: int) -> None:
        start.wait()
        try:
            publish(tables[value], new=value)
        except OSError as error:
            refused.append(error)

    writers = [threading.Thread(target=race, args=(value,)) for value in range(len(tables))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert len(refused) == 3
    assert open_table(server, uri).version == 2


def test_a_branch_is_made_written_and_deleted(server: S3Server) -> None:
    uri = create_table(server)
    branch = open_table(server, uri).create_branch("team/feature", 1)
    apply(branch, stage_append(z=9)(branch))

    assert branch.uri == f"{uri}/tree/team/feature"
    assert contents(server, branch.uri) == {"a": 1, "b": 2, "z": 9}
    assert contents(server, uri) == {"a": 1, "b": 2}
    open_table(server, uri).branches.delete("team/feature")
    with pytest.raises(ValueError, match="was not found"):
        open_table(server, branch.uri)


def test_a_missing_table_and_a_missing_version_are_the_errors_of_a_disk(server: S3Server) -> None:
    uri = create_table(server)

    with pytest.raises(ValueError, match=r"^Dataset at path .* was not found"):
        open_table(server, f"{uri}-nowhere")
    with pytest.raises(ValueError, match=r"^Dataset at path .*/99.manifest was not found"):
        open_table(server, uri, version=99)


def test_requests_of_opening_a_table(server: S3Server) -> None:
    uri = create_table(server)

    with server.recording() as requests:
        open_table(server, uri)

    assert summary(requests) == ["GET list", "GET _versions"]


def test_requests_of_looking_for_a_newer_version(server: S3Server) -> None:
    table = open_table(server, create_table(server))

    with server.recording() as requests:
        assert table.latest_version == 1

    assert summary(requests) == ["GET list"]


def test_requests_of_staging_an_append(server: S3Server) -> None:
    table = open_table(server, create_table(server))

    with server.recording() as requests:
        stage_append(c=3)(table)

    assert summary(requests) == ["PUT data"]


def test_requests_of_committing_through_an_open_table(server: S3Server) -> None:
    table = open_table(server, create_table(server))
    staged = stage_append(c=3)(table)

    with server.recording() as requests:
        apply(table, staged)

    assert summary(requests) == ["GET list", "PUT _transactions", "PUT! _versions"]


def test_requests_of_a_publish(server: S3Server) -> None:
    # One read a fragment; the rest does not grow.
    table = open_table(server, create_table(server))

    with server.recording() as requests:
        publish(table, new=10)

    assert summary(requests) == [
        "GET data",
        "PUT data",
        "GET list",
        "PUT _transactions",
        "PUT! _versions",
    ]


def test_requests_of_creating_a_branch(server: S3Server) -> None:
    # The manifest comes before the ref: a crash between them leaves a branch that is not listed.
    table = open_table(server, create_table(server))

    with server.recording() as requests:
        table.create_branch("feature", 1)

    written = [request.key for request in requests if request.method == "PUT"]
    assert written[-2:] == [
        f"graph/t/tree/feature/_versions/{2**64 - 2}.manifest",
        "graph/t/_refs/branches/feature.json",
    ]
    assert len(requests) == 8


def test_a_lost_publish_cleans_up_after_itself(server: S3Server) -> None:
    uri = create_table(server)
    first, second = open_table(server, uri), open_table(server, uri)
    publish(first, new=10)

    with server.recording() as requests, pytest.raises(OSError, match="Too many"):
        publish(second, new=20)

    assert [request.query for request in requests if request.method == "POST"] == ["delete"]


def test_a_put_if_absent_refuses_an_existing_object(server: S3Server, objects: S3Store) -> None:
    objects.put("a.json", b"1", mode="create")

    with server.recording() as requests, pytest.raises(AlreadyExistsError):
        objects.put("a.json", b"2", mode="create")

    assert [(request.is_conditional, request.status) for request in requests] == [(True, 412)]
    assert bytes(objects.get("a.json").bytes()) == b"1"


def test_a_put_if_match_lands_on_the_version_it_names(objects: S3Store) -> None:
    written = objects.put("a.json", b"1")["e_tag"]
    assert written

    objects.put("a.json", b"2", mode={"e_tag": written})

    assert bytes(objects.get("a.json").bytes()) == b"2"


def test_a_put_if_match_refuses_any_other_version(objects: S3Store) -> None:
    written = objects.put("a.json", b"1")["e_tag"]
    assert written
    objects.put("a.json", b"2")

    with pytest.raises(PreconditionError):
        objects.put("a.json", b"3", mode={"e_tag": written})


def test_a_put_if_match_of_a_missing_object_fails_its_condition(objects: S3Store) -> None:
    with pytest.raises(PreconditionError):
        objects.put("nowhere.json", b"1", mode={"e_tag": '"0"'})


def test_an_e_tag_on_s3_is_that_of_the_bytes(objects: S3Store) -> None:
    # So a put-if-match cannot tell A from A after B: what we compare carries its own counter.
    tags = [objects.put("a.json", body)["e_tag"] for body in (b"1", b"2", b"1")]

    assert tags[0] == tags[2] != tags[1]


def test_of_many_puts_if_absent_at_once_exactly_one_lands(objects: S3Store) -> None:
    start = threading.Barrier(8)
    refused: list[AlreadyExistsError] = []

    def race() -> None:
        start.wait()
        try:
            objects.put("claim.json", b"mine", mode="create")
        except AlreadyExistsError as error:
            refused.append(error)

    writers = [threading.Thread(target=race) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert len(refused) == 7


def test_a_missing_object_is_pythons_own_error(objects: S3Store) -> None:
    with pytest.raises(FileNotFoundError):
        objects.get("nowhere.json")


def test_deleting_a_missing_object_is_nothing(objects: S3Store) -> None:
    objects.delete("nowhere.json")


def test_a_listing_is_sorted(objects: S3Store) -> None:
    for name in ("b", "c", "a"):
        objects.put(f"log/{name}", b"1")

    listed = [found["path"] for page in objects.list("log") for found in page]

    assert listed == ["log/a", "log/b", "log/c"]


@pytest.mark.parametrize(
    "name", ["with space", "ha#sh", "per%cent", "per%20cent", "größe", "a+b", "what?", "a#1"]
)
def test_a_name_is_taken_as_it_is(server: S3Server, objects: S3Store, name: str) -> None:
    with server.recording() as requests:
        objects.put(f"folder/{name}", b"1")

    assert [request.key for request in requests] == [f"graph/folder/{name}"]
    assert [found["path"] for page in objects.list() for found in page] == [f"folder/{name}"]
