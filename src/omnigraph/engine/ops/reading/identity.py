"""Ids from keys: the one spelling of a node's id that every way in agrees on.

Two rows have the same id exactly if their keys are equal as stored. A key is whole and finite, or
it is no key.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.unfit import UnfitError, refusal, require_none
from omnigraph.model.catalog import NodeType
from omnigraph.model.types import PropertyType, Scalar, Vector

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
# The backslash first, so that those of other escapes are not escaped again.
_ESCAPED_CHARACTERS = ("\\", '"', *map(chr, range(0x20)))


def node_ids(declared: NodeType, columns: pa.Table) -> pa.Array:
    """The ids of rows, from the stored values of their key.

    A key that is null, or no finite number, is an `InvalidValueError`.
    """
    try:
        return derive_ids(declared, columns)
    except UnfitError as fault:
        expected = str(declared.properties[fault.column].type)
        subject = f"{declared.name}.{fault.column}"
        raise refusal(fault, subject=subject, expected=expected) from fault


def derive_ids(declared: NodeType, columns: pa.Table) -> pa.Array:
    """The same; `UnfitError` tells of a row whose key is none."""
    parts = []
    for name in declared.key:
        try:
            parts.append(_write(columns[name].combine_chunks(), declared.properties[name].type))
        except UnfitError as fault:
            fault.column = name
            raise
    if len(parts) == 1:
        return parts[0]
    pieces = ['["', *(piece for part in parts for piece in (_escape(part), '","'))]
    pieces[-1] = '"]'
    return pc.binary_join_element_wise(*pieces, "")


def _write(values: pa.Array, declared: PropertyType) -> pa.Array:
    if values.null_count:
        require_none(values.is_null(), values, lambda _: "missing @key property")
    match declared.element:
        case Scalar.STRING:
            return values
        case Scalar.F32 | Scalar.F64:
            is_other = pc.invert(pc.is_finite(values))
            require_none(is_other, values, lambda value: f"{value} cannot be a key")
            return _write_floats(values)
        case Scalar.DATE:
            return pc.cast(pc.cast(values, pa.int32()), pa.string())
        case Scalar.DATETIME:
            return pc.cast(pc.cast(values, pa.int64()), pa.string())
        case Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return pc.cast(values, pa.string())
        case Scalar.BLOB | Vector():
            raise AssertionError("a schema with such a key does not compile")


def _write_floats(values: pa.Array) -> pa.Array:
    """The fewest digits that name each float at its width: no exponent, no fraction of zero."""
    texts = pc.cast(values, pa.string())
    has_exponent = pc.match_substring(texts, "e")
    if pc.any(has_exponent).as_py():
        # Very large and very small keys only: Arrow writes no others with an exponent.
        written = [
            np.format_float_positional(value, unique=True, trim="-")
            for value in values.filter(has_exponent).to_numpy()
        ]
        texts = pc.replace_with_mask(texts, has_exponent, pa.array(written, pa.string()))
    return pc.if_else(pc.equal(values, 0), "0", texts)


def _escape(texts: pa.Array) -> pa.Array:
    """Texts as they stand between the quotes of JSON."""
    if pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        for character in _ESCAPED_CHARACTERS:
            texts = pc.replace_substring(texts, character, json.dumps(character)[1:-1])
    return texts
