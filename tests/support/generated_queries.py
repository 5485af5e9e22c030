"""Valid query files, generated against a catalog.

Promises that the checker has no reason to refuse a text from here.
"""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.model.catalog import Catalog
from tests.support.generated_mutations import draw_mutation
from tests.support.generated_reads import draw_read
from tests.support.generated_values import Values

QUERY_NAMES = ("q", "query", "match", "find_all", "insert", "_1", "limit")


@st.composite
def query_texts(draw: DrawFn, catalog: Catalog) -> str:
    """A file of one to three queries that compile; all of them reads when nothing can be written."""
    names = draw(st.lists(st.sampled_from(QUERY_NAMES), min_size=1, max_size=2, unique=True))
    return "\n\n".join(_draw_query(draw, name, catalog) for name in names)


def _draw_query(draw: DrawFn, name: str, catalog: Catalog) -> str:
    values = Values(draw)
    body = draw_mutation(draw, catalog, values) if draw(st.integers(0, 2)) == 0 else None
    if body is None:
        body = draw_read(draw, catalog, values)
    notes = draw(st.sampled_from(["", '\n@description("what")', '@instruction("x") @description("")']))
    return f"query {name}({values.write_declarations()}) {notes} {{\n{body}\n}}"
