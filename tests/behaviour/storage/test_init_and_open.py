"""Section A of the engine: the files of a new graph, and which callers may open it how."""

import json
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph.errors import (
    AlreadyExistsError,
    CompileError,
    ForbiddenError,
    GraphError,
    NotFoundError,
    SchemaChangedError,
    UnavailableError,
)
from omnigraph.model.names import fnv1a_64
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    contents,
    head_versions,
    init_with,
    manifest,
    manifest_rows,
    ndjson,
    node,
    root_of,
    row_counts,
    rows,
    sidecars,
    social_graph,
    table_paths,
    unchanged,
)
from tests.support.queries import query

SCHEMA_FILES = ("_schema.pg", "_schema.ir.json", "__schema_state.json")
NEW_PERSON = query('insert Person { name: "Eve" }')


def schema_files(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in SCHEMA_FILES if (root / name).exists()}


def test_a01_a_new_graph_is_a_manifest_and_one_empty_table_a_type(tmp_path: Path) -> None:
    graph = omnigraph.init(str(tmp_path), schema=SOCIAL)

    assert {
        key: str(path.relative_to(tmp_path)) for key, path in table_paths(tmp_path).items()
    } == {
        "node:Person": f"nodes/{fnv1a_64('Person'):016x}",
        "node:Company": f"nodes/{fnv1a_64('Company'):016x}",
        "edge:Knows": f"edges/{fnv1a_64('Knows'):016x}",
        "edge:WorksAt": f"edges/{fnv1a_64('WorksAt'):016x}",
    }
    assert set(row_counts(graph).values()) == {0}
    assert {key: table.version for key, table in graph.tables().items()} == head_versions(tmp_path)
    assert contents(graph) == {}


def test_a01_a_new_graph_has_one_commit_without_parent_or_actor(tmp_path: Path) -> None:
    graph = omnigraph.init(str(tmp_path), schema=SOCIAL)

    (genesis,) = graph.commits()
    assert genesis.id == graph.head()
    assert (genesis.parent_id, genesis.merged_parent_id, genesis.actor) == (None, None, None)
    assert (genesis.branch, genesis.manifest_version) == ("main", 1)
    kinds = [row["object_type"] for row in manifest_rows(tmp_path)]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "table": 4,
        "table_version": 4,
        "graph_commit": 1,
        "graph_head": 1,
    }


def test_a01_the_manifest_can_be_read_with_plain_lance(tmp_path: Path) -> None:
    omnigraph.init(str(tmp_path), schema=SOCIAL)

    stored = manifest(tmp_path)
    by_id = {row["object_id"]: row for row in manifest_rows(tmp_path)}

    assert stored.schema.names == [
        "object_id",
        "object_type",
        "location",
        "metadata",
        "base_objects",
        "table_key",
        "table_version",
        "table_branch",
        "row_count",
    ]
    assert stored.schema.metadata[b"omnigraph:internal_schema_version"] == b"4"
    assert by_id["node:Person$00000000000000000001"]["row_count"] == 0
    assert "head_commit_id" in json.loads(str(by_id["graph_head:main"]["metadata"]))


def test_a01_tables_have_an_id_their_ends_and_their_properties_by_name(tmp_path: Path) -> None:
    build_graph(tmp_path, "node B { z: I32?  a: String @key } edge E: B -> B { y: Date?  x: F64? }")

    columns = {
        key: lance.dataset(str(path)).schema.names for key, path in table_paths(tmp_path).items()
    }

    assert columns == {
        "node:B": ["id", "a", "z"],
        "edge:E": ["id", "src", "dst", "x", "y"],
    }


def test_a01_the_schema_is_stored_as_it_was_written(tmp_path: Path) -> None:
    source = SOCIAL + "// the end\n"

    graph = omnigraph.init(str(tmp_path), schema=source)

    assert graph.schema_source == source
    assert schema_files(tmp_path)["_schema.pg"] == source.encode()
    state = json.loads(schema_files(tmp_path)["__schema_state.json"])
    assert state["format_version"] == 1
    assert state["schema_ir_hash"].startswith("sha256:")


