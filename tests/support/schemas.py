"""Schemas for tests: texts compiled in one call, and the schema that many examples share."""

from omnigraph.compiler.compile import compile_schema
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source

FLEET = """
node Pilot { handle: String @key  hours: I32? }
node Ship  { reg: String @key  tons: F64? }
edge Mentors: Pilot -> Pilot { since: Date? }
edge Flies: Pilot -> Ship
"""


def compile_text(text: str) -> Catalog:
    """The catalog of a schema text."""
    return compile_schema(Source("schema.pg", text))
