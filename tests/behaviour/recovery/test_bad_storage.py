"""Failing disks and damaged files: the error reports them, and nothing else is lost.

After each fault the graph is unchanged, or reads and writes again once the fault is removed.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import omnigraph
from omnigraph.errors import CorruptError, GraphError, Outcome, UnavailableError, UnreadableError
from omnigraph.model.names import fnv1a_64
from tests.support.graphs import (
    Footprint,
    build_graph,
    contents,
    footprint,
    manifest,
    manifest_rows,
    ndjson,
    node,
    rows,
    social_graph,
    table_paths,
    unchanged,
)
from tests.support.queries import query

EVE = query('insert Person { name: "Eve" }')
UNPRIVILEGED = 65534
PEOPLE_PLACE = f"nodes/{fnv1a_64('Person'):016x}"


@contextmanager
def files_no_longer_than(size_bytes: int) -> Iterator[None]:
    """Refuse any file growth past a size, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only_directory(root: Path) -> Iterator[None]:
    """Take away the right to write below a directory, from the superuser too."""
    directories = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    is_superuser = os.geteuid() == 0
    if is_superuser:
        os.seteuid(UNPRIVILEGED)
    try:
        yield
    finally:
        if is_superuser:
            os.seteuid(0)
        for directory in directories:
            directory.chmod(0o755)


def require_works(root: Path, before: Footprint) -> None:
    """Fail unless a graph still has what it had and takes a write."""
    with omnigraph.open(str(root)) as graph:
        assert footprint(graph) == before
        graph.mutate(EVE)
        assert rows(graph, "Person").keys() == before.contents["Person"].keys() | {"Eve"}