def test_a02_a_graph_is_not_created_over_another(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    files = schema_files(tmp_path)

    with unchanged(graph), pytest.raises(AlreadyExistsError, match="already exists"):
        omnigraph.init(str(tmp_path), schema="node Other { name: String @key }")

    assert schema_files(tmp_path) == files


def test_a02_force_replaces_the_graph(tmp_path: Path) -> None:
    social_graph(tmp_path).close()

    graph = omnigraph.init(str(tmp_path), schema=SOCIAL, force=True)

    assert contents(graph) == {}
    assert len(graph.commits()) == 1
    graph.mutate(NEW_PERSON)
    with omnigraph.open(str(tmp_path)) as reopened:
        assert list(rows(reopened, "Person")) == ["Eve"]


def test_a_schema_that_does_not_compile_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(CompileError):
        omnigraph.init(str(tmp_path / "graph"), schema="node Person { name: Strng @key }")

    assert not (tmp_path / "graph").exists()


def test_a_graph_is_created_where_there_was_no_directory(tmp_path: Path) -> None:
    graph = omnigraph.init(str(tmp_path / "a" / "b"), schema=SOCIAL)

    assert graph.branches() == ["main"]


def test_a_graph_is_reopened_as_it_was_left(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.mutate(NEW_PERSON)
    before = contents(graph), graph.commits(), graph.tables()
    graph.close()

    with omnigraph.open(str(tmp_path)) as reopened:
        assert (contents(reopened), reopened.commits(), reopened.tables()) == before
        assert reopened.schema_source == SOCIAL


def test_the_fold_after_a_write_is_what_a_reopen_reads(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.mutate(NEW_PERSON)
    graph.mutate(query('delete Person where name = "Alice"'))

    with omnigraph.open(str(tmp_path), read_only=True) as reopened:
        assert reopened.tables() == graph.tables()
        assert reopened.head() == graph.head()


@pytest.mark.parametrize(
    "place",
    [
        Failpoint.INIT_AFTER_SCHEMA_PG_WRITTEN,
        Failpoint.INIT_AFTER_SCHEMA_FILES_WRITTEN,
        Failpoint.INIT_AFTER_COORDINATOR_INIT,
    ],
)
def test_a04_a05_a_creation_that_fails_can_be_repeated(tmp_path: Path, place: Failpoint) -> None:
    failpoints = Failpoints()

    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(UnavailableError, match=place):
        init_with(tmp_path, SOCIAL, failpoints)

    assert schema_files(tmp_path) == {}
    with pytest.raises(NotFoundError):
        omnigraph.open(str(tmp_path))
    graph = omnigraph.init(str(tmp_path), schema=SOCIAL)
    graph.mutate(NEW_PERSON)
    assert list(rows(graph, "Person")) == ["Eve"]
    assert len(graph.commits()) == 2


def test_a07_a_schema_edited_by_hand_stops_a_graph_that_is_open(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    original = schema_files(tmp_path)["_schema.pg"]
    (tmp_path / "_schema.pg").write_bytes(original.replace(b"age: I32?", b"age: I64?"))

    with pytest.raises(SchemaChangedError, match="no longer matches") as refused:
        list(graph.export())
    with pytest.raises(SchemaChangedError, match="no longer matches"):
        graph.mutate(NEW_PERSON)
    with pytest.raises(SchemaChangedError, match="no longer matches"):
        graph.load(ndjson(node("Person", name="Eve")), mode="merge")

    assert "undo the edit" in str(refused.value)
    (tmp_path / "_schema.pg").write_bytes(original)
    graph.mutate(NEW_PERSON)
    assert "Eve" in rows(graph, "Person")


@pytest.mark.parametrize("edited", [b"node Person {", b"\xff\xfe", b""])
def test_a07_a_schema_edited_by_hand_is_not_opened(tmp_path: Path, edited: bytes) -> None:
    social_graph(tmp_path).close()
    original = schema_files(tmp_path)["_schema.pg"]
    (tmp_path / "_schema.pg").write_bytes(edited)

    for read_only in (True, False):
        with pytest.raises(SchemaChangedError):
            omnigraph.open(str(tmp_path), read_only=read_only)

    (tmp_path / "_schema.pg").write_bytes(original)
    with omnigraph.open(str(tmp_path)) as graph:
        assert len(rows(graph, "Person")) == 4


def test_a08_a_comment_in_the_schema_changes_nothing(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    with (tmp_path / "_schema.pg").open("a", encoding="utf-8") as source:
        source.write("\n// people and where they work\n")

    graph.mutate(NEW_PERSON)

    assert "Eve" in rows(graph, "Person")
    with omnigraph.open(str(tmp_path)) as reopened:
        assert contents(reopened) == contents(graph)


@pytest.mark.parametrize("lost", ["_schema.ir.json", "__schema_state.json"])
def test_a10_a_graph_that_lost_one_of_its_schema_files_is_not_opened(
    tmp_path: Path, lost: str
) -> None:
    social_graph(tmp_path).close()
    content = (tmp_path / lost).read_bytes()
    (tmp_path / lost).unlink()

    for read_only in (True, False):
        with pytest.raises(SchemaChangedError, match=f"{lost} is missing"):
            omnigraph.open(str(tmp_path), read_only=read_only)

    (tmp_path / lost).write_bytes(content)
    with omnigraph.open(str(tmp_path)) as graph:
        assert len(rows(graph, "Person")) == 4


def test_a11_missing_generated_files_are_created_again(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    files = schema_files(tmp_path)
    for name in SCHEMA_FILES[1:]:
        (tmp_path / name).unlink()

    with omnigraph.open(str(tmp_path)) as graph:
        graph.mutate(NEW_PERSON)
        assert "Eve" in rows(graph, "Person")

    assert schema_files(tmp_path) == files


def test_a11_missing_generated_files_are_not_created_while_another_branch_exists(
    tmp_path: Path,
) -> None:
    with social_graph(tmp_path) as graph:
        graph.create_branch("feature")
    for name in SCHEMA_FILES[1:]:
        (tmp_path / name).unlink()

    with pytest.raises(SchemaChangedError, match="branches besides main"):
        omnigraph.open(str(tmp_path))

    assert list(schema_files(tmp_path)) == ["_schema.pg"]


def test_a_graph_is_found_by_every_form_of_its_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    social_graph(tmp_path / "graph").close()
    monkeypatch.chdir(tmp_path)

    for uri in (
        str(tmp_path / "graph"),
        f"{tmp_path}/graph/",
        f"{tmp_path}/other/../graph",
        f"file://{tmp_path}/graph",
        "graph",
        "./graph",
    ):
        with omnigraph.open(uri) as graph:
            assert root_of(graph) == tmp_path / "graph"
            assert len(rows(graph, "Person")) == 4


def test_a_graph_lives_below_a_directory_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / "with space, ünïcode & 100%25 #tag"

    with build_graph(path, SOCIAL, node("Person", name="Ann")) as graph:
        graph.mutate(NEW_PERSON)

    with omnigraph.open(str(path)) as reopened:
        assert sorted(rows(reopened, "Person")) == ["Ann", "Eve"]
    assert sidecars(path) == []


def test_a_graph_opened_for_reading_cannot_be_changed(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    reader = omnigraph.open(str(tmp_path), read_only=True)

    with unchanged(graph):
        with pytest.raises(ForbiddenError, match="read"):
            reader.mutate(NEW_PERSON)
        with pytest.raises(ForbiddenError, match="read"):
            reader.load(ndjson(node("Person", name="Eve")), mode="merge")
        with pytest.raises(ForbiddenError, match="read"):
            reader.create_branch("feature")

    assert contents(reader) == contents(graph)


def test_a_reader_sees_what_others_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    reader = omnigraph.open(str(tmp_path), read_only=True)

    graph.mutate(NEW_PERSON)

    assert "Eve" in rows(reader, "Person")
    assert reader.head() == graph.head()


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with graph:
        graph.close()
    graph.close()

    with pytest.raises((GraphError, ValueError), match="closed"):
        graph.mutate(NEW_PERSON)
    with pytest.raises((GraphError, ValueError), match="closed"):
        list(graph.export())


@pytest.mark.parametrize("name", ["nothing", "empty", "foreign"])
def test_a_location_without_a_graph_is_not_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine", encoding="utf-8")

    for read_only in (True, False):
        with pytest.raises(NotFoundError, match=f"{name}.*init"):
            omnigraph.open(str(tmp_path / name), read_only=read_only)

    assert not (tmp_path / "nothing").exists()
    assert list((tmp_path / "empty").iterdir()) == []
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("uri", ["", "ftp://host/graph", "s3://", "memory://"])
def test_a_place_that_cannot_hold_a_graph_is_refused(uri: str) -> None:
    with pytest.raises(GraphError):
        omnigraph.init(uri, schema=SOCIAL)
    with pytest.raises(GraphError):
        omnigraph.open(uri)
