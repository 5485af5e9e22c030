"""Payloads that only the command line has."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.cli.commands.load import load_output
from omnigraph.engine.results import LoadResult

DONE = LoadResult(
    nodes_loaded={"Person": 4, "Company": 2},
    edges_loaded={"Knows": 3},
    commit_id="01C",
    branch="new",
    base_branch="main",
    branch_created=True,
    engine="inline",
)


def test_a_load_is_counted_over_types() -> None:
    output = load_output(DONE, uri="g", mode="merge", actor="ann")

    assert list(output) == [
        *("uri", "branch", "mode", "base_branch", "branch_created", "nodes_loaded"),
        *("edges_loaded", "node_types_loaded", "edge_types_loaded", "rejected", "commit_id"),
        *("actor_id", "engine"),
    ]
    assert (output["nodes_loaded"], output["node_types_loaded"]) == (6, 2)
    assert (output["edges_loaded"], output["edge_types_loaded"]) == (3, 1)


def test_a_load_without_a_base_says_nothing_of_one() -> None:
    output = load_output(replace(DONE, base_branch=None), uri="g", mode="merge", actor=None)

    assert "base_branch" not in output
