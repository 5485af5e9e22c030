"""Lines that hold records of one type, read by Arrow all at once.

What is read here is what reading record by record would give. Arrow is less strict, so whatever it
lets pass and the other does not is looked for, and whatever it refuses is left to the other: then
nothing is read, and nothing said.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from omnigraph.engine.ops.reading.envelopes import find_problem
from omnigraph.engine.ops.reading.fitting import fit
from omnigraph.engine.ops.reading.pieces import Declared, Means
from omnigraph.engine.ops.reading.references import inline_column
from omnigraph.engine.ops.reading.rows import build_rows
from omnigraph.engine.ops.reading.unfit import UnfitError
from omnigraph.model.catalog import Catalog, EdgeType
from omnigraph.model.limits import LOAD_BLOCK_BYTES
from omnigraph.model.types import FLOATS, PropertyType, Scalar

_END_BY_COLUMN = {"src": "from", "dst": "to"}


def read_uniform(text: bytes, means: Means) -> tuple[Declared, pa.Table] | None:
    """The rows of lines, a row a line; None if these have to be read one by one."""
    # A block beyond its size has a record that is: reading few of them at once saves nothing.
    line_count = _count_plain(text) if len(text) <= 2 * LOAD_BLOCK_BYTES else 0
    if not line_count:
        return None
    first = _read_first(text, means.catalog)
    if first is None:
        return None
    declared, record = first
    schema = _schema_of(declared, record)
    try:
        table = json.read_json(
            pa.BufferReader(text),
            read_options=json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error"
            ),
        )
        columns = _open(table, declared, schema, means.catalog)
        if table.num_rows != line_count or columns is None or _says_null(text, table, columns):
            return None
        return declared, build_rows(declared, partial(_read_column, columns, means))
    except (UnfitError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _count_plain(text: bytes) -> int:
    """How many lines there are if each is one pair of braces, as far as its ends show; else 0.

    A line that ends with one brace and is followed by another that opens is never inside of an
    object, so that as many objects as lines are one a line.
    """
    if not (text.startswith(b"{") and text.endswith((b"}\n", b"}", b"}\r\n"))):
        return 0
    line_count = text.count(b"\n") + (not text.endswith(b"\n"))
    seam_count = text.count(b"}\n{")
    if seam_count != line_count - 1:
        seam_count += text.count(b"}\r\n{")
    is_text = text.isascii() or _is_utf8(text)
    return line_count if seam_count == line_count - 1 and is_text else 0


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_first(text: bytes, catalog: Catalog) -> tuple[Declared, dict[str, object]] | None:
    """The type and the properties of the first record."""
    try:
        record = orjson.loads(text[: text.find(b"\n") + 1] or text)
    except orjson.JSONDecodeError:
        return None
    if find_problem(record, catalog) is not None:
        return None
    declared = catalog.nodes.get(record.get("type")) or catalog.find_edge(record["edge"])
    assert declared is not None, "it was found to have no problem"
    return declared, record.get("data", {})


def _schema_of(declared: Declared, first: Mapping[str, object]) -> pa.Schema:
    """What the members of records are read as: what JSON says, and no more."""
    properties = [pa.field("id", pa.string())]
    for name, each in declared.properties.items():
        kind = _json_type(each.type.element, first.get(name))
        is_nested = each.type.is_list or each.type.is_vector
        properties.append(pa.field(name, pa.list_(kind) if is_nested else kind))
    fields = [pa.field("data", pa.struct(properties))]
    if isinstance(declared, EdgeType):
        names = ("edge", *_END_BY_COLUMN.values())
        return pa.schema([*(pa.field(name, pa.string()) for name in names), *fields])
    return pa.schema([pa.field("type", pa.string()), *fields])


def _json_type(element: object, value: object) -> pa.DataType:
    value = value[0] if isinstance(value, list) and value else value
    match element:
        case Scalar.BOOL:
            return pa.bool_()
        case Scalar.U64:
            return pa.uint64()
        case Scalar.I32 | Scalar.I64 | Scalar.U32:
            return pa.int64()
        case Scalar.DATE | Scalar.DATETIME:
            # Both spellings are read, and a file mostly keeps to one.
            return pa.int64() if isinstance(value, int) else pa.string()
        case Scalar.STRING | Scalar.BLOB:
            return pa.string()
        case _:
            # Never narrower: a decimal is rounded to 64 bits first, as everywhere else.
            return pa.float64()


def _open(
    table: pa.Table, declared: Declared, schema: pa.Schema, catalog: Catalog
) -> dict[str, pa.Array] | None:
    """The columns by name; None if the records may be of several types, or lack an end."""
    table = table.combine_chunks()
    if table.schema != schema or any(each.num_chunks != 1 for each in table.columns):
        return None
    top = {name: table[name].chunk(0) for name in schema.names}
    given = top.pop("data")
    columns = dict(zip(given.type.names, given.flatten(), strict=True))
    if isinstance(declared, EdgeType):
        names = top["edge"].unique().to_pylist()
        if any(name is None or catalog.find_edge(name) != declared for name in names):
            return None
        columns |= {column: top[end] for column, end in _END_BY_COLUMN.items()}
        has_ends = not any(columns[column].null_count for column in _END_BY_COLUMN)
        return columns if has_ends else None
    is_other = pc.not_equal(top["type"], declared.name)
    return None if top["type"].null_count or pc.any(is_other).as_py() else columns


def _says_null(text: bytes, table: pa.Table, columns: Mapping[str, pa.Array]) -> bool:
    """Whether a record may say null where only leaving out is allowed: Arrow sees no difference."""
    if b"null" not in text:
        return False
    if b"\\u00" in text:  # which may spell any name
        return True
    given, ids = table["data"], columns["id"]
    counts = (len(given) - given.null_count, len(ids) - ids.null_count)
    return (text.count(b'"data"'), text.count(b'"id"')) != counts


def _read_column(
    columns: Mapping[str, pa.Array], means: Means, name: str, wanted: PropertyType
) -> pa.Array:
    column = columns[name]
    if wanted.is_vector or wanted.element in FLOATS:
        _require_plain_floats(column.flatten() if pa.types.is_list(column.type) else column)
    return fit(inline_column(column, wanted, means.external), wanted)


def _require_plain_floats(numbers: pa.Array) -> None:
    # Arrow reads NaN, and a -0 that is an integer to JSON.
    array = numbers.drop_null().to_numpy()
    if not np.isfinite(array).all() or np.signbit(array[array == 0]).any():
        raise pa.ArrowInvalid("numbers that have to be looked at one by one")
