"""Named points in the write path at which a test can inject a failure or a pause.

Failpoints are an argument, so a test affects only the graph that it passed them to. Tests that
interrupt *every* durable effect do so at the ports and not with failpoints.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


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


class Failpoints(Protocol):
    """The failpoints of one graph."""

    def maybe_fail(self, name: Failpoint) -> None:
        """Raise or wait if a test has activated this failpoint."""


class NoFailpoints:
    """Failpoints of which none is ever active."""

    def maybe_fail(self, name: Failpoint) -> None:
        pass
