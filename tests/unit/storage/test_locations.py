"""Where a graph is: one location for every spelling, and a rule for every refusal."""

from pathlib import Path

import pytest

from omnigraph.model.errors import InvalidNameError
from omnigraph.storage.locations import Location, parse_location


def locate(uri: str) -> Location:
    return parse_location(uri, storage_options={})


@pytest.mark.parametrize(
    "uri",
    [
        "/srv/graphs/fleet",
        "/srv/graphs/fleet/",
        "/srv/graphs/fleet///",
        "/srv/./graphs//fleet",
        "/srv/other/../graphs/fleet",
        "//srv/graphs/fleet",
        "file:///srv/graphs/fleet",
        "file:///srv/graphs/fleet/",
        "file://localhost/srv/graphs/fleet",
        "FILE:///srv/graphs/fleet",
        "file:///srv/gr%61phs/fleet",
    ],
)
def test_every_spelling_of_a_folder_is_one_location(uri: str) -> None:
    location = locate(uri)

    assert location.uri == location.root == "/srv/graphs/fleet"
    assert location.is_local


def test_a_relative_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert locate("graphs/fleet").root == f"{tmp_path}/graphs/fleet"
    assert locate(".").root == str(tmp_path)


@pytest.mark.parametrize(
    "folder",
    ["with space", "ha#sh", "per%cent", "per%20cent", "größe", "日本", "a+b", "x:y", "~t", "a\\b"],
)
def test_a_path_is_taken_as_it_is(folder: str) -> None:
    assert locate(f"/srv/{folder}").root == f"/srv/{folder}"


def test_a_file_uri_is_decoded() -> None:
    assert locate("file:///srv/ha%23sh/per%2520cent/gr%C3%B6%C3%9Fe").root == (
        "/srv/ha#sh/per%20cent/größe"
    )


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix"),
    [
        ("s3://bucket/team/fleet", "bucket", "team/fleet"),
        ("s3://bucket/team/fleet/", "bucket", "team/fleet"),
        ("S3://bucket/team/fleet//", "bucket", "team/fleet"),
        ("s3://my.bucket-1", "my.bucket-1", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://bucket/with space/größe", "bucket", "with space/größe"),
    ],
)
def test_a_place_on_s3_is_a_bucket_and_a_prefix(uri: str, bucket: str, prefix: str) -> None:
    location = locate(uri)

    assert (location.bucket, location.prefix) == (bucket, prefix)
    assert location.uri == location.root == f"s3://{bucket}" + (f"/{prefix}" if prefix else "")
    assert not location.is_local


def test_a_place_in_memory_is_a_folder_of_this_process() -> None:
    location = locate("memory://fleet/")

    assert location.uri == "memory://fleet"
    assert location.is_local
    assert location.root == locate("memory://fleet").root
    assert location.root != locate("memory://other").root
    assert Path(location.root).name == "fleet"


@pytest.mark.parametrize(
    ("uri", "rule"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("/srv/a\0b", "control character"),
        ("/srv/a\nb", "control character"),
        ("file:///srv/a%00b", "control character"),
        ("/", "name a folder"),
        ("file:///", "name a folder"),
        ("/srv/what?", "`?`"),
        ("/srv/\udcff", "no Unicode text"),
        ("file:///srv/%ff", "no Unicode text"),
        ("file:///srv/what?", "%23"),
        ("file:///srv/ha#sh", "%23"),
        ("file:///srv/what%3F", "`?`"),
        ("file://srv/graph", "absolute path"),
        ("file://", "absolute path"),
        ("file:/srv/graph", "two slashes"),
        ("s3:/bucket/fleet", "two slashes"),
        ("gs://bucket/fleet", "gs:// is unknown; a graph is at a path, file://"),
        ("http://host/fleet", "omnigraph.connect"),
        ("s3://", "needs a bucket"),
        ("s3:///fleet", "needs a bucket"),
        ("s3://key:secret@bucket/fleet", "needs a bucket"),
        ("s3://bucket/a//b", "single `/`"),
        ("s3://bucket/a/../b", "single `/`"),
        ("s3://bucket/./b", "single `/`"),
        ("s3://bucket/ha#sh", "`#`"),
        ("s3://bucket/per%20cent", "`%`"),
        ("s3://bucket/what?", "`?`"),
        ("memory://", "single `/`"),
        ("memory://../fleet", "single `/`"),
        ("memory://a/../../b", "single `/`"),
        ("memory://a/./b", "single `/`"),
        ("memory:///fleet", "single `/`"),
        ("memory://what?", "`?`"),
    ],
)
def test_a_place_that_cannot_hold_a_graph_is_refused_with_the_rule(uri: str, rule: str) -> None:
    with pytest.raises(InvalidNameError) as refusal:
        locate(uri)

    assert rule in str(refusal.value)
    assert refusal.value.kind == "graph uri"
    assert refusal.value.name == uri


def test_options_belong_to_a_location_and_are_not_printed() -> None:
    options = {"aws_secret_access_key": "hidden"}
    location = parse_location("s3://bucket/fleet", storage_options=options)

    options.clear()

    assert location.storage_options == {"aws_secret_access_key": "hidden"}
    assert "hidden" not in repr(location)


def test_locations_are_values() -> None:
    assert locate("/srv/fleet") == locate("file:///srv/fleet/")
    assert len({locate("/srv/fleet"), locate("/srv/fleet/"), locate("/srv/other")}) == 2


@pytest.mark.parametrize("uri", ["http://localhost:8080", "HTTPS://graphs.example/graphs/team"])
def test_the_url_of_a_server_is_refused_with_the_call_that_takes_it(uri: str) -> None:
    with pytest.raises(InvalidNameError, match=r"omnigraph\.connect") as raised:
        locate(uri)

    assert f"omnigraph.connect({uri!r})" in str(raised.value)


def test_a_tilde_at_the_start_of_a_path_is_the_home_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/srv/ann")

    assert locate("~/graphs/fleet").root == "/srv/ann/graphs/fleet"
    assert locate("./~fleet").root == f"{Path.cwd()}/~fleet"
    with pytest.raises(InvalidNameError, match="has no home folder"):
        locate("~no-such-user/fleet")
