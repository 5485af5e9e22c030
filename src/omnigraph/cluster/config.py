"""`cluster.yaml`: parsed into frozen values, with all errors reported at once.

Parsing is strict: an unknown field is an error at every level. The module parses text and reads no
file; whether a referenced file exists is checked in `sources`. API keys are held as names of
environment variables, never as values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.cluster import resources
from omnigraph.embed.profiles import ProviderKind, is_plain_address
from omnigraph.model.names import find_near_name
from omnigraph.policy.yaml_reader import YamlTextError, read_yaml_tree

CODE = "invalid_cluster_yaml"


@dataclass(frozen=True, slots=True)
class Section:
    """The fields at a path of a file."""

    path: str
    fields: Mapping[str, object]
    findings: resources.Findings

    @staticmethod
    def parse(tree: object, path: str, findings: resources.Findings) -> Section | None:
        """The fields of a tree; None, and a finding, if it is not a mapping."""
        if not isinstance(tree, Mapping):
            findings.error(CODE, path or "the file", "expected fields, as `name: value`")
            return None
        for key in tree:
            if not isinstance(key, str):
                findings.error(
                    CODE, path or "the file", f"the name {key!r} is not text; put it in quotes"
                )
        named = {key: value for key, value in tree.items() if isinstance(key, str)}
        return Section(path, named, findings)

    def path_of(self, key: str) -> str:
        """The path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def allow_only(self, *known: str) -> None:
        """Report every other field as an error."""
        for key in self.fields:
            if key not in known:
                near = find_near_name(key, known)
                advice = (
                    f"did you mean `{near}`?" if near else f"expected one of {', '.join(known)}"
                )
                self.error(CODE, key, f"unknown field `{key}`; {advice}")

    def error(self, code: str, key: str, message: str) -> None:
        """Report an error about a field."""
        self.findings.error(code, self.path_of(key), message)

    def find(self, key: str) -> object:
        """The value of a field; None if it is missing or empty."""
        return self.fields.get(key)

    def find_section(self, key: str) -> Section | None:
        """The fields of a nested mapping; None if it is missing."""
        found = self.fields.get(key)
        if found is None:
            return None
        return Section.parse(found, self.path_of(key), self.findings)

    def find_text(self, key: str) -> str | None:
        """The text of a field; None if it is missing, and a finding if it is not a text."""
        found = self.fields.get(key)
        if found is None:
            return None
        if not isinstance(found, str) or not found.strip():
            self.error(CODE, key, "expected text; if it looks like a number, put it in quotes")
            return None
        return found

    def get_text(self, key: str) -> str:
        """The text of a required field; empty, and a finding, if it is missing."""
        if self.fields.get(key) is None:
            self.error(CODE, key, f"`{key}` is missing")
            return ""
        return self.find_text(key) or ""


CONFIG_FILE = "cluster.yaml"

