"""Lint and the operation descriptor: what is reported, in which order, in which form."""

from pathlib import Path

import pytest

from omnigraph.compiler.compile import compile_queries, compile_query, compile_schema
from omnigraph.compiler.descriptor import describe_operation
from omnigraph.compiler.lint import LintReport, encode_report, lint_queries
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.errors import CompileError
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source
from tests.support.corpus import corpus_id, corpus_paths, read_corpus_file

FLEET = """
node Pilot { handle: String @key  hours: I32?  born: Date?  mark: Vector(2)?  tags: [I64]? }
node Ship { reg: String @key  tons: F64? }
edge Mentors: Pilot -> Pilot { since: Date? }
edge Flies: Pilot -> Ship
"""
TASK = "node T { s: String @key  n: String?  e: DateTime? }"


def catalog_of(schema: str) -> Catalog:
    return compile_schema(Source("schema.pg", schema))


def lint(queries: str, schema: str = FLEET) -> LintReport:
    return lint_queries(Source("queries.gq", queries), catalog_of(schema))


def operation_of(query: str) -> dict[str, object]:
    catalog = catalog_of(FLEET)
    return describe_operation(compile_query(Source("q.gq", query), catalog, name=None).ir, catalog)


def test_a_file_that_does_not_parse_is_one_finding() -> None:
    report = lint("query broken( {")

    assert report.status == "error"
    assert report.results == ()
    assert report.error_count == 1
    assert [finding.code for finding in report.findings] == ["Q000"]


def test_a_wrong_query_does_not_hide_the_others() -> None:
    report = lint(
        """
        query good() { match { $p: Pilot } return { $p.handle } }
        query bad($h: I32) { update Pilot set { hour: $h } where handle = "ada" }
        query also_good() { match { $s: Ship } return { $s.reg } }
        """
    )

    assert [(r.name, r.error is None) for r in report.results] == [
        ("good", True),
        ("bad", False),
        ("also_good", True),
    ]
    assert "did you mean `hours`?" in (report.results[1].error or "")
    assert report.status == "error"


def test_a_property_that_no_update_sets_is_a_warning() -> None:
    report = lint("query u($n: String, $s: String) { update T set { n: $n } where s = $s }", TASK)

    assert report.status == "ok"
    assert report.warning_count == 1
    [finding] = report.findings
    assert finding.code == "L201"
    assert finding.message == "T.e exists in schema but no update query sets it"
    assert (finding.type_name, finding.property) == ("T", "e")
    assert finding.query_names == ("u",)


def test_inserts_alone_need_no_update() -> None:
    assert lint("query i($s: String) { insert T { s: $s } }", TASK).findings == ()


def test_unset_properties_are_listed_by_name_with_every_updating_query() -> None:
    report = lint(
        """
        query u2($a: I32, $k: String) { update N set { a: $a } where k = $k }
        query u1($a: I32, $k: String) { update N set { a: $a } where k = $k }
        """,
        "node N { k: String @key  c: I32?  b: I32?  a: I32? }",
    )

    assert [finding.property for finding in report.findings] == ["b", "c"]
    assert {finding.query_names for finding in report.findings} == {("u1", "u2")}


def test_a_wrong_update_sets_nothing() -> None:
    report = lint(
        """
        query good($n: String, $s: String) { update T set { n: $n } where s = $s }
        query bad($e: DateTime) { update T set { e: $e } where nope = 1 }
        """,
        TASK,
    )

    assert [finding.property for finding in report.findings] == ["e"]


def test_embedded_vectors_and_keys_need_no_update() -> None:
    schema = 'node D { s: String @key  b: String?  v: Vector(2)? @embed("b") }'

    report = lint("query u($b: String) { update D set { b: $b } where s = $b }", schema)

    assert report.findings == ()


def test_a_mutation_without_parameters_is_a_warning() -> None:
    report = lint('query fixed() { insert Ship { reg: "S1" } }')

    assert report.warning_count == 1
    assert "mutation declares no params" in report.results[0].warnings[0]


def test_a_warning_of_a_query_is_one_line_with_its_place_and_advice() -> None:
    report = lint("query q() {\n match { $p: Pilot $s: Ship } return { $p.handle, $s.reg } }")

    assert report.status == "ok"
    assert report.results[0].warnings == (
        "line 2: nothing connects `$s` with `$p`; every combination is returned; "
        "connect them by an edge or a condition [W3]",
    )


def test_a_mutation_that_inserts_and_deletes_is_an_error() -> None:
    report = lint('query m($r: String) { insert Ship { reg: $r } delete Ship where reg = "S2" }')

    assert report.status == "error"
    assert report.results[0].error is not None
    assert "[D2]" in report.results[0].error


QUERY_FILES = corpus_paths("query/*/*.gq")


