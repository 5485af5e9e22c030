"""The whole life of a cluster, by real processes: from an empty folder to an agent's new tool."""

from __future__ import annotations

from pathlib import Path

from tests.support.agents import http_agent
from tests.support.clusters import FIND_EMAIL, FIND_PERSON, PEOPLE, PEOPLE_WITH_EMAIL, write_files
from tests.support.commands import Ended, run_command
from tests.support.served_clusters import ADD_PERSON, EVERYTHING, SERVER, cluster_server, declare

ANN = {"OMNIGRAPH_BEARER_TOKEN": "t-ann"}


def cluster(folder: Path, verb: str) -> Ended:
    ended = run_command("cluster", verb, "--config", folder, "--as", "ann", "--json")
    assert ended.code == 0, ended
    return ended


def operations(ended: Ended) -> dict[str, str]:
    """What a plan does to what."""
    changes = ended.fields["changes"]
    assert isinstance(changes, list)
    return {each["resource"]: each["operation"] for each in changes}


def test_an_empty_folder_becomes_a_served_cluster_that_changes_while_it_is_used(
    tmp_path: Path,
) -> None:
    # An empty folder is declared to be a cluster of two graphs, planned and applied.
    write_files(
        tmp_path,
        {
            "people.pg": PEOPLE,
            "places.pg": "node Place {\n  name: String @key\n}\n",
            "queries/people.gq": FIND_PERSON + ADD_PERSON,
            "everything.yaml": EVERYTHING,
            "server.yaml": SERVER,
        },
    )
    declare(tmp_path)
    cluster(tmp_path, "validate")
    cluster(tmp_path, "import")
    planned = operations(cluster(tmp_path, "plan"))
    applied = cluster(tmp_path, "apply")
    assert set(planned.values()) == {"create"}
    assert {"graph.knowledge", "graph.map", "query.knowledge.add_person"} <= planned.keys()
    assert applied.fields["converged"] is True

    with cluster_server(tmp_path) as server:
        at = ("--server", server.url, "--graph", "knowledge")

        def run(*words: str | Path) -> Ended:
            ended = run_command(*words, *at, "--json", env=ANN)
            assert ended.code == 0, ended
            return ended

        # It is served: a user writes to a branch, and merges it.
        zoe = '{"name": "Zoe"}'
        run("branch", "create", "review")
        run("mutate", "add_person", "--params", zoe, "--branch", "review")
        unseen = run("query", "find_person", "--params", zoe).fields["row_count"]
        merged = run("branch", "merge", "review").fields["outcome"]
        seen = run("query", "find_person", "--params", zoe).fields["row_count"]
        assert (unseen, merged, seen) == (0, "fast_forward", 1)

        # A schema and a query change; the server goes on unchanged until it reloads.
        write_files(
            tmp_path,
            {
                "people.pg": PEOPLE_WITH_EMAIL,
                "queries/people.gq": FIND_PERSON + ADD_PERSON + FIND_EMAIL,
            },
        )
        changes = operations(cluster(tmp_path, "plan"))
        assert changes["schema.knowledge"] == "update"
        assert changes["query.knowledge.find_email"] == "create"
        assert cluster(tmp_path, "apply").fields["converged"] is True

        tools = f"{server.url}/graphs/knowledge/mcp"
        with http_agent(tools, token="t-ann", mode="auto") as agent:
            assert "find_email" not in agent.tools()

            reloaded = server.request("POST", "/admin/reload", token="t-ann")

            assert reloaded.json()["graphs"] == ["knowledge", "map"]
            assert "find_email" in agent.tools()
        # An agent that comes now finds the new tool, and what was written before.
        with http_agent(tools, token="t-rob", mode="auto") as agent:
            found = agent.call("find_email", name="Zoe")
        assert found["rows"] == [{"p.email": None}]
