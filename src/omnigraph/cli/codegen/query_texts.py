"""One query out of a text of several, as it was written.

Pure. Takes the text to be one that compiles; what stands between queries belongs to none of them.
"""

from __future__ import annotations

from omnigraph.compiler.typed.words import TokenKind, significant
from omnigraph.model.errors import NotFoundError
from omnigraph.model.source import Source

_DECLARING = "query"


def cut_query(source: Source, name: str) -> str:
    """The text of the query of a name, from its first word to its last brace."""
    depth, start, before = 0, 0, ""
    found = False
    for token in significant(source.text):
        if depth == 0 and token.kind is TokenKind.WORD:
            if before == _DECLARING:
                # A query may itself be called `query`.
                found, before = token.text == name, ""
                continue
            if token.text == _DECLARING:
                start = token.start
            before = token.text
        if token.kind is TokenKind.SIGN:
            depth += (token.text in "{([") - (token.text in "})]")
            if found and depth == 0 and token.text == "}":
                return source.text[start : token.end]
    raise NotFoundError(kind="query", name=name, advice=f"{source.name} has none of this name")
