"""Interrupted changes of graphs: what is reported, and how they are recovered."""

from __future__ import annotations

import json
from pathlib import Path

import omnigraph
from tests.support.clusters import (
    PEOPLE,
    PEOPLE_WITH_EMAIL,
    PLACES,
    applied_cluster,
    read_state,
    reported_codes,
    run_cluster,
    two_graph_cluster,
    write_files,
)
from tests.support.commands import Ended

ID = "01K0000000000000000000000A"
WITH_SIZE = PLACES.replace("@key", "@key\n  size: I32?")


def reasons_of(ended: Ended) -> dict[str, object]:
    diagnostics = ended.fields["changes"]
    assert isinstance(diagnostics, list)
    return {each["resource"]: each.get("reason") for each in diagnostics}


def stopped(folder: Path, kind: str, *, digest: str) -> Path:
    """A record of a change of the graph of people, left by a process that was killed."""
    sidecar = {
        "schema_version": 1,
        "operation_id": ID,
        "started_at": "2026-01-01T00:00:00Z",
        "actor": "zoe",
        "kind": kind,
        "graph_id": "knowledge",
        "graph_uri": str(folder / "graphs/knowledge.omni"),
        "observed_manifest_version": 1,
        "expected_manifest_version": 2,
        "desired_schema_digest": digest,
        "state_cas_base": "sha256:0",
        "approval_id": None,
    }
    path = folder / f"__cluster/recoveries/{ID}.json"
    write_files(folder, {f"__cluster/recoveries/{ID}.json": json.dumps(sidecar)})
    return path


def with_schema(folder: Path, schema: str) -> None:
    with omnigraph.open(folder / "graphs/knowledge.omni") as graph:
        graph.apply_schema(schema)


def digest_of(folder: Path) -> str:
    digests = run_cluster(folder, "validate").fields["resource_digests"]
    assert isinstance(digests, dict)
    found = digests["schema.knowledge"]
    assert isinstance(found, str)
    return found


def test_a_stopped_change_is_reported_before_it_is_recovered(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL, "places.pg": WITH_SIZE})
    record = stopped(tmp_path, "schema_apply", digest=digest_of(tmp_path))

    looked, planned = run_cluster(tmp_path, "status"), run_cluster(tmp_path, "plan")

    assert (looked.code, reported_codes(looked)) == (0, ["cluster_recovery_pending"])
    assert planned.code == 0
    assert "cluster_recovery_pending" in reported_codes(planned)
    assert reasons_of(planned)["schema.knowledge"] == "cluster_recovery_pending"
    assert reasons_of(planned)["schema.map"] is None
    assert record.exists()


def test_a_change_that_was_made_is_written_down(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL})
    record = stopped(tmp_path, "schema_apply", digest=digest_of(tmp_path))
    with_schema(tmp_path, PEOPLE_WITH_EMAIL)

    ended = run_cluster(tmp_path, "apply")

    assert ended.fields["converged"] is True
    assert reported_codes(ended) == ["cluster_recovery_rolled_forward"]
    records = read_state(tmp_path)["recovery_records"]
    assert isinstance(records, dict)
    assert records[ID]["actor"] == "zoe"
    assert records[ID]["outcome"] == "rolled_forward"
    assert not record.exists()


def test_a_change_that_was_not_made_is_made(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL})
    record = stopped(tmp_path, "schema_apply", digest=digest_of(tmp_path))

    ended = run_cluster(tmp_path, "apply")

    assert ended.fields["converged"] is True
    assert reported_codes(ended) == []
    assert not record.exists()


def test_a_graph_with_an_unexpected_schema_is_skipped_and_the_others_are_applied(
    tmp_path: Path,
) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    third = PEOPLE.replace("age: I32?", "age: I32?\n  city: String?")
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL, "places.pg": WITH_SIZE})
    record = stopped(tmp_path, "schema_apply", digest=digest_of(tmp_path))
    with_schema(tmp_path, third)

    ended = run_cluster(tmp_path, "apply")

    assert ended.code == 0
    assert ended.fields["converged"] is False
    assert "cluster_recovery_pending" in reported_codes(ended)
    assert reasons_of(ended)["schema.knowledge"] == "cluster_recovery_pending"
    statuses = ended.fields["resource_statuses"]
    assert isinstance(statuses, dict)
    assert statuses["graph.knowledge"]["status"] == "drifted"
    assert statuses["graph.knowledge"]["conditions"] == ["actual_applied_state_pending"]
    assert statuses["schema.map"]["status"] == "applied"
    assert record.exists()


def test_a_change_goes_on_after_an_operator_deletes_its_record(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    third = PEOPLE.replace("age: I32?", "age: I32?\n  city: String?")
    record = stopped(tmp_path, "schema_apply", digest="0" * 64)
    with_schema(tmp_path, third)
    run_cluster(tmp_path, "apply")
    record.unlink()

    refreshed, applied = run_cluster(tmp_path, "refresh"), run_cluster(tmp_path, "apply")

    assert "schema_drifted" in reported_codes(refreshed)
    assert applied.fields["converged"] is True


def test_a_created_graph_with_commits_that_cannot_be_opened_is_not_deleted(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))
    with_schema(tmp_path, PEOPLE_WITH_EMAIL)
    record = stopped(tmp_path, "graph_create", digest="0" * 64)
    (tmp_path / "graphs/knowledge.omni/_schema.pg").unlink()

    ended = run_cluster(tmp_path, "apply")

    assert ended.code == 0
    statuses = ended.fields["resource_statuses"]
    assert isinstance(statuses, dict)
    assert statuses["graph.knowledge"]["conditions"] == ["graph_create_incomplete"]
    assert record.exists()
    assert (tmp_path / "graphs/knowledge.omni/__manifest").exists()
