"""A cluster in a bucket: declared on this machine, stored there with its graphs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import approve, force_unlock, import_cluster, refresh, status
from omnigraph.cluster.context import ClusterContext, make_context, open_cluster
from omnigraph.cluster.serving import read_serving_snapshot
from omnigraph.engine.settings import open_stores
from omnigraph.storage.objects import open_objects
from tests.support.clusters import (
    FIND_EMAIL,
    PEOPLE_WITH_EMAIL,
    codes_of,
    require_converged,
    two_graph_cluster,
    write_config,
    write_files,
)
from tests.support.commands import invoke_command
from tests.support.crashing import CrashingObjects, Fault, Scope, SimulatedCrash, When, crashing
from tests.support.s3_server import REGION, S3Server


def stored_in_bucket(folder: Path, server: S3Server) -> tuple[Path, str]:
    root = f"s3://{server.create_bucket()}/team"
    two_graph_cluster(folder)
    config = (folder / "cluster.yaml").read_text()
    (folder / "cluster.yaml").write_text(f"{config}storage: {root}\n")
    return folder, root


def reach_by_environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT": server.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ALLOW_HTTP": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    }.items():
        monkeypatch.setenv(name, value)


def s3_context(server: S3Server) -> ClusterContext:
    return make_context(storage_options=server.lance_options(), durability="full")


def test_a_cluster_lives_in_a_bucket(tmp_path: Path, server: S3Server) -> None:
    folder, root = stored_in_bucket(tmp_path, server)
    context = s3_context(server)

    imported = import_cluster(folder, context, actor=None)
    require_converged(apply(folder, context, actor="ann"))
    write_files(folder, {"people.pg": PEOPLE_WITH_EMAIL, "queries/email.gq": FIND_EMAIL})
    require_converged(apply(folder, context, actor="ann"))
    looked = refresh(folder, context, actor=None)

    assert imported.heading.is_ok
    assert looked.facts is not None
    assert looked.facts.ledger is not None
    assert looked.facts.ledger.revision == 4
    assert {each.status for each in looked.facts.ledger.statuses.values()} == {"applied"}
    snapshot = read_serving_snapshot(open_cluster(root, context))
    assert [(each.id, each.uri) for each in snapshot.graphs] == [
        ("knowledge", f"{root}/graphs/knowledge.omni"),
        ("map", f"{root}/graphs/map.omni"),
    ]
    assert sorted(path.name for path in folder.iterdir()) == [
        "cluster.yaml",
        "people.pg",
        "places.pg",
        "queries",
        "team.yaml",
    ]


def test_a_graph_in_a_bucket_is_deleted_with_all_its_objects(
    tmp_path: Path, server: S3Server
) -> None:
    folder, root = stored_in_bucket(tmp_path, server)
    context = s3_context(server)
    import_cluster(folder, context, actor=None)
    require_converged(apply(folder, context, actor="ann"))
    write_config(
        folder,
        {
            "storage": root,
            "graphs": {"knowledge": {"schema": "people.pg", "queries": "queries"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["knowledge"]}},
        },
    )

    approve(folder, context, resource="graph.map", actor="ann")
    require_converged(apply(folder, context, actor="ann"))

    objects = open_cluster(root, context).objects
    assert objects.list("graphs").prefixes == {"knowledge.omni"}


@pytest.mark.parametrize("at", [3, 7, 12])
def test_an_apply_in_a_bucket_that_is_cut_is_finished_by_the_next(
    tmp_path: Path, server: S3Server, at: int
) -> None:
    folder, _ = stored_in_bucket(tmp_path, server)
    context = s3_context(server)
    import_cluster(folder, context, actor=None)
    fault = Fault(at=at, when=When.AFTER, scope=Scope.EFFECTS)
    faulty = replace(
        context,
        open_objects=lambda place: CrashingObjects(open_objects(place, is_durable=True), fault),
        open_stores=lambda settings: crashing(open_stores(settings), fault),
    )
    with suppress(SimulatedCrash):
        apply(folder, faulty, actor="ann")
    assert fault.hit is not None

    held = status(folder, context).facts
    assert held is not None
    assert held.held is not None
    refused = apply(folder, context, actor="bob")
    force_unlock(folder, context, lock_id=held.held.id)
    finished = apply(folder, context, actor="bob")

    assert codes_of(refused.heading.findings) == {"state_lock_held"}
    require_converged(finished)


def test_the_command_line_finds_a_bucket_by_the_environment(
    tmp_path: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, root = stored_in_bucket(tmp_path, server)
    reach_by_environment(server, monkeypatch)

    ended = [
        invoke_command("cluster", verb, "--config", folder, "--json")
        for verb in ("import", "apply", "status")
    ]

    assert [each.code for each in ended] == [0, 0, 0]
    facts = ended[-1].fields["state_observations"]
    assert isinstance(facts, dict)
    assert facts["state_path"] == f"{root}/__cluster/state.json"
    assert facts["state_revision"] == 2


def test_what_a_bucket_holds_is_reached_by_its_uri_and_by_its_folder(
    tmp_path: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, root = stored_in_bucket(tmp_path, server)
    reach_by_environment(server, monkeypatch)
    for verb in ("import", "apply"):
        invoke_command("cluster", verb, "--config", folder, "--json")

    def found(place: str | Path) -> tuple[object, str, str]:
        where = ("--cluster", place, "--graph", "knowledge")
        return (
            invoke_command("optimize", *where, "--json").fields["uri"],
            invoke_command("policy", "validate", *where).out,
            invoke_command("queries", "list", *where).out,
        )

    assert found(root) == (
        f"{root}/graphs/knowledge.omni",
        "policy valid: bundle 'team' [2 actors]\n",
        "read  find_person($name: String)\n",
    )
    assert found(folder) == found(root)
