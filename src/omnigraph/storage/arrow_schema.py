"""The columns of a type: declared properties as Arrow fields, in the order they are stored in.

Promises that equal declarations give equal schemas. A blob is a `large_binary` column here and
wherever rows are handled; that Lance keeps such columns as blobs is the table store's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.types import PropertyType, Scalar, Vector

ID = pa.field("id", pa.string(), nullable=False)
ENDPOINTS = (
    pa.field("src", pa.string(), nullable=False),
    pa.field("dst", pa.string(), nullable=False),
)

_TYPE_BY_SCALAR: Mapping[Scalar, pa.DataType] = MappingProxyType(
    {
        Scalar.STRING: pa.string(),
        Scalar.BLOB: pa.large_binary(),
        Scalar.BOOL: pa.bool_(),
        Scalar.I32: pa.int32(),
        Scalar.I64: pa.int64(),
        Scalar.U32: pa.uint32(),
        Scalar.U64: pa.uint64(),
        Scalar.F32: pa.float32(),
        Scalar.F64: pa.float64(),
        # Milliseconds of any day: Lance keeps them as they are, whatever the type's name says.
        Scalar.DATETIME: pa.date64(),
        Scalar.DATE: pa.date32(),
    }
)


def table_schema(declared: NodeType | EdgeType) -> pa.Schema:
    """The columns of a type's rows: its id, an edge's endpoints, then properties by name."""
    endpoints = ENDPOINTS if isinstance(declared, EdgeType) else ()
    properties = [
        pa.field(name, arrow_type(each.type), nullable=each.type.is_nullable)
        for name, each in sorted(declared.properties.items())
    ]
    return pa.schema([ID, *endpoints, *properties])


def arrow_type(type: PropertyType) -> pa.DataType:
    """The Arrow type of a property's values; whether null is allowed is the field's to say."""
    if isinstance(type.element, Vector):
        # Lance indexes vectors of this shape, and elements are nullable wherever lists are.
        return pa.list_(_element(pa.float32()), type.element.dimension)
    scalar = _TYPE_BY_SCALAR[type.element]
    return pa.list_(_element(scalar)) if type.is_list else scalar


def _element(type: pa.DataType) -> pa.Field:
    return pa.field("item", type, nullable=True)
