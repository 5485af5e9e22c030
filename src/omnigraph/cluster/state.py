"""The applied state of a cluster, `__cluster/state.json`, and typed fields of stored records.

The state is one object, replaced as a whole and only if it is still the version that was read; of
two concurrent writers one fails. Values are frozen. Decoding is strict: an unknown field or version
raises an error, because a newer release may have written it. What the state should contain is
decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

import orjson

from omnigraph.cluster.resources import (
    Finding,
    Kind,
    StoppedError,
    digest_bytes,
    digest_graph,
    error_finding,
    graph_address,
    graph_id_of,
    is_address,
    kind_of,
    name_of,
    schema_address,
    stop_on_storage_error,
    stopped,
)

if TYPE_CHECKING:
    from omnigraph.storage.ports import ObjectStore, StoredObject

T = TypeVar("T")


class ShapeError(ValueError):
    """A stored object does not have the expected format."""


class VersionError(ValueError):
    """A stored object has an unknown version."""


def decode_fields(content: bytes, *, version_key: str, known: frozenset[str]) -> StoredFields:
    """The fields of an object of version 1; raises `ShapeError` or `VersionError`."""
    try:
        tree: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ShapeError("it is not valid JSON") from error
    if not isinstance(tree, dict):
        raise ShapeError("it is not a JSON object")
    version = tree.get(version_key)
    if version != 1 or isinstance(version, bool):
        raise VersionError(f"its {version_key} is {version!r}, and only 1 is supported")
    return StoredFields.parse(tree, "", known=known | {version_key})


class StoredFields:
    """The fields at a path in a stored object."""

    def __init__(self, place: str, fields: Mapping[str, object]) -> None:
        self._place = place
        self._fields = fields

    @staticmethod
    def parse(tree: object, place: str, *, known: frozenset[str] | None) -> StoredFields:
        """The fields of a tree; with `known`, other fields raise `ShapeError`."""
        if not isinstance(tree, dict):
            raise ShapeError(f"`{place}` is not an object")
        unknown = [] if known is None else sorted(set(tree) - known)
        if unknown:
            raise ShapeError(f"unknown field `{_join(place, str(unknown[0]))}`")
        return StoredFields(place, tree)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(self._fields)

    def within(self, key: str, *, known: frozenset[str] | None) -> StoredFields:
        """The fields of a nested object; empty if it is missing."""
        found = self._fields.get(key)
        return StoredFields.parse({} if found is None else found, self._at(key), known=known)

    def text(self, key: str) -> str:
        """The text of a field, which must not be empty."""
        found = self._fields.get(key)
        if not isinstance(found, str) or not found:
            raise ShapeError(f"`{self._at(key)}` is not text")
        return found

    def find_text(self, key: str) -> str | None:
        """The text of a field, or None if it is missing."""
        return None if self._fields.get(key) is None else self.text(key)

    def number(self, key: str) -> int:
        """The integer of a field."""
        found = self._fields.get(key)
        if not isinstance(found, int) or isinstance(found, bool):
            raise ShapeError(f"`{self._at(key)}` is not a whole number")
        return found

    def find_number(self, key: str) -> int | None:
        """The integer of a field, or None if it is missing."""
        return None if self._fields.get(key) is None else self.number(key)

    def find_texts(self, key: str) -> tuple[str, ...] | None:
        """The texts of a list, or None if it is missing."""
        found = self._fields.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ShapeError(f"`{self._at(key)}` is not a list of strings")
        return tuple(found)

    def trees(self, key: str) -> dict[str, dict[str, object]]:
        """Objects by name, with any content."""
        named = self.within(key, known=None)
        found = {}
        for name in named.names:
            tree = named.within(name, known=None)
            found[name] = dict(tree._fields)
        return found

    def _at(self, key: str) -> str:
        return _join(self._place, key)


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def without_none(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}


def encode_tree(tree: Mapping[str, object]) -> bytes:
    """An object as it is stored, indented so that people can read it."""
    return orjson.dumps(tree, option=orjson.OPT_INDENT_2) + b"\n"


@dataclass(frozen=True, slots=True)
class ReadErrors:
    """The codes of the errors of reading a stored object."""

    unreadable: str
    unknown_version: str
    invalid: str


def find_decoded(
    path: str, decode: Callable[[bytes], T], objects: ObjectStore, codes: ReadErrors
) -> tuple[T, StoredObject] | None:
    """An object, decoded and as stored; raises `StoppedError` if it cannot be used."""
    with stop_on_storage_error(codes.unreadable, path):
        stored = objects.find(path)
    if stored is None:
        return None
    try:
        return decode(stored.content), stored
    except VersionError as error:
        raise stopped(codes.unknown_version, path, str(error)) from error
    except ShapeError as error:
        raise stopped(codes.invalid, path, str(error)) from error


@dataclass(frozen=True, slots=True)
class RecordFormat(Generic[T]):
    """The stored form of a record: for each stored field, the attribute and how it is read.

    The first field is the id of the record. Optional attributes are stored as null.
    """

    make: Callable[..., T]
    version_key: str
    fields: Mapping[str, tuple[str, Callable[[StoredFields, str], object]]]
    codes: ReadErrors

    def encode(self, record: T) -> bytes:
        """A record as it is stored."""
        stored = {name: getattr(record, attribute) for name, (attribute, _) in self.fields.items()}
        return encode_tree({self.version_key: 1, **stored})

    def decode(self, content: bytes) -> T:
        """Decode a stored record; raises `ShapeError` or `VersionError` if it is not valid."""
        stored = decode_fields(content, version_key=self.version_key, known=frozenset(self.fields))
        return self.make(
            **{attribute: read(stored, name) for name, (attribute, read) in self.fields.items()}
        )

    def list(self, prefix: str, objects: ObjectStore) -> tuple[tuple[T, ...], tuple[Finding, ...]]:
        """The records below a prefix, in order of their ids, and the errors of unusable ones.

        Raises `StoppedError` if they cannot be listed.
        """
        with stop_on_storage_error(self.codes.unreadable, prefix):
            names = sorted(objects.tokens(prefix))
        found: list[T] = []
        faults: list[Finding] = []
        id_name, (id_attribute, _) = next(iter(self.fields.items()))
        for name in names:
            path = f"{prefix}/{name}"
            try:
                stored = find_decoded(path, self.decode, objects, self.codes)
            except StoppedError as error:
                faults += error.findings
                continue
            if stored is None:
                continue
            record, _ = stored
            if name == f"{getattr(record, id_attribute)}.json":
                found.append(record)
            else:
                # Under another name it could count twice, or could not be found to be deleted.
                message = f"its {id_name} does not match its name"
                faults.append(error_finding(self.codes.invalid, path, message))
        return tuple(found), tuple(faults)


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
    """The status of a resource."""

    PENDING = "pending"
    PLANNED = "planned"
    APPLYING = "applying"
    APPLIED = "applied"
    DRIFTED = "drifted"
    BLOCKED = "blocked"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The status of a resource, with conditions and a message."""

    status: Status
    conditions: tuple[str, ...]
    message: str | None


