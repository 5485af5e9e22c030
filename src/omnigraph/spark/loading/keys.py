"""Values as texts that are equal exactly if the values are: what is compared across a cluster.

Equal means what it means to the rules: by type and content, -0.0 is 0.0, and a NaN is every other
NaN. A row with a null has no key.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.tuples import normal_floats


def encode_keys(rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """One text a row for the values of some columns together, null where one of them is."""
    texts = [_as_text(rows.column(name)) for name in columns]
    if len(texts) == 1:
        return texts[0]
    # With its length before it, no text can be taken for a part of another tuple.
    lengths = [pc.cast(pc.binary_length(text), pa.string()) for text in texts]
    pieces = [piece for pair in zip(lengths, texts, strict=True) for piece in (*pair, ":")]
    return pc.binary_join_element_wise(*pieces, ":")


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_floating(kind):
        return pc.cast(normal_floats(column), pa.string())
    if pa.types.is_date32(kind):
        return pc.cast(pc.cast(column, pa.int32()), pa.string())
    if pa.types.is_date64(kind):
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    return pc.cast(column, pa.string())
