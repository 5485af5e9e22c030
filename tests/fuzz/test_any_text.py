"""The compiler compiles or refuses any file; it has no other outcome."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from omnigraph.compiler.compile import compile_queries, compile_query, compile_schema
from omnigraph.compiler.parser import decode_source
from omnigraph.errors import NotFoundError
from omnigraph.model.source import Source
from tests.support.promises import compile_or_refuse
from tests.support.sources import ODD_CHARACTERS, QUERY_WORDS, SCHEMA_WORDS, token_soups

CATALOG = compile_schema(
    Source("schema.pg", "node Person { name: String @key age: I32? } edge Knows: Person -> Person")
)

ANY_CHARACTERS = (
    st.characters() | st.characters(categories=["Cs"]) | st.sampled_from(ODD_CHARACTERS)
)
ANY_TEXT = st.text(ANY_CHARACTERS) | st.text(st.sampled_from('{}()[]":$@,.<>=-/*\\ \nnodequery1?'))


@given(st.binary() | st.text().map(lambda text: text.encode("utf-16")))
def test_any_bytes_are_decoded_or_refused(encoded: bytes) -> None:
    compile_or_refuse(lambda: decode_source(encoded, name="any"))


@given(ANY_TEXT)
def test_any_text_is_a_schema_or_refused(text: str) -> None:
    compile_or_refuse(lambda: compile_schema(Source("any.pg", text)))


@given(ANY_TEXT)
def test_any_text_is_queries_or_refused(text: str) -> None:
    compile_or_refuse(lambda: compile_queries(Source("any.gq", text), CATALOG))


@given(token_soups(SCHEMA_WORDS))
def test_words_in_any_order_are_a_schema_or_refused(text: str) -> None:
    compile_or_refuse(lambda: compile_schema(Source("any.pg", text)))


@given(token_soups(SCHEMA_WORDS))
def test_words_in_any_order_are_a_type_or_refused(text: str) -> None:
    compile_or_refuse(lambda: compile_schema(Source("any.pg", f"node Person {{ {text} }}")))


@given(token_soups(QUERY_WORDS))
def test_words_in_any_order_are_a_query_or_refused(text: str) -> None:
    body = f"query q($q: String) {{ {text} }}"

    compile_or_refuse(lambda: compile_queries(Source("any.gq", body), CATALOG))


@given(token_soups(QUERY_WORDS), token_soups(QUERY_WORDS))
def test_words_in_any_order_are_clauses_or_refused(clauses: str, columns: str) -> None:
    body = f"query q() {{ match {{ $p: Person {clauses} }} return {{ {columns} }} }}"

    compile_or_refuse(lambda: compile_queries(Source("any.gq", body), CATALOG))


@given(token_soups(QUERY_WORDS))
def test_words_in_any_order_are_a_condition_or_refused(condition: str) -> None:
    body = f"query q() {{ delete Person where {condition} }}"

    compile_or_refuse(lambda: compile_queries(Source("any.gq", body), CATALOG))


@given(st.text(ANY_CHARACTERS))
def test_a_name_that_no_query_has_is_not_found(name: str) -> None:
    assume(name != "q")
    source = Source("any.gq", "query q() { match { $p: Person } return { $p } }")

    with pytest.raises(NotFoundError) as refusal:
        compile_query(source, CATALOG, name=name)

    assert refusal.value.name == name