@pytest.mark.parametrize("path", QUERY_FILES, ids=corpus_id)
def test_lint_fails_exactly_where_compiling_fails(path: Path) -> None:
    catalog = catalog_of(path.with_name("schema.pg").read_text("utf-8"))
    source = Source(path.name, read_corpus_file(path).source)
    try:
        compile_queries(source, catalog)
        is_valid = True
    except CompileError:
        is_valid = False

    report = lint_queries(source, catalog)

    assert (report.status == "ok") is is_valid
    assert {each.name: each.error for each in report.results} == _run_faults(source, catalog)


def _run_faults(source: Source, catalog: Catalog) -> dict[str, str | None]:
    """What running each query of a text is refused with, by name; none if it does not parse."""
    try:
        names = [query.name.text for query in parse_queries(source)]
    except CompileError:
        return {}
    return {name: _run_fault(source, catalog, name) for name in names}


def _run_fault(source: Source, catalog: Catalog, name: str) -> str | None:
    try:
        compile_query(source, catalog, name=name)
    except CompileError as error:
        return str(error)
    return None


def test_the_corpus_holds_faults_of_reads_and_of_mutations() -> None:
    """Else the test above would prove little."""
    faults = [read_corpus_file(path).sections.get("diagnostics", "") for path in QUERY_FILES]

    assert sum(bool(each) for each in faults) > 100
    for code in ("[P7]", "[T5]", "[T7]", "[T8]", "[T12]", "[T26]", "[T39]", "[D2]"):
        assert any(code in each for each in faults), code


def test_the_report_as_json_leaves_out_what_is_empty() -> None:
    report = lint("query q() { match { $s: Ship } return { $s.reg } }")

    encoded = encode_report(
        report, schema_source={"kind": "file", "path": "s.pg"}, query_path="q.gq"
    )

    assert encoded == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": "s.pg"},
        "query_path": "q.gq",
        "queries_processed": 1,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "results": [
            {
                "name": "q",
                "kind": "read",
                "status": "ok",
                "operation": {
                    "result": [{"name": "reg", "kind": "string", "nullable": False}],
                    "reads": [{"kind": "node", "type_name": "Ship"}],
                    "writes": [],
                },
            }
        ],
        "findings": [],
    }


def test_a_node_delete_touches_every_edge_that_may_cascade() -> None:
    touched = [
        {"kind": "node", "type_name": "Pilot"},
        {"kind": "edge", "type_name": "Flies"},
        {"kind": "edge", "type_name": "Mentors"},
    ]

    operation = operation_of("query q($h: String) { delete Pilot where handle = $h }")

    assert operation == {"result": [], "reads": touched, "writes": touched}


def test_an_edge_insert_reads_the_types_of_its_ends() -> None:
    operation = operation_of('query q($r: String) { insert Flies { from: "ada", to: $r } }')

    assert operation["reads"] == [
        {"kind": "node", "type_name": "Pilot"},
        {"kind": "node", "type_name": "Ship"},
        {"kind": "edge", "type_name": "Flies"},
    ]
    assert operation["writes"] == [{"kind": "edge", "type_name": "Flies"}]


def test_reads_inside_blocks_count() -> None:
    operation = operation_of(
        "query q() { match { $s: Ship not { $p flies $s } } return { $s.reg } }"
    )

    assert operation["reads"] == [
        {"kind": "node", "type_name": "Pilot"},
        {"kind": "node", "type_name": "Ship"},
        {"kind": "edge", "type_name": "Flies"},
    ]


def test_fields_have_short_names_and_plain_kinds() -> None:
    operation = operation_of(
        """
        query q($k: I64) {
          match { $p: Pilot }
          return { $p, $p.hours, $p.born as day, $p.mark, $p.tags, $k, 1, now() }
        }
        """
    )

    assert operation["result"] == [
        {"name": "p", "kind": "object", "nullable": False},
        {"name": "hours", "kind": "int", "nullable": True},
        {"name": "day", "kind": "date", "nullable": True},
        {"name": "mark", "kind": "vector", "vector_dim": 2, "nullable": True},
        {"name": "tags", "kind": "list", "item_kind": "bigint", "nullable": True},
        {"name": "k", "kind": "bigint", "nullable": False},
        {"name": "literal", "kind": "bigint", "nullable": False},
        {"name": "now", "kind": "datetime", "nullable": False},
    ]


def test_aggregates_are_named_for_their_function_and_may_be_null() -> None:
    operation = operation_of(
        "query q() { match { $p: Pilot } return { count($p), avg($p.hours), max($p.handle) as m } }"
    )

    assert operation["result"] == [
        {"name": "count", "kind": "bigint", "nullable": True},
        {"name": "avg", "kind": "float", "nullable": True},
        {"name": "m", "kind": "string", "nullable": True},
    ]
