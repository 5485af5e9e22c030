"""The desired configuration: every resource with its digest, and the dependencies between them.

It is read from a folder once per command. What was applied is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cluster.config import (
    CONFIG_FILE,
    ClusterConfig,
    encode_config,
    encode_profile,
    parse_config,
)
from omnigraph.cluster.resources import (
    CLUSTER,
    Findings,
    Kind,
    StoppedError,
    digest_config,
    digest_graph,
    digest_profile,
    graph_address,
    graph_id_of,
    kind_of,
    policy_address,
    provider_address,
    query_address,
    schema_address,
)
from omnigraph.cluster.sources import (
    CheckedGraph,
    SourceFile,
    Sources,
    check_sources,
    read_config_file,
    read_sources,
)
from omnigraph.cluster.state import AppliedResource


@dataclass(frozen=True, slots=True)
class Resource:
    """One desired resource; `entry` is what the state records of it once it is applied.

    `path` is its file, and `content` is what is published of it.
    """

    address: str
    path: str | None
    content: bytes | None
    entry: AppliedResource


@dataclass(frozen=True, slots=True)
class Dependency:
    """A resource that depends on another."""

    dependent: str
    needed: str


@dataclass(frozen=True, slots=True)
class Desired:
    """The whole desired configuration of a folder, by address, after all checks."""

    config: ClusterConfig
    sources: Sources
    resources: Mapping[str, Resource]
    graphs: Mapping[str, CheckedGraph]
    dependencies: tuple[Dependency, ...]
    config_digest: str

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each resource."""
        return {address: each.entry.digest for address, each in self.resources.items()}


def read_config(folder: Path, findings: Findings) -> ClusterConfig:
    """The configuration of a folder, without its files; raises `StoppedError` if it is invalid."""
    return _read_config(folder, findings)[1]


def read_desired(folder: Path, findings: Findings) -> Desired:
    """The desired configuration of a folder; raises `StoppedError` after reporting all errors."""
    file, config = _read_config(folder, findings)
    sources = read_sources(config, file, folder, findings)
    checked = check_sources(config, sources, findings)
    findings.require_no_errors()
    resources = {each.address: each for each in _list_resources(config, sources, checked)}
    listed = dict(sorted(resources.items()))
    entries = {address: each.entry for address, each in listed.items()}
    digests = {address: each.digest for address, each in entries.items()}
    return Desired(
        config=config,
        sources=sources,
        resources=listed,
        graphs=checked,
        dependencies=find_dependencies(entries),
        config_digest=digest_config(encode_config(config), digests),
    )


def find_dependencies(resources: Mapping[str, AppliedResource]) -> tuple[Dependency, ...]:
    """The dependencies between some resources."""
    found: list[Dependency] = []
    for address, resource in resources.items():
        id = graph_id_of(address) or ""
        match kind_of(address):
            case Kind.SCHEMA:
                found.append(Dependency(address, graph_address(id)))
            case Kind.QUERY:
                found.append(Dependency(address, graph_address(id)))
                found.append(Dependency(address, schema_address(id)))
            case Kind.POLICY:
                scopes = resource.applies_to or ()
                found += [Dependency(address, each) for each in scopes if each != CLUSTER]
            case Kind.GRAPH | Kind.PROVIDER:
                pass
        if resource.embedding_provider is not None:
            found.append(Dependency(address, resource.embedding_provider))
    return tuple(
        sorted(
            (each for each in found if each.needed in resources),
            key=lambda each: (each.dependent, each.needed),
        )
    )


def _read_config(folder: Path, findings: Findings) -> tuple[SourceFile, ClusterConfig]:
    file = read_config_file(folder, findings)
    config = None if file is None else parse_config(file.content, findings)
    if file is None or config is None:
        raise StoppedError
    return file, config


def _list_resources(
    config: ClusterConfig, sources: Sources, checked: Mapping[str, CheckedGraph]
) -> Iterator[Resource]:
    digest_by_provider: dict[str, str] = {}
    for name, profile in config.providers.items():
        address, encoded = provider_address(name), encode_profile(profile)
        digest_by_provider[address] = digest = digest_profile(encoded)
        entry = AppliedResource(digest, embedding_profile=encoded)
        yield Resource(address, CONFIG_FILE, None, entry)
    for name, policy in config.policies.items():
        file = sources.policies[name]
        entry = AppliedResource(file.digest, applies_to=policy.applies_to)
        yield Resource(policy_address(name), file.path, file.content, entry)
    for id, graph in checked.items():
        declared = config.graphs[id]
        entry = AppliedResource(graph.schema_digest)
        yield Resource(schema_address(id), declared.schema, None, entry)
        for name, file in graph.queries.items():
            entry = AppliedResource(file.digest)
            yield Resource(query_address(id, name), file.path, file.content, entry)
        used = declared.embedding_provider
        digest = digest_graph(
            id,
            schema=graph.schema_digest,
            queries={name: file.digest for name, file in graph.queries.items()},
            provider=None if used is None else (used, digest_by_provider[used]),
        )
        entry = AppliedResource(digest, embedding_provider=used)
        yield Resource(graph_address(id), None, None, entry)
