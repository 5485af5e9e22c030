"""A storage that fails a command: which code says so, and that the next command is not harmed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.cluster.apply import apply
from omnigraph.cluster.catalog import get_graph_uri
from omnigraph.cluster.commands import approve, force_unlock, import_cluster, plan, refresh, status
from omnigraph.cluster.context import ClusterContext, open_cluster
from omnigraph.cluster.lock import take_lock
from omnigraph.cluster.reports import Heading
from omnigraph.cluster.resources import StoppedError
from omnigraph.errors import UnavailableError
from tests.support.clusters import (
    FIND_EMAIL,
    PEOPLE_WITH_EMAIL,
    PLACES,
    applied_cluster,
    codes_of,
    knowledge_cluster,
    plain_context,
    read_state,
    reported_codes,
    require_converged,
    two_graph_cluster,
    write_config,
    write_files,
)
from tests.support.commands import invoke_command
from tests.support.hooked_objects import failing_context, hooked_context

Command = Callable[[Path, ClusterContext], Heading]


def applied(folder: Path, context: ClusterContext) -> Heading:
    return apply(folder, context, actor="ann").heading


def approved(folder: Path, context: ClusterContext) -> Heading:
    return approve(folder, context, resource="graph.map", actor="ann").heading


def imported(folder: Path, context: ClusterContext) -> Heading:
    return import_cluster(folder, context, actor=None).heading


def refreshed(folder: Path, context: ClusterContext) -> Heading:
    return refresh(folder, context, actor=None).heading


def looked_at(folder: Path, context: ClusterContext) -> Heading:
    return status(folder, context).heading


def changing(folder: Path) -> None:
    """One graph whose schema and query are to change, and another that is to be made."""
    applied_cluster(knowledge_cluster(folder))
    two_graph_cluster(folder)
    write_files(folder, {"people.pg": PEOPLE_WITH_EMAIL, "queries/email.gq": FIND_EMAIL})


def without_map(folder: Path) -> None:
    write_config(
        folder,
        {
            "graphs": {"knowledge": {"schema": "people.pg", "queries": "queries"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["knowledge"]}},
        },
    )


def deleting(folder: Path) -> None:
    """A graph that is to be deleted, not approved yet."""
    applied_cluster(two_graph_cluster(folder))
    without_map(folder)


def agreed(folder: Path) -> None:
    """A graph that is to be deleted, approved."""
    deleting(folder)
    assert approved(folder, plain_context()).is_ok


@pytest.mark.parametrize(
    ("prepare", "command", "call", "part", "message"),
    [
        (changing, applied, "find", "state.json", "state_read_error"),
        (changing, applied, "put_if_match", "state.json", "state_write_error"),
        (changing, applied, "put_if_absent", "lock.json", "state_lock_error"),
        (changing, applied, "put_if_absent", "resources/", "resource_payload_write_error"),
        (changing, applied, "put", "recoveries/", "recovery_sidecar_write_error"),
        (changing, applied, "put", "recoveries/", "graph_create_failed"),
        (changing, applied, "tokens", "recoveries", "recovery_sidecar_read_error"),
        (changing, applied, "tokens", "approvals", "approval_read_error"),
        (changing, refreshed, "list", "graphs", "graph_observation_error"),
        (changing, refreshed, "find", "resources/", "catalog_payload_read_error"),
        (changing, refreshed, "put_if_match", "state.json", "state_write_error"),
        (deleting, approved, "put", "approvals/", "approval_write_error"),
        (agreed, applied, "delete_prefix", "graphs/map.omni", "graph_delete_failed"),
        (knowledge_cluster, imported, "put_if_absent", "state.json", "state_write_error"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_storage_failure_has_a_code_and_the_next_command_succeeds(
    tmp_path: Path,
    prepare: Callable[[Path], object],
    command: Command,
    call: str,
    part: str,
    message: str,
) -> None:
    prepare(tmp_path)

    failed = command(tmp_path, failing_context(call, part))
    again = command(tmp_path, plain_context())

    assert not failed.is_ok
    assert message in codes_of(failed.findings)
    assert again.is_ok, again.findings
    assert not (tmp_path / "__cluster/lock.json").exists()


@pytest.mark.parametrize(
    ("prepare", "command", "call", "part", "message"),
    [
        (changing, applied, "delete", "lock.json", "state_lock_error"),
        (changing, applied, "delete", "recoveries/", "recovery_sidecar_cleanup_failed"),
        (agreed, applied, "put", "approvals/", "approval_write_error"),
        (agreed, looked_at, "find", "resources/", "catalog_payload_read_error"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_what_can_wait_for_the_next_command_is_a_warning(
    tmp_path: Path,
    prepare: Callable[[Path], object],
    command: Command,
    call: str,
    part: str,
    message: str,
) -> None:
    prepare(tmp_path)

    warned = command(tmp_path, failing_context(call, part))

    assert warned.is_ok, warned.findings
    assert message in codes_of(warned.findings)


def test_an_unreadable_lock_is_reported(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    context = failing_context("find", "lock.json")

    looked, broken = looked_at(tmp_path, context), force_unlock(tmp_path, context, lock_id="x")

    assert codes_of(looked.findings) == {"state_lock_read_error"}
    assert codes_of(broken.heading.findings) == {"state_lock_read_error"}


def test_a_lock_acquired_by_another_process_is_not_released(tmp_path: Path) -> None:
    cluster = open_cluster(str(applied_cluster(knowledge_cluster(tmp_path))), plain_context())
    dead, lively = (cluster.make_lock("apply", actor=name) for name in ("ann", "bob"))
    lock = tmp_path / "__cluster/lock.json"
    take_lock(lively, cluster.objects)
    taken = lock.read_bytes()
    lock.unlink()
    take_lock(dead, cluster.objects)

    def replace_lock(*_given: object) -> None:
        lock.write_bytes(taken)

    context = hooked_context("put_if_match", "lock.json", replace_lock)
    report = force_unlock(tmp_path, context, lock_id=dead.id)

    assert codes_of(report.heading.findings) == {"state_lock_id_mismatch"}
    assert lock.read_bytes() == taken


def test_a_lock_whose_response_was_lost_is_released(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))

    def lose(path: str, content: bytes) -> None:
        (tmp_path / path).write_bytes(content)
        raise UnavailableError(action="write the lock", reason="the response was lost")

    failed = applied(tmp_path, hooked_context("put_if_absent", "lock.json", lose))

    assert codes_of(failed.findings) == {"state_lock_error"}
    assert not (tmp_path / "__cluster/lock.json").exists()


@pytest.mark.parametrize(
    ("prepare", "command", "call", "part"),
    [
        (changing, applied, "put_if_absent", "lock.json"),
        (changing, applied, "put_if_match", "state.json"),
        (knowledge_cluster, imported, "put_if_absent", "state.json"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_what_storage_refuses_because_it_was_written_already_counts(
    tmp_path: Path, prepare: Callable[[Path], object], command: Command, call: str, part: str
) -> None:
    prepare(tmp_path)

    def send_twice(path: str, content: bytes) -> None:
        (tmp_path / path).write_bytes(content)

    done = command(tmp_path, hooked_context(call, part, send_twice))

    assert done.is_ok, done.findings
    assert not (tmp_path / "__cluster/lock.json").exists()


def test_a_concurrent_write_of_another_process_is_not_overwritten(tmp_path: Path) -> None:
    changing(tmp_path)
    state = tmp_path / "__cluster/state.json"
    other = json.dumps(read_state(tmp_path) | {"state_revision": 99})

    def meddle(*_given: object) -> None:
        state.write_text(other)

    failed = apply(tmp_path, hooked_context("put_if_match", "state.json", meddle), actor="ann")
    saved = state.read_text()
    again = apply(tmp_path, plain_context(), actor="ann")

    assert codes_of(failed.heading.findings) == {"state_cas_mismatch"}
    assert saved == other
    require_converged(again)


def test_an_approval_revoked_meanwhile_does_not_count(tmp_path: Path) -> None:
    agreed(tmp_path)
    [approval] = (tmp_path / "__cluster/approvals").iterdir()

    def take_back(*_given: object) -> None:
        approval.unlink(missing_ok=True)

    failed = apply(tmp_path, hooked_context("find", approval.name, take_back), actor="ann")
    again = apply(tmp_path, plain_context(), actor="ann")

    assert (tmp_path / "graphs/map.omni").is_dir()
    assert "approval_required" in codes_of(again.heading.findings)
    assert "approval_required" in codes_of(failed.heading.findings)


def test_an_approval_revoked_after_the_plan_stops_the_deletion(tmp_path: Path) -> None:
    agreed(tmp_path)
    [approval] = (tmp_path / "__cluster/approvals").iterdir()
    write_files(
        tmp_path, {"team.yaml": "# another comment\n" + (tmp_path / "team.yaml").read_text()}
    )
    approval.unlink()
    assert approved(tmp_path, plain_context()).is_ok
    [approval] = (tmp_path / "__cluster/approvals").iterdir()

    # Contents are published when the plan is made and nothing was deleted yet.
    context = hooked_context("put_if_absent", "resources/policy", lambda *_given: approval.unlink())
    failed = apply(tmp_path, context, actor="ann")

    assert {"apply_approval_invariant_violation", "graph_delete_failed"} <= codes_of(
        failed.heading.findings
    )
    assert (tmp_path / "graphs/map.omni").is_dir()
    assert list((tmp_path / "__cluster/recoveries").glob("*")) == []


def test_a_stopped_deletion_is_reported_and_retried(tmp_path: Path) -> None:
    agreed(tmp_path)
    applied(tmp_path, failing_context("delete_prefix", "graphs/map.omni"))

    again = apply(tmp_path, plain_context(), actor="ann")

    require_converged(again)
    assert codes_of(again.heading.findings) == {"graph_delete_incomplete"}
    assert not (tmp_path / "graphs/map.omni").exists()


def test_after_a_failure_no_other_graph_is_made_or_deleted(tmp_path: Path) -> None:
    agreed(tmp_path)
    write_files(tmp_path, {"places.pg": PLACES})
    config = (tmp_path / "cluster.yaml").read_text()
    added = "  a: {schema: places.pg}\n  b: {schema: places.pg}\n"
    (tmp_path / "cluster.yaml").write_text(config.replace("graphs:\n", f"graphs:\n{added}"))
    assert approved(tmp_path, plain_context()).is_ok

    failed = apply(tmp_path, failing_context("put", "recoveries/"), actor="ann")
    again = apply(tmp_path, plain_context(), actor="ann")

    assert {"graph_create_failed", "graph_create_skipped", "graph_delete_skipped"} <= codes_of(
        failed.heading.findings
    )
    require_converged(again)
    assert sorted(each.name for each in (tmp_path / "graphs").iterdir()) == [
        "a.omni",
        "b.omni",
        "knowledge.omni",
    ]


def test_one_deletion_consumes_every_approval_of_it(tmp_path: Path) -> None:
    agreed(tmp_path)
    assert approve(tmp_path, plain_context(), resource="graph.map", actor="bob").heading.is_ok
    require_converged(apply(tmp_path, plain_context(), actor="ann"))
    two_graph_cluster(tmp_path)
    require_converged(apply(tmp_path, plain_context(), actor="ann"))
    without_map(tmp_path)

    report = apply(tmp_path, plain_context(), actor="ann")

    assert "approval_required" in codes_of(report.heading.findings)
    assert (tmp_path / "graphs/map.omni").is_dir()


@pytest.mark.parametrize(
    ("kind", "message"),
    [("approvals", "invalid_approval_artifact"), ("recoveries", "invalid_recovery_sidecar")],
)
def test_a_record_under_another_name_is_ignored(tmp_path: Path, kind: str, message: str) -> None:
    agreed(tmp_path)
    applied(tmp_path, failing_context("delete_prefix", "graphs/map.omni"))
    [record] = (tmp_path / "__cluster" / kind).iterdir()
    record.rename(record.with_name("another.json"))

    report = apply(tmp_path, plain_context(), actor="ann")

    assert message in codes_of(report.heading.findings)
    assert (tmp_path / "graphs/map.omni").is_dir()


def test_a_plan_omits_steps_that_cannot_be_computed(tmp_path: Path) -> None:
    changing(tmp_path)

    planned = plan(tmp_path, failing_context("list", "graphs"))

    assert planned.heading.is_ok
    assert codes_of(planned.heading.findings) == {"schema_preview_unavailable"}


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("approvals/x.json", "{", "invalid_approval_artifact"),
        ("approvals/x.json", '{"version": 7}', "unsupported_approval_version"),
        ("recoveries/x.json", "{", "invalid_recovery_sidecar"),
        ("recoveries/x.json", '{"schema_version": 7}', "unsupported_recovery_sidecar_version"),
        ("state.json", "{", "invalid_state_json"),
        (
            "state.json",
            '{"version": 1, "resource_statuses": {"x": {"status": "error", "conditions": []}}}',
            "invalid_state_json",
        ),
        ("state.json", '{"version": 7}', "unsupported_state_version"),
    ],
)
def test_unreadable_stored_state_is_reported_on_the_command_line(
    tmp_path: Path, path: str, content: str, message: str
) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {f"__cluster/{path}": content})

    ended = invoke_command("cluster", "apply", "--config", tmp_path, "--json")

    assert message in reported_codes(ended)
    assert (tmp_path / "__cluster" / path).read_text() == content


@pytest.mark.parametrize(
    ("place", "message"),
    [("ftp://somewhere/team", "storage_root_invalid"), (None, "graph_not_applied")],
)
def test_a_missing_graph_is_reported_by_its_cluster(
    tmp_path: Path, place: str | None, message: str
) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    where = place or str(tmp_path)

    with pytest.raises(StoppedError) as caught:
        get_graph_uri(open_cluster(where, plain_context()), "other")
    ended = invoke_command("optimize", "--cluster", where, "--graph", "other")

    assert codes_of(caught.value.findings) == {message}
    assert ended.code == 1
    assert str(caught.value) in ended.err
