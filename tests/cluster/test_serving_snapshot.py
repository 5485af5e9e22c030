"""What a server boots from: the applied revision, checked, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.cluster.apply import apply
from omnigraph.cluster.catalog import get_graph_uri, list_graph_ids, read_policies
from omnigraph.cluster.commands import import_cluster, refresh
from omnigraph.cluster.config import EmbeddingProfile
from omnigraph.cluster.context import open_cluster
from omnigraph.cluster.resources import StoppedError
from omnigraph.cluster.serving import ServingSnapshot, read_serving_snapshot
from omnigraph.embed.profiles import ProviderKind
from tests.support.clusters import (
    FIND_PERSON,
    PEOPLE,
    SERVER_POLICY,
    TEAM_POLICY,
    applied_cluster,
    codes_of,
    knowledge_cluster,
    plain_context,
    read_state,
    require_converged,
    two_graph_cluster,
    write_config,
    write_files,
    write_sidecar,
)


def snapshot_of(folder: Path) -> ServingSnapshot:
    return read_serving_snapshot(open_cluster(str(folder), plain_context()))


def refusal_of(folder: Path) -> set[str]:
    with pytest.raises(StoppedError) as caught:
        snapshot_of(folder)
    return codes_of(caught.value.findings)


def test_a_server_gets_what_was_applied_and_not_what_is_in_the_files(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"queries/people.gq": "nonsense", "team.yaml": "nonsense"})

    snapshot = snapshot_of(tmp_path)

    [graph] = snapshot.graphs
    assert graph.id == "knowledge"
    assert graph.uri == str(tmp_path / "graphs/knowledge.omni")
    assert [(each.name, each.content.decode()) for each in graph.queries] == [
        ("find_person", FIND_PERSON)
    ]
    assert graph.policy is not None
    assert graph.policy.content.decode() == TEAM_POLICY
    assert snapshot.policy is None
    assert snapshot.has_policy
    assert snapshot.left_out == ()
    assert snapshot.revision == 2


def test_a_storage_root_is_served_without_its_configuration(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    (tmp_path / "cluster.yaml").unlink()

    cluster = open_cluster(f"file://{tmp_path}", plain_context())

    assert [each.id for each in read_serving_snapshot(cluster).graphs] == ["knowledge"]


def test_policies_are_found_by_their_scope(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"people.pg": PEOPLE, "team.yaml": TEAM_POLICY, "server.yaml": SERVER_POLICY}
    )
    write_config(
        tmp_path,
        {
            "graphs": {"a": {"schema": "people.pg"}, "b": {"schema": "people.pg"}},
            "policies": {
                "team": {"file": "team.yaml", "applies_to": ["graph.a"]},
                "server": {"file": "server.yaml", "applies_to": ["cluster"]},
            },
        },
    )
    applied_cluster(tmp_path)

    snapshot = snapshot_of(tmp_path)

    assert snapshot.policy is not None
    assert snapshot.policy.name == "server"
    assert [None if each.policy is None else each.policy.name for each in snapshot.graphs] == [
        "team",
        None,
    ]


def test_an_embedding_profile_comes_with_the_name_of_its_key(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    profile = {"kind": "openai", "model": "small", "api_key": "${TEAM_KEY}"}
    write_config(
        tmp_path,
        {
            "providers": {"embedding": {"main": profile}},
            "graphs": {"a": {"schema": "people.pg", "embedding_provider": "main"}},
        },
    )
    applied_cluster(tmp_path)

    [graph] = snapshot_of(tmp_path).graphs

    assert graph.embedding == EmbeddingProfile(ProviderKind.OPENAI, None, "small", "TEAM_KEY")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"provider.embedding.main": None}, "embedding_provider_missing"),
        ({"provider.embedding.main": {"digest": "0"}}, "embedding_provider_profile_missing"),
        (
            {"provider.embedding.main": {"digest": "0", "embedding_profile": {"kind": "mock"}}},
            "embedding_provider_digest_mismatch",
        ),
        (
            {"provider.embedding.main": {"digest": "0", "embedding_profile": {"kind": "oracle"}}},
            "invalid_embedding_provider",
        ),
    ],
)
def test_a_graph_whose_provider_is_not_what_was_applied_is_not_served(
    tmp_path: Path, change: dict[str, object], code: str
) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    write_config(
        tmp_path,
        {
            "providers": {"embedding": {"main": {"kind": "mock"}}},
            "graphs": {"a": {"schema": "people.pg", "embedding_provider": "main"}},
        },
    )
    applied_cluster(tmp_path)
    state = read_state(tmp_path)
    resources = state["applied_revision"]["resources"] | change  # type: ignore[index]
    present = {address: each for address, each in resources.items() if each is not None}
    changed = state | {"applied_revision": {"config_digest": None, "resources": present}}
    write_files(tmp_path, {"__cluster/state.json": json.dumps(changed)})

    assert refusal_of(tmp_path) == {code}


def test_a_tampered_content_is_not_served(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    [blob] = (tmp_path / "__cluster/resources/query/knowledge/find_person").iterdir()
    blob.write_text("query evil() { match { $p: Person } return { $p } }")

    assert refusal_of(tmp_path) == {"catalog_payload_digest_mismatch"}


def test_a_missing_content_is_not_left_out_in_silence(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    [blob] = (tmp_path / "__cluster/resources/policy/team").iterdir()
    blob.unlink()

    assert refusal_of(tmp_path) == {"catalog_payload_missing"}


def test_a_policy_that_was_lost_is_not_done_without(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    [blob] = (tmp_path / "__cluster/resources/policy/team").iterdir()
    blob.unlink()
    refresh(tmp_path, plain_context(), actor=None)

    assert refusal_of(tmp_path) == {"catalog_payload_missing"}
    require_converged(apply(tmp_path, plain_context(), actor=None))
    assert snapshot_of(tmp_path).has_policy


def test_without_a_state_there_is_nothing_to_serve(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)

    assert refusal_of(tmp_path) == {"cluster_state_missing"}


def test_a_cluster_without_applied_graphs_is_empty(tmp_path: Path) -> None:
    import_cluster(knowledge_cluster(tmp_path), plain_context(), actor=None)

    assert refusal_of(tmp_path) == {"cluster_empty"}


def test_a_graph_whose_change_is_not_finished_is_left_out_alone(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_sidecar(tmp_path, "knowledge")

    snapshot = snapshot_of(tmp_path)

    assert [each.id for each in snapshot.graphs] == ["map"]
    [left_out] = snapshot.left_out
    assert (left_out.id, left_out.finding.code) == ("knowledge", "cluster_recovery_pending")
    # Its policy was applied all the same, and decides whether callers need tokens.
    assert snapshot.has_policy


def test_a_cluster_whose_every_graph_is_being_changed_is_not_served(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_sidecar(tmp_path, "knowledge")

    assert refusal_of(tmp_path) == {"cluster_no_healthy_graphs"}


def test_an_unreadable_sidecar_stops_everything(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_files(tmp_path, {"__cluster/recoveries/x.json": '{"schema_version": 9}'})

    assert refusal_of(tmp_path) == {"cluster_recovery_unattributed"}


def test_a_policy_without_bindings_stops_everything(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    state = read_state(tmp_path)
    del state["applied_revision"]["resources"]["policy.team"]["applies_to"]  # type: ignore[index]
    write_files(tmp_path, {"__cluster/state.json": json.dumps(state)})

    assert refusal_of(tmp_path) == {"policy_bindings_missing"}


def test_maintenance_finds_a_graph_by_the_ledger_alone(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_sidecar(tmp_path, "knowledge")
    cluster = open_cluster(str(tmp_path), plain_context())

    uri = get_graph_uri(cluster, "knowledge")

    assert uri == str(tmp_path / "graphs/knowledge.omni")
    assert list_graph_ids(cluster) == ("knowledge", "map")
    with pytest.raises(StoppedError, match="'other' is not applied in cluster"):
        get_graph_uri(cluster, "other")


def test_the_only_graph_of_a_cluster_needs_no_name(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path / "one"))
    applied_cluster(two_graph_cluster(tmp_path / "two"))
    import_cluster(knowledge_cluster(tmp_path / "none"), plain_context(), actor=None)

    one = get_graph_uri(open_cluster(str(tmp_path / "one"), plain_context()), None)

    assert one == str(tmp_path / "one/graphs/knowledge.omni")
    with pytest.raises(StoppedError, match="--graph <id>: knowledge, map"):
        get_graph_uri(open_cluster(str(tmp_path / "two"), plain_context()), None)
    with pytest.raises(StoppedError, match="no graph is applied"):
        get_graph_uri(open_cluster(str(tmp_path / "none"), plain_context()), None)


def test_applied_policies_are_read_with_what_they_apply_to(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"team.yaml": "edited since"})

    [policy] = read_policies(open_cluster(str(tmp_path), plain_context()))

    assert (policy.name, policy.applies_to) == ("team", ("graph.knowledge",))
    assert policy.content.decode() == TEAM_POLICY
