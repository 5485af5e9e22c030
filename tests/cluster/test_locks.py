"""The lock of a cluster: one holder at a time, whose name any other caller receives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.cli.commands.cluster import view_state
from omnigraph.cli.output import Terminal
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import status
from omnigraph.cluster.context import open_root
from omnigraph.cluster.lock import take_lock
from omnigraph.cluster.reports import ApplyReport
from tests.support.clusters import (
    FIND_EMAIL,
    PEOPLE_WITH_EMAIL,
    applied_cluster,
    codes_of,
    knowledge_cluster,
    plain_context,
    read_state,
    reported_codes,
    run_cluster,
    write_files,
)
from tests.support.commands import (
    ENDS_WITHIN_S,
    command_environment,
    invoke_command,
    run_command,
)


def held_by_zoe(folder: Path) -> str:
    cluster = open_root(str(folder), plain_context(), code="")
    lock = cluster.make_lock("apply", actor="zoe")
    take_lock(lock, cluster.objects)
    return lock.id


@pytest.mark.parametrize("command", ["plan", "apply", "refresh", "import"])
def test_the_error_for_a_second_operator_names_the_holder(tmp_path: Path, command: str) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    id = held_by_zoe(tmp_path)
    before = (tmp_path / "__cluster/state.json").read_bytes()

    ended = run_cluster(tmp_path, command)

    assert ended.code == 1
    assert reported_codes(ended) == ["state_lock_held"]
    assert f"force-unlock {id}" in ended.out
    assert "by zoe" in ended.out
    facts = ended.fields["state_observations"]
    assert isinstance(facts, dict)
    assert (facts["locked"], facts["lock_id"], facts["lock_acquired"]) == (True, id, False)
    assert (tmp_path / "__cluster/state.json").read_bytes() == before
    assert (tmp_path / "__cluster/lock.json").exists()


def test_a_status_does_not_wait_and_shows_the_lock(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    id = held_by_zoe(tmp_path)

    ended = run_cluster(tmp_path, "status")

    assert ended.code == 0
    facts = ended.fields["state_observations"]
    assert isinstance(facts, dict)
    assert (facts["locked"], facts["lock_id"], facts["lock_operation"]) == (True, id, "apply")
    assert facts["lock_age_seconds"] >= 0


@pytest.mark.parametrize(
    ("held_s", "diagnostics"),
    [
        (1, "1 second ago"),
        (90, "90 seconds ago"),
        (5 * 60, "5 minutes ago"),
        (30 * 3_600, "30 hours ago"),
        (321 * 86_400, "321 days ago"),
    ],
)
def test_how_old_a_lock_is_can_be_read_at_a_glance(
    tmp_path: Path, held_s: int, diagnostics: str
) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    held_by_zoe(tmp_path)
    report = status(tmp_path, plain_context())
    assert report.facts is not None
    aged = replace(report, facts=replace(report.facts, held_s=held_s))

    first, *_ = view_state(aged, Terminal(None, has_colours=False))

    assert diagnostics in first


def test_an_apply_that_never_began_says_nothing_of_what_is_left(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    held_by_zoe(tmp_path)

    ended = invoke_command("cluster", "apply", "--config", tmp_path)

    assert ended.code == 1
    assert "Not converged" not in ended.out


def test_a_lock_is_taken_away_by_its_exact_id(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    id = held_by_zoe(tmp_path)

    wrong = run_cluster(tmp_path, "force-unlock", "01AAAAAAAAAAAAAAAAAAAAAAAA")
    right = run_cluster(tmp_path, "force-unlock", id)
    again = run_cluster(tmp_path, "force-unlock", id)

    assert (wrong.code, reported_codes(wrong)) == (1, ["state_lock_id_mismatch"])
    assert (right.code, right.fields["lock_removed"]) == (0, True)
    assert not (tmp_path / "__cluster/lock.json").exists()
    assert (again.code, reported_codes(again)) == (1, ["state_lock_missing"])


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{", "invalid_state_lock"),
        ('{"version": 1}', "invalid_state_lock"),
        ('{"version": 2, "lock_id": "x"}', "unsupported_state_lock_version"),
    ],
)
def test_an_unreadable_lock_is_not_deleted(tmp_path: Path, content: str, code: str) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"__cluster/lock.json": content})

    ended = run_cluster(tmp_path, "force-unlock", "x")

    assert ended.code == 1
    assert code in reported_codes(ended)
    assert (tmp_path / "__cluster/lock.json").read_text() == content


def test_a_cluster_may_do_without_a_lock(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    held_by_zoe(tmp_path)
    config = (tmp_path / "cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(f"{config}state: {{lock: false}}\n")

    ended = run_cluster(tmp_path, "plan")

    assert ended.code == 0
    assert reported_codes(ended) == ["state_lock_disabled"]


def test_of_two_applies_at_once_one_wins_and_the_other_names_it(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL, "queries/email.gq": FIND_EMAIL})

    with ThreadPoolExecutor(max_workers=4) as pool:
        ended = list(
            pool.map(
                lambda name: run_command(
                    "cluster", "apply", "--config", tmp_path, "--json", "--as", name
                ),
                ["ann", "bob", "cleo", "dan"],
            )
        )

    won = [each for each in ended if each.code == 0]
    lost = [each for each in ended if each.code == 1]
    assert won
    assert sum(each.fields["state_written"] is True for each in won) == 1
    assert all("state_lock_held" in reported_codes(each) for each in lost)
    assert read_state(tmp_path)["state_revision"] == 3
    assert not (tmp_path / "__cluster/lock.json").exists()


def test_an_apply_that_is_under_way_is_named_to_the_next_process(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL})
    command = ["cluster", "apply", "--config", str(tmp_path), "--json", "--as"]
    first = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *command, "ann"],
        stdout=subprocess.PIPE,
        env=command_environment(),
    )
    wait_for_lock(tmp_path, first)
    first.send_signal(signal.SIGSTOP)

    second = run_command(*command, "bob")

    first.send_signal(signal.SIGCONT)
    diagnostics, _ = first.communicate(timeout=ENDS_WITHIN_S)
    assert second.code == 1
    assert reported_codes(second) == ["state_lock_held"]
    assert "`cluster apply` by ann" in second.out
    assert f"process {first.pid}" in second.out
    assert first.returncode == 0
    assert json.loads(diagnostics)["converged"] is True
    assert not (tmp_path / "__cluster/lock.json").exists()


def wait_for_lock(folder: Path, holder: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + ENDS_WITHIN_S
    while not (folder / "__cluster/lock.json").exists():
        assert time.monotonic() < deadline
        assert holder.poll() is None, "it ended before anybody else came"
        time.sleep(0.001)


def test_of_two_applies_without_a_lock_one_wins_and_the_next_apply_converges(
    tmp_path: Path,
) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    config = (tmp_path / "cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(f"{config}state: {{lock: false}}\n")
    write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL, "queries/email.gq": FIND_EMAIL})

    def apply_as(name: str) -> ApplyReport:
        return apply(tmp_path, plain_context(), actor=name)

    with ThreadPoolExecutor(max_workers=4) as pool:
        reports = list(pool.map(apply_as, ["ann", "bob", "cleo", "dan"]))
    last = apply_as("eve")

    assert any(each.is_converged for each in reports)
    for each in reports:
        errors = codes_of(tuple(f for f in each.heading.findings if f.severity == "error"))
        assert errors <= {"state_cas_mismatch", "schema_apply_failed"}
    assert last.is_converged, last.heading.findings
    assert list((tmp_path / "__cluster/recoveries").glob("*")) == []


def test_the_lock_names_its_holder_host_and_time(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    id = held_by_zoe(tmp_path)

    record = json.loads((tmp_path / "__cluster/lock.json").read_text())

    assert record["version"] == 1
    assert record["lock_id"] == id
    assert record["operation"] == "apply"
    assert isinstance(record["pid"], int)
    assert record["actor"] == "zoe"
    assert record["created_at"].endswith("Z")