APPLIED = ResourceStatus(Status.APPLIED, (), None)


@dataclass(frozen=True, slots=True)
class AppliedResource:
    """A resource as it was applied; an embedding profile is in its stored form."""

    digest: str
    applies_to: tuple[str, ...] | None = None
    embedding_provider: str | None = None
    embedding_profile: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The applied state; `config_digest` is None until a whole configuration was applied."""

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
        """The digest with which a resource was applied; None if it was not."""
        found = self.resources.get(address)
        return None if found is None else found.digest

    def having(
        self, address: str, resource: AppliedResource, status: ResourceStatus
    ) -> ClusterState:
        """The state with a resource."""
        return replace(
            self,
            resources={**self.resources, address: resource},
            statuses={**self.statuses, address: status},
        )

    def with_status(self, address: str, status: ResourceStatus) -> ClusterState:
        """The state with another status of a resource."""
        return replace(self, statuses={**self.statuses, address: status})

    def without(self, *addresses: str) -> ClusterState:
        """The state without some resources and their statuses."""
        return replace(
            self,
            resources={key: each for key, each in self.resources.items() if key not in addresses},
            statuses={key: each for key, each in self.statuses.items() if key not in addresses},
        )

    def observing(self, address: str, observation: Mapping[str, object]) -> ClusterState:
        """The state with an observation of a resource."""
        return replace(self, observations={**self.observations, address: observation})

    def without_graph(self, id: str) -> ClusterState:
        """The state without a graph and all its parts."""
        every = {*self.resources, *self.statuses}
        return self.without(*(address for address in every if graph_id_of(address) == id))

    def with_graph_digest(self, id: str, *, provider: str | None) -> ClusterState:
        """The state with a graph whose digest is derived from its applied parts."""
        provider_digest = None if provider is None else self.find_digest(provider)
        digest = digest_graph(
            id,
            # Missing if the state was edited by hand; then the next plan creates it.
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
        return self.having(address, AppliedResource(digest, embedding_provider=provider), status)


EMPTY = ClusterState(0, None, {}, {}, {}, {}, {})

STATE_EXISTS = error_finding(
    "state_already_exists",
    STATE_PATH,
    "the cluster has a state already; `omnigraph cluster refresh` reads it again",
)
_STATE_MOVED = error_finding(
    "state_cas_mismatch",
    STATE_PATH,
    "another command changed the state in the meantime; run the command again, which resumes the "
    "work",
)


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state as it was read; `cas` is its content hash for people, `token` its storage token."""

    ledger: ClusterState
    cas: str
    token: str


