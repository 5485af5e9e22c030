"""Maintenance of the graphs of a cluster: `--cluster` names it, and its ledger locates them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clusters import (
    FIND_EMAIL,
    FIND_PERSON,
    applied_cluster,
    knowledge_cluster,
    two_graph_cluster,
    write_config,
    write_files,
)
from tests.support.commands import Ended, invoke_command

MAINTENANCE = [
    ["optimize", "--json"],
    ["repair", "--json"],
    ["cleanup", "--keep", "1", "--confirm", "--json"],
    ["doctor", "--quick", "--json"],
]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with the graph `knowledge`."""
    return applied_cluster(knowledge_cluster(tmp_path_factory.mktemp("one")))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with the graphs `knowledge` and `map`."""
    return applied_cluster(two_graph_cluster(tmp_path_factory.mktemp("two")))


@pytest.mark.parametrize("words", MAINTENANCE, ids=lambda words: words[0])
def test_the_only_graph_of_a_cluster_is_chosen_by_itself(words: list[str], one: Path) -> None:
    ended = invoke_command(*words, "--cluster", one)

    assert ended.code == 0, ended.err
    assert ended.fields["uri"] == str(one / "graphs/knowledge.omni")


@pytest.mark.parametrize("words", MAINTENANCE, ids=lambda words: words[0])
def test_of_several_graphs_one_is_named(words: list[str], two: Path) -> None:
    chosen = invoke_command(*words, "--cluster", two, "--graph", "map")
    result = invoke_command(*words, "--cluster", two)

    assert chosen.fields["uri"] == str(two / "graphs/map.omni")
    assert result.code == 1
    assert "--graph <id>: knowledge, map" in result.err
    assert result.fields["code"] == "bad_request"


def test_queries_are_checked_against_the_schema_of_an_applied_graph(
    two: Path, tmp_path: Path
) -> None:
    write_files(tmp_path, {"right.gq": FIND_PERSON, "wrong.gq": FIND_EMAIL})

    def lint(name: str) -> Ended:
        result = ("lint", "--query", tmp_path / name, "--cluster", two, "--graph", "knowledge")
        return invoke_command(*result, "--json")

    assert lint("right.gq").fields["schema_source"] == {
        "kind": "graph",
        "uri": str(two / "graphs/knowledge.omni"),
    }
    assert lint("wrong.gq").code == 1


def test_a_graph_that_is_not_applied_is_refused_by_name(two: Path) -> None:
    ended = invoke_command("optimize", "--cluster", two, "--graph", "other")

    assert (ended.code, ended.out) == (1, "")
    assert "'other' is not applied in cluster" in ended.err
    assert "knowledge, map" in ended.err


def test_a_cluster_without_applied_graphs_has_none_to_look_after(tmp_path: Path) -> None:
    ended = invoke_command("optimize", "--cluster", knowledge_cluster(tmp_path))

    assert (ended.code, ended.out) == (1, "")
    assert f"no graph is applied in cluster {tmp_path}" in ended.err


def test_a_broken_cluster_can_still_be_looked_after(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_files(tmp_path, {"__cluster/recoveries/x.json": "nonsense", "people.pg": "nonsense"})
    for blob in (tmp_path / "__cluster/resources").rglob("*.*"):
        blob.unlink()

    ended = invoke_command("optimize", "--cluster", tmp_path, "--graph", "map", "--json")

    assert ended.code == 0, ended.err


def test_every_mistake_of_an_unreadable_configuration_is_reported(tmp_path: Path) -> None:
    write_config(tmp_path, {"grahps": {}, "polices": {}})

    ended = invoke_command("optimize", "--cluster", tmp_path)

    assert ended.code == 1
    assert "grahps" in ended.err
    assert "polices" in ended.err


def test_a_cluster_is_found_where_its_configuration_says(tmp_path: Path) -> None:
    folder, storage = tmp_path / "declared", tmp_path / "stored"
    knowledge_cluster(folder)
    graphs = {"knowledge": {"schema": "people.pg"}}
    write_config(folder, {"storage": "../stored", "graphs": graphs})
    applied_cluster(folder)
    uri = str(storage / "graphs/knowledge.omni")

    def reached(place: str | Path) -> object:
        return invoke_command("optimize", "--cluster", place, "--json").fields["uri"]

    assert reached(folder) == uri
    assert reached(f"file://{storage}") == uri
    assert reached(storage) == uri


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--cluster", "prod", "--graph", "map"], "map"),
        (["--profile", "keeper"], "knowledge"),
        (["--profile", "keeper", "--graph", "map"], "map"),
        (["--profile", "by-folder", "--graph", "map"], "map"),
    ],
)
def test_a_cluster_has_a_name_in_the_configuration(
    flags: list[str], name: str, two: Path, tmp_path: Path
) -> None:
    write_files(
        tmp_path,
        {
            "config.yaml": f"clusters: {{ prod: {{ root: {two} }} }}\n"
            "profiles:\n"
            "  keeper: { cluster: prod, default_graph: knowledge }\n"
            f"  by-folder: {{ cluster: {two} }}\n"
        },
    )

    ended = invoke_command("optimize", *flags, "--json", home=tmp_path)

    assert ended.fields["uri"] == str(two / f"graphs/{name}.omni")


def test_an_argument_that_is_neither_a_folder_nor_a_name_is_refused(tmp_path: Path) -> None:
    ended = invoke_command("optimize", "--cluster", "prdo", home=tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert "there is no cluster 'prdo'" in ended.err
    assert "`clusters:`" in ended.err
