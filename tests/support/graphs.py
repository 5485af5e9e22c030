"""Graphs for tests: small ones to start from, and ways to look at one from outside.

A graph is looked at through `export`, `tables` and `commits`, or past the engine with plain Lance
on its directory. Builders load what they say and nothing else.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import lance

import omnigraph
from omnigraph import Graph
from omnigraph.engine.graph import init_graph, open_graph
from omnigraph.engine.results import MutationResult
from omnigraph.engine.settings import make_settings
from omnigraph.engine.state.history import Commit
from tests.support.failpoints import Failpoints
from tests.support.queries import read_schema

Record = Mapping[str, object]
Row = Mapping[str, object]
Contents = Mapping[str, Mapping[str, Row]]

FLEET = read_schema("fleet")
GAUGE = read_schema("gauge")
HUB = read_schema("hub")

SOCIAL = """
node Person { name: String @key  age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""


# Building


def node(type_name: str, /, **properties: object) -> Record:
    """One node as a load reads it."""
    return {"type": type_name, "data": properties}


def edge(type_name: str, source: str, target: str, /, **properties: object) -> Record:
    """One edge as a load reads it."""
    return {"edge": type_name, "from": source, "to": target, "data": properties}


def ndjson(*records: Record) -> io.StringIO:
    """Records as an open file, one a line."""
    return io.StringIO("".join(f"{json.dumps(record)}\n" for record in records))


def build_graph(path: Path, schema: str, *records: Record) -> Graph:
    """A new graph below a directory, with these rows and no others."""
    # What waiting for the disk is good for, a test could only see by cutting the power.
    graph = omnigraph.init(str(path), schema=schema, durability="relaxed")
    if records:
        graph.load(ndjson(*records), mode="append")
    return graph


def fleet_graph(path: Path) -> Graph:
    """Five pilots, three ships, four mentors and three flights; one pilot has no hours."""
    return build_graph(
        path,
        FLEET,
        node("Pilot", handle="ada", hours=410),
        node("Pilot", handle="ben", hours=330),
        node("Pilot", handle="cyd", hours=None),
        node("Pilot", handle="dax", hours=330),
        node("Pilot", handle="eve", hours=120),
        node("Ship", reg="S1", tons=120.5),
        node("Ship", reg="S2", tons=80.0),
        node("Ship", reg="S3", tons=None),
        edge("Mentors", "ada", "ben"),
        edge("Mentors", "ada", "cyd"),
        edge("Mentors", "ben", "dax"),
        edge("Mentors", "dax", "eve"),
        edge("Flies", "ada", "S1"),
        edge("Flies", "ben", "S2"),
        edge("Flies", "dax", "S2"),
    )


def social_graph(path: Path) -> Graph:
    """Four people and two companies who know and employ each other."""
    return build_graph(path, SOCIAL, *SOCIAL_RECORDS)


SOCIAL_RECORDS: Sequence[Record] = (
    node("Person", name="Alice", age=30),
    node("Person", name="Bob", age=25),
    node("Person", name="Charlie", age=35),
    node("Person", name="Diana", age=28),
    node("Company", name="Acme"),
    node("Company", name="Globex"),
    edge("Knows", "Alice", "Bob"),
    edge("Knows", "Alice", "Charlie"),
    edge("Knows", "Bob", "Diana"),
    edge("WorksAt", "Alice", "Acme"),
    edge("WorksAt", "Bob", "Globex"),
)
"""The rows of `social_graph`."""


def hub_graph(path: Path, *records: Record) -> Graph:
    """A graph whose users have every kind of rule; two users and two desks, unless given."""
    return build_graph(
        path,
        HUB,
        *(
            records
            or (
                node("User", name="ann", role="admin", email="ann@x"),
                node("User", name="bob", role="guest"),
                node("Desk", tag="d1"),
                node("Desk", tag="d2"),
            )
        ),
    )


def init_with(path: Path, schema: str, failpoints: Failpoints) -> Graph:
    """A new graph that fails where a test wants it to."""
    settings = make_settings(str(path), storage_options=None, durability="relaxed")
    return init_graph(replace(settings, failpoints=failpoints), schema=schema, is_forced=False)


def open_with(path: Path, failpoints: Failpoints) -> Graph:
    """The graph of a directory, failing where a test wants it to."""
    settings = make_settings(str(path), storage_options=None, durability="relaxed")
    return open_graph(replace(settings, failpoints=failpoints), actor=None, is_read_only=False)


# Looking, through the graph


def contents(graph: Graph, branch: str = "main") -> Contents:
    """Every row by type and id, as `export` writes it; edges have `from` and `to` as well."""
    return read_export(graph.export(branch=branch))


def read_export(lines: Iterable[str]) -> Contents:
    """Every row of an export by type and id, the ends of edges included."""
    found: dict[str, dict[str, Row]] = {}
    for line in lines:
        record = json.loads(line)
        properties = dict(record["data"])
        if "edge" in record:
            properties |= {"from": record["from"], "to": record["to"]}
        by_id = found.setdefault(record.get("type") or record["edge"], {})
        id = str(properties.pop("id"))
        assert id not in by_id, f"{id} is there twice"
        by_id[id] = properties
    return found


def rows(graph: Graph, type_name: str, branch: str = "main") -> Mapping[str, Row]:
    """The rows of one type by id."""
    return contents(graph, branch).get(type_name, {})


def values(
    graph: Graph, type_name: str, property: str, branch: str = "main"
) -> Mapping[str, object]:
    """One property of every row of a type, by id."""
    return {id: row[property] for id, row in rows(graph, type_name, branch).items()}


def ends(graph: Graph, type_name: str, branch: str = "main") -> Sequence[tuple[str, str]]:
    """Where the edges of a type start and end, sorted."""
    found = rows(graph, type_name, branch).values()
    return sorted((str(row["from"]), str(row["to"])) for row in found)


def counts(result: MutationResult) -> tuple[int, int]:
    """How many nodes and edges a mutation affected."""
    return result.affected_nodes, result.affected_edges


def pins(graph: Graph, branch: str = "main") -> Mapping[str, int]:
    """The version of each table that the graph's history names."""
    return {key: table.version for key, table in graph.tables(branch).items()}


def row_counts(graph: Graph, branch: str = "main") -> Mapping[str, int]:
    """How many rows each table has, as the graph's history says."""
    return {key: table.row_count for key, table in graph.tables(branch).items()}


def require_linear(commits: Sequence[Commit]) -> None:
    """Fail unless each commit's parent is the one before it, and the first has none."""
    parents = [commit.parent_id for commit in commits]
    assert parents == [None, *(commit.id for commit in commits[:-1])]


# Looking, past the graph


def root_of(graph: Graph) -> Path:
    """The directory of a graph on a local disk."""
    return Path(graph.uri.removeprefix("file://"))


def manifest(root: Path) -> lance.LanceDataset:
    """The newest version of a graph's manifest on its main branch."""
    return lance.dataset(str(root / "__manifest"))


def manifest_rows(root: Path) -> Sequence[Mapping[str, object]]:
    """Every row of the manifest, by `object_id`."""
    found: list[Mapping[str, object]] = manifest(root).to_table().to_pylist()
    return sorted(found, key=lambda row: str(row["object_id"]))


def table_paths(root: Path) -> Mapping[str, Path]:
    """Where the manifest says that each table is."""
    return {
        str(row["table_key"]): root / str(row["location"])
        for row in manifest_rows(root)
        if row["object_type"] == "table"
    }


def head_versions(root: Path) -> Mapping[str, int]:
    """The newest version of each table, named by history or not."""
    return {key: lance.dataset(str(path)).latest_version for key, path in table_paths(root).items()}


def sidecars(root: Path) -> Sequence[str]:
    """The records of writes under way."""
    return sorted(path.name for path in (root / "__recovery").glob("*.json"))


@dataclass(frozen=True, slots=True)
class Footprint:
    """Everything of a graph that a write could change."""

    contents: Contents
    commit_ids: Sequence[str]
    head: str
    pins: Mapping[str, int]
    head_versions: Mapping[str, int]
    manifest_version: int
    sidecars: Sequence[str]
    branches: Sequence[str]


def footprint(graph: Graph) -> Footprint:
    """What a graph on a local disk looks like from inside and outside."""
    root = root_of(graph)
    return Footprint(
        contents=contents(graph),
        commit_ids=[commit.id for commit in graph.commits()],
        head=graph.head(),
        pins=pins(graph),
        head_versions=head_versions(root),
        manifest_version=manifest(root).version,
        sidecars=sidecars(root),
        branches=graph.branches(),
    )


@contextmanager
def unchanged(graph: Graph) -> Iterator[None]:
    """Fail if the block leaves the graph other than it was."""
    before = footprint(graph)
    yield
    assert footprint(graph) == before
