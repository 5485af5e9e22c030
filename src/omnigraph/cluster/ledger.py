"""The ledger, `__cluster/state.json`: what was applied, and what is known of it.

One object, replaced whole and only if it is still the one that was read, so that of two who change
it at once one is told. Frozen values; nothing here decides what belongs into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.cluster.addresses import (
    Kind,
    graph_address,
    graph_id_of,
    is_address,
    kind_of,
    name_of,
    schema_address,
)
from omnigraph.cluster.digests import digest_bytes, digest_graph
from omnigraph.cluster.findings import StoppedError, error_finding, telling
from omnigraph.cluster.stored_fields import (
    ShapeError,
    StoredFields,
    VersionError,
    decode_fields,
    encode_tree,
)

if TYPE_CHECKING:
    # Lance comes with it, and who only checks a folder does without.
    from omnigraph.storage.ports import ObjectStore

STATE_PATH = "__cluster/state.json"

_KNOWN = frozenset(
    {
        "state_revision",
        "applied_revision",
        "resource_statuses",
        "approval_records",
        "recovery_records",
        "observations",
    }
)
_KNOWN_OF_RESOURCE = frozenset({"digest", "applies_to", "embedding_provider", "embedding_profile"})


class Status(StrEnum):
    """How a resource stands."""

    PENDING = "pending"
    PLANNED = "planned"
    APPLYING = "applying"
    APPLIED = "applied"
    DRIFTED = "drifted"
    BLOCKED = "blocked"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """How a resource stands, by which conditions, and in words."""

    status: Status
    conditions: tuple[str, ...]
    message: str | None


APPLIED = ResourceStatus(Status.APPLIED, (), None)


@dataclass(frozen=True, slots=True)
class AppliedResource:
    """A resource as it was applied; a profile is kept as it is stored."""

    digest: str
    applies_to: tuple[str, ...] | None
    embedding_provider: str | None
    embedding_profile: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Ledger:
    """A whole ledger; `config_digest` is None until everything of a configuration was applied."""

    revision: int
    config_digest: str | None
    resources: Mapping[str, AppliedResource]
    statuses: Mapping[str, ResourceStatus]
    approval_records: Mapping[str, Mapping[str, object]]
    recovery_records: Mapping[str, Mapping[str, object]]
    observations: Mapping[str, Mapping[str, object]]

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each resource."""
        return {address: each.digest for address, each in self.resources.items()}

    def graph_ids(self) -> tuple[str, ...]:
        """The graphs that were applied."""
        return tuple(
            name_of(address) for address in self.resources if kind_of(address) is Kind.GRAPH
        )

    def find_digest(self, address: str) -> str | None:
        """The digest that a resource was applied with; None if it was not."""
        found = self.resources.get(address)
        return None if found is None else found.digest

    def having(self, address: str, resource: AppliedResource, status: ResourceStatus) -> Ledger:
        """The ledger with a resource."""
        return replace(
            self,
            resources={**self.resources, address: resource},
            statuses={**self.statuses, address: status},
        )

    def telling(self, address: str, status: ResourceStatus) -> Ledger:
        """The ledger with another status of a resource."""
        return replace(self, statuses={**self.statuses, address: status})

    def without(self, address: str) -> Ledger:
        """The ledger without a resource and its status."""
        return replace(
            self,
            resources={key: each for key, each in self.resources.items() if key != address},
            statuses={key: each for key, each in self.statuses.items() if key != address},
        )

    def observing(self, address: str, observation: Mapping[str, object]) -> Ledger:
        """The ledger with what was seen of a resource."""
        return replace(self, observations={**self.observations, address: observation})

    def recording_recovery(self, id: str, record: Mapping[str, object]) -> Ledger:
        """The ledger with what became of a change that had stopped on its way."""
        return replace(self, recovery_records={**self.recovery_records, id: record})

    def recording_approval(self, id: str, record: Mapping[str, object]) -> Ledger:
        """The ledger with an approval that was made use of."""
        return replace(self, approval_records={**self.approval_records, id: record})

    def without_graph(self, id: str) -> Ledger:
        """The ledger without a graph and all parts of it."""
        found = self
        for address in [*self.resources, *self.statuses]:
            if graph_id_of(address) == id:
                found = found.without(address)
        return found

    def with_graph_digest(self, id: str, *, provider: str | None) -> Ledger:
        """The ledger with a graph whose digest follows from the parts that were applied."""
        provider_digest = None if provider is None else self.find_digest(provider)
        digest = digest_graph(
            id,
            # None where somebody took it out of the state by hand; then the next plan makes it.
            schema=self.find_digest(schema_address(id)) or "",
            queries={
                name_of(address): each.digest
                for address, each in self.resources.items()
                if kind_of(address) is Kind.QUERY and graph_id_of(address) == id
            },
            provider=None
            if provider is None or provider_digest is None
            else (provider, provider_digest),
        )
        address = graph_address(id)
        status = self.statuses.get(address, APPLIED)
        return self.having(address, AppliedResource(digest, None, provider, None), status)


EMPTY = Ledger(0, None, {}, {}, {}, {}, {})