def test_a_file_size_limit_refuses_the_load_and_preserves_the_graph(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = footprint(graph)
    long_names = [node("Person", name=f"{number:05}" * 100) for number in range(2_000)]

    with (
        unchanged(graph),
        files_no_longer_than(64 * 1024),
        pytest.raises(UnavailableError) as refused,
    ):
        graph.load(ndjson(*long_names), mode="append")

    assert refused.value.outcome is Outcome.UNCHANGED
    assert "limit allows" in str(refused.value)
    require_works(tmp_path, before)


FILL_A_DISK = """
import io, json, sys
import pyarrow as pa
import omnigraph
from omnigraph.errors import GraphError

root = sys.argv[1]
graph = omnigraph.init(root, schema="node Person { name: String @key }")
graph.load(io.StringIO('{"type":"Person","data":{"name":"Ann"}}'), mode="append")
big = "x" * (8 << 20)
try:
    graph.load({"Person": pa.table({"name": [big]})}, mode="append")
except GraphError as error:
    failure = [type(error).__name__, error.outcome, str(error)]
else:
    failure = None
seen = [json.loads(line)["data"]["name"] for line in graph.export()]
graph.mutate('query q() { insert Person { name: "Bob" } }')
after = [json.loads(line)["data"]["name"] for line in omnigraph.open(root).export()]
print(json.dumps([failure, seen, after]))
"""


def test_a_full_disk_refuses_the_load_and_preserves_the_graph(tmp_path: Path) -> None:
    # A separate file system that is really full; needs the permission to mount one.
    mount = f"mount -t tmpfs -o size=4m none '{tmp_path}' && exec \"$@\""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this kernel does not permit mounting a small file system")

    child = [sys.executable, "-c", FILL_A_DISK, str(tmp_path / "graph")]
    run = subprocess.run([*command, *child], check=True, capture_output=True, text=True)
    failure, seen, after = json.loads(run.stdout)

    assert failure[:2] == ["UnavailableError", "unchanged"]
    assert "the disk is full; make room and try again" in failure[2]
    assert seen == ["Ann"]
    assert after == ["Ann", "Bob"]


def test_a_read_only_directory_refuses_writes_and_serves_reads() -> None:
    # Not below `tmp_path`: a user without privileges must be able to reach it.
    with TemporaryDirectory() as directory:
        root = Path(directory)
        graph = social_graph(root)
        before = footprint(graph)

        with (
            read_only_directory(root),
            pytest.raises(UnavailableError, match="no permission") as refused,
        ):
            graph.mutate(EVE)
        with read_only_directory(root), omnigraph.open(directory, read_only=True) as reader:
            seen = contents(reader)

        assert refused.value.outcome is Outcome.UNCHANGED
        assert seen == before.contents
        require_works(root, before)


def test_a_missing_table_is_reported_and_the_others_still_work(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    place = table_paths(tmp_path)["node:Person"]
    place.rename(tmp_path / "aside")

    for call in (
        lambda: graph.mutate(EVE),
        lambda: omnigraph.open(str(tmp_path)).mutate(EVE),
        lambda: graph.load(ndjson(node("Person", name="Eve")), mode="merge"),
        lambda: list(omnigraph.open(str(tmp_path)).export(types=["Person"])),
    ):
        with pytest.raises(CorruptError, match=PEOPLE_PLACE) as broken:
            call()
        assert broken.value.outcome is Outcome.BROKEN
    graph.mutate(query('insert Company { name: "Initech" }'))

    (tmp_path / "aside").rename(place)
    with omnigraph.open(str(tmp_path)) as reopened:
        reopened.mutate(EVE)
        assert len(rows(reopened, "Person")) == 5
        assert "Initech" in rows(reopened, "Company")


def test_a_missing_data_file_is_reported(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    (file,) = (table_paths(tmp_path)["node:Person"] / "data").iterdir()
    file.rename(tmp_path / "aside")

    with omnigraph.open(str(tmp_path)) as graph, pytest.raises(CorruptError, match=PEOPLE_PLACE):
        list(graph.export())

    (tmp_path / "aside").rename(file)
    with omnigraph.open(str(tmp_path)) as graph:
        assert len(rows(graph, "Person")) == 4


def test_a_truncated_data_file_is_reported(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    (file,) = (table_paths(tmp_path)["node:Person"] / "data").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])

    with omnigraph.open(str(tmp_path)) as graph, pytest.raises(CorruptError, match=PEOPLE_PLACE):
        list(graph.export())

    file.write_bytes(whole)
    with omnigraph.open(str(tmp_path)) as graph:
        assert len(rows(graph, "Person")) == 4


def test_a_missing_manifest_is_reported(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    (tmp_path / "__manifest").rename(tmp_path / "aside")

    for read_only in (True, False):
        with pytest.raises(CorruptError, match="manifest"):
            omnigraph.open(str(tmp_path), read_only=read_only)
    with pytest.raises(CorruptError, match="manifest"):
        graph.mutate(EVE)

    (tmp_path / "aside").rename(tmp_path / "__manifest")
    with omnigraph.open(str(tmp_path)) as reopened:
        reopened.mutate(EVE)
        assert len(rows(reopened, "Person")) == 5


BROKEN_ROWS = {
    "a version without its number": ("table_version", "table_version"),
    "a version without its rows": ("table_version", "row_count"),
    "a version without its file": ("table_version", "metadata"),
    "a table without its place": ("table", "location"),
    "a commit without its time": ("graph_commit", "metadata"),
    "a commit without its version": ("graph_commit", "table_version"),
}


@pytest.mark.parametrize(("kind", "column"), BROKEN_ROWS.values(), ids=BROKEN_ROWS)
def test_a_row_of_the_manifest_with_a_null_is_reported(
    tmp_path: Path, kind: str, column: str
) -> None:
    graph = social_graph(tmp_path)
    before = footprint(graph)
    shutil.copytree(tmp_path / "__manifest", tmp_path / "aside")
    (*_, broken) = (row for row in manifest_rows(tmp_path) if row["object_type"] == kind)
    manifest(tmp_path).update({column: "NULL"}, where=f"object_id = '{broken['object_id']}'")

    for read_only in (True, False):
        with pytest.raises(CorruptError) as refused:
            omnigraph.open(str(tmp_path), read_only=read_only)
        assert str(broken["object_id"]) in str(refused.value)
    shutil.rmtree(tmp_path / "__manifest")
    (tmp_path / "aside").rename(tmp_path / "__manifest")

    require_works(tmp_path, before)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format_version": 99}', b"\xff"])
@pytest.mark.parametrize("name", ["__schema_state.json", "_schema.ir.json"])
def test_a_generated_schema_file_that_is_damaged_is_reported(
    tmp_path: Path, name: str, content: bytes
) -> None:
    social_graph(tmp_path).close()
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content)

    with pytest.raises(GraphError, match=name) as refused:
        omnigraph.open(str(tmp_path))

    assert isinstance(refused.value, CorruptError)
    (tmp_path / name).write_bytes(whole)
    with omnigraph.open(str(tmp_path)) as graph:
        assert len(rows(graph, "Person")) == 4


def test_a_graph_of_a_newer_format_says_to_upgrade(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    manifest(tmp_path).update_schema_metadata({"omnigraph:internal_schema_version": "5"})

    for read_only in (True, False):
        with pytest.raises(UnreadableError, match="upgrade"):
            omnigraph.open(str(tmp_path), read_only=read_only)


@pytest.mark.parametrize("stamp", ["1", "2", "3", None])
def test_a_graph_of_an_older_format_is_refused_and_left_as_it_is(
    tmp_path: Path, stamp: str | None
) -> None:
    social_graph(tmp_path).close()
    table = manifest(tmp_path)
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    metadata.pop("omnigraph:internal_schema_version")
    if stamp is not None:
        metadata["omnigraph:internal_schema_version"] = stamp
    table.update_schema_metadata(metadata, replace=True)
    before = manifest(tmp_path).version

    for read_only in (True, False):
        with pytest.raises(UnreadableError) as refused:
            omnigraph.open(str(tmp_path), read_only=read_only)
        assert f"the graph has format {stamp or 1}, this version reads 4" in str(refused.value)
        assert "export it with the version that wrote it" in str(refused.value)

    assert manifest(tmp_path).version == before


@pytest.mark.parametrize("content", [b"{", b'{"schema_version": 99}', b"{}"])
def test_an_unreadable_sidecar_is_retained_and_stops_no_reader(
    tmp_path: Path, content: bytes
) -> None:
    graph = social_graph(tmp_path)
    record = tmp_path / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    record.parent.mkdir(exist_ok=True)
    record.write_bytes(content)

    with pytest.raises(CorruptError, match="01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        graph.mutate(EVE)

    assert record.read_bytes() == content
    with omnigraph.open(str(tmp_path), read_only=True) as reader:
        assert len(rows(reader, "Person")) == 4
    record.unlink()
    graph.mutate(EVE)
    assert len(rows(graph, "Person")) == 5


def test_foreign_files_are_left_unchanged(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key }", node("Person", name="Ann"))
    (tmp_path / "README.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "__recovery").mkdir(exist_ok=True)
    (tmp_path / "__recovery" / "notes.txt").write_text("mine", encoding="utf-8")

    graph.mutate(EVE)

    assert (tmp_path / "README.txt").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "__recovery" / "notes.txt").exists()
    assert sorted(rows(graph, "Person")) == ["Ann", "Eve"]
