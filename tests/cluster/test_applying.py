"""Importing, planning, applying, approving: a cluster from an empty folder through its changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import import_cluster
from omnigraph.storage.locations import Location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore
from tests.support.clusters import (
    FIND_EMAIL,
    PEOPLE,
    PEOPLE_WITH_EMAIL,
    TEAM_POLICY,
    applied_cluster,
    codes_of,
    knowledge_cluster,
    plain_context,
    read_state,
    reported_codes,
    run_cluster,
    two_graph_cluster,
    write_config,
    write_files,
)
from tests.support.commands import Ended, invoke_command, run_command
from tests.support.graphs import ndjson, node


def changes_of(ended: Ended) -> dict[str, dict[str, object]]:
    diagnostics = ended.fields["changes"]
    assert isinstance(diagnostics, list)
    return {each["resource"]: each for each in diagnostics}


def facts_of(ended: Ended) -> dict[str, object]:
    facts = ended.fields["state_observations"]
    assert isinstance(facts, dict)
    return facts


def status_of(ended: Ended, address: str) -> dict[str, object]:
    statuses = ended.fields["resource_statuses"]
    assert isinstance(statuses, dict)
    found: dict[str, object] = statuses[address]
    return found


def without_map(folder: Path) -> None:
    write_config(
        folder,
        {
            "graphs": {"knowledge": {"schema": "people.pg", "queries": "queries"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["knowledge"]}},
        },
    )


def test_a_plan_without_a_state_says_what_an_apply_needs_first(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)

    ended = run_cluster(tmp_path, "plan")

    assert ended.code == 0
    assert reported_codes(ended) == ["state_missing"]
    assert len(changes_of(ended)) == 4
    assert not (tmp_path / "__cluster/state.json").exists()


def test_an_apply_without_a_state_changes_nothing(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)

    ended = run_cluster(tmp_path, "apply")

    assert ended.code == 1
    assert reported_codes(ended) == ["state_missing"]
    assert not (tmp_path / "__cluster/resources").exists()
    assert not (tmp_path / "graphs").exists()


def test_an_import_and_an_apply_make_all_that_is_declared(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)

    imported, applied = run_cluster(tmp_path, "import"), run_cluster(tmp_path, "apply")

    assert imported.code == 0
    assert facts_of(imported)["state_revision"] == 1
    assert applied.code == 0
    assert applied.fields["converged"] is True
    assert applied.fields["applied_count"] == 4
    digest = changes_of(applied)["query.knowledge.find_person"]["after_digest"]
    blob = tmp_path / f"__cluster/resources/query/knowledge/find_person/{digest}.gq"
    assert blob.read_bytes() == (tmp_path / "queries/people.gq").read_bytes()
    with omnigraph.open(tmp_path / "graphs/knowledge.omni", read_only=True) as graph:
        assert graph.schema_source == PEOPLE


def test_an_apply_with_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    before = (tmp_path / "__cluster/state.json").read_bytes()

    ended = run_cluster(tmp_path, "apply")

    assert ended.code == 0
    assert ended.fields["converged"] is True
    assert ended.fields["state_written"] is False
    assert ended.fields["changes"] == []
    assert (tmp_path / "__cluster/state.json").read_bytes() == before


def test_a_plan_writes_nothing_and_a_missing_state_is_an_empty_one(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)

    ended = run_cluster(tmp_path, "plan")

    assert ended.code == 0
    assert {each["operation"] for each in changes_of(ended).values()} == {"create"}
    assert facts_of(ended)["state_found"] is False
    assert facts_of(ended)["lock_acquired"] is True
    assert list((tmp_path / "__cluster").iterdir()) == []


def test_an_import_takes_in_a_graph_that_is_there(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    (tmp_path / "graphs").mkdir()
    omnigraph.init(tmp_path / "graphs/knowledge.omni", PEOPLE).close()

    imported, planned = run_cluster(tmp_path, "import"), run_cluster(tmp_path, "plan")

    assert imported.code == 0
    assert status_of(imported, "graph.knowledge")["status"] == "applied"
    assert {name: each["operation"] for name, each in changes_of(planned).items()} == {
        "graph.knowledge": "update",
        "policy.team": "create",
        "query.knowledge.find_person": "create",
    }
    assert changes_of(planned)["graph.knowledge"]["disposition"] == "derived"


def test_an_import_stops_at_a_graph_that_cannot_be_opened(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    write_files(tmp_path, {"graphs/knowledge.omni/_schema.pg": "nonsense"})

    ended = run_cluster(tmp_path, "import")

    assert ended.code == 1
    assert reported_codes(ended) == ["graph_observation_error"]
    assert not (tmp_path / "__cluster/state.json").exists()


def test_a_second_import_is_refused(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))

    ended = run_cluster(tmp_path, "import")

    assert ended.code == 1
    assert reported_codes(ended) == ["state_already_exists"]


def test_a_schema_and_a_query_that_needs_it_are_applied_together(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL, "queries/email.gq": FIND_EMAIL})

    planned, applied = run_cluster(tmp_path, "plan"), run_cluster(tmp_path, "apply")

    migration = changes_of(planned)["schema.knowledge"]["migration"]
    assert isinstance(migration, dict)
    assert migration["supported"] is True
    assert [each["kind"] for each in migration["steps"]] == ["add_property"]
    assert planned.fields["blast_radius"] == [
        {
            "resource": "schema.knowledge",
            "affected": ["query.knowledge.find_email", "query.knowledge.find_person"],
        },
    ]
    assert {name: each["disposition"] for name, each in changes_of(applied).items()} == {
        "graph.knowledge": "derived",
        "query.knowledge.find_email": "applied",
        "schema.knowledge": "applied",
    }
    assert applied.fields["converged"] is True
    with omnigraph.open(tmp_path / "graphs/knowledge.omni", read_only=True) as graph:
        assert graph.commits()[-1].actor is None
        assert graph.query(FIND_EMAIL, {"name": "Ann"}).rows == []


def test_the_operator_is_the_actor_of_the_commit(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL})

    ended = run_cluster(tmp_path, "apply", "--as", "zoe")

    assert ended.fields["actor"] == "zoe"
    with omnigraph.open(tmp_path / "graphs/knowledge.omni", read_only=True) as graph:
        assert graph.commits()[-1].actor == "zoe"


def test_an_equivalent_schema_is_applied_without_a_commit(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": "// people we know\n" + PEOPLE})

    first, again = run_cluster(tmp_path, "apply"), run_cluster(tmp_path, "apply")
    refreshed = run_cluster(tmp_path, "refresh")

    assert first.fields["converged"] is True
    assert again.fields["state_written"] is False
    assert status_of(refreshed, "schema.knowledge")["status"] == "applied"
    with omnigraph.open(tmp_path / "graphs/knowledge.omni", read_only=True) as graph:
        assert len(graph.commits()) == 1


def test_a_schema_that_a_graph_cannot_have_stops_what_depends_on_it(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    with omnigraph.open(tmp_path / "graphs/knowledge.omni") as graph:
        graph.load(ndjson(node("Person", name="Ann")), mode="append")
    required = PEOPLE.replace("age: I32?", "age: I32?\n  city: String")
    write_files(
        tmp_path,
        {
            "people.pg": required,
            "places.pg": "node Place {\n  name: String @key\n  size: I32?\n}\n",
            "queries/people.gq": "query all() {\n  match { $p: Person }\n  return { $p.city }\n}\n",
        },
    )

    planned, applied = run_cluster(tmp_path, "plan"), run_cluster(tmp_path, "apply")

    assert "apply_unsupported_change" in reported_codes(planned)
    assert applied.code == 1
    assert {
        "schema_apply_failed",
        "schema_apply_skipped",
        "apply_dependency_blocked",
    } <= set(reported_codes(applied))
    reasons = {name: each.get("reason") for name, each in changes_of(applied).items()}
    assert reasons["schema.knowledge"] == "schema_apply_failed"
    assert reasons["query.knowledge.all"] == "dependency_not_applied"
    assert reasons["schema.map"] == "schema_apply_skipped"
    assert applied.fields["converged"] is False
    assert list((tmp_path / "__cluster/recoveries").iterdir()) == []
    reported = invoke_command("cluster", "status", "--config", tmp_path).out
    assert "adding a required property" in reported.partition("schema.knowledge (")[2]


def test_a_plan_reports_the_branches_that_an_apply_is_refused_for(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    with omnigraph.open(tmp_path / "graphs/knowledge.omni") as graph:
        graph.create_branch("side")
    (tmp_path / "queries/people.gq").unlink()
    write_files(tmp_path, {"people.pg": PEOPLE.replace("  age: I32?\n", "")})

    planned = run_cluster(tmp_path, "plan")
    shown = invoke_command("cluster", "plan", "--config", tmp_path).out
    applied = run_cluster(tmp_path, "apply")

    migration = changes_of(planned)["schema.knowledge"]["migration"]
    assert isinstance(migration, dict)
    assert migration["supported"] is False
    assert "branch 'side'" in migration["blockers"][0]
    assert "apply_unsupported_change" in reported_codes(planned)
    assert f"blocked: {migration['blockers'][0]}" in shown
    assert "schema_apply_failed" in reported_codes(applied)
    reported = invoke_command("cluster", "status", "--config", tmp_path).out
    assert migration["blockers"][0] in reported


def test_a_graph_is_deleted_only_after_an_approval(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    without_map(tmp_path)

    blocked = run_cluster(tmp_path, "apply")
    approved = run_cluster(tmp_path, "approve", "graph.map", "--as", "ann")
    applied = run_cluster(tmp_path, "apply", "--as", "ann")

    assert blocked.code == 0
    assert {each["reason"] for each in changes_of(blocked).values()} == {"approval_required"}
    assert blocked.fields["converged"] is False
    assert approved.code == 0
    assert approved.fields["approved_by"] == "ann"
    assert applied.fields["converged"] is True
    assert not (tmp_path / "graphs/map.omni").exists()
    observations = read_state(tmp_path)["observations"]
    assert isinstance(observations, dict)
    tombstone = observations["graph.map"]
    assert tombstone["kind"] == "tombstone"
    assert tombstone["approval_id"] == approved.fields["approval_id"]
    assert tombstone["actor"] == "ann"
    [approval] = (tmp_path / "__cluster/approvals").glob("*.json")
    assert json.loads(approval.read_text())["consumed_at"] == tombstone["deleted_at"]


def test_a_deletion_has_one_gate(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_config(tmp_path, {"graphs": {"map": {"schema": "places.pg"}}})

    planned = run_cluster(tmp_path, "plan")
    other = run_cluster(tmp_path, "approve", "schema.knowledge", "--as", "ann")

    gates = planned.fields["approvals_required"]
    assert isinstance(gates, list)
    assert [(each["resource"], each["satisfied"]) for each in gates] == [("graph.knowledge", False)]
    blocked = {
        name for name, each in changes_of(planned).items() if each["disposition"] == "blocked"
    }
    assert blocked == {
        "graph.knowledge",
        "policy.team",
        "query.knowledge.find_person",
        "schema.knowledge",
    }
    assert other.code == 1
    assert reported_codes(other) == ["approval_not_required"]


def test_a_policy_guards_a_graph_until_the_graph_is_deleted(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_config(tmp_path, {"graphs": {"map": {"schema": "places.pg"}}})

    waiting = run_cluster(tmp_path, "apply")
    run_cluster(tmp_path, "approve", "graph.knowledge", "--as", "ann")
    applied = run_cluster(tmp_path, "apply")

    assert changes_of(waiting)["policy.team"]["reason"] == "dependency_not_applied"
    assert changes_of(applied)["policy.team"]["disposition"] == "applied"
    assert applied.fields["converged"] is True


def test_an_approval_is_of_what_was_seen(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    without_map(tmp_path)
    run_cluster(tmp_path, "approve", "graph.map", "--as", "ann")
    write_files(tmp_path, {"team.yaml": TEAM_POLICY.replace("[ann, bob]", "[ann]")})

    ended = run_cluster(tmp_path, "apply")

    assert ended.code == 0
    assert "approval_stale" in reported_codes(ended)
    assert changes_of(ended)["graph.map"]["reason"] == "approval_required"
    assert changes_of(ended)["policy.team"]["disposition"] == "applied"
    assert (tmp_path / "graphs/map.omni").exists()


def test_an_approval_needs_a_name_and_something_to_approve(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))

    nameless = run_cluster(tmp_path, "approve", "graph.map")
    needless = run_cluster(tmp_path, "approve", "graph.map", "--as", "ann")

    assert nameless.code == 1
    assert reported_codes(nameless) == ["actor_required"]
    assert "--as" in nameless.out
    assert "operator.actor" in nameless.out
    assert needless.code == 1
    assert reported_codes(needless) == ["approval_not_required"]
    assert not (tmp_path / "__cluster/approvals").exists()


def test_a_configured_operator_may_approve(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path / "cluster"))
    without_map(tmp_path / "cluster")
    write_files(tmp_path / "home", {"config.yaml": "operator: {actor: zoe}\n"})

    ended = invoke_command(
        "cluster",
        "approve",
        "graph.map",
        "--config",
        tmp_path / "cluster",
        "--json",
        home=tmp_path / "home",
    )

    assert ended.fields["approved_by"] == "zoe"


def test_a_missing_content_is_found_and_published_again(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    [blob] = (tmp_path / "__cluster/resources/query/knowledge/find_person").iterdir()
    blob.unlink()

    looked = run_cluster(tmp_path, "status")
    refreshed = run_cluster(tmp_path, "refresh")
    planned = run_cluster(tmp_path, "plan")
    applied = run_cluster(tmp_path, "apply")

    assert looked.code == 0
    assert reported_codes(looked) == ["catalog_payload_missing"]
    assert refreshed.code == 0
    status = status_of(refreshed, "query.knowledge.find_person")
    assert (status["status"], status["conditions"]) == ("drifted", ["payload_missing"])
    assert changes_of(planned)["query.knowledge.find_person"]["operation"] == "create"
    assert applied.fields["converged"] is True
    assert blob.exists()


def test_a_tampered_content_is_replaced(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    [blob] = (tmp_path / "__cluster/resources/query/knowledge/find_person").iterdir()
    blob.write_text("query evil() { match { $p: Person } return { $p } }")

    looked, refreshed = run_cluster(tmp_path, "status"), run_cluster(tmp_path, "refresh")
    applied = run_cluster(tmp_path, "apply")

    assert reported_codes(looked) == reported_codes(refreshed) == ["catalog_payload_mismatch"]
    status = status_of(refreshed, "query.knowledge.find_person")
    assert status["conditions"] == ["payload_mismatch"]
    assert applied.fields["converged"] is True
    assert blob.read_bytes() == (tmp_path / "queries/people.gq").read_bytes()


def test_a_schema_changed_behind_the_cluster_is_found_and_changed_back(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    with omnigraph.open(tmp_path / "graphs/knowledge.omni") as graph:
        graph.apply_schema(PEOPLE_WITH_EMAIL)

    refreshed, applied = run_cluster(tmp_path, "refresh"), run_cluster(tmp_path, "apply")

    assert refreshed.code == 0
    assert status_of(refreshed, "schema.knowledge")["status"] == "drifted"
    assert facts_of(refreshed)["state_revision"] == 3
    assert applied.fields["converged"] is True
    assert status_of(applied, "schema.knowledge")["status"] == "applied"
    with omnigraph.open(tmp_path / "graphs/knowledge.omni", read_only=True) as graph:
        assert graph.schema_source == PEOPLE


def test_a_deleted_graph_is_created_again(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    omnigraph.open(tmp_path / "graphs/map.omni").close()
    for path in sorted((tmp_path / "graphs/map.omni").rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()

    refreshed, applied = run_cluster(tmp_path, "refresh"), run_cluster(tmp_path, "apply")

    assert status_of(refreshed, "graph.map")["conditions"] == ["graph_missing"]
    assert applied.fields["converged"] is True
    assert (tmp_path / "graphs/map.omni/_schema.pg").exists()


def test_a_policy_bound_elsewhere_is_a_change_of_its_bindings(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    config = (tmp_path / "cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(config.replace("- knowledge", "- map"))

    ended = run_cluster(tmp_path, "apply")

    [change] = changes_of(ended).values()
    assert change["binding_change"] is True
    assert change["metadata_change"] == "policy_bindings"
    assert ended.fields["converged"] is True


def test_a_provider_is_bound_changed_and_released(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    graph = {"schema": "people.pg", "embedding_provider": "main"}
    mock = {"embedding": {"main": {"kind": "mock", "model": "a"}}}
    other = {"embedding": {"main": {"kind": "mock", "model": "b"}}}
    write_config(tmp_path, {"providers": mock, "graphs": {"a": graph}})
    applied_cluster(tmp_path)

    write_config(tmp_path, {"providers": other, "graphs": {"a": graph}})
    changed = run_cluster(tmp_path, "apply")
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg"}}})
    let_go = run_cluster(tmp_path, "apply")

    assert {name: each["disposition"] for name, each in changes_of(changed).items()} == {
        "graph.a": "derived",
        "provider.embedding.main": "applied",
    }
    assert changed.fields["converged"] is True
    assert changes_of(let_go)["graph.a"]["binding_change"] is True
    assert changes_of(let_go)["provider.embedding.main"]["operation"] == "delete"
    assert let_go.fields["converged"] is True


def test_a_provider_stays_while_a_graph_that_needs_it_does(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    graph = {"schema": "people.pg", "embedding_provider": "main"}
    mock = {"embedding": {"main": {"kind": "mock", "model": "a"}}}
    write_config(tmp_path, {"providers": mock, "graphs": {"a": graph, "b": graph}})
    applied_cluster(tmp_path)
    write_config(tmp_path, {"graphs": {"b": {"schema": "people.pg"}}})

    ended = run_cluster(tmp_path, "apply")

    assert changes_of(ended)["provider.embedding.main"]["reason"] == "dependency_not_applied"
    assert changes_of(ended)["graph.b"]["disposition"] == "derived"
    assert run_cluster(tmp_path, "apply").fields["state_written"] is False


def test_a_file_that_is_edited_meanwhile_stops_an_apply(tmp_path: Path) -> None:
    import_cluster(knowledge_cluster(tmp_path), plain_context(), actor=None)
    editing = replace(plain_context(), open_objects=lambda place: _edit(tmp_path, place))

    report = apply(tmp_path, editing, actor=None)

    assert codes_of(report.heading.findings) == {"resource_content_changed"}
    assert not (tmp_path / "graphs").exists()
    assert not (tmp_path / "__cluster/lock.json").exists()


def _edit(folder: Path, place: Location) -> ObjectStore:
    """A user saves a file after it was read and before anything is written."""
    write_files(folder, {"queries/people.gq": FIND_EMAIL})
    return open_objects(place, is_durable=False)


def test_what_was_stored_by_a_later_version_is_left_alone(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"__cluster/state.json": '{"version": 2}'})

    ended = run_cluster(tmp_path, "apply")

    assert ended.code == 1
    assert "unsupported_state_version" in reported_codes(ended)
    assert (tmp_path / "__cluster/state.json").read_text() == '{"version": 2}'


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{", "invalid_recovery_sidecar"),
        ('{"schema_version": 2}', "unsupported_recovery_sidecar_version"),
    ],
)
def test_an_apply_stops_at_a_record_that_it_does_not_understand(
    tmp_path: Path, content: str, code: str
) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(
        tmp_path,
        {
            "__cluster/recoveries/x.json": content,
            "queries/people.gq": FIND_EMAIL.replace("email", "age"),
        },
    )

    ended = run_cluster(tmp_path, "apply")

    assert ended.code == 1
    assert reported_codes(ended) == [code]
    assert ended.fields["changes"] == []


def test_a_graph_in_the_way_is_taken_in_by_a_refresh(tmp_path: Path) -> None:
    import_cluster(knowledge_cluster(tmp_path), plain_context(), actor=None)
    (tmp_path / "graphs").mkdir(exist_ok=True)
    omnigraph.init(tmp_path / "graphs/knowledge.omni", PEOPLE).close()

    refused = run_cluster(tmp_path, "apply")
    refreshed = run_cluster(tmp_path, "refresh")
    applied = run_cluster(tmp_path, "apply")

    assert refused.code == 1
    assert "graph_create_failed" in reported_codes(refused)
    assert "cluster refresh" in refused.out
    assert refreshed.code == 0
    assert applied.fields["converged"] is True


def test_a_schema_without_its_graph_is_left_as_it_is(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    state = read_state(tmp_path)
    revision = state["applied_revision"]
    assert isinstance(revision, dict)
    revision["resources"]["schema.ghost"] = {"digest": "0" * 64}
    write_files(tmp_path, {"__cluster/state.json": json.dumps(state)})

    ended = run_cluster(tmp_path, "apply")

    change = changes_of(ended)["schema.ghost"]
    assert (change["disposition"], change["reason"]) == ("deferred", "apply_unsupported_kind")
    assert reported_codes(ended) == ["apply_unsupported_change"]
    assert ended.fields["converged"] is False
    assert ended.fields["deferred_count"] == 1


def test_a_query_that_is_no_longer_declared_is_deleted_without_approval(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_config(
        tmp_path,
        {
            "graphs": {"knowledge": {"schema": "people.pg"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["knowledge"]}},
        },
    )

    ended = run_cluster(tmp_path, "apply")

    assert changes_of(ended)["query.knowledge.find_person"]["operation"] == "delete"
    assert ended.fields["converged"] is True


def test_a_cluster_may_be_stored_elsewhere_than_declared(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path / "code")
    config = (tmp_path / "code/cluster.yaml").read_text()
    (tmp_path / "code/cluster.yaml").write_text(f"{config}storage: ../store\n")

    applied_cluster(tmp_path / "code")

    assert (tmp_path / "store/graphs/knowledge.omni").is_dir()
    assert not (tmp_path / "code/__cluster").exists()


def test_a_graph_of_a_cluster_is_not_made_or_changed_by_hand(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"new.pg": PEOPLE_WITH_EMAIL})

    made = invoke_command("init", tmp_path / "graphs/x.omni", "--schema", tmp_path / "new.pg")
    changed = invoke_command(
        "schema", "apply", tmp_path / "graphs/knowledge.omni", "--schema", tmp_path / "new.pg"
    )

    assert (made.code, changed.code) == (1, 1)
    assert "cluster apply" in made.err
    assert "cluster apply" in changed.err
    assert not (tmp_path / "graphs/x.omni").exists()
    with omnigraph.open(tmp_path / "graphs/knowledge.omni", read_only=True) as graph:
        assert graph.schema_source == PEOPLE


def test_people_read_a_plan_as_a_difference(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    without_map(tmp_path)
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL, "queries/email.gq": FIND_EMAIL})

    ended = run_command("cluster", "plan", cwd=tmp_path)

    assert ended.code == 0
    assert ended.out == (
        "  ~ graph.knowledge  [through its parts]\n"
        "  - graph.map  [blocked: approval_required]\n"
        "      affects schema.map\n"
        "  + query.knowledge.find_email\n"
        "  ~ schema.knowledge\n"
        "      add property Person.email: String?\n"
        "      affects query.knowledge.find_email, query.knowledge.find_person\n"
        "  - schema.map  [blocked: approval_required]\n"
        "Plan: 1 to create, 2 to update, 0 to delete, 2 blocked.\n"
        "graph.map deletes the graph with its rows and history: to approve, run "
        "`omnigraph cluster approve graph.map --as <actor>`\n"
    )
