"""Rows that came in columns, as lines of NDJSON: what is told of a row that is not loaded."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import orjson
import pyarrow as pa

from omnigraph.engine.ops.reading.pieces import Declared, Place
from omnigraph.engine.read.json_lines import encode_rows
from omnigraph.engine.read.values import BLOB_PREFIX
from omnigraph.model.catalog import EdgeType
from omnigraph.model.errors import InvalidValueError


class RowOrigin:
    """The rows of a file, or of a caller, that are counted and have no lines."""

    def __init__(
        self, declared: Declared, file: str, numbers: Sequence[int], rows: pa.Table
    ) -> None:
        self._declared, self._file = declared, file
        self._numbers, self._rows = numbers, rows

    def locate(self, row: int) -> Place:
        return Place(self._file, self._numbers[row], None)

    def original(self, row: int) -> bytes:
        (found,) = self._rows.slice(row, 1).to_batches()
        try:
            (line,) = encode_rows(self._declared, found)
        except InvalidValueError:
            # A number that JSON has no word for.
            return write_given_row(self._declared, found)
        # An id that was to be made is none to give: these quotes stand in no text.
        return (
            line.replace('"data":{"id":null,', '"data":{')
            .replace('"data":{"id":null}', '"data":{}')
            .encode()
        )


def write_given_row(declared: Declared, batch: pa.RecordBatch) -> bytes:
    """The only row of a batch as it was given, whether or not it can be loaded."""
    values = {
        name: column[0].cast(pa.int64()).as_py()
        if pa.types.is_date64(column.type)  # which Python takes for whole days
        else column[0].as_py()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    given = {name: value for name, value in values.items() if value is not None}
    record: dict[str, object] = {"type": declared.name}
    if isinstance(declared, EdgeType):
        record = {"edge": declared.name, "from": given.pop("src", None)}
        record["to"] = given.pop("dst", None)
    return orjson.dumps({**record, "data": given}, default=_write_other)


def _write_other(value: object) -> object:
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return f"{BLOB_PREFIX}{b64encode(value).decode()}"
        case date():
            return value.isoformat()
        case _:
            return str(value)
