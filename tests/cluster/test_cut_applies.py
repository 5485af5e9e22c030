"""An apply that is cut at any of its durable effects is finished by the next one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import approve, force_unlock, import_cluster, refresh, status
from tests.support.clusters import (
    FIND_EMAIL,
    FIND_PERSON,
    PEOPLE_WITH_EMAIL,
    TEAM_POLICY,
    applied_cluster,
    faulty_context,
    knowledge_cluster,
    plain_context,
    read_state,
    require_converged,
    two_graph_cluster,
    write_config,
    write_files,
)
from tests.support.crashing import Fault, Scope, SimulatedCrash, When
from tests.support.graphs import ndjson, node
from tests.support.sweeps import each_fault


@dataclass(frozen=True, slots=True)
class Ending:
    """What an apply leaves, without ids and times."""

    resources: object
    statuses: object
    schema_by_graph: dict[str, str]
    people: int | None


def only_imported(folder: Path) -> None:
    import_cluster(two_graph_cluster(folder), plain_context(), actor=None)


def with_changed_schema_and_query(folder: Path) -> None:
    applied_cluster(knowledge_cluster(folder))
    with omnigraph.open(str(folder / "graphs/knowledge.omni"), durability="relaxed") as graph:
        graph.load(ndjson(node("Person", name="Ann")), mode="append")
    write_files(
        folder,
        {
            "people.pg": PEOPLE_WITH_EMAIL,
            "queries/people.gq": FIND_PERSON + FIND_EMAIL,
            "team.yaml": TEAM_POLICY.replace("[ann, bob]", "[ann]"),
        },
    )


def with_approved_deletion(folder: Path) -> None:
    applied_cluster(two_graph_cluster(folder))
    write_config(
        folder,
        {
            "graphs": {"knowledge": {"schema": "people.pg", "queries": "queries"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["knowledge"]}},
        },
    )
    report = approve(folder, plain_context(), resource="graph.map", actor="ann")
    assert report.heading.is_ok, report.heading.findings


SCENARIOS = [only_imported, with_changed_schema_and_query, with_approved_deletion]


@pytest.mark.parametrize("prepare", SCENARIOS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("when", list(When), ids=lambda each: each.name.lower())
def test_an_apply_interrupted_anywhere_is_finished_by_the_next(
    tmp_path: Path, prepare: Callable[[Path], None], when: When
) -> None:
    prepared = tmp_path / "prepared"
    prepare(prepared)
    wanted = unharmed(prepared, tmp_path / "unharmed")
    folders = count(1)

    def play(fault: Fault) -> None:
        folder = tmp_path / str(next(folders))
        shutil.copytree(prepared, folder)
        with suppress(SimulatedCrash):
            apply(folder, faulty_context(fault), actor="ann")
        unlock(folder)
        require_converged(apply(folder, plain_context(), actor="ann"))
        assert ending_of(folder) == wanted
        require_clean(folder)
        shutil.rmtree(folder)

    swept = each_fault(play, whens=[when], scope=Scope.EFFECTS)

    assert swept.effects >= 5, "the sweep went blind: an apply has at least five durable effects"


def unharmed(prepared: Path, folder: Path) -> Ending:
    shutil.copytree(prepared, folder)
    require_converged(apply(folder, plain_context(), actor="ann"))
    return ending_of(folder)


def ending_of(folder: Path) -> Ending:
    state = read_state(folder)
    revision = state["applied_revision"]
    graphs = sorted((folder / "graphs").glob("*.omni"))
    people = None
    schemas = {}
    for path in graphs:
        with omnigraph.open(str(path), read_only=True) as graph:
            schemas[path.name] = graph.schema_source
            if path.name == "knowledge.omni":
                people = len(list(graph.export()))
    return Ending(revision, state["resource_statuses"], schemas, people)


def unlock(folder: Path) -> None:
    """What an operator does after a crash when no process is running."""
    facts = status(folder, plain_context()).facts
    assert facts is not None
    if facts.held is not None:
        assert force_unlock(folder, plain_context(), lock_id=facts.held.id).removed is not None


def require_clean(folder: Path) -> None:
    """Fail unless nothing is under way, every approval used is marked, and nothing is left."""
    assert list((folder / "__cluster/recoveries").glob("*.json")) == []
    assert not (folder / "__cluster/lock.json").exists()
    records = read_state(folder)["approval_records"]
    assert isinstance(records, dict)
    for path in (folder / "__cluster/approvals").glob("*.json"):
        saved = json.loads(path.read_text())
        assert (saved["consumed_at"] is not None) == (saved["approval_id"] in records)
    again = apply(folder, plain_context(), actor="ann")
    assert not again.is_written
    assert again.is_converged


@pytest.mark.parametrize("prepare", SCENARIOS[1:], ids=lambda each: each.__name__)
def test_one_storage_failure_is_reported_and_the_next_apply_finishes(
    tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    prepared = tmp_path / "prepared"
    prepare(prepared)
    wanted = unharmed(prepared, tmp_path / "unharmed")
    folders = count(1)

    def play(fault: Fault) -> None:
        folder = tmp_path / str(next(folders))
        shutil.copytree(prepared, folder)
        report = apply(folder, faulty_context(fault), actor="ann")
        assert fault.hit is None or report.heading.findings or report.is_converged
        unlock(folder)
        require_converged(apply(folder, plain_context(), actor="ann"))
        assert ending_of(folder) == wanted
        shutil.rmtree(folder)

    swept = each_fault(play, whens=[When.ERROR_ONCE], scope=Scope.CALLS)

    assert swept.effects >= 15, "the sweep went blind: an apply asks the storage many times"


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER, When.LOST], ids=lambda each: each.name)
def test_an_import_interrupted_anywhere_is_atomic(tmp_path: Path, when: When) -> None:
    folders = count(1)

    def play(fault: Fault) -> None:
        folder = knowledge_cluster(tmp_path / str(next(folders)))
        with suppress(SimulatedCrash):
            import_cluster(folder, faulty_context(fault), actor=None)
        unlock(folder)
        again = import_cluster(folder, plain_context(), actor=None)
        errors = {each.code for each in again.heading.findings if each.severity == "error"}
        assert errors <= {"state_already_exists"}
        require_converged(apply(folder, plain_context(), actor="ann"))

    swept = each_fault(play, whens=[when], scope=Scope.EFFECTS)

    assert swept.effects >= 3


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER, When.LOST], ids=lambda each: each.name)
def test_a_refresh_interrupted_anywhere_loses_nothing(tmp_path: Path, when: When) -> None:
    prepared = applied_cluster(knowledge_cluster(tmp_path / "prepared"))
    before = ending_of(prepared)
    folders = count(1)

    def play(fault: Fault) -> None:
        folder = tmp_path / str(next(folders))
        shutil.copytree(prepared, folder)
        with suppress(SimulatedCrash):
            refresh(folder, faulty_context(fault), actor=None)
        unlock(folder)
        require_converged(apply(folder, plain_context(), actor="ann"))
        assert ending_of(folder) == before

    swept = each_fault(play, whens=[when], scope=Scope.EFFECTS)

    assert swept.effects >= 3


def test_an_apply_whose_process_is_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    only_imported(tmp_path)
    command = [sys.executable, "-m", "omnigraph", "cluster", "apply", "--config", str(tmp_path)]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "__cluster").glob("recoveries/*.json")):
        assert time.monotonic() < deadline
        assert killed.poll() is None, "it ended before it could be killed"
        time.sleep(0.001)
    killed.kill()
    killed.wait()

    unlock(tmp_path)
    report = apply(tmp_path, plain_context(), actor="ann")

    require_converged(report)
    require_clean(tmp_path)
