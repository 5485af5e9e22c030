"""Write-back of algorithm results as node properties: the request, its checks, and the change.

Other properties of a node are unchanged. Nodes that no longer exist on the target branch are left
out, and so are nodes that already have the value. The module prepares a write and performs none.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.check import require_integrity
from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.input.coerce import CoercionError, coerce_column, refusal
from omnigraph.engine.ops.diff import equal_cells
from omnigraph.engine.ops.retry import Prepared
from omnigraph.engine.read.entities import UNBOUND, find_all, one_chunk
from omnigraph.engine.results import MutationResult
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import Catalog, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.names import BranchName
from omnigraph.model.types import PropertyType, is_assignable
from omnigraph.storage.row_files import table_schema


@dataclass(frozen=True, slots=True)
class WriteCall:
    """A request to write one result column as a property of some types on a branch."""

    column: str
    value_type: PropertyType
    property: str
    type_names: tuple[str, ...]
    branch: BranchName
    actor: str | None


def require_assignable(call: WriteCall, catalog: Catalog) -> tuple[NodeType, ...]:
    """The types to write to; `InvalidValueError` if the schema cannot hold the values.

    `NotFoundError` if the schema no longer has one of the types.
    """
    return tuple(_require_property(name, call, catalog) for name in call.type_names)


def prepare_values(
    call: WriteCall, rows: pa.Table, *, catalog: Catalog, committed: SnapshotRows
) -> Prepared[MutationResult]:
    """Prepare and check the write of a result's values on a branch."""
    changes: dict[str, TableChange] = {}
    for declared in sorted(require_assignable(call, catalog), key=table_key_of):
        own = rows.filter(pc.equal(rows["type"], declared.name))
        put = _put(call, own, declared, committed)
        if put.num_rows:
            nothing = pa.array([], pa.string())
            changes[table_key_of(declared)] = TableChange(
                type=declared, put=put, removed=nothing, is_overwrite=False
            )
    require_integrity(changes, catalog=catalog, committed=committed)
    write = PreparedWrite(
        changes=changes,
        placement=dict.fromkeys(changes, StagingMode.MERGE),
        read_set=committed.read_set,
        # The other properties of a node are read again on every attempt.
        is_strict=False,
    )
    affected = sum(each.put.num_rows for each in changes.values())
    return Prepared(write, MutationResult(affected, 0, commit_id=None))


def _put(call: WriteCall, rows: pa.Table, declared: NodeType, committed: SnapshotRows) -> pa.Table:
    """The committed rows whose value changes, with the new value."""
    schema, table_key = table_schema(declared), table_key_of(declared)
    known = committed.scan(table_key, columns=["id", call.property])
    places = find_all(one_chunk(known["id"]), one_chunk(rows["id"]))
    is_found = places != UNBOUND
    known = known.filter(pa.array(is_found))
    chosen = one_chunk(rows[call.column]).take(pa.array(places[is_found]))
    wanted = declared.properties[call.property].type
    try:
        values = pa.chunked_array([coerce_column(chosen, wanted)])
    except CoercionError as error:
        subject = f"{declared.name}.{call.property}"
        raise refusal(error, subject=subject, expected=wanted.describe()) from error
    is_new = pa.array(~equal_cells(known[call.property], values))
    ids, values = one_chunk(known["id"].filter(is_new)), one_chunk(values.filter(is_new))
    found = committed.find_rows(table_key, "id", ids, columns=schema.names)
    values = values.take(pa.array(find_all(one_chunk(found["id"]), ids)))
    position = schema.get_field_index(call.property)
    return found.set_column(position, schema.field(position), values)


def _require_property(name: str, call: WriteCall, catalog: Catalog) -> NodeType:
    declared = catalog.nodes.get(name)
    if declared is None:
        # The type existed in the schema that was analyzed.
        raise NotFoundError(kind="node type", name=name, advice="the schema has changed since")
    property = declared.properties.get(call.property)
    wanted = call.value_type.as_nullable()
    if property is None:
        problem = (
            f"{name} has no property `{call.property}`; add `{call.property}: {wanted}` to "
            f"node {name} and apply the schema"
        )
    elif call.property in declared.key:
        problem = "a key names its node and cannot be written to"
    elif not is_assignable(call.value_type, property.type):
        problem = (
            f"it is declared as {property.type.describe()} and cannot hold `{call.column}`; "
            f"declare a property as `{wanted}`"
        )
    else:
        return declared
    raise InvalidValueError(
        subject=f"{name}.{call.property}",
        expected=call.value_type.describe(),
        value=call.property,
        problem=problem,
    )
