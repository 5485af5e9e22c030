"""Approvals of graph deletions, each bound to one configuration and one state of the graph.

An approval names the digest of the configuration and of the graph. When either changes, the
approval is stale and has no effect. A used approval is marked and retained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.cluster.resources import Findings, stop_on_storage_error, stopped
from omnigraph.cluster.state import ReadErrors, RecordFormat, ShapeError, StoredFields, VersionError

if TYPE_CHECKING:
    # The import brings in Lance, which a command that only checks a folder does not need.
    from omnigraph.storage.ports import ObjectStore

APPROVALS_PREFIX = "__cluster/approvals"


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval; `after_digest` is None because a deletion leaves no content."""

    id: str
    resource: str
    operation: str
    config_digest: str
    before_digest: str | None
    after_digest: str | None
    approved_by: str
    approved_at: str
    consumed_at: str | None

    @property
    def path(self) -> str:
        """The path of the approval."""
        return f"{APPROVALS_PREFIX}/{self.id}.json"


_FORMAT = RecordFormat(
    Approval,
    version_key="version",
    fields={
        "approval_id": ("id", StoredFields.text),
        "resource": ("resource", StoredFields.text),
        "operation": ("operation", StoredFields.text),
        "config_digest": ("config_digest", StoredFields.text),
        "before_digest": ("before_digest", StoredFields.find_text),
        "after_digest": ("after_digest", StoredFields.find_text),
        "approved_by": ("approved_by", StoredFields.text),
        "approved_at": ("approved_at", StoredFields.text),
        "consumed_at": ("consumed_at", StoredFields.find_text),
    },
    codes=ReadErrors(
        "approval_read_error", "unsupported_approval_version", "invalid_approval_artifact"
    ),
)


def write_approval(approval: Approval, objects: ObjectStore) -> None:
    """Durable effect: store an approval, or the mark that it was used."""
    with stop_on_storage_error("approval_write_error", approval.path):
        objects.put(approval.path, _FORMAT.encode(approval))


def list_approvals(objects: ObjectStore, findings: Findings) -> tuple[Approval, ...]:
    """All approvals, in order of time; unreadable ones are reported and have no effect."""
    approvals, faults = _FORMAT.list(APPROVALS_PREFIX, objects)
    findings.add_as_warnings(faults)
    return approvals


def require_valid_approval(approval: Approval, objects: ObjectStore) -> None:
    """Raise `StoppedError` if an approval has changed since planning, for example if revoked."""
    with stop_on_storage_error("approval_read_error", approval.path):
        stored = objects.find(approval.path)
    try:
        is_unchanged = stored is not None and _FORMAT.decode(stored.content) == approval
    except (ShapeError, VersionError):
        is_unchanged = False
    if not is_unchanged:
        raise stopped(
            "apply_approval_invariant_violation",
            approval.path,
            f"the approval to {approval.operation} {approval.resource} has changed since "
            "the changes were planned; it was not used; plan again",
        )


def mark_consumed(
    approvals: tuple[Approval, ...],
    records: Mapping[str, Mapping[str, object]],
    objects: ObjectStore,
) -> None:
    """Durable effect: mark the approvals that were used according to the state."""
    for each in approvals:
        consumed_at = records.get(each.id, {}).get("consumed_at")
        if consumed_at is not None and each.consumed_at is None:
            # A crash here is recovered by the next apply, because the state already has the record.
            write_approval(replace(each, consumed_at=str(consumed_at)), objects)


def encode_record(approval: Approval, *, consumed_at: str) -> dict[str, object]:
    """The fields of a used approval that the state stores."""
    return {
        "resource": approval.resource,
        "operation": approval.operation,
        "approved_by": approval.approved_by,
        "approved_at": approval.approved_at,
        "consumed_at": consumed_at,
    }
