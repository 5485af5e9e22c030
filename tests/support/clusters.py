"""Clusters for tests: folders of declarations, and what became of them when they were applied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import import_cluster
from omnigraph.cluster.context import ClusterContext, make_context
from omnigraph.cluster.reports import ApplyReport
from omnigraph.cluster.resources import Finding
from omnigraph.engine.settings import open_stores
from omnigraph.storage.objects import open_objects
from tests.support.commands import Ended, invoke_command
from tests.support.crashing import CrashingObjects, Fault, crashing

PEOPLE = "node Person {\n  name: String @key\n  age: I32?\n}\n"
PEOPLE_WITH_EMAIL = "node Person {\n  name: String @key\n  age: I32?\n  email: String?\n}\n"
PLACES = "node Place {\n  name: String @key\n}\n"

FIND_PERSON = (
    "query find_person($name: String) {\n"
    "  match { $p: Person { name: $name } }\n"
    "  return { $p.name, $p.age }\n"
    "}\n"
)
FIND_EMAIL = (
    "query find_email($name: String) {\n"
    "  match { $p: Person { name: $name } }\n"
    "  return { $p.email }\n"
    "}\n"
)
MISTYPED = "query broken() {\n  match { $p: Person }\n  return { $p.nmae }\n}\n"

TEAM_POLICY = (
    "version: 1\n"
    "groups: {team: [ann, bob]}\n"
    "protected_branches: [main]\n"
    "rules:\n"
    "  - id: team\n"
    "    allow: {actors: {group: team}, actions: [read, change], branch_scope: any}\n"
)
SERVER_POLICY = (
    "version: 1\n"
    "groups: {team: [ann]}\n"
    "rules:\n"
    "  - id: listing\n"
    "    allow: {actors: {group: team}, actions: [graph_list]}\n"
)


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder, which is made if need be."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def write_config(folder: Path, config: Mapping[str, object]) -> Path:
    """Write the configuration of a cluster."""
    text = yaml.safe_dump({"version": 1, **config}, sort_keys=False)
    return write_files(folder, {"cluster.yaml": text})


def knowledge_cluster(folder: Path) -> Path:
    """A folder that declares one graph of people with a query and a policy."""
    write_files(
        folder,
        {"people.pg": PEOPLE, "queries/people.gq": FIND_PERSON, "team.yaml": TEAM_POLICY},
    )
    return write_config(
        folder,
        {
            "metadata": {"name": "demo"},
            "graphs": {"knowledge": {"schema": "people.pg", "queries": "queries"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["knowledge"]}},
        },
    )


def two_graph_cluster(folder: Path) -> Path:
    """The same with a second graph, of places."""
    knowledge_cluster(folder)
    write_files(folder, {"places.pg": PLACES})
    return write_config(
        folder,
        {
            "graphs": {
                "knowledge": {"schema": "people.pg", "queries": "queries"},
                "map": {"schema": "places.pg"},
            },
            "policies": {"team": {"file": "team.yaml", "applies_to": ["knowledge"]}},
        },
    )


def write_sidecar(folder: Path, graph_id: str) -> None:
    """A record of a schema change that was begun and never ended."""
    id = "01K0000000000000000000000A"
    sidecar = {
        "schema_version": 1,
        "operation_id": id,
        "started_at": "2026-01-01T00:00:00Z",
        "actor": None,
        "kind": "schema_apply",
        "graph_id": graph_id,
        "graph_uri": "somewhere",
        "observed_manifest_version": 1,
        "expected_manifest_version": 2,
        "desired_schema_digest": "0" * 64,
        "state_cas_base": "sha256:0",
        "approval_id": None,
    }
    write_files(folder, {f"__cluster/recoveries/{id}.json": json.dumps(sidecar)})


def plain_context() -> ClusterContext:
    """The context of a test: nothing is flushed."""
    return make_context(storage_options={}, durability="relaxed")


def faulty_context(fault: Fault) -> ClusterContext:
    """The same with a fault between the control plane and everything that it stores."""
    return replace(
        plain_context(),
        open_objects=lambda location: CrashingObjects(
            open_objects(location, is_durable=False), fault
        ),
        open_stores=lambda settings: crashing(open_stores(settings), fault),
    )


def applied_cluster(folder: Path) -> Path:
    """Import and apply what a folder declares."""
    imported = import_cluster(folder, plain_context(), actor=None)
    assert imported.heading.is_ok, imported.heading.findings
    require_converged(apply(folder, plain_context(), actor="ann"))
    return folder


def require_converged(report: ApplyReport) -> None:
    """Fail unless nothing is left to do."""
    assert report.heading.is_ok, report.heading.findings
    assert report.is_converged, report.changes


def read_state(folder: Path) -> dict[str, object]:
    """The ledger of a cluster whose storage is its folder."""
    found: dict[str, object] = json.loads((folder / "__cluster/state.json").read_text())
    return found


def run_cluster(folder: Path, *words: str) -> Ended:
    """Run a command on the cluster of a folder; its output is JSON."""
    return invoke_command("cluster", *words, "--config", folder, "--json")


def reported_codes(ended: Ended) -> list[str]:
    """The codes of the diagnostics that a command printed."""
    diagnostics = ended.fields["diagnostics"]
    assert isinstance(diagnostics, list)
    return [each["code"] for each in diagnostics]


def codes_of(findings: tuple[Finding, ...]) -> set[str]:
    """The codes of findings."""
    return {each.code for each in findings}
