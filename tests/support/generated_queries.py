"""Valid query files, generated against a catalog.

Guarantees that the checker has no reason to refuse a text from here.
"""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.model.catalog import Catalog
from tests.support.choices import Choices
from tests.support.generated_mutations import write_mutation
from tests.support.generated_reads import write_read
from tests.support.generated_values import Values

_QUERY_NAMES = ("q", "query", "match", "find_all", "insert", "_1", "limit")
_NOTES = ("", '@description("what")', '@instruction("a \\"b\\"")\n@description("")')


@st.composite
def query_texts(draw: DrawFn, catalog: Catalog) -> str:
    """A file of queries that compile against a catalog with at least one node type."""
    choices = Choices(draw)
    names = choices.some(_QUERY_NAMES, least=1, most=2)
    return "\n\n".join(_write_query(choices, name, catalog) for name in names)


def _write_query(choices: Choices, name: str, catalog: Catalog) -> str:
    values = Values(choices)
    body = write_mutation(choices, catalog, values) if choices.count(2) == 2 else None
    if body is None:
        body = write_read(choices, catalog, values)
    heading = f"query {name}({values.write_declarations()}) {choices.one(_NOTES)}"
    return f"{heading} {{\n{body}\n}}"
