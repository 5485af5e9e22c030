"""Approvals of graph deletions, each bound to one configuration and one state of the graph.

An approval names the digest of the configuration and of the graph. When either changes, the
approval is stale and has no effect. A used approval is marked and retained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.cluster.resources import Findings, StoppedError, error_finding, stop_on_storage_error
from omnigraph.cluster.state import ShapeError, VersionError, decode_fields, encode_tree

if TYPE_CHECKING:
    # The import brings in Lance, which a command that only checks a folder does not need.
    from omnigraph.storage.ports import ObjectStore

APPROVALS_PREFIX = "__cluster/approvals"

_KNOWN = frozenset(
    {
        "approval_id",
        "resource",
        "operation",
        "config_digest",
        "before_digest",
        "after_digest",
        "approved_by",
        "approved_at",
        "consumed_at",
    }
)


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
        return path_of(self.id)


def path_of(id: str) -> str:
    """The path of an approval with an id."""
    return f"{APPROVALS_PREFIX}/{id}.json"


def write_approval(approval: Approval, objects: ObjectStore) -> None:
    """Durable effect: store an approval, or the mark that it was used."""
    with stop_on_storage_error("approval_write_error", approval.path):
        objects.put(approval.path, _encode(approval))


def list_approvals(objects: ObjectStore, findings: Findings) -> tuple[Approval, ...]:
    """All approvals, in order of time; unreadable ones are reported and have no effect."""
    with stop_on_storage_error("approval_read_error", APPROVALS_PREFIX):
        names = sorted(objects.tokens(APPROVALS_PREFIX))
    found = []
    for name in names:
        path = f"{APPROVALS_PREFIX}/{name}"
        try:
            with stop_on_storage_error("approval_read_error", path):
                stored = objects.find(path)
            if stored is not None:
                found.append(_decode(stored.content, path))
        except VersionError as error:
            findings.warn("unsupported_approval_version", path, str(error))
        except ShapeError as error:
            findings.warn("invalid_approval_artifact", path, str(error))
        except StoppedError as error:
            for each in error.findings:
                findings.warn(each.code, each.path, each.message)
    return tuple(found)


def require_valid_approval(approval: Approval, objects: ObjectStore) -> None:
    """Raise `StoppedError` if an approval has changed since planning, for example if revoked."""
    with stop_on_storage_error("approval_read_error", approval.path):
        stored = objects.find(approval.path)
    try:
        is_unchanged = stored is not None and _decode(stored.content, approval.path) == approval
    except (ShapeError, VersionError):
        is_unchanged = False
    if not is_unchanged:
        raise StoppedError(
            error_finding(
                "apply_approval_invariant_violation",
                approval.path,
                f"the approval to {approval.operation} {approval.resource} has changed since "
                "the changes were planned; it was not used; plan again",
            )
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


def _encode(approval: Approval) -> bytes:
    return encode_tree(
        {
            "version": 1,
            "approval_id": approval.id,
            "resource": approval.resource,
            "operation": approval.operation,
            "config_digest": approval.config_digest,
            "before_digest": approval.before_digest,
            "after_digest": approval.after_digest,
            "approved_by": approval.approved_by,
            "approved_at": approval.approved_at,
            "consumed_at": approval.consumed_at,
        }
    )


def _decode(content: bytes, path: str) -> Approval:
    fields = decode_fields(content, version_key="version", known=_KNOWN)
    if path_of(fields.text("approval_id")) != path:
        # Otherwise it could be used under one name and count again under the other.
        raise ShapeError("its approval_id does not match its name")
    return Approval(
        id=fields.text("approval_id"),
        resource=fields.text("resource"),
        operation=fields.text("operation"),
        config_digest=fields.text("config_digest"),
        before_digest=fields.find_text("before_digest"),
        after_digest=fields.find_text("after_digest"),
        approved_by=fields.text("approved_by"),
        approved_at=fields.text("approved_at"),
        consumed_at=fields.find_text("consumed_at"),
    )
