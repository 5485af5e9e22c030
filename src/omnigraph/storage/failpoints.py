"""Named points in the write path at which a test can inject a failure or a pause.

An inactive failpoint costs one check of an empty mapping. Failpoints are an argument, so a test
affects only the graph that it passed them to, and an activation ends with its block. Tests that
interrupt *every* durable effect do so at the ports and not with failpoints.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.model.errors import GraphError, ReadSetChangedError, UnavailableError


class Failpoint(StrEnum):
    """The names of all failpoints."""

    INIT_AFTER_SCHEMA_PG_WRITTEN = "init.after_schema_pg_written"
    INIT_AFTER_SCHEMA_FILES_WRITTEN = "init.after_schema_files_written"
    INIT_AFTER_COORDINATOR_INIT = "init.after_coordinator_init"

    MUTATION_DELETE_NODE_PRE_PRIMARY_DELETE = "mutation.delete_node_pre_primary_delete"
    MUTATION_POST_FINALIZE_PRE_PUBLISHER = "mutation.post_finalize_pre_publisher"

    ENSURE_INDICES_POST_STAGE_PRE_COMMIT_BTREE = "ensure_indices.post_stage_pre_commit_btree"
    ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT = (
        "ensure_indices.post_phase_b_pre_manifest_commit"
    )

    OPTIMIZE_BEFORE_COMPACT = "optimize.before_compact"

    CLEANUP_RECONCILE_FORK = "cleanup.reconcile_fork"
    CLEANUP_RESOLVE_BRANCH_SNAPSHOT = "cleanup.resolve_branch_snapshot"
    CLEANUP_TABLE_GC = "cleanup.table_gc"

    PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION = "publish.load_state_retryable_contention"
    GRAPH_PUBLISH_BEFORE_COMMIT_APPEND = "graph_publish.before_commit_append"
    GRAPH_PUBLISH_AFTER_MANIFEST_COMMIT = "graph_publish.after_manifest_commit"

    RECOVERY_SIDECAR_LIST = "recovery.sidecar_list"
    RECOVERY_SIDECAR_WRITE = "recovery.sidecar_write"
    RECOVERY_SIDECAR_DELETE = "recovery.sidecar_delete"
    RECOVERY_BEFORE_ROLL_FORWARD_PUBLISH = "recovery.before_roll_forward_publish"
    RECOVERY_RECORD_AUDIT = "recovery.record_audit"
    RECOVERY_ORPHAN_DISCARD_AUDIT_APPEND = "recovery.orphan_discard_audit_append"

    BRANCH_CREATE_AFTER_MANIFEST_BRANCH_CREATE = "branch_create.after_manifest_branch_create"
    BRANCH_DELETE_POST_TABLE_GATES = "branch_delete.post_table_gates"
    BRANCH_DELETE_POST_NATIVE = "branch_delete.post_native"
    BRANCH_DELETE_BEFORE_TABLE_CLEANUP = "branch_delete.before_table_cleanup"

    SCHEMA_APPLY_BEFORE_STAGING_WRITE = "schema_apply.before_staging_write"
    SCHEMA_APPLY_AFTER_STAGING_WRITE = "schema_apply.after_staging_write"

    BRANCH_MERGE_POST_CANDIDATE_VALIDATION = "branch_merge.post_candidate_validation"
    BRANCH_MERGE_POST_PHASE_B_PRE_MANIFEST_COMMIT = "branch_merge.post_phase_b_pre_manifest_commit"

    CLASSIFY_FRESH_READ = "classify.fresh_read"
    FORK_BEFORE_CLASSIFY = "fork.before_classify"
    FORK_BEFORE_RECLAIM = "fork.before_reclaim"


@dataclass(frozen=True, slots=True)
class Fail:
    """The first arrivals, up to a number, fail, and all later ones pass."""

    times: float


@dataclass(frozen=True, slots=True)
class Park:
    """The first arrival blocks until it is released; all later ones pass.

    `timeout_s` bounds the wait of either side for the other.
    """

    timeout_s: float


Action = Fail | Park

FAIL_ALWAYS = Fail(math.inf)


def fail_times(count: int) -> Fail:
    """Fail the first `count` arrivals, then pass."""
    return Fail(count)


class Activation:
    """An active failpoint: its number of arrivals, and the parked arrival if there is one."""

    def __init__(self, name: Failpoint, action: Action) -> None:
        self._name = name
        self._action = action
        self._counting = threading.Lock()
        self._arrivals = 0
        self._has_arrived = threading.Event()
        self._is_released = threading.Event()

    @property
    def arrivals(self) -> int:
        """The number of arrivals since the failpoint was activated."""
        return self._arrivals

    def wait_for_arrival(self) -> None:
        """Wait until the first arrival is parked; raises `TimeoutError` if none comes."""
        assert isinstance(self._action, Park)
        if not self._has_arrived.wait(self._action.timeout_s):
            raise TimeoutError(f"nothing reached the failpoint {self._name}")

    def release(self) -> None:
        """Let the parked arrival continue."""
        self._is_released.set()

    def arrive(self) -> None:
        """Perform the action of this arrival: pass, fail or wait."""
        with self._counting:
            number = self._arrivals
            self._arrivals += 1
        match self._action:
            case Fail(times):
                if number < times:
                    raise _injected_error(self._name)
            case Park(timeout_s):
                self._has_arrived.set()
                if number == 0 and not self._is_released.wait(timeout_s):
                    raise _injected_error(self._name)


class Failpoints:
    """The failpoints of one graph; none is active until a test activates it."""

    def __init__(self) -> None:
        self._active: dict[Failpoint, Activation] = {}

    def maybe_fail(self, name: Failpoint) -> None:
        """Raise or wait if a test has activated this failpoint."""
        if self._active and (activation := self._active.get(name)) is not None:
            activation.arrive()

    @contextmanager
    def activate(self, name: Failpoint, action: Action) -> Iterator[Activation]:
        """Activate a failpoint for the block; a parked arrival continues at its end."""
        assert name not in self._active, f"{name} is active already"
        activation = Activation(Failpoint(name), action)
        self._active[name] = activation
        try:
            yield activation
        finally:
            del self._active[name]
            activation.release()


def _injected_error(name: Failpoint) -> GraphError:
    reason = f"injected failpoint triggered: {name}"
    if name is Failpoint.PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION:
        # Simulates another writer that was first, which is not a storage failure.
        return ReadSetChangedError(member=f"({reason}) the head", expected="one", actual="another")
    return UnavailableError(action="go on", reason=reason)
