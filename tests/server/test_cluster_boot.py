"""A server started from a cluster serves the applied configuration and refuses a damaged one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.clusters import (
    FIND_PERSON,
    PEOPLE,
    TEAM_POLICY,
    applied_cluster,
    knowledge_cluster,
    write_config,
    write_files,
    write_sidecar,
)
from tests.support.served_clusters import TOKENS, cluster_server, policed_cluster
from tests.support.servers import refused_server, serving

BY_VECTOR = (
    "query near($v: Vector(3)) { match { $d: Doc } return { $d.slug } "
    "order { nearest($d.place, $v) } limit 1 }\n"
)
DOCS = 'node Doc {\n  slug: String @key\n  text: String?\n  place: Vector(3)? @embed("text")\n}\n'


def test_a_cluster_is_served_with_its_graphs_queries_and_policies(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    write_files(tmp_path, {"queries/people.gq": "not applied", "everything.yaml": "not applied"})

    with cluster_server(tmp_path) as server:
        listed = server.request("GET", "/graphs", token="t-ann").json()["graphs"]
        path = "/graphs/knowledge/queries"
        catalog = server.request("GET", path, token="t-rob").json()["queries"]
        adding = {"params": {"name": "Zoe"}}
        added = server.request("POST", f"{path}/add_person", token="t-ann", json=adding)
        denied = server.request("POST", f"{path}/add_person", token="t-rob", json=adding)
        found = server.request("POST", f"{path}/find_person", token="t-rob", json=adding)

    assert [each["graph_id"] for each in listed] == ["knowledge", "map"]
    assert listed[0]["uri"] == "/graphs/knowledge"
    assert [(each["name"], each.get("description")) for each in catalog] == [
        ("add_person", "Adds a person."),
        ("find_person", None),
    ]
    assert added.json()["affected_nodes"] == 1
    assert (denied.status_code, denied.json()["code"]) == (403, "forbidden")
    assert found.json()["rows"] == [{"p.name": "Zoe", "p.age": None}]


def test_a_storage_root_is_served_without_a_configuration(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    (tmp_path / "cluster.yaml").unlink()

    place = f"file://{tmp_path}"
    with serving(tmp_path, "--cluster", place, environment=TOKENS) as server:
        response = server.request("GET", "/graphs/map/snapshot", token="t-rob")

    assert response.status_code == 200


def test_of_two_graphs_the_one_that_can_be_opened_is_served(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    shutil.rmtree(tmp_path / "graphs/map.omni")

    with cluster_server(tmp_path) as server:
        listed = server.request("GET", "/graphs", token="t-ann")
        found = server.request("GET", "/graphs/knowledge/snapshot", token="t-ann")
        missing = server.request("GET", "/graphs/map/snapshot", token="t-ann")
        line = server.wait_for_line("graph quarantined", graph="map")
    needing_all = refused_server(
        tmp_path, "--cluster", str(tmp_path), "--require-all-graphs", environment=TOKENS
    )

    assert [each["graph_id"] for each in listed.json()["graphs"]] == ["knowledge"]
    assert found.status_code == 200
    assert missing.status_code == 404
    body = missing.json()
    assert (body["error"], body["code"]) == ("graph 'map' not found", "not_found")
    assert "`omnigraph cluster refresh`" in str(line["reason"])
    assert needing_all.code == 1
    assert "not every graph can be served: 'map'" in needing_all.said


def test_a_graph_with_an_interrupted_apply_is_not_served(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    write_sidecar(tmp_path, "map")

    with cluster_server(tmp_path) as server:
        found = server.request("GET", "/graphs/knowledge/snapshot", token="t-ann")
        missing = server.request("GET", "/graphs/map/snapshot", token="t-ann")

    assert (found.status_code, missing.status_code) == (200, 404)


def test_an_id_that_no_path_can_name_is_not_served(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    write_config(
        tmp_path,
        {"graphs": {"my_graph": {"schema": "people.pg"}, "mine": {"schema": "people.pg"}}},
    )
    applied_cluster(tmp_path)

    with serving(tmp_path, "--cluster", str(tmp_path), "--unauthenticated") as server:
        line = server.wait_for_line("graph quarantined", graph="my_graph")
        response = server.request("GET", "/graphs/mine/snapshot", token=None)

    assert "letters, digits and hyphens" in str(line["reason"])
    assert response.status_code == 200


def test_the_schema_of_a_clusters_graph_is_changed_in_the_cluster_alone(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    wanted = {"schema_source": f"{PEOPLE}\nnode More {{ name: String @key }}"}

    with cluster_server(tmp_path) as server:
        path = "/graphs/knowledge/schema"
        denied = server.request("POST", f"{path}/apply", token="t-rob", json=wanted)
        refused = server.request("POST", f"{path}/apply", token="t-ann", json=wanted)
        schema = server.request("GET", path, token="t-ann").json()["schema_source"]

    assert denied.status_code == 403
    assert refused.status_code == 409
    assert refused.json()["code"] == "conflict"
    assert "cluster apply" in refused.json()["error"]
    assert schema == PEOPLE


def test_an_unapplied_or_damaged_cluster_is_not_served(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    before = refused_server(tmp_path, "--cluster", str(tmp_path), environment=TOKENS)
    applied_cluster(tmp_path)
    [blob] = (tmp_path / "__cluster/resources/query/knowledge/find_person").iterdir()
    blob.write_text(f"{FIND_PERSON}// changed", encoding="utf-8")

    after = refused_server(tmp_path, "--cluster", str(tmp_path), environment=TOKENS)

    assert (before.code, after.code) == (1, 1)
    assert "[cluster_state_missing] __cluster/state.json: " in before.said
    assert "[catalog_payload_digest_mismatch] query.knowledge.find_person: " in after.said


def test_a_cluster_needs_tokens_with_a_policy_and_a_flag_without(tmp_path: Path) -> None:
    policed, plain = tmp_path / "policed", tmp_path / "plain"
    policed_cluster(policed)
    write_files(plain, {"people.pg": PEOPLE})
    applied_cluster(write_config(plain, {"graphs": {"a": {"schema": "people.pg"}}}))
    # The policy of a graph counts even if the graph is not served.
    write_sidecar(policed, "knowledge")

    open_to_all = refused_server(policed, "--cluster", str(policed), "--unauthenticated")
    unstated = refused_server(plain, "--cluster", str(plain))

    assert (open_to_all.code, unstated.code) == (1, 1)
    assert "no bearer tokens" in open_to_all.said
    assert "--unauthenticated" in unstated.said


def test_a_graph_without_a_policy_beside_one_that_has_one_is_only_read(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE, "team.yaml": TEAM_POLICY})
    write_config(
        tmp_path,
        {
            "graphs": {"a": {"schema": "people.pg"}, "b": {"schema": "people.pg"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["a"]}},
        },
    )
    applied_cluster(tmp_path)
    adding = {"query": 'query q() { insert Person { name: "Zoe" } }'}

    with cluster_server(tmp_path) as server:
        on_a, on_b = (
            server.request("POST", f"/graphs/{id}/mutate", token="t-ann", json=adding)
            for id in "ab"
        )
        read = server.request("GET", "/graphs/b/snapshot", token="t-ann")

    assert (on_a.status_code, on_b.status_code, read.status_code) == (200, 403, 200)
    assert "default-deny" in on_b.json()["error"]


@pytest.mark.parametrize("key", ["t-key", ""])
def test_a_graph_whose_provider_has_no_key_is_not_served(tmp_path: Path, key: str) -> None:
    write_files(tmp_path, {"docs.pg": DOCS, "people.pg": PEOPLE, "near.gq": BY_VECTOR})
    write_config(
        tmp_path,
        {
            "providers": {
                "embedding": {"team": {"kind": "openai", "api_key": "${TEAM_KEY}", "model": "m"}}
            },
            "graphs": {
                "docs": {
                    "schema": "docs.pg",
                    "queries": ["near.gq"],
                    "embedding_provider": "team",
                },
                "people": {"schema": "people.pg"},
            },
        },
    )
    applied_cluster(tmp_path)

    with cluster_server(tmp_path, environment={"TEAM_KEY": key}) as server:
        response = server.request("GET", "/graphs/docs/snapshot", token="t-ann")
        said = server.log_text()

    assert response.status_code == (200 if key else 404)
    assert ("TEAM_KEY" in said) is not bool(key)
    assert ("stored query takes a vector" in said) is bool(key)
    assert "t-key" not in said


@pytest.mark.parametrize("flag", ["--store", "--policy", "--server-policy", "--queries"])
def test_a_cluster_brings_its_own_files(tmp_path: Path, flag: str) -> None:
    ended = refused_server(tmp_path, "--cluster", str(tmp_path), flag, "x")

    assert ended.code == 1
    assert f"{flag} does not go with --cluster" in ended.said
