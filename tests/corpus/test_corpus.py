"""Every corpus file compiles to its expected output; `make bless` rewrites that output."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.compiler.ir_text import render_ir
from omnigraph.compiler.migration import plan_migration
from omnigraph.compiler.migration_steps import describe_step
from omnigraph.compiler.schema.canonical import format_schema
from omnigraph.errors import CompileError
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source, render_diagnostic
from tests.support.corpus import (
    CorpusFile,
    corpus_id,
    corpus_paths,
    paths_with_section,
    read_corpus_file,
    require_expected,
)


@pytest.mark.parametrize("path", corpus_paths("schema/*/*.pg"), ids=corpus_id)
def test_a_schema_compiles_to_its_catalog_or_diagnostics(path: Path) -> None:
    file = read_corpus_file(path)

    require_expected(file, given=frozenset(), produce=lambda: _compile_schema(file))


@pytest.mark.parametrize("path", paths_with_section("schema/*/*.pg", "catalog"), ids=corpus_id)
def test_a_catalog_that_was_printed_compiles_to_itself(path: Path) -> None:
    file = read_corpus_file(path)

    printed = compile_schema(Source(file.name, file.sections["catalog"]))

    assert printed == compile_schema(Source(file.name, file.source))


@pytest.mark.parametrize("path", corpus_paths("migration/*.pg"), ids=corpus_id)
def test_a_schema_change_is_planned_or_refused(path: Path) -> None:
    file = read_corpus_file(path)

    require_expected(file, given=frozenset({"desired"}), produce=lambda: _plan_migration(file))


@pytest.mark.parametrize("path", corpus_paths("query/*/*.gq"), ids=corpus_id)
def test_a_query_compiles_to_its_ir_or_diagnostics(path: Path) -> None:
    file = read_corpus_file(path)
    schema = path.with_name("schema.pg").read_text(encoding="utf-8")
    catalog = compile_schema(Source("schema.pg", schema))

    require_expected(file, given=frozenset(), produce=lambda: _compile_queries(file, catalog))


def _compile_schema(file: CorpusFile) -> Mapping[str, str]:
    try:
        catalog = compile_schema(Source(file.name, file.source))
    except CompileError as error:
        return {"diagnostics": f"{error}\n"}
    return {"catalog": format_schema(catalog)}


def _plan_migration(file: CorpusFile) -> Mapping[str, str]:
    accepted = compile_schema(Source(file.name, file.source))
    source = Source(file.name, file.sections["desired"])
    try:
        desired = compile_schema(source)
        plan = plan_migration(accepted, desired, source=source, allow_data_loss=False)
    except CompileError as error:
        return {"diagnostics": f"{error}\n"}
    lines = [f"supported: {'yes' if plan.supported else 'no'}", *map(describe_step, plan.steps)]
    return {"plan": "".join(f"{line}\n" for line in lines)}


def _compile_queries(file: CorpusFile, catalog: Catalog) -> Mapping[str, str]:
    source = Source(file.name, file.source)
    try:
        queries = compile_queries(source, catalog)
    except CompileError as error:
        return {"diagnostics": f"{error}\n"}
    warnings = [render_diagnostic(each, source) for query in queries for each in query.warnings]
    compiled = {"ir": "\n".join(f"{render_ir(query.ir)}\n" for query in queries)}
    return {**compiled, "warnings": "\n".join([*warnings, ""])} if warnings else compiled