_RESERVED = frozenset({"apply", "env_file", "pipelines", "embeddings", "ui", "aliases", "bindings"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(/[^/]?)?")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class EmbeddingProfile:
    """An embedding provider; `api_key` is the name of the environment variable with the key."""

    kind: ProviderKind
    base_url: str | None
    model: str | None
    api_key: str | None


@dataclass(frozen=True, slots=True)
class GraphDeclaration:
    """A graph; its queries are given by paths or by files with query names, never by both."""

    id: str
    schema: str
    query_paths: tuple[str, ...]
    file_by_query: Mapping[str, str]
    embedding_provider: str | None


@dataclass(frozen=True, slots=True)
class PolicyDeclaration:
    """A policy; `applies_to` are `cluster` and addresses of graphs, sorted."""

    name: str
    file: str
    applies_to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A whole configuration; `storage` is None if the folder itself contains the cluster."""

    name: str | None
    storage: str | None
    is_locked: bool
    providers: Mapping[str, EmbeddingProfile]
    graphs: Mapping[str, GraphDeclaration]
    policies: Mapping[str, PolicyDeclaration]


def parse_config(content: bytes, findings: resources.Findings) -> ClusterConfig | None:
    """Parse the text of a configuration; None if it is too broken to report more about it."""
    try:
        tree = read_yaml_tree(content)
    except YamlTextError as error:
        findings.error(CODE, CONFIG_FILE, f"it is not valid YAML: {error}")
        return None
    for each in tree.repeated:
        findings.error(
            "duplicate_yaml_key",
            each.path,
            f"the key is repeated in line {each.line}; remove one of them",
        )
    root = Section.parse(tree.content if tree.content is not None else {}, "", findings)
    if root is None:
        return None
    version = root.find("version")
    if version != 1 or isinstance(version, bool):
        said = "is missing" if version is None else f"{version!r} is unknown"
        root.error("unsupported_cluster_config_version", "version", f"{said}; write `version: 1`")
        return None
    for key in sorted(_RESERVED & root.fields.keys()):
        root.error("future_phase_field", key, "the field is reserved and has no effect; remove it")
    root.allow_only(
        "version", "metadata", "storage", "state", "providers", "graphs", "policies", *_RESERVED
    )
    providers = _parse_providers(root)
    graphs = _parse_graphs(root, providers)
    return ClusterConfig(
        name=_parse_name(root),
        storage=_parse_storage(root),
        is_locked=_parse_lock(root),
        providers=providers,
        graphs=graphs,
        policies=_parse_policies(root, graphs),
    )


def encode_config(config: ClusterConfig) -> dict[str, object]:
    """A configuration as a tree: the content of the file without comments and order."""
    return {
        "version": 1,
        "name": config.name,
        "storage": config.storage,
        "lock": config.is_locked,
        "providers": {name: encode_profile(each) for name, each in config.providers.items()},
        "graphs": {
            id: {
                "schema": each.schema,
                "query_paths": list(each.query_paths),
                "queries": dict(each.file_by_query),
                "embedding_provider": each.embedding_provider,
            }
            for id, each in config.graphs.items()
        },
        "policies": {
            name: {"file": each.file, "applies_to": list(each.applies_to)}
            for name, each in config.policies.items()
        },
    }


def encode_profile(profile: EmbeddingProfile) -> dict[str, object]:
    """A profile as it is stored, with the name of a variable and never with a key."""
    return {
        "kind": str(profile.kind),
        "base_url": profile.base_url,
        "model": profile.model,
        "api_key": None if profile.api_key is None else f"${{{profile.api_key}}}",
    }


def parse_profile(section: Section) -> EmbeddingProfile | None:
    """Parse an embedding profile; None, and findings, if it is invalid."""
    section.allow_only("kind", "provider", "base_url", "model", "api_key")
    if {"kind", "provider"} <= section.fields.keys():
        section.findings.error(
            "invalid_embedding_provider",
            section.path,
            "`kind` and `provider` are the same field; keep `kind`",
        )
    declared = section.find_text("kind") or section.find_text("provider")
    kind = declared or ProviderKind.OPENAI_COMPATIBLE
    if kind not in tuple(ProviderKind):
        section.error(
            "invalid_embedding_provider",
            "kind",
            f"`{kind}` is not a provider; expected one of {', '.join(ProviderKind)}",
        )
        return None
    base_url = section.find_text("base_url")
    if base_url is not None and not is_plain_address(base_url):
        # The message omits the value, which may contain a secret and would otherwise be stored.
        section.error(
            "invalid_embedding_provider",
            "base_url",
            "it is not a plain http:// or https:// url; use one like https://host/v1, without a "
            "key in it",
        )
    return EmbeddingProfile(
        kind=ProviderKind(kind),
        base_url=None if base_url is None else base_url.rstrip("/"),
        model=section.find_text("model"),
        api_key=_parse_key(section, ProviderKind(kind)),
    )


def _parse_name(root: Section) -> str | None:
    metadata = root.find_section("metadata")
    if metadata is None:
        return None
    metadata.allow_only("name")
    name = metadata.find("name")
    if not isinstance(name, str) or not name.strip():
        metadata.error("empty_metadata_name", "name", "the name of the cluster is empty")
        return None
    return name.strip()


def _parse_storage(root: Section) -> str | None:
    storage = root.find_text("storage")
    scheme = None if storage is None else _SCHEME.match(storage)
    if scheme is None or (scheme[1] in ("file", "s3") and scheme[2]):
        return storage
    root.error(
        "invalid_storage_root",
        "storage",
        f"{storage} is not a valid location for a cluster; use a path, file://… or s3://bucket/prefix",
    )
    return None


def _parse_lock(root: Section) -> bool:
    state = root.find_section("state")
    if state is None:
        return True
    state.allow_only("backend", "lock")
    backend = state.find("backend")
    if backend not in (None, "cluster"):
        said = f"{backend!r} is unknown; the only one is `cluster`"
        state.error("unsupported_state_backend", "backend", said)
    lock = state.find("lock")
    if lock is not None and not isinstance(lock, bool):
        state.error(CODE, "lock", "it must be true or false")
    return lock is not False


def _parse_providers(root: Section) -> dict[str, EmbeddingProfile]:
    providers = root.find_section("providers")
    if providers is None:
        return {}
    providers.allow_only("embedding")
    parsed: dict[str, EmbeddingProfile] = {}
    for name, section in _named(providers.find_section("embedding")):
        profile = parse_profile(section)
        if profile is not None:
            parsed[name] = profile
    return parsed


def _parse_key(section: Section, kind: ProviderKind) -> str | None:
    key = section.find_text("api_key")
    if key is None:
        if kind is not ProviderKind.MOCK:
            section.error(
                "embedding_api_key_required",
                "api_key",
                "name the variable that contains the key, as in `api_key: ${OPENAI_API_KEY}`",
            )
        return None
    found = _VARIABLE.fullmatch(key.strip())
    if found is None:
        # Without the value, because it may be a secret.
        section.error(
            "embedding_api_key_inline",
            "api_key",
            "do not put a key into this file; write `${NAME}` and set the variable NAME",
        )
        return None
    return found[1]


def _parse_graphs(
    root: Section, providers: Mapping[str, EmbeddingProfile]
) -> dict[str, GraphDeclaration]:
    graphs: dict[str, GraphDeclaration] = {}
    declared = root.find_section("providers")
    embedding = None if declared is None else declared.find("embedding")
    names = {*providers, *(embedding if isinstance(embedding, Mapping) else ())}
    for id, section in _named(root.find_section("graphs")):
        section.allow_only("schema", "queries", "embedding_provider")
        paths, files = _parse_queries(section)
        graphs[id] = GraphDeclaration(
            id=id,
            schema=section.get_text("schema"),
            query_paths=paths,
            file_by_query=files,
            embedding_provider=_parse_reference(section, names),
        )
    return graphs


def _parse_queries(section: Section) -> tuple[tuple[str, ...], dict[str, str]]:
    given = section.find("queries")
    match given:
        case None:
            return (), {}
        case str() if given.strip():
            return (given,), {}
        case list() if all(isinstance(each, str) and each.strip() for each in given):
            return tuple(str(each) for each in given), {}
        case Mapping():
            files = {}
            for name, entry in _named(section.find_section("queries")):
                entry.allow_only("file")
                files[name] = entry.get_text("file")
            return (), files
        case _:
            section.error(
                CODE,
                "queries",
                "expected a folder or file, a list of them, or `name: {file: …}` entries",
            )
            return (), {}


def _parse_reference(section: Section, names: set[str]) -> str | None:
    given = section.find_text("embedding_provider")
    if given is None:
        return None
    if resources.is_address(given) and resources.kind_of(given) is not resources.Kind.PROVIDER:
        section.error(
            "wrong_kind_reference",
            "embedding_provider",
            f"`{given}` is not an embedding provider; expected one of `providers.embedding`",
        )
        return None
    name = resources.name_of(given) if given.startswith("provider.") else given
    if name not in names:
        advice = _advise(name, names, "providers.embedding")
        section.error(
            "dangling_embedding_provider_reference",
            "embedding_provider",
            f"there is no embedding provider `{name}`; {advice}",
        )
        return None
    return resources.provider_address(name)


def _parse_policies(
    root: Section, graphs: Mapping[str, GraphDeclaration]
) -> dict[str, PolicyDeclaration]:
    policies: dict[str, PolicyDeclaration] = {}
    for name, section in _named(root.find_section("policies")):
        section.allow_only("file", "applies_to")
        policies[name] = PolicyDeclaration(
            name=name,
            file=section.get_text("file"),
            applies_to=_parse_bindings(section, graphs),
        )
    return policies


def _parse_bindings(section: Section, graphs: Mapping[str, GraphDeclaration]) -> tuple[str, ...]:
    given = section.find("applies_to")
    if given is None or given == []:
        section.error(
            "policy_missing_applies_to",
            "applies_to",
            "expected a list of `cluster` and graphs that the policy applies to",
        )
        return ()
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        section.error(CODE, "applies_to", "expected a list of `cluster` and graphs")
        return ()
    bindings = {_parse_binding(each, section, graphs) for each in given}
    return tuple(sorted(each for each in bindings if each is not None))


def _parse_binding(
    given: str, section: Section, graphs: Mapping[str, GraphDeclaration]
) -> str | None:
    if given == resources.CLUSTER:
        return given
    id = given.removeprefix("graph.")
    if resources.is_address(given) and resources.kind_of(given) is not resources.Kind.GRAPH:
        section.error(
            "wrong_kind_reference",
            "applies_to",
            f"`{given}` is not a graph; a policy applies to `cluster` and to graphs",
        )
        return None
    if id not in graphs:
        message = f"there is no graph `{id}`; {_advise(id, graphs, 'graphs')}"
        section.error("dangling_graph_reference", "applies_to", message)
        return None
    return resources.graph_address(id)


def _advise(name: str, known: Iterable[str], section: str) -> str:
    near = find_near_name(name, known)
    return f"did you mean `{near}`?" if near else f"declare it under `{section}`"


def _named(section: Section | None) -> list[tuple[str, Section]]:
    """The entries of a section with the fields of each; entries with invalid ids are reported."""
    found: list[tuple[str, Section]] = []
    if section is None:
        return found
    for key in sorted(section.fields):
        entry = section.find_section(key)
        if resources.ID.fullmatch(key) is None:
            section.error(
                "invalid_resource_id",
                key,
                "an id is a letter or `_` followed by letters, digits, `_` and `-`",
            )
        elif entry is not None:
            found.append((key, entry))
        else:
            section.error(CODE, key, "expected fields, as `name: value`")
    return found
