"""Blobs that are given as references: replaced by what they name, as if that had been given."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.unfit import unfit
from omnigraph.engine.read.values import BLOB_PREFIX
from omnigraph.model.types import PropertyType, Scalar
from omnigraph.storage.external_blobs import ExternalBlobs


def inline_reference(text: str, external: ExternalBlobs) -> str:
    """The content of a blob as text; `ValueError` says why there is none."""
    if text.startswith(BLOB_PREFIX):
        return text
    return f"{BLOB_PREFIX}{b64encode(external.read(text)).decode()}"


def inline_references(
    values: Sequence[object], wanted: PropertyType, external: ExternalBlobs
) -> Sequence[object]:
    """JSON values of a property, of which only a blob can be a reference.

    `UnfitError` tells of a row whose reference is not followed.
    """
    if wanted.element is not Scalar.BLOB:
        return values
    given = list(values)
    for row, value in enumerate(given):
        if isinstance(value, str):
            try:
                given[row] = inline_reference(value, external)
            except ValueError as error:
                raise unfit(row, value, str(error)) from error
    return given


def inline_column(column: pa.Array, wanted: PropertyType, external: ExternalBlobs) -> pa.Array:
    """The same for a column of Arrow."""
    if wanted.element is not Scalar.BLOB or not _is_text(column.type):
        return column
    if pc.all(pc.starts_with(column.cast(pa.string()), BLOB_PREFIX)).as_py():
        return column
    return pa.array(inline_references(column.to_pylist(), wanted, external), pa.large_string())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
