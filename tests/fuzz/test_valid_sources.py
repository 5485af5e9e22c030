"""What the languages allow compiles: every generated schema, and every query written against it."""

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.compile import compile_queries, compile_query, compile_schema
from omnigraph.compiler.ir_text import render_ir
from omnigraph.engine.state.schema_files import CATALOG_FILE, encode_schema_files, is_form_of
from omnigraph.model.source import Source
from tests.support.generated_queries import query_texts
from tests.support.generated_schemas import schema_texts
from tests.support.sources import spread_texts


@given(schema_texts())
def test_a_valid_schema_compiles_and_its_stored_form_is_recognized(text: str) -> None:
    catalog = compile_schema(Source("valid.pg", text))

    stored = encode_schema_files(text, catalog)[CATALOG_FILE]
    assert is_form_of(catalog, stored)


@given(st.data())
def test_a_valid_query_compiles(data: st.DataObject) -> None:
    catalog = compile_schema(Source("valid.pg", data.draw(schema_texts())))
    source = Source("valid.gq", data.draw(query_texts(catalog)))

    queries = compile_queries(source, catalog)

    for query in queries:
        assert compile_query(source, catalog, name=query.name) == query


@given(st.data())
def test_comments_and_white_space_change_no_schema(data: st.DataObject) -> None:
    text = data.draw(schema_texts())

    spread = data.draw(spread_texts(st.just(text)))

    compact, sparse = (compile_schema(Source("valid.pg", each)) for each in (text, spread))
    assert sparse == compact


@given(st.data())
def test_comments_and_white_space_change_no_query(data: st.DataObject) -> None:
    catalog = compile_schema(Source("valid.pg", data.draw(schema_texts())))
    text = data.draw(query_texts(catalog))

    spread = data.draw(spread_texts(st.just(text)))

    compact, sparse = (
        [render_ir(query.ir) for query in compile_queries(Source("valid.gq", each), catalog)]
        for each in (text, spread)
    )
    assert sparse == compact
