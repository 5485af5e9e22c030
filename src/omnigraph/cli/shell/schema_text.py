"""One declaration out of the text of a schema, as it was written."""

from __future__ import annotations

from omnigraph.compiler.typed.words import TokenKind, scan

_DECLARING = frozenset({"node", "edge", "interface"})


def find_declaration(source: str, name: str) -> str | None:
    """The text that declares a type; both, if a node and an edge type have the name."""
    starts: list[tuple[int, str]] = []
    depth, before = 0, ""
    for token in scan(source):
        if token.is_blank:
            continue
        if token.kind is TokenKind.SIGN:
            depth += (token.text in "{([") - (token.text in "})]")
        if depth == 0 and before in _DECLARING and token.kind is TokenKind.WORD:
            starts.append((source.rfind(before, 0, token.start), token.text))
        before = token.text
    ends = [start for start, _ in starts[1:]] + [len(source)]
    found = [
        _without_trailing_comments(source[start:end])
        for (start, declared), end in zip(starts, ends, strict=True)
        if declared == name
    ]
    return "\n\n".join(found) or None


def _without_trailing_comments(text: str) -> str:
    """A declaration without what stands between it and the next one."""
    end = max((token.end for token in scan(text) if not token.is_blank), default=0)
    return text[:end]
