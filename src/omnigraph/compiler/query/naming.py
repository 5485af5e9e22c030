"""Which query of a text is meant when nobody says its name."""

from __future__ import annotations

from omnigraph.compiler.query.parse import parse_queries
from omnigraph.model.source import Source


def find_only_name(text: str) -> str:
    """The name of the only query of a text; whoever calls has run it already."""
    (only,) = parse_queries(Source("<query>", text))
    return only.name.text
