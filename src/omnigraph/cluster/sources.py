"""The schema, query and policy files that a configuration names, read and checked.

Each file is read once; the bytes that are checked are the bytes that are planned and applied.
Schemas must compile, queries must compile against them, and policies must contain valid rules. All
errors of all files are reported at once. No graph is opened: only declarations are checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cluster.config import CONFIG_FILE, ClusterConfig, GraphDeclaration, PolicyDeclaration
from omnigraph.cluster.resources import CLUSTER, Findings, digest_bytes, name_of
from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.compiler.parser import decode_source
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import CompileError, GraphError, InvalidValueError
from omnigraph.model.limits import CONFIG_BYTES_MAX, SOURCE_BYTES_MAX
from omnigraph.model.names import find_near_name
from omnigraph.model.source import Source, summarize_diagnostic
from omnigraph.policy.bundle import Bundle, BundleKind, parse_bundle
from omnigraph.policy.cedar import CEDAR_SUFFIX
from omnigraph.policy.gate import open_gate

_QUERY_SUFFIX = ".gq"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was read; `path` is relative to the configuration, if the file is below it."""

    path: str
    content: bytes

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        return digest_bytes(self.content)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A file of queries; `name` is the only query that is used, or None for all of them."""

    file: SourceFile
    name: str | None


@dataclass(frozen=True, slots=True)
class GraphSources:
    """The files of one graph; the schema is None if it could not be read."""

    schema: SourceFile | None
    queries: tuple[QueryFile, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """All readable files of a configuration."""

    folder: Path
    config: SourceFile
    graphs: Mapping[str, GraphSources]
    policies: Mapping[str, SourceFile]

    def files(self) -> Iterable[SourceFile]:
        """Every file, possibly with duplicates."""
        yield self.config
        for each in self.graphs.values():
            yield from [] if each.schema is None else [each.schema]
            yield from (query.file for query in each.queries)
        yield from self.policies.values()

    def find_changed(self) -> list[str]:
        """The paths of files that have changed since they were read."""
        changed = []
        for file in {each.path: each for each in self.files()}.values():
            try:
                is_same = (self.folder / file.path).read_bytes() == file.content
            except OSError:
                is_same = False
            if not is_same:
                changed.append(file.path)
        return sorted(changed)


def read_config_file(folder: Path, findings: Findings) -> SourceFile | None:
    """The configuration file of a folder; None, and a finding, if it cannot be read."""
    # Unlike the method of `Path`, it also accepts names that no file system allows.
    if not os.path.isdir(folder):  # noqa: PTH112
        problem = "it is a file" if os.path.isfile(folder) else "there is no such folder"  # noqa: PTH113
        findings.error(
            "config_dir_not_found",
            str(folder),
            f"{problem}; name the folder that contains {CONFIG_FILE}",
        )
        return None
    file = _read_file(folder, CONFIG_FILE, "cluster_config_read_error", CONFIG_FILE, findings)
    if file is not None and len(file.content) > CONFIG_BYTES_MAX:
        findings.error(
            "cluster_config_read_error", CONFIG_FILE, f"it has more than {CONFIG_BYTES_MAX} bytes"
        )
        return None
    return file


def read_sources(
    config: ClusterConfig, file: SourceFile, folder: Path, findings: Findings
) -> Sources:
    """Read every file that a configuration names; unreadable files are reported."""
    return Sources(
        folder=folder,
        config=file,
        graphs={
            id: GraphSources(
                schema=_read_file(
                    folder, each.schema, "schema_file_missing", f"graphs.{id}.schema", findings
                ),
                queries=tuple(_read_queries(folder, each, findings)),
            )
            for id, each in config.graphs.items()
        },
        policies=read_policy_files(config, folder, findings),
    )


def read_policy_files(
    config: ClusterConfig, folder: Path, findings: Findings
) -> dict[str, SourceFile]:
    """Read the policies that a configuration names; unreadable files are reported."""
    found: dict[str, SourceFile] = {}
    for name, each in config.policies.items():
        place = f"policies.{name}.file"
        file = _read_file(folder, each.file, "policy_file_missing", place, findings)
        if file is not None:
            found[name] = file
    return found


def _read_queries(folder: Path, graph: GraphDeclaration, findings: Findings) -> Iterable[QueryFile]:
    place = f"graphs.{graph.id}.queries"
    for name, path in graph.file_by_query.items():
        file = _read_file(folder, path, "query_file_missing", f"{place}.{name}.file", findings)
        if file is not None:
            yield QueryFile(file, name)
    seen: set[Path] = set()
    for path in graph.query_paths:
        for each in _discover(folder, path, place, findings):
            file = _read_file(folder, each, "query_file_missing", place, findings)
            if file is not None and (folder / each).resolve() not in seen:
                seen.add((folder / each).resolve())
                yield QueryFile(file, None)


def _discover(folder: Path, path: str, place: str, findings: Findings) -> list[str]:
    """The files of a path: the top level of a folder in name order, or the file itself."""
    try:
        with os.scandir(folder / path) as listed:
            names = sorted(
                each.name
                for each in listed
                if Path(each.name).suffix == _QUERY_SUFFIX and each.is_file()
            )
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # Reading the path as a file reports whether it is readable.
        return [path]
    except OSError as error:
        findings.error("query_dir_unreadable", place, f"{path}: {error.strerror or error}")
        return []
    if not names:
        findings.warn("query_dir_empty", place, f"{path} contains no {_QUERY_SUFFIX} file")
    return [str(Path(path) / name) for name in names]


def _read_file(
    folder: Path, path: str, code: str, place: str, findings: Findings
) -> SourceFile | None:
    if not path:
        # The missing field has already been reported.
        return None
    try:
        with (folder / path).open("rb") as file:
            content = file.read(SOURCE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        advice = _advise(folder, path) if isinstance(error, FileNotFoundError) else ""
        findings.error(code, place, f"cannot read {path}: {reason.lower()}{advice}")
        return None
    if len(content) > SOURCE_BYTES_MAX:
        findings.error(code, place, f"{path} has more than {SOURCE_BYTES_MAX} bytes")
        return None
    return SourceFile(path, content)


def _advise(folder: Path, path: str) -> str:
    """Advice about a missing file."""
    if path == CONFIG_FILE:
        return f"; create it, or name the folder that contains {CONFIG_FILE}"
    try:
        near = find_near_name(Path(path).name, os.listdir((folder / path).parent))  # noqa: PTH208
    except OSError:
        return ""
    return "" if near is None else f"; did you mean `{Path(path).parent / near}`?"


_SERVABLE_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
_RESERVED_IDS = frozenset({"policies", "healthz", "openapi", "graphs"})


@dataclass(frozen=True, slots=True)
class CheckedGraph:
    """A valid graph declaration; queries by name, each with its file."""

    schema: Source
    schema_hash: str
    catalog: Catalog
    queries: Mapping[str, SourceFile]

    @property
    def schema_digest(self) -> str:
        """The digest of the stored form, without the byte order mark that some editors write."""
        return digest_bytes(self.schema.text.encode())


def check_sources(
    config: ClusterConfig, sources: Sources, findings: Findings
) -> dict[str, CheckedGraph]:
    """Check every file, and return the graphs with a valid schema."""
    checked = {}
    for id in config.graphs:
        if _SERVABLE_ID.fullmatch(id) is None or id in _RESERVED_IDS:
            findings.warn(
                "graph_id_not_servable",
                f"graphs.{id}",
                "a server would skip this graph: there an id is 1 to 64 letters, digits and "
                f"hyphens, and not one of {', '.join(sorted(_RESERVED_IDS))}",
            )
        graph = _check_graph(id, sources.graphs[id], findings)
        if graph is not None:
            checked[id] = graph
    for name, policy in config.policies.items():
        file = sources.policies.get(name)
        if file is not None:
            _check_policy(policy, file, checked, findings)
    _warn_shared_scopes(config, findings)
    return checked


def _check_graph(id: str, sources: GraphSources, findings: Findings) -> CheckedGraph | None:
    schema, catalog = None, None
    if sources.schema is not None:
        try:
            schema = decode_source(sources.schema.content, name=sources.schema.path)
            catalog = compile_schema(schema)
        except CompileError as error:
            is_syntax = all(each.code[:1] in ("P", "S") for each in error.diagnostics)
            code = "schema_parse_error" if is_syntax else "schema_catalog_error"
            _add_findings(error, code, findings)
    queries = _check_queries(id, sources.queries, catalog, findings)
    if schema is None or catalog is None:
        return None
    return CheckedGraph(schema, hash_schema(catalog), catalog, queries)


def _check_queries(
    id: str, files: Iterable[QueryFile], catalog: Catalog | None, findings: Findings
) -> dict[str, SourceFile]:
    found: dict[str, SourceFile] = {}
    for each in files:
        for name in _declared(each, catalog, findings):
            if name in found and found[name].path != each.file.path:
                findings.error(
                    "duplicate_query_name",
                    f"graphs.{id}.queries",
                    f"`{name}` is declared in {found[name].path} and in {each.file.path}; "
                    "rename one of them",
                )
            found.setdefault(name, each.file)
    return found


def _declared(query: QueryFile, catalog: Catalog | None, findings: Findings) -> list[str]:
    """The query names that a file declares."""
    try:
        source = decode_source(query.file.content, name=query.file.path)
        names = [each.name.text for each in parse_queries(source)]
    except CompileError as error:
        _add_findings(error, "query_parse_error", findings)
        return []
    for name in sorted({each for each in names if names.count(each) > 1}):
        findings.error(
            "duplicate_query_name", query.file.path, f"`{name}` is declared twice; rename one"
        )
    if query.name is not None and query.name not in names:
        said = f"it declares {', '.join(names)}" if names else "it declares none"
        findings.error(
            "query_key_mismatch",
            query.file.path,
            f"the file has no query `{query.name}`; {said}; use the name of the query as the key",
        )
        return []
    if catalog is None:
        findings.warn(
            "query_typecheck_skipped",
            query.file.path,
            "the queries were not checked, because the schema is invalid",
        )
    else:
        try:
            compile_queries(source, catalog)
        except CompileError as error:
            _add_findings(error, "query_typecheck_error", findings)
    return [query.name] if query.name is not None else names


def _add_findings(error: CompileError, code: str, findings: Findings) -> None:
    for each in error.diagnostics:
        path = error.source.name
        if each.span is not None:
            line, column = error.source.line_and_column(each.span.start)
            path = f"{path}:{line}:{column}"
        advice = f"; {each.suggestion}" if each.suggestion else ""
        findings.error(code, path, f"{summarize_diagnostic(each)}{advice}")


def _check_policy(
    policy: PolicyDeclaration,
    file: SourceFile,
    graphs: Mapping[str, CheckedGraph],
    findings: Findings,
) -> None:
    """Check a policy for the server, for graphs, or for both if it has no rules."""
    if file.path.endswith(CEDAR_SUFFIX):
        findings.error(
            "policy_content_invalid",
            file.path,
            "policies of a cluster are YAML bundles; write the rules as a bundle",
        )
        return
    kinds = {
        BundleKind.SERVER if each == CLUSTER else BundleKind.GRAPH for each in policy.applies_to
    }
    for kind in sorted(kinds):
        try:
            bundle = parse_bundle(file.content, kind=kind, name=file.path)
            # Cedar decides last whether it can evaluate the rules.
            open_gate(bundle, kind=kind, graph_id=None if kind is BundleKind.SERVER else "graph")
        except InvalidValueError as error:
            problems = error.value if isinstance(error.value, tuple) else (str(error),)
            for problem in problems:
                findings.error("policy_content_invalid", file.path, str(problem))
        except GraphError as error:
            findings.error("policy_content_invalid", file.path, str(error))
        else:
            for warning in bundle.warnings:
                findings.warn("policy_content_warning", file.path, warning)
            for scope in policy.applies_to:
                graph = None if scope == CLUSTER else graphs.get(name_of(scope))
                if kind is BundleKind.GRAPH and graph is not None:
                    _warn_unknown_types(bundle, graph, scope, file.path, findings)


def _warn_unknown_types(
    bundle: Bundle, graph: CheckedGraph, scope: str, path: str, findings: Findings
) -> None:
    """Warn about limits on unknown types or properties.

    Such a limit rejects every read, unless the name existed in the past.
    """
    declared = {each.name: each for each in graph.catalog.stored_types()}
    for rule in bundle.rules:
        for name, limit in ({} if rule.limits is None else rule.limits).items():
            found = declared.get(name)
            unknown = () if found is None else sorted(limit.hidden - set(found.properties))
            if found is None:
                problem = f"type `{name}`"
            elif unknown:
                problem = f"property `{name}.{unknown[0]}`"
            else:
                continue
            findings.warn(
                "policy_limit_unknown",
                path,
                f"rule '{rule.id}' limits {problem}, which the schema of {scope} does not have; "
                "unless it had it once, every read under this rule is refused",
            )


def _warn_shared_scopes(config: ClusterConfig, findings: Findings) -> None:
    policies_by_scope: dict[str, list[str]] = {}
    for name, policy in config.policies.items():
        for scope in policy.applies_to:
            policies_by_scope.setdefault(scope, []).append(name)
    for scope, names in sorted(policies_by_scope.items()):
        if len(names) > 1:
            findings.warn(
                "policy_scope_shared",
                "policies",
                f"{', '.join(names)} all apply to `{scope}`; a server serves only one policy "
                "there and would not start",
            )
