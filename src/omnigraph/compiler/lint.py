"""Lint: the errors of a file of queries, and probable omissions.

Codes: `Q000` the file does not parse, `L201` a property that no update sets. Errors of one query do
not hide those of another. The module is pure: the caller reads the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compiler.descriptor import describe_operation
from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.ir import MutationIR, Update
from omnigraph.compiler.query.ast import Mutation
from omnigraph.compiler.query.check import CompiledQuery, check_query
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Diagnostic, Severity, Source, render_diagnostic


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result for one query: an error or a descriptor."""

    name: str
    is_mutation: bool
    error: str | None
    warnings: tuple[str, ...]
    operation: dict[str, object] | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about the whole file."""

    severity: Severity
    code: str
    message: str
    type_name: str | None
    property: str | None
    query_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LintReport:
    """Results in file order, and findings by severity, type and property."""

    results: tuple[QueryResult, ...]
    findings: tuple[Finding, ...]

    @property
    def error_count(self) -> int:
        failed = sum(result.error is not None for result in self.results)
        return failed + self._count(Severity.ERROR)

    @property
    def warning_count(self) -> int:
        return sum(len(result.warnings) for result in self.results) + self._count(Severity.WARNING)

    @property
    def info_count(self) -> int:
        return self._count(Severity.INFO)

    @property
    def status(self) -> str:
        return "error" if self.error_count else "ok"

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def lint_queries(source: Source, catalog: Catalog) -> LintReport:
    """Check every query of a text against a catalog."""
    try:
        queries = parse_queries(source)
    except CompileError as error:
        finding = Finding(Severity.ERROR, "Q000", str(error), None, None, ())
        return LintReport((), (finding,))
    results: list[QueryResult] = []
    valid: list[CompiledQuery] = []
    for query in queries:
        diagnostics = Diagnostics(source)
        compiled = check_query(query, catalog, diagnostics)
        if diagnostics.errors:
            is_mutation = isinstance(query.body, Mutation)
            problem = "\n".join(render_diagnostic(each, source) for each in diagnostics.errors)
            results.append(QueryResult(query.name.text, is_mutation, problem, (), None))
            continue
        valid.append(compiled)
        warnings = [_describe_warning(each, source) for each in compiled.warnings]
        if compiled.is_mutation and not query.parameters:
            warnings.append("mutation declares no params; its values are fixed in the text")
        operation = describe_operation(compiled.ir, catalog)
        results.append(
            QueryResult(compiled.name, compiled.is_mutation, None, tuple(warnings), operation)
        )
    return LintReport(tuple(results), tuple(_find_unset(valid, catalog)))


def encode_report(
    report: LintReport, *, schema_source: Mapping[str, str], query_path: str
) -> dict[str, object]:
    """Encode a report as the JSON of `omnigraph lint --json`."""
    return {
        "status": report.status,
        "schema_source": dict(schema_source),
        "query_path": query_path,
        "queries_processed": len(report.results),
        "errors": report.error_count,
        "warnings": report.warning_count,
        "infos": report.info_count,
        "results": [_encode_result(result) for result in report.results],
        "findings": [_encode_finding(finding) for finding in report.findings],
    }


def kind_of(result: QueryResult) -> str:
    """The kind of a query as a word."""
    return "mutation" if result.is_mutation else "read"


def _describe_warning(warning: Diagnostic, source: Source) -> str:
    """A warning on one line, because a report lists warnings as texts."""
    assert warning.span is not None
    line, _ = source.line_and_column(warning.span.start)
    return f"line {line}: {warning.message}; {warning.suggestion} [{warning.code}]"


def _find_unset(queries: Sequence[CompiledQuery], catalog: Catalog) -> Iterable[Finding]:
    """Nullable properties of updated types that no update sets."""
    updates: dict[str, list[tuple[str, Update]]] = {}
    for query in queries:
        for operation in query.ir.operations if isinstance(query.ir, MutationIR) else ():
            if isinstance(operation, Update):
                updates.setdefault(operation.type_name, []).append((query.name, operation))
    for type_name, updating in sorted(updates.items()):
        node = catalog.nodes[type_name]
        names = tuple(sorted({name for name, _ in updating}))
        assigned = {each.property for _, update in updating for each in update.assignments}
        for name, prop in node.properties.items():
            is_settable = prop.type.is_nullable and prop.embedding is None and name not in node.key
            if is_settable and name not in assigned:
                message = f"{type_name}.{name} exists in schema but no update query sets it"
                yield Finding(Severity.WARNING, "L201", message, type_name, name, names)


def _encode_result(result: QueryResult) -> dict[str, object]:
    optional = {
        "warnings": list(result.warnings),
        "error": result.error,
        "operation": result.operation,
    }
    return {
        "name": result.name,
        "kind": kind_of(result),
        "status": "ok" if result.error is None else "error",
        **{key: value for key, value in optional.items() if value},
    }


def _encode_finding(finding: Finding) -> dict[str, object]:
    optional = {
        "type_name": finding.type_name,
        "property": finding.property,
        "query_names": list(finding.query_names),
    }
    return {
        "severity": str(finding.severity),
        "code": finding.code,
        "message": finding.message,
        **{key: value for key, value in optional.items() if value},
    }
