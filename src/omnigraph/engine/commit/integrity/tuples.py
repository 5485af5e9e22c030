"""Rows as numbers: equal tuples of values get equal codes, so that sorting finds what repeats.

Values are equal by type and content: -0.0 is 0.0, and a NaN is every other NaN. Nulls have no
code; rows that hold one are left out before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]

_CODES_MAX = 2**62


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column as positions in its distinct values."""

    distinct: pa.Array
    codes: Codes


def encode_column(column: pa.ChunkedArray) -> EncodedColumn:
    """The distinct values of a column without nulls, in order of appearance, and who has which."""
    if pa.types.is_floating(column.type):
        column = normal_floats(column)
    encoded = column.dictionary_encode().combine_chunks()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return EncodedColumn(encoded.dictionary, codes)


def encode_tuples(columns: Sequence[EncodedColumn]) -> Codes:
    """One code a row for the values of all columns together."""
    codes, code_count = columns[0].codes, len(columns[0].distinct)
    for column in columns[1:]:
        if code_count * len(column.distinct) > _CODES_MAX:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            code_count = len(codes)
        codes = codes * len(column.distinct) + column.codes
        code_count *= len(column.distinct)
    return codes


def has_repeats(codes: Codes) -> bool:
    """Whether any code occurs twice."""
    ordered = np.sort(codes)
    return bool((ordered[1:] == ordered[:-1]).any())


def find_first_rows(codes: Codes) -> Codes:
    """For each row the first one with the same code, perhaps itself."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int64)


def normal_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with one zero and one NaN."""
    zero, nan = pa.scalar(0.0, column.type), pa.scalar(float("nan"), column.type)
    # Adding zero turns -0.0 into 0.0 and changes nothing else.
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))
