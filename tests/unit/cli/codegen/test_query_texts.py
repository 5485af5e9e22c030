"""One query is cut out of a text whole, whatever stands around it and in it."""

from __future__ import annotations

import pytest

from omnigraph.cli.codegen.query_texts import cut_query
from omnigraph.model.errors import NotFoundError
from omnigraph.model.source import Source

FIRST = 'query first() @description("} query second() {") { match { $p: P } return { $p.x } }'
SECOND = "query second($query: String) {\n  // } query first() {\n  insert P { x: $query }\n}"
QUERY = "query query() { match { $query: P not { $query k $p } } return { $query } }"
TEXT = Source("q.gq", f"// query third() {{}}\n{FIRST} /* }} */ {SECOND}\n\n{QUERY}// end\n")


@pytest.mark.parametrize(
    ("name", "text"), [("first", FIRST), ("second", SECOND), ("query", QUERY)], ids=str
)
def test_a_query_is_cut_out_whole(name: str, text: str) -> None:
    assert cut_query(TEXT, name) == text


def test_a_query_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="third"):
        cut_query(TEXT, "third")