def find_ledger(objects: ObjectStore) -> StoredState | None:
    """The state, or None if there is none; raises `StoppedError` if it cannot be read."""
    codes = ReadErrors("state_read_error", "unsupported_state_version", "invalid_state_json")
    found = find_decoded(STATE_PATH, decode_ledger, objects, codes)
    if found is None:
        return None
    ledger, stored = found
    return StoredState(ledger, _cas_of(stored.content), stored.token)


def get_ledger(objects: ObjectStore) -> StoredState:
    """The state; raises `StoppedError` if there is none."""
    found = find_ledger(objects)
    if found is None:
        raise stopped(
            "state_missing",
            STATE_PATH,
            "the cluster has no state yet; nothing was changed; start with "
            "`omnigraph cluster import`",
        )
    return found


def create_ledger(ledger: ClusterState, objects: ObjectStore) -> StoredState:
    """Durable effect: write the first state of a cluster; raises `StoppedError` if one exists."""
    content = encode_ledger(ledger)
    with stop_on_storage_error("state_write_error", STATE_PATH):
        is_written = objects.put_if_absent(STATE_PATH, content)
    found = find_ledger(objects)
    if found is not None and found.cas == _cas_of(content):
        # This can also follow a rejection: a request whose response was lost is sent again.
        return found
    if is_written:
        raise StoppedError(_STATE_MOVED)
    raise StoppedError(STATE_EXISTS)


def replace_ledger(ledger: ClusterState, *, over: StoredState, objects: ObjectStore) -> StoredState:
    """Durable effect: replace the state that was read by its next revision.

    Raises `StoppedError` if another command has changed it.
    """
    content = encode_ledger(replace(ledger, revision=over.ledger.revision + 1))
    with stop_on_storage_error("state_write_error", STATE_PATH):
        now = objects.find(STATE_PATH)
        token = None
        if now is not None and _cas_of(now.content) == over.cas:
            token = objects.put_if_match(STATE_PATH, content, token=now.token)
            if token is None:
                # A request whose response was lost is sent again, and finds what it has written.
                now = objects.find(STATE_PATH)
                token = now.token if now is not None and now.content == content else None
    if token is None:
        raise StoppedError(_STATE_MOVED)
    return StoredState(decode_ledger(content), _cas_of(content), token)


def encode_ledger(ledger: ClusterState) -> bytes:
    """A state as it is stored."""
    return encode_tree(
        {
            "version": 1,
            "state_revision": ledger.revision,
            "applied_revision": {
                "config_digest": ledger.config_digest,
                "resources": {
                    address: without_none(asdict(each))
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
    return {address: without_none(asdict(each)) for address, each in sorted(statuses.items())}


def decode_ledger(content: bytes) -> ClusterState:
    """Decode a stored state; raises `ShapeError` or `VersionError` if it is not valid."""
    fields = decode_fields(content, version_key="version", known=_KNOWN)
    applied = fields.within("applied_revision", known=frozenset({"config_digest", "resources"}))
    resources = applied.within("resources", known=None)
    statuses = fields.within("resource_statuses", known=None)
    return ClusterState(
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


def _cas_of(content: bytes) -> str:
    """The content hash of a stored state."""
    return f"sha256:{digest_bytes(content)}"


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


def _decode_status(statuses: StoredFields, address: str) -> ResourceStatus:
    fields = statuses.within(address, known=frozenset({"status", "conditions", "message"}))
    word = fields.text("status")
    if word not in tuple(Status):
        raise ShapeError(f"`{word}` is not a status")
    return ResourceStatus(
        Status(word), fields.find_texts("conditions") or (), fields.find_text("message")
    )


def _require_address(text: str) -> str:
    if not is_address(text):
        raise ShapeError(f"`{text}` is not a resource address")
    return text
