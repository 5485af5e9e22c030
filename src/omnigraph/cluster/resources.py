"""Addresses, digests and findings: the values that all cluster modules share.

Pure. An address has exactly one parse, because ids contain no dot. Digests are lower-case
hexadecimal SHA-256. Findings carry codes for programs and are collected, so one run reports all of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from omnigraph.model.errors import GraphError
from omnigraph.model.runtime import lazy_module
from omnigraph.model.source import Severity

if TYPE_CHECKING:
    import orjson
else:
    # Every command imports this module, and few compute a digest.
    orjson = lazy_module("orjson")

CLUSTER = "cluster"
"""The scope of policies for the server itself."""

ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


class Kind(StrEnum):
    """The kind of a resource."""

    GRAPH = "graph"
    SCHEMA = "schema"
    QUERY = "query"
    POLICY = "policy"
    PROVIDER = "provider"


_PROVIDER_PREFIX = "provider.embedding."


def graph_address(id: str) -> str:
    """The address of a graph."""
    return f"graph.{id}"


def schema_address(id: str) -> str:
    """The address of a graph's schema."""
    return f"schema.{id}"


def query_address(graph_id: str, name: str) -> str:
    """The address of a stored query."""
    return f"query.{graph_id}.{name}"


def policy_address(name: str) -> str:
    """The address of a policy."""
    return f"policy.{name}"


def provider_address(name: str) -> str:
    """The address of an embedding provider."""
    return f"{_PROVIDER_PREFIX}{name}"


def kind_of(address: str) -> Kind:
    """The kind of the resource at an address."""
    return Kind(address.partition(".")[0])


def is_address(text: str) -> bool:
    """Whether a text is the address of a resource."""
    kind, _, rest = text.partition(".")
    if kind not in tuple(Kind):
        return False
    parts = rest.split(".")
    if kind == Kind.PROVIDER:
        parts = text.removeprefix(_PROVIDER_PREFIX).split(".")
    expected = 2 if kind == Kind.QUERY else 1
    return len(parts) == expected and all(map(ID.fullmatch, parts))


def name_of(address: str) -> str:
    """The last part of an address: the id or name of the resource itself."""
    return address.rpartition(".")[2]


def graph_id_of(address: str) -> str | None:
    """The graph that a resource belongs to; None for policies and providers."""
    parts = address.split(".")
    return parts[1] if parts[0] in (Kind.GRAPH, Kind.SCHEMA, Kind.QUERY) else None


def digest_bytes(content: bytes) -> str:
    """The digest of a file."""
    return sha256(content).hexdigest()


def digest_profile(profile: Mapping[str, object]) -> str:
    """The digest of an embedding provider."""
    return digest_bytes(b"embedding-provider\0" + compact_json(profile))


def digest_graph(
    id: str,
    *,
    schema: str,
    queries: Mapping[str, str],
    provider: tuple[str, str] | None,
) -> str:
    """The digest of a graph: of its schema digest, query digests by name, and provider digest."""
    parts = ["graph", id, "schema", schema]
    for name, digest in sorted(queries.items()):
        parts += ["query", name, digest]
    if provider is not None:
        parts += ["embedding_provider", *provider]
    return digest_bytes("".join(f"{part}\0" for part in parts).encode())


def digest_config(config: Mapping[str, object], resources: Mapping[str, str]) -> str:
    """The digest of a configuration and of the digests of all resources it names, by address."""
    listed = "".join(f"{address}\0{digest}\0" for address, digest in sorted(resources.items()))
    return digest_bytes(b"cluster-config\0" + compact_json(config) + b"\0" + listed.encode())


def compact_json(tree: Mapping[str, object]) -> bytes:
    """A tree as JSON with sorted keys, so that equal trees have equal bytes."""
    return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)


@dataclass(frozen=True, slots=True)
class Finding:
    """One error or warning; `path` is the field, file or object that it is about."""

    code: str
    severity: Severity
    path: str
    message: str


class StoppedError(Exception):
    """A command cannot continue; effects so far remain."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(each.message for each in findings))
        self.findings = findings


class Findings:
    """The findings so far, without duplicates."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(tuple(self._found))

    @property
    def has_errors(self) -> bool:
        """Whether the command fails."""
        return any(each.severity is Severity.ERROR for each in self._found)

    def add(self, found: Iterable[Finding]) -> None:
        """Add findings."""
        self._found.update(dict.fromkeys(found))

    def error(self, code: str, path: str, message: str) -> None:
        """Add an error, which makes the command fail."""
        self.add([error_finding(code, path, message)])

    def warn(self, code: str, path: str, message: str) -> None:
        """Add a warning."""
        self.add([Finding(code, Severity.WARNING, path, message)])

    def add_as_warnings(self, found: Iterable[Finding]) -> None:
        """Add findings, which do not make the command fail."""
        self.add(replace(each, severity=Severity.WARNING) for each in found)

    def require_no_errors(self) -> None:
        """Raise `StoppedError` if there is an error so far."""
        if self.has_errors:
            raise StoppedError

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """A block that `StoppedError` ends early; its findings are added."""
        try:
            yield
        except StoppedError as error:
            self.add(error.findings)


def error_finding(code: str, path: str, message: str) -> Finding:
    """A finding that makes a command fail."""
    return Finding(code, Severity.ERROR, path, message)


def stopped(code: str, path: str, message: str) -> StoppedError:
    """The error of a command that cannot continue, with one finding."""
    return StoppedError(error_finding(code, path, message))


@contextmanager
def stop_on_storage_error(code: str, path: str) -> Iterator[None]:
    """A block in which a storage error raises `StoppedError` with the given code."""
    try:
        yield
    except GraphError as error:
        raise stopped(code, path, str(error)) from error
