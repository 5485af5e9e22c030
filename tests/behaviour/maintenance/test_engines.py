"""Where maintenance runs: in this process unless it is large or the caller names an engine."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.embed.providers import MockEmbedder
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import Settings, make_settings
from omnigraph.errors import InvalidValueError, UnavailableError
from tests.support.graphs import build_graph, ndjson, node, unchanged

SCHEMA = """
node Memo { head: String @key  body: String?  more: String?  v: Vector(3)? @embed("body") }
"""
NARROWER = """
node Memo { head: String @key  body: String?  v: Vector(3)? @embed("body") }
"""
LIMITS = ("MAINTENANCE_ROWS_MAX", "EMBEDDED_ROWS_MAX", "REWRITTEN_BYTES_MAX")

Maintenance = Callable[[Graph, str], object]

MAINTENANCE: dict[str, Maintenance] = {
    "build indexes": lambda graph, engine: graph.ensure_indices(engine=engine),
    "optimize": lambda graph, engine: graph.optimize(engine=engine),
    "embed": lambda graph, engine: graph.embed("Memo", engine=engine),
    "apply a schema": lambda graph, engine: graph.apply_schema(
        NARROWER, allow_data_loss=True, engine=engine
    ),
}


def memo_graph(root: Path) -> Graph:
    """Two memos in a file each, in a graph that was opened without Spark."""
    graph = build_graph(root, SCHEMA, node("Memo", head="m1", body="one", more="x"))
    graph.load(ndjson(node("Memo", head="m2", body="two", more="y")), mode="append")
    return open_graph(_without_spark(root), actor=None, is_read_only=False)


def _without_spark(root: Path) -> Settings:
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    return replace(settings, embedder=MockEmbedder(""))


@pytest.mark.parametrize("engine", ["auto", "local"])
@pytest.mark.parametrize("name", MAINTENANCE)
def test_small_maintenance_runs_in_process_as_one_commit(
    tmp_path: Path, name: str, engine: str
) -> None:
    graph = memo_graph(tmp_path)
    commits = len(graph.commits())

    MAINTENANCE[name](graph, engine)

    assert len(graph.commits()) == commits + 1


@pytest.mark.parametrize("name", MAINTENANCE)
def test_large_maintenance_requires_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    graph = memo_graph(tmp_path)
    for limit in LIMITS:
        monkeypatch.setattr(f"omnigraph.engine.graph_maintenance.{limit}", 1)

    with unchanged(graph), pytest.raises(UnavailableError, match=f"{name} on Spark"):
        MAINTENANCE[name](graph, "auto")


@pytest.mark.parametrize("name", MAINTENANCE)
def test_maintenance_on_spark_says_what_is_missing(tmp_path: Path, name: str) -> None:
    graph = memo_graph(tmp_path)

    with unchanged(graph), pytest.raises(UnavailableError, match=f"{name} on Spark"):
        MAINTENANCE[name](graph, "spark")


@pytest.mark.parametrize("name", MAINTENANCE)
def test_an_engine_that_does_not_exist_is_refused(tmp_path: Path, name: str) -> None:
    graph = memo_graph(tmp_path)

    with unchanged(graph), pytest.raises(InvalidValueError, match="neither local nor spark"):
        MAINTENANCE[name](graph, "cluster")
