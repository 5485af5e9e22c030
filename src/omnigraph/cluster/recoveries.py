"""Recovery sidecars: a record of each change of a graph that is under way.

Written before the graph moves and deleted after the ledger knows of it, so that whatever stops in
between leaves evidence. What to make of one is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.cluster.addresses import ID
from omnigraph.cluster.findings import Finding, StoppedError, error_finding, telling
from omnigraph.cluster.stored_fields import ShapeError, VersionError, decode_fields, encode_tree

if TYPE_CHECKING:
    # Lance comes with it, and who only checks a folder does without.
    from omnigraph.storage.ports import ObjectStore

RECOVERIES_PREFIX = "__cluster/recoveries"

_KNOWN = frozenset(
    {
        "operation_id",
        "started_at",
        "actor",
        "kind",
        "graph_id",
        "graph_uri",
        "observed_manifest_version",
        "expected_manifest_version",
        "desired_schema_digest",
        "desired_schema_meaning",
        "state_cas_base",
        "approval_id",
    }
)


class MoveKind(StrEnum):
    """How a graph is being changed."""

    GRAPH_CREATE = "graph_create"
    SCHEMA_APPLY = "schema_apply"
    GRAPH_DELETE = "graph_delete"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A change of a graph under way; `desired_meaning` is the hash of what its schema means."""

    id: str
    started_at: str
    actor: str | None
    kind: MoveKind
    graph_id: str
    graph_uri: str
    observed_version: int | None
    expected_version: int | None
    desired_digest: str | None
    desired_meaning: str | None
    cas_base: str
    approval_id: str | None

    @property
    def path(self) -> str:
        """Where it is stored."""
        return path_of(self.id)


@dataclass(frozen=True, slots=True)
class FoundSidecars:
    """The sidecars that can be read, in order of time, and what is wrong with the others."""

    sidecars: tuple[Sidecar, ...]
    faults: tuple[Finding, ...]


def path_of(id: str) -> str:
    """Where a sidecar is stored."""
    return f"{RECOVERIES_PREFIX}/{id}.json"


def arm(sidecar: Sidecar, objects: ObjectStore) -> None:
    """Durable effect: record that a graph is about to move."""
    with telling("recovery_sidecar_write_error", sidecar.path):
        objects.put(sidecar.path, _encode(sidecar))


def disarm(sidecar: Sidecar, objects: ObjectStore) -> None:
    """Durable effect: forget a change that is over."""
    with telling("recovery_sidecar_cleanup_failed", sidecar.path):
        objects.delete(sidecar.path)


def list_sidecars(objects: ObjectStore) -> FoundSidecars:
    """All sidecars; stops if they cannot even be listed."""
    with telling("recovery_sidecar_read_error", RECOVERIES_PREFIX):
        names = sorted(objects.tokens(RECOVERIES_PREFIX))
    found, faults = [], []
    for name in names:
        path = f"{RECOVERIES_PREFIX}/{name}"
        try:
            with telling("recovery_sidecar_read_error", path):
                stored = objects.find(path)
            if stored is not None:
                found.append(_decode(stored.content, path))
        except VersionError as error:
            faults.append(error_finding("unsupported_recovery_sidecar_version", path, str(error)))
        except ShapeError as error:
            faults.append(error_finding("invalid_recovery_sidecar", path, str(error)))
        except StoppedError as error:
            faults += error.findings
    return FoundSidecars(tuple(found), tuple(faults))


def _encode(sidecar: Sidecar) -> bytes:
    return encode_tree(
        {
            "schema_version": 1,
            "operation_id": sidecar.id,
            "started_at": sidecar.started_at,
            "actor": sidecar.actor,
            "kind": str(sidecar.kind),
            "graph_id": sidecar.graph_id,
            "graph_uri": sidecar.graph_uri,
            "observed_manifest_version": sidecar.observed_version,
            "expected_manifest_version": sidecar.expected_version,
            "desired_schema_digest": sidecar.desired_digest,
            "desired_schema_meaning": sidecar.desired_meaning,
            "state_cas_base": sidecar.cas_base,
            "approval_id": sidecar.approval_id,
        }
    )


def _decode(content: bytes, path: str) -> Sidecar:
    fields = decode_fields(content, version_key="schema_version", known=_KNOWN)
    if path_of(fields.text("operation_id")) != path:
        # Nobody would find it again to take it away.
        raise ShapeError("its operation_id is not its name")
    kind = fields.text("kind")
    if kind not in tuple(MoveKind):
        raise ShapeError(f"`{kind}` is no kind of change")
    if ID.fullmatch(fields.text("graph_id")) is None:
        raise ShapeError("its graph_id is no id of a graph")
    return Sidecar(
        id=fields.text("operation_id"),
        started_at=fields.text("started_at"),
        actor=fields.find_text("actor"),
        kind=MoveKind(kind),
        graph_id=fields.text("graph_id"),
        graph_uri=fields.text("graph_uri"),
        observed_version=fields.find_number("observed_manifest_version"),
        expected_version=fields.find_number("expected_manifest_version"),
        desired_digest=fields.find_text("desired_schema_digest"),
        desired_meaning=fields.find_text("desired_schema_meaning"),
        cas_base=fields.find_text("state_cas_base") or "",
        approval_id=fields.find_text("approval_id"),
    )
