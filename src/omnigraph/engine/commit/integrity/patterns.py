"""`@check`: a pattern of a schema, searched for in a column by RE2.

RE2 reads the patterns that a schema may hold as the language says: `$` is the end of the text,
`.` no line break, and `\\d`, `\\w`, `\\s` and `\\b` know ASCII only. It runs in linear time.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.model.errors import InvalidValueError

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def find_unmatched(texts: pa.ChunkedArray, pattern: str, *, label: str) -> pa.ChunkedArray:
    """Which texts hold no match of a pattern anywhere; null for null."""
    try:
        return pc.invert(pc.match_substring_regex(texts, pattern=_to_re2(pattern)))
    except pa.ArrowInvalid as error:
        # Many long repetitions behind each other are more than RE2 compiles.
        raise InvalidValueError(
            subject=f"@check on {label}",
            expected="a smaller pattern",
            value=pattern,
            problem=f"the pattern cannot be run ({error}); the graph is unchanged; "
            "shorten its repetitions in the schema",
        ) from error


def _to_re2(pattern: str) -> str:
    """The same pattern without backslashes before characters that RE2 wants bare."""
    return _ESCAPED.sub(lambda escape: escape[0] if escape[1].isascii() else escape[1], pattern)
