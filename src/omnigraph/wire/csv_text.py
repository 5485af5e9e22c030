"""Rows of a result as CSV, put together column by column.

A text stands as it is, null is the word, anything else is JSON; a field is quoted if it has to be.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.json_text import TEXT, content, join
from omnigraph.wire.row_text import write_texts

_NEEDS_QUOTES = r'[,"\r\n]'


def encode_csv_names(names: Sequence[str]) -> bytes:
    """The line that names the columns."""
    return ",".join(_quote(pa.array(names, TEXT)).to_pylist()).encode() + b"\n"


def encode_csv(rows: pa.Table) -> bytes:
    """The lines of rows."""
    parts: list[str | pa.Array] = []
    for texts in write_texts(rows):
        parts += [",", _quote(texts)]
    return bytes(content(join(*parts[1:], "\n"))) if parts and rows.num_rows else b""


def _quote(texts: pa.Array) -> pa.Array:
    is_special = pc.match_substring_regex(texts, _NEEDS_QUOTES)
    if not pc.any(is_special).as_py():
        return texts
    return pc.if_else(is_special, join('"', pc.replace_substring(texts, '"', '""'), '"'), texts)
