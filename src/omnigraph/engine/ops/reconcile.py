"""Reconciling one type: what two sides did to it since a base, put together row by row.

Pure, over Arrow. A row that one side left alone follows the other; one that both changed alike
stays; one that they changed differently is a conflict, unless the caller decided about it or they
changed different properties and may be merged by these. The cost follows what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.untouched import without
from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.images import (
    Images,
    Sides,
    among,
    choose_cells,
    differing_cells,
    join_ids,
    keep_rows,
)
from omnigraph.engine.ops.row_equality import equal_cells, equal_rows
from omnigraph.engine.ops.type_changes import TypeChanges
from omnigraph.engine.read.json_rows import entity_as_json
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import Conflict, InvalidValueError
from omnigraph.storage.arrow_schema import table_schema

Image = Mapping[str, object]
"""A row as results show it."""


class Granularity(StrEnum):
    """What two sides may change independently: whole rows, or the properties of one."""

    ROW = "row"
    PROPERTY = "property"


class ConflictKind(StrEnum):
    """Why two sides cannot be put together."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the caller decided about entities of one type: whose image they have, or which row."""

    from_source: pa.Array
    from_target: pa.Array
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What the target has to do: rows to put, ids to remove, and what a person must decide.

    Rows in conflict stay as the target has them. `is_adding` says that no put row replaces one.
    `put` and `removed` are sequences by id one behind the other, of so many rows each.
    """

    put: pa.Table
    put_sizes: tuple[int, ...]
    removed: pa.Array
    removed_sizes: tuple[int, ...]
    is_adding: bool
    conflicts: tuple[Conflict, ...]


def no_decisions(declared: NodeType | EdgeType) -> Decisions:
    """Nothing decided."""
    nobody = pa.array([], pa.string())
    return Decisions(nobody, nobody, table_schema(declared).empty_table())


def reconcile(
    declared: NodeType | EdgeType,
    *,
    source: TypeChanges,
    target: TypeChanges,
    granularity: Granularity,
    decisions: Decisions,
) -> Reconciled:
    """What takes the target to what both sides meant, where they do not contradict each other.

    `InvalidValueError` means that something was decided about an entity that neither side changed.
    """
    sides = Sides(source, target)
    decided = join_ids([decisions.from_source, decisions.from_target, decisions.rows["id"]])
    _require_changed(declared, decided, sides)
    shared = among(sides.source_ids, sides.target_ids)
    free = without(shared, decided)
    aside = join_ids([shared, decided])

    images = Images.of(free, sides)
    images = images.filter(~equal_rows(images.source, images.target))
    if granularity is Granularity.PROPERTY:
        merged, images = _merge_properties(declared, images)
    else:
        merged = images.source.slice(0, 0)
    adopted, dropped = _follow_source(Images.of(decisions.from_source, sides))
    chosen = Images.of(decisions.rows["id"].combine_chunks(), sides)
    replaced = keep_rows(source.after, aside)
    put = [keep_rows(source.inserted, aside), replaced, merged, adopted, decisions.rows]
    removed = [without(source.deleted["id"], aside), dropped]
    return Reconciled(
        put=pa.concat_tables(put),
        put_sizes=tuple(each.num_rows for each in put),
        removed=join_ids(removed),
        removed_sizes=tuple(map(len, removed)),
        is_adding=not (
            replaced.num_rows
            or merged.num_rows
            # Few, and decided by hand: not worth telling apart.
            or adopted.num_rows
            or chosen.target["id"].null_count < chosen.target.num_rows
        ),
        conflicts=tuple(_tell(declared, images)),
    )


def _follow_source(images: Images) -> tuple[pa.Table, pa.Array]:
    """What makes the target have the source's image: rows to put, and ids to remove."""
    images = images.filter(~equal_rows(images.source, images.target))
    is_gone = images.source["id"].is_null().combine_chunks()
    return images.source.filter(pc.invert(is_gone)), images.ids.filter(is_gone)


def _merge_properties(declared: NodeType | EdgeType, images: Images) -> tuple[pa.Table, Images]:
    """The rows in which the sides changed different properties, put together; and the others."""
    is_update = np.logical_and.reduce(
        [each["id"].is_valid().to_numpy() for each in (images.base, images.source, images.target)]
    )
    by_source = differing_cells(declared, images.base, images.source)
    by_target = differing_cells(declared, images.base, images.target)
    clashes = ~is_update
    columns = []
    for name in images.source.column_names:
        mine, theirs = images.source[name], images.target[name]
        clashes |= by_source[name] & by_target[name] & ~equal_cells(mine, theirs)
        columns.append(choose_cells(mine, theirs, by_source[name]))
    merged = pa.table(columns, schema=images.source.schema)
    # A row to which the source adds nothing is as it should be.
    is_due = ~clashes & ~equal_rows(merged, images.target)
    return merged.filter(pa.array(is_due)), images.filter(clashes)


def _require_changed(declared: NodeType | EdgeType, decided: pa.Array, sides: Sides) -> None:
    unknown = without(without(decided, sides.source_ids), sides.target_ids)
    if len(unknown):
        id = unknown[0].as_py()
        advice = "leave it out"
        if isinstance(declared, EdgeType):
            advice += "; a cardinality is settled by decisions about edges, by their own ids"
        raise InvalidValueError(
            subject="resolve",
            expected="an entity in conflict",
            value=(declared.name, id),
            problem=f"neither side changed {declared.name} {show_text(id)}, so there is nothing "
            f"to decide; {advice}",
        )


# Conflicts


def _tell(declared: NodeType | EdgeType, images: Images) -> Iterator[Conflict]:
    """One conflict for each entity, by id."""
    columns = images.source.column_names
    is_equal = {name: equal_cells(images.source[name], images.target[name]) for name in columns}
    for row in pc.sort_indices(images.ids).to_pylist():
        base, source, target = (
            _find_image(declared, each.slice(row, 1))
            for each in (images.base, images.source, images.target)
        )
        kind = _kind_of(base, source, target)
        id = images.ids[row].as_py()
        names = [name for name in columns if not is_equal[name][row]]
        entity = f"{declared.name} {show_text(id)}"
        yield Conflict(
            type=declared.name,
            id=id,
            kind=kind,
            message=_describe(entity, kind, source, target, names),
            base=base,
            source=source,
            target=target,
        )


def _find_image(declared: NodeType | EdgeType, row: pa.Table) -> Image | None:
    return entity_as_json(declared, row) if row["id"][0].is_valid else None


def _kind_of(base: Image | None, source: Image | None, target: Image | None) -> ConflictKind:
    if base is None:
        return ConflictKind.DIVERGENT_INSERT
    if source is None or target is None:
        return ConflictKind.DELETE_VS_UPDATE
    return ConflictKind.DIVERGENT_UPDATE


def _describe(
    entity: str,
    kind: ConflictKind,
    source: Image | None,
    target: Image | None,
    names: Sequence[str],
) -> str:
    if source is None:
        return f"{entity}: the source removed it, the target changed it"
    if target is None:
        return f"{entity}: the source changed it, the target removed it"
    verb = "added" if kind is ConflictKind.DIVERGENT_INSERT else "changed"
    return f"{entity}: both sides {verb} it, with different {', '.join(names)}"
