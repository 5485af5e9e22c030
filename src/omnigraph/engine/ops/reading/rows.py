"""The rows of one type, put together from columns of whatever reader.

Promises the columns of the type's table, in order. The id of a keyed node is derived and compared
with the one given; elsewhere an id that was not given stays null, to be made up by the caller.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.reading.identity import derive_ids
from omnigraph.engine.ops.reading.unfit import UnfitError, refusal, unfit
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import RequestError
from omnigraph.model.names import RESERVED_EDGE_PROPERTIES, RESERVED_PROPERTIES, find_near_name
from omnigraph.model.types import STRING, PropertyType
from omnigraph.storage.arrow_schema import table_schema

ReadColumn = Callable[[str, PropertyType], pa.Array]
"""How a reader gives the column of a name, as the property type stores it."""


def build_rows(declared: NodeType | EdgeType, read: ReadColumn) -> pa.Table:
    """The rows of a type; `UnfitError` tells of one that cannot be stored, and of the column."""
    schema = table_schema(declared)
    columns: dict[str, pa.Array] = {}
    for name in schema.names:
        try:
            columns[name] = read(name, type_of(declared, name))
        except UnfitError as fault:
            fault.column = name
            raise
    if isinstance(declared, NodeType) and declared.key:
        columns["id"] = _identify(declared, columns)
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def type_of(declared: NodeType | EdgeType, column: str) -> PropertyType:
    """What a column of a type's table holds."""
    found = declared.properties.get(column)
    return STRING if found is None else found.type


def refuse_row(declared: NodeType | EdgeType, fault: UnfitError, *, place: str) -> RequestError:
    """What the caller is told about a row that cannot be stored."""
    wanted = type_of(declared, fault.column)
    if fault.column in declared.properties and not wanted.is_nullable:
        fault.problem += "; a required property cannot be null or invalid"
    subject = f"{place}, {declared.name}.{fault.column}"
    return refusal(fault, subject=subject, expected=str(wanted))


def describe_unknown(declared: NodeType | EdgeType, name: str, *, ends: str) -> str:
    """What is wrong with a name that a type has no property of; `ends` is what an edge has."""
    if isinstance(declared, EdgeType) and name in RESERVED_EDGE_PROPERTIES - RESERVED_PROPERTIES:
        return f"{declared.name} has no property {show_text(name)}; the ends of an edge are {ends}"
    if name in RESERVED_PROPERTIES:
        return f"{show_text(name)} is a built-in column and cannot be given"
    near = find_near_name(name, declared.properties)
    advice = "" if near is None else f"; did you mean '{near}'?"
    return f"{declared.name} has no property {show_text(name)}{advice}"


def _identify(declared: NodeType, columns: dict[str, pa.Array]) -> pa.Array:
    given = columns["id"]
    derived = derive_ids(declared, pa.table({name: columns[name] for name in declared.key}))
    row = pc.index(pc.not_equal(given, derived), True).as_py()
    if row >= 0:
        found, expected = given[row].as_py(), derived[row].as_py()
        problem = f"{show_text(found)} does not match {show_text(expected)}, which the key makes"
        other = unfit(row, found, problem)
        other.column = "id"
        raise other
    return derived
