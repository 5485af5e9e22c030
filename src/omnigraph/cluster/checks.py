"""Whether the files of a configuration mean something: schemas compile, queries fit them, policies
hold rules.

Everything that is wrong in any file is told in one go. Looks at no graph: what is checked is what
is declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.cluster.addresses import CLUSTER, name_of
from omnigraph.cluster.config import ClusterConfig, PolicyDeclaration
from omnigraph.cluster.findings import Findings
from omnigraph.cluster.sources import GraphSources, QueryFile, SourceFile, Sources
from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.compiler.query.parse import parse_queries
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.compiler.text import decode_source
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import CompileError, GraphError, InvalidValueError
from omnigraph.model.source import Source, summarize_diagnostic
from omnigraph.policy.bundle import Bundle, BundleKind, parse_bundle
from omnigraph.policy.cedar import CEDAR_SUFFIX
from omnigraph.policy.gate import open_gate

_SERVABLE_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
_RESERVED_IDS = frozenset({"policies", "healthz", "openapi", "graphs"})


@dataclass(frozen=True, slots=True)
class CheckedGraph:
    """A graph's declaration that means something; queries by name, each with its file."""

    schema: Source
    schema_hash: str
    catalog: Catalog
    queries: Mapping[str, SourceFile]


def check_sources(
    config: ClusterConfig, sources: Sources, findings: Findings
) -> dict[str, CheckedGraph]:
    """Check every file, and give the graphs whose schema is right."""
    checked = {}
    for id in config.graphs:
        _warn_unservable(id, findings)
        graph = _check_graph(id, sources.graphs[id], findings)
        if graph is not None:
            checked[id] = graph
    for name, policy in config.policies.items():
        file = sources.policies.get(name)
        if file is not None:
            _check_policy(policy, file, checked, findings)
    _warn_shared_scopes(config, findings)
    return checked


def _warn_unservable(id: str, findings: Findings) -> None:
    if _SERVABLE_ID.fullmatch(id) is None or id in _RESERVED_IDS:
        findings.warn(
            "graph_id_not_servable",
            f"graphs.{id}",
            "a server would leave this graph out: there an id is 1 to 64 letters, digits and "
            f"hyphens, and none of {', '.join(sorted(_RESERVED_IDS))}",
        )


def _check_graph(id: str, sources: GraphSources, findings: Findings) -> CheckedGraph | None:
    schema, catalog = None, None
    if sources.schema is not None:
        schema, catalog = _check_schema(sources.schema, findings)
    queries = _check_queries(id, sources.queries, catalog, findings)
    if schema is None or catalog is None:
        return None
    return CheckedGraph(schema, hash_schema(catalog), catalog, queries)


def _check_schema(file: SourceFile, findings: Findings) -> tuple[Source | None, Catalog | None]:
    try:
        source = decode_source(file.content, name=file.path)
        return source, compile_schema(source)
    except CompileError as error:
        is_syntax = all(each.code[:1] in ("P", "S") for each in error.diagnostics)
        code = "schema_parse_error" if is_syntax else "schema_catalog_error"
        _tell(error, code, findings)
        return None, None


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
    """The names that a file registers."""
    try:
        source = decode_source(query.file.content, name=query.file.path)
        names = [each.name.text for each in parse_queries(source)]
    except CompileError as error:
        _tell(error, "query_parse_error", findings)
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
            f"no query here is called `{query.name}`; {said}; use the query's own name as the key",
        )
        return []
    _check_types(query.file, source, catalog, findings)
    return [query.name] if query.name is not None else names


def _check_types(
    file: SourceFile, source: Source, catalog: Catalog | None, findings: Findings
) -> None:
    if catalog is None:
        findings.warn(
            "query_typecheck_skipped",
            file.path,
            "the queries were not checked, because the schema cannot be used",
        )
        return
    try:
        compile_queries(source, catalog)
    except CompileError as error:
        _tell(error, "query_typecheck_error", findings)


def _tell(error: CompileError, code: str, findings: Findings) -> None:
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
    """A policy is for the server, for graphs or, if it has no rules, for both."""
    if file.path.endswith(CEDAR_SUFFIX):
        findings.error(
            "policy_content_invalid",
            file.path,
            "a cluster's policies are bundles in YAML; write the rules as one",
        )
        return
    kinds = {
        BundleKind.SERVER if each == CLUSTER else BundleKind.GRAPH for each in policy.applies_to
    }
    for kind in sorted(kinds):
        try:
            bundle = parse_bundle(file.content, kind=kind, name=file.path)
            # Cedar has the last word on what can be decided by it.
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
    """A limit that finds nothing to limit refuses every read; only names of the past may do so."""
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
