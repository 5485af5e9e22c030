"""The desired configuration: every resource with its digest, and the dependencies between them.

It is read from a folder once per command. The applied state is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.cluster.config import (
    CONFIG_FILE,
    ClusterConfig,
    EmbeddingProfile,
    encode_config,
    encode_profile,
    parse_config,
)
from omnigraph.cluster.resources import (
    CLUSTER,
    Findings,
    Kind,
    StoppedError,
    digest_bytes,
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
from omnigraph.model.source import Source


@dataclass(frozen=True, slots=True)
class Resource:
    """One desired resource; `path` is its file and `content` is what is published of it.

    The kind determines which of the last fields are set.
    """

    address: str
    kind: Kind
    digest: str
    path: str | None
    content: bytes | None
    applies_to: tuple[str, ...] | None
    embedding_provider: str | None
    embedding_profile: EmbeddingProfile | None


@dataclass(frozen=True, slots=True)
class Dependency:
    """A resource that depends on another."""

    dependent: str
    needed: str


@dataclass(frozen=True, slots=True)
class DesiredSchema:
    """The schema of a graph: its text, its digest, and the hash of its compiled form."""

    source: Source
    digest: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Desired:
    """The whole desired configuration of a folder, by address, after all checks."""

    config: ClusterConfig
    sources: Sources
    resources: Mapping[str, Resource]
    schemas: Mapping[str, DesiredSchema]
    dependencies: tuple[Dependency, ...]
    config_digest: str

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each resource."""
        return {address: each.digest for address, each in self.resources.items()}


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
    digests = {address: each.digest for address, each in listed.items()}
    return Desired(
        config=config,
        sources=sources,
        resources=listed,
        schemas={
            id: DesiredSchema(each.schema, digests[schema_address(id)], each.schema_hash)
            for id, each in checked.items()
        },
        dependencies=find_dependencies(
            {address: each.applies_to for address, each in listed.items()},
            {address: each.embedding_provider for address, each in listed.items()},
        ),
        config_digest=digest_config(encode_config(config), digests),
    )


def find_dependencies(
    bindings: Mapping[str, tuple[str, ...] | None], providers: Mapping[str, str | None]
) -> tuple[Dependency, ...]:
    """The dependencies between the resources in `bindings`."""
    found: list[Dependency] = []
    for address, applies_to in bindings.items():
        id = graph_id_of(address) or ""
        match kind_of(address):
            case Kind.SCHEMA:
                found.append(Dependency(address, graph_address(id)))
            case Kind.QUERY:
                found.append(Dependency(address, graph_address(id)))
                found.append(Dependency(address, schema_address(id)))
            case Kind.POLICY:
                found += [Dependency(address, each) for each in applies_to or () if each != CLUSTER]
            case Kind.GRAPH | Kind.PROVIDER:
                pass
        provider = providers.get(address)
        if provider is not None:
            found.append(Dependency(address, provider))
    known = frozenset(bindings)
    return tuple(
        sorted(
            (each for each in found if each.needed in known),
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
        address, digest = provider_address(name), digest_profile(encode_profile(profile))
        digest_by_provider[address] = digest
        provider = _make_resource(address, digest, path=CONFIG_FILE, content=None)
        yield replace(provider, embedding_profile=profile)
    for name, policy in config.policies.items():
        yield replace(
            _make_of_file(policy_address(name), sources.policies[name]),
            applies_to=policy.applies_to,
        )
    for id, graph in checked.items():
        declared = config.graphs[id]
        # The digest is of the stored form, without the byte order mark that some editors write.
        schema = digest_bytes(graph.schema.text.encode())
        yield _make_resource(schema_address(id), schema, path=declared.schema, content=None)
        for name, file in graph.queries.items():
            yield _make_of_file(query_address(id, name), file)
        used = declared.embedding_provider
        digest = digest_graph(
            id,
            schema=schema,
            queries={name: file.digest for name, file in graph.queries.items()},
            provider=None if used is None else (used, digest_by_provider[used]),
        )
        made = _make_resource(graph_address(id), digest, path=None, content=None)
        yield replace(made, embedding_provider=used)


def _make_of_file(address: str, file: SourceFile) -> Resource:
    return _make_resource(address, file.digest, path=file.path, content=file.content)


def _make_resource(
    address: str, digest: str, *, path: str | None, content: bytes | None
) -> Resource:
    return Resource(
        address=address,
        kind=kind_of(address),
        digest=digest,
        path=path,
        content=content,
        applies_to=None,
        embedding_provider=None,
        embedding_profile=None,
    )
