"""A good text that was edited badly compiles or is refused; nothing else comes out."""

from hypothesis import given

from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.compiler.ir_text import render_ir
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.errors import CompileError
from omnigraph.model.source import Source
from tests.support.generated_queries import query_texts
from tests.support.generated_schemas import schema_texts
from tests.support.promises import compile_or_refuse
from tests.support.sources import QUERY_WORDS, SCHEMA_WORDS, edited_texts, texts_like

CATALOG = compile_schema(
    Source(
        "schema.pg",
        """
        interface Named { name: String @key }
        node Person implements Named {
            age: I32? @index  born: Date?  seen: DateTime?  tags: [String]  weight: F32?
            status: enum(open, closed)?  photo: Blob?  text: String?  near: Vector(3)? @embed(text)
        }
        node Company implements Named { size: U64?  is_public: Bool? }
        edge Knows: Person -> Person { since: Date?  strength: F64? }
        edge WorksAt: Person -> Company @card(0..1) { role: String? }
        edge Contains: Company -> Company
        """,
    )
)

SCHEMAS = texts_like(schema_texts(), suffix="pg")
QUERIES = texts_like(query_texts(CATALOG), suffix="gq")


@given(edited_texts(SCHEMAS, SCHEMA_WORDS))
def test_an_edited_schema_compiles_or_is_refused(text: str) -> None:
    catalog = compile_or_refuse(lambda: compile_schema(Source("edited.pg", text)))

    assert isinstance(catalog, CompileError) or hash_schema(catalog)


@given(edited_texts(QUERIES, QUERY_WORDS))
def test_an_edited_query_compiles_or_is_refused(text: str) -> None:
    queries = compile_or_refuse(lambda: compile_queries(Source("edited.gq", text), CATALOG))

    assert isinstance(queries, CompileError) or all(render_ir(each.ir) for each in queries)


@given(edited_texts(SCHEMAS, SCHEMA_WORDS), edited_texts(QUERIES, QUERY_WORDS))
def test_each_language_refuses_the_other(schema: str, queries: str) -> None:
    compile_or_refuse(lambda: compile_schema(Source("edited.gq", queries)))
    compile_or_refuse(lambda: compile_queries(Source("edited.pg", schema), CATALOG))