_MOVED = (
    "somebody else has changed the state meanwhile; run the command again, which picks up what was "
    "done"
)


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger as it was read: `cas` is what people see of the bytes, `token` what storage does."""

    ledger: Ledger
    cas: str
    token: str


def find_ledger(objects: ObjectStore) -> StoredLedger | None:
    """The ledger, or None if there is none; stops if it cannot be read."""
    with telling("state_read_error", STATE_PATH):
        stored = objects.find(STATE_PATH)
    if stored is None:
        return None
    try:
        ledger = decode_ledger(stored.content)
    except VersionError as error:
        raise _stopped("unsupported_state_version", str(error)) from error
    except ShapeError as error:
        raise _stopped("invalid_state_json", str(error)) from error
    return StoredLedger(ledger, cas_of(stored.content), stored.token)


def get_ledger(objects: ObjectStore) -> StoredLedger:
    """The ledger; stops if there is none."""
    found = find_ledger(objects)
    if found is None:
        raise _stopped(
            "state_missing",
            "the cluster has no state yet; nothing was changed; start with "
            "`omnigraph cluster import`",
        )
    return found


def create_ledger(ledger: Ledger, objects: ObjectStore) -> StoredLedger:
    """Durable effect: write the first ledger of a cluster; stops if there is one."""
    content = encode_ledger(ledger)
    with telling("state_write_error", STATE_PATH):
        is_written = objects.put_if_absent(STATE_PATH, content)
    found = find_ledger(objects)
    if found is not None and found.cas == cas_of(content):
        # Also if storage refused: a request whose answer got lost is sent again.
        return found
    if is_written:
        raise _stopped("state_cas_mismatch", _MOVED)
    raise _stopped(
        "state_already_exists",
        "the cluster has a state already; `omnigraph cluster refresh` looks at it anew",
    )


def replace_ledger(ledger: Ledger, *, over: StoredLedger, objects: ObjectStore) -> StoredLedger:
    """Durable effect: replace the ledger that was read by its next revision, or stop."""
    content = encode_ledger(replace(ledger, revision=over.ledger.revision + 1))
    with telling("state_write_error", STATE_PATH):
        now = objects.find(STATE_PATH)
        token = None
        if now is not None and cas_of(now.content) == over.cas:
            token = objects.put_if_match(STATE_PATH, content, token=now.token)
            if token is None:
                # A request whose answer got lost is sent again, and finds what it has written.
                now = objects.find(STATE_PATH)
                token = now.token if now is not None and now.content == content else None
    if token is None:
        raise _stopped("state_cas_mismatch", _MOVED)
    return StoredLedger(decode_ledger(content), cas_of(content), token)


def cas_of(content: bytes) -> str:
    """What names the content of a ledger."""
    return f"sha256:{digest_bytes(content)}"


def encode_ledger(ledger: Ledger) -> bytes:
    """A ledger as it is stored."""
    return encode_tree(
        {
            "version": 1,
            "state_revision": ledger.revision,
            "applied_revision": {
                "config_digest": ledger.config_digest,
                "resources": {
                    address: _encode_resource(each)
                    for address, each in sorted(ledger.resources.items())
                },
            },
            "resource_statuses": encode_statuses(ledger.statuses),
            "approval_records": dict(sorted(ledger.approval_records.items())),
            "recovery_records": dict(sorted(ledger.recovery_records.items())),
            "observations": dict(sorted(ledger.observations.items())),
        }
    )


def encode_statuses(statuses: Mapping[str, ResourceStatus]) -> dict[str, object]:
    """Statuses by address, as they are stored and shown."""
    return {address: _encode_status(each) for address, each in sorted(statuses.items())}


def decode_ledger(content: bytes) -> Ledger:
    """The ledger that was stored; `ShapeError` or `VersionError` if it is none of ours."""
    fields = decode_fields(content, version_key="version", known=_KNOWN)
    applied = fields.within("applied_revision", known=frozenset({"config_digest", "resources"}))
    resources = applied.within("resources", known=None)
    statuses = fields.within("resource_statuses", known=None)
    return Ledger(
        revision=fields.find_number("state_revision") or 0,
        config_digest=applied.find_text("config_digest"),
        resources={
            _require_address(address): _decode_resource(
                resources.within(address, known=_KNOWN_OF_RESOURCE)
            )
            for address in resources.names
        },
        statuses={
            _require_address(address): _decode_status(statuses, address)
            for address in statuses.names
        },
        approval_records=fields.trees("approval_records"),
        recovery_records=fields.trees("recovery_records"),
        observations=fields.trees("observations"),
    )


def _encode_resource(resource: AppliedResource) -> dict[str, object]:
    encoded: dict[str, object] = {"digest": resource.digest}
    if resource.applies_to is not None:
        encoded["applies_to"] = list(resource.applies_to)
    if resource.embedding_provider is not None:
        encoded["embedding_provider"] = resource.embedding_provider
    if resource.embedding_profile is not None:
        encoded["embedding_profile"] = dict(resource.embedding_profile)
    return encoded


def _decode_resource(fields: StoredFields) -> AppliedResource:
    profile = fields.within("embedding_profile", known=None)
    return AppliedResource(
        digest=fields.text("digest"),
        applies_to=fields.find_texts("applies_to"),
        embedding_provider=fields.find_text("embedding_provider"),
        embedding_profile={name: profile.find_text(name) for name in profile.names}
        if "embedding_profile" in fields.names
        else None,
    )


def _encode_status(status: ResourceStatus) -> dict[str, object]:
    encoded: dict[str, object] = {
        "status": str(status.status),
        "conditions": list(status.conditions),
    }
    if status.message is not None:
        encoded["message"] = status.message
    return encoded


def _decode_status(statuses: StoredFields, address: str) -> ResourceStatus:
    fields = statuses.within(address, known=frozenset({"status", "conditions", "message"}))
    word = fields.text("status")
    if word not in tuple(Status):
        raise ShapeError(f"`{word}` is no status")
    return ResourceStatus(
        Status(word), fields.find_texts("conditions") or (), fields.find_text("message")
    )


def _require_address(text: str) -> str:
    if not is_address(text):
        raise ShapeError(f"`{text}` is no address of a resource")
    return text


def _stopped(code: str, message: str) -> StoppedError:
    return StoppedError(error_finding(code, STATE_PATH, message))
