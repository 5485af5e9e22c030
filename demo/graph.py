"""The part of the demo that uses storage: create, load, change and query a graph."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa

import omnigraph
from demo.branching import show_branching
from demo.output import read, say, title
from demo.queries import show_queries
from omnigraph.errors import GraphError

FINDINGS = 50_000
TOPICS = ("batteries", "solar", "wind")

# Each with its title, topic, text, embedding (one number per topic and one for money) and the
# titles that it cites.
WRITTEN = (
    ("Lithium is dear", "batteries", "The price of lithium doubled", [0.8, 0, 0, 0.6], ()),
    (
        "Salt will do",
        "batteries",
        "Cells made with sodium are cheaper and last as long",
        [0.9, 0, 0, 0.4],
        ("Lithium is dear",),
    ),
    (
        "Panels by the metre",
        "solar",
        "Printed cells are cheaper than cut ones",
        [0.1, 0.9, 0, 0.4],
        (),
    ),
    (
        "Sun by night",
        "solar",
        "Panels with storage of sodium carry a village",
        [0.5, 0.8, 0, 0.1],
        ("Salt will do", "Panels by the metre"),
    ),
)

PUBLISH = """
query publish($title: String, $topic: String, $confidence: F64) {
  insert Finding { title: $title, text: "to be written", confidence: $confidence, found_at: now() }
  insert Reports { from: $title, to: $topic }
}
"""


def show_graph() -> None:
    """Run every section that needs storage, in a temporary directory."""
    with TemporaryDirectory() as folder:
        graph = show_creation(Path(folder) / "team")
        show_load(graph)
        show_mutation(graph)
        show_refusals(graph)
        show_history(graph)
        show_queries(graph)
        show_branching(graph)


def show_creation(path: Path) -> omnigraph.Graph:
    title("7. A graph is created from the schema: one Lance table per type and one manifest")
    graph = omnigraph.init(str(path), read("schema.pg").text)
    for table_key, table in graph.tables().items():
        say(f"{table_key:13} version {table.version}, {table.row_count} rows, {table.path[-22:]}")
    assert len(graph.tables()) == 6
    return graph


def show_load(graph: omnigraph.Graph) -> None:
    title(f"8. {FINDINGS:,} findings and their edges are loaded as one commit, with all checks")
    graph.load(StringIO("\n".join(_lines())), mode="append", actor="librarian")
    findings = _findings()
    started = perf_counter()
    loaded = graph.load(findings, mode="append", actor="importer")
    seconds = perf_counter() - started
    rows = sum(loaded.nodes_loaded.values()) + sum(loaded.edges_loaded.values())
    say(f"{loaded.nodes_loaded} nodes, {loaded.edges_loaded} edges: commit {loaded.commit_id}")
    say(f"{rows:,} rows in {seconds:.2f} s, {rows / seconds:,.0f} per second.")
    assert graph.tables()["edge:Reports"].row_count == FINDINGS + len(WRITTEN)


def show_mutation(graph: omnigraph.Graph) -> None:
    title("9. A mutation: several statements, one commit")
    params = {"title": "Sodium works", "topic": "batteries", "confidence": 0.9}
    started = perf_counter()
    done = graph.mutate(PUBLISH, params, actor="ann")
    say(f"{done} in {(perf_counter() - started) * 1000:.0f} ms")
    assert (done.affected_nodes, done.affected_edges, done.commit_id) == (1, 1, graph.head())


def show_refusals(graph: omnigraph.Graph) -> None:
    title("10. A write that violates constraints changes nothing and reports every violation")
    head = graph.head()
    requests: list[dict[str, object]] = [
        {"title": "Perpetual motion", "topic": "magic", "confidence": 7.0},
        {"title": "Perpetual motion", "topic": "solar", "confidence": "high"},
    ]
    for params in requests:
        try:
            graph.mutate(PUBLISH, params)
        except GraphError as error:
            say(f"{type(error).__name__} ({error.outcome}): {error}")
    first = graph.commits()[0].id
    try:
        graph.mutate('query q() { delete Topic where name = "wind" }', if_commit=first)
    except GraphError as error:
        say(f"{type(error).__name__} ({error.outcome}): {error}")
    assert graph.head() == head


def show_history(graph: omnigraph.Graph) -> None:
    title("11. Every change is a commit, and every commit can be queried")
    commits = graph.commits()
    topics = [len(list(graph.export(commit=each.id, types=["Topic"]))) for each in commits]
    for commit, count in zip(commits, topics, strict=True):
        say(f"{commit.id}  {commit.actor or '-':9}  {count} topics")
    assert topics == [0, 3, 3, 3]


def _lines() -> Iterator[str]:
    yield '{"type":"Person","data":{"name":"Ann","role":"lead","joined":"2020-02-01"}}'
    for name in TOPICS:
        yield f'{{"type":"Topic","data":{{"name":"{name}","summary":"All about {name}"}}}}'
        yield f'{{"edge":"Follows","from":"Ann","to":"{name}","data":{{"since":"2024-01-01"}}}}'
    for heading, topic, text, meaning, cited in WRITTEN:
        finding = {"title": heading, "text": text, "meaning": meaning, "confidence": 0.8}
        yield json.dumps(
            {"type": "Finding", "data": {**finding, "found_at": "2026-04-01T12:00:00Z"}}
        )
        yield json.dumps({"edge": "Reports", "from": heading, "to": topic})
        for source in cited:
            yield json.dumps({"edge": "Cites", "from": heading, "to": source})


def _findings() -> dict[str, pa.Table]:
    numbers = np.arange(FINDINGS)
    titles = pa.array([f"Finding {number}" for number in numbers])
    found_at = pa.scalar(datetime(2026, 5, 1, tzinfo=UTC), pa.timestamp("ms", "UTC"))
    meanings = np.eye(len(TOPICS), 4, dtype=np.float32)[numbers % len(TOPICS)]
    meanings[:, :3] += np.random.default_rng(7).normal(0, 0.2, (FINDINGS, 3))
    return {
        "Finding": pa.table(
            {
                "title": titles,
                "meaning": pa.FixedSizeListArray.from_arrays(meanings.reshape(-1), 4),
                "text": pa.array([f"Measured {number} times" for number in numbers]),
                "confidence": numbers / FINDINGS,
                "found_at": pa.array([found_at] * FINDINGS),
            }
        ),
        "Reports": pa.table({"src": titles, "dst": np.array(TOPICS)[numbers % len(TOPICS)]}),
    }
