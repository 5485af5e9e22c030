"""`make demo`: the features of OmniGraph, on a small example and on generated sources."""

import sys
from pathlib import Path
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from demo.bulk import show_bulk
from demo.graph import show_graph
from demo.output import read, say, title
from omnigraph.compiler.compile import compile_queries, compile_query, compile_schema
from omnigraph.compiler.ir_text import render_ir
from omnigraph.compiler.lint import lint_queries
from omnigraph.compiler.migration import plan_migration
from omnigraph.compiler.migration_steps import describe_step
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.errors import CompileError, InvalidValueError
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source

GENERATED_TYPES = 200
GENERATED_QUERIES = 400


def main() -> None:
    """Run every section."""
    catalog = show_schema()
    show_lint(catalog)
    show_mistakes(catalog)
    show_plan_of_a_query(catalog)
    show_parameters(catalog)
    show_migration(catalog)
    show_graph()
    show_generated()
    show_bulk()


def show_schema() -> Catalog:
    title("1. A schema defines the types of a graph")
    catalog = compile_schema(read("schema.pg"))
    for node in catalog.nodes.values():
        say(
            f"node {node.name}: {', '.join(f'{p.name} {p.type}' for p in node.properties.values())}"
        )
    for edge in catalog.edges.values():
        say(f"edge {edge.name}: {edge.source} -> {edge.target} ({edge.cardinality} per source)")
    say(f"Its hash, independent of order and comments: {hash_schema(catalog)[:23]}…")
    assert (len(catalog.nodes), len(catalog.edges)) == (3, 3)
    return catalog


def show_lint(catalog: Catalog) -> None:
    title("2. Queries are checked against the schema before they run")
    report = lint_queries(read("queries.gq"), catalog)
    for result in report.results:
        say(f"{result.name}: {'ok' if result.error is None else result.error}")
    for finding in report.findings:
        say(f"{finding.severity} {finding.code}: {finding.message}")
    assert all(result.error is None for result in report.results)


def show_mistakes(catalog: Catalog) -> None:
    title(
        "3. A query with mistakes: all diagnostics at once, each with its position and a suggestion"
    )
    codes = []
    try:
        compile_queries(read("mistakes.gq"), catalog)
    except CompileError as error:
        print(error)
        codes = [each.code for each in error.diagnostics]
    assert codes == ["T3", "T6", "T4"]


def show_plan_of_a_query(catalog: Catalog) -> None:
    title("4. A valid query becomes a typed plan, the same for every engine")
    plan = render_ir(compile_query(read("queries.gq"), catalog, name="open_questions").ir)
    print(plan)
    assert "anti join on $t" in plan


def show_parameters(catalog: Catalog) -> None:
    title("5. Parameters are checked as well")
    query = compile_query(read("queries.gq"), catalog, name="open_questions")
    rejected = []
    for given in ({"since": "2026-05-01"}, {"since": "last May"}, {"sinse": "2026-05-01"}):
        try:
            say(f"{given} -> {convert_parameters(query.ir.parameters, given, numbers=EXACT)}")
        except InvalidValueError as error:
            say(f"{given} -> {error}")
            rejected.append(given)
    assert rejected == [{"since": "last May"}, {"sinse": "2026-05-01"}]


EXACT = NumberReading.EXACT


def show_migration(catalog: Catalog) -> None:
    title("6. A schema change: the planned migration of the data")
    source = read("next.pg")
    plan = plan_migration(catalog, compile_schema(source), source=source, allow_data_loss=False)
    say(f"supported: {'yes' if plan.supported else 'no'}")
    for step in plan.steps:
        say(f"- {describe_step(step)}")
    assert (plan.supported, len(plan.steps)) == (False, 5)


def show_generated() -> None:
    title(f"22. At scale: {GENERATED_TYPES} node types and {GENERATED_QUERIES} queries, generated")
    started = perf_counter()
    catalog = compile_schema(Source("generated.pg", generated_schema()))
    say(f"The schema compiled in {(perf_counter() - started) * 1000:.0f} ms.")
    started = perf_counter()
    compile_queries(Source("generated.gq", generated_queries()), catalog)
    each = (perf_counter() - started) * 1000 / GENERATED_QUERIES
    say(f"The queries took {each:.2f} ms each.")


def generated_schema() -> str:
    types = range(GENERATED_TYPES)
    nodes = (
        f"node Type{n} {{ name: String @key  size: I64? @index  seen: DateTime?  note: String? }}"
        for n in types
    )
    edges = (f"edge Link{n}: Type{n} -> Type{(n + 1) % GENERATED_TYPES}" for n in types)
    return "\n".join((*nodes, *edges))


def generated_queries() -> str:
    return "\n".join(
        f"""query q{n}($name: String, $least: I64) {{
          match {{
            $a: Type{n % GENERATED_TYPES} {{ name: $name }}
            $a link{n % GENERATED_TYPES} $b
            $b.size >= $least
          }}
          return {{ $b.name, count($a) as n }}
          order {{ n desc }}
        }}"""
        for n in range(GENERATED_QUERIES)
    )


if __name__ == "__main__":
    main()
