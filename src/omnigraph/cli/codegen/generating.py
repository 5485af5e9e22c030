"""From stored queries and a schema to the code of a language.

Each query is compiled from its own text, so that what is written works without the file that the
query stood in.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.cli.codegen.python_module import QueryText, write_module
from omnigraph.cli.codegen.query_texts import cut_query
from omnigraph.compiler.compile import compile_query
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source


def generate_python(source_by_name: Mapping[str, Source], catalog: Catalog) -> str:
    """The module with a function for each query; `CompileError` if one does not fit the schema."""
    return write_module(_compile(name, source, catalog) for name, source in source_by_name.items())


def _compile(name: str, source: Source, catalog: Catalog) -> QueryText:
    # First in its place, where a fault has the line that its writer knows.
    compile_query(source, catalog, name=name)
    text = f"{cut_query(source, name)}\n"
    return QueryText(compile_query(Source(source.name, text), catalog, name=name), text)
