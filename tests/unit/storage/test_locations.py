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
        "/srv/graphs/crew",
        "/srv/graphs/crew/",
        "/srv/graphs/crew///",
        "/srv/./graphs//crew",
        "/srv/other/../graphs/crew",
        "//srv/graphs/crew",
        "file:///srv/graphs/crew",
        "file:///srv/graphs/crew/",
        "file://localhost/srv/graphs/crew",
        "FILE:///srv/graphs/crew",
        "file:///srv/gr%61phs/crew",
    ],
)
def test_every_spelling_of_a_folder_is_one_location(uri: str) -> None:
    location = locate(uri)

    assert location.uri == location.root == "/srv/graphs/crew"
    assert location.is_local


def test_a_relative_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert locate("graphs/crew").root == f"{tmp_path}/graphs/crew"
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
        ("s3://bucket/team/crew", "bucket", "team/crew"),
        ("s3://bucket/team/crew/", "bucket", "team/crew"),
        ("S3://bucket/team/crew//", "bucket", "team/crew"),
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
    location = locate("memory://crew/")

    assert location.uri == "memory://crew"
    assert location.is_local
    assert location.root == locate("memory://crew").root
    assert location.root != locate("memory://other").root
    assert Path(location.root).name == "crew"


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
        ("s3:/bucket/crew", "two slashes"),
        ("gs://bucket/crew", "gs:// is unknown; a graph is at a path, file://"),
        ("http://host/crew", "omnigraph.connect"),
        ("s3://", "needs a bucket"),
        ("s3:///crew", "needs a bucket"),
        ("s3://key:secret@bucket/crew", "needs a bucket"),
        ("s3://bucket/a//b", "single `/`"),
        ("s3://bucket/a/../b", "single `/`"),
        ("s3://bucket/./b", "single `/`"),
        ("s3://bucket/ha#sh", "`#`"),
        ("s3://bucket/per%20cent", "`%`"),
        ("s3://bucket/what?", "`?`"),
        ("memory://", "single `/`"),
        ("memory://../crew", "single `/`"),
        ("memory://a/../../b", "single `/`"),
        ("memory://a/./b", "single `/`"),
        ("memory:///crew", "single `/`"),
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
    location = parse_location("s3://bucket/crew", storage_options=options)

    options.clear()

    assert location.storage_options == {"aws_secret_access_key": "hidden"}
    assert "hidden" not in repr(location)


def test_locations_are_values() -> None:
    assert locate("/srv/crew") == locate("file:///srv/crew/")
    assert len({locate("/srv/crew"), locate("/srv/crew/"), locate("/srv/other")}) == 2


@pytest.mark.parametrize("uri", ["http://localhost:8080", "HTTPS://graphs.example/graphs/team"])
def test_the_url_of_a_server_is_refused_with_the_call_that_takes_it(uri: str) -> None:
    with pytest.raises(InvalidNameError, match=r"omnigraph\.connect") as raised:
        locate(uri)

    assert f"omnigraph.connect({uri!r})" in str(raised.value)


def test_a_tilde_at_the_start_of_a_path_is_the_home_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/srv/ann")

    assert locate("~/graphs/crew").root == "/srv/ann/graphs/crew"
    assert locate("./~crew").root == f"{Path.cwd()}/~crew"
    with pytest.raises(InvalidNameError, match="has no home folder"):
        locate("~nobody-of-this-name/crew")
