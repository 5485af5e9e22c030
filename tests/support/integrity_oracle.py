"""The rules about rows, one by one over dictionaries: slow, and short enough to be believed.

Guarantees the same violations in the same order as the evaluator, without their messages. Shares
nothing with it but the catalog.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple

from omnigraph.model.catalog import Catalog, Check, EdgeType, NodeType, Range, Unique
from omnigraph.model.types import format_datetime
from tests.support.committed_rows import Row, Write, find_type


class Fault(NamedTuple):
    """A violation without its message."""

    type: str
    id: str
    rule: str
    property: str | None
    value: object


def find_faults(
    catalog: Catalog,
    *,
    committed: Mapping[str, Sequence[Row]],
    writes: Mapping[str, Write],
) -> list[Fault]:
    """Everything that a write would break, given the committed rows by type."""
    oracle = _Oracle(catalog, committed, writes)
    # Edges sort before nodes, as their table keys do.
    names = [*sorted(catalog.edges), *sorted(catalog.nodes)]
    return [fault for name in names for fault in oracle.faults_of(name)]


@dataclass(frozen=True, slots=True)
class _Oracle:
    catalog: Catalog
    committed: Mapping[str, Sequence[Row]]
    writes: Mapping[str, Write]

    def faults_of(self, name: str) -> Iterator[Fault]:
        declared = find_type(self.catalog, name)
        write = self.writes.get(name, Write())
        yield from _null_faults(declared, write)
        yield from _enum_faults(declared, write)
        yield from _range_faults(declared, write)
        yield from _pattern_faults(declared, write)
        yield from self._unique_faults(declared)
        yield from _repeated_id_faults(declared, write)
        if isinstance(declared, EdgeType):
            yield from self._endpoint_faults(declared)
            yield from self._cardinality_faults(declared)

    def put(self, name: str) -> dict[str, Row]:
        """The rows of a write by id; of a repeated id the first."""
        rows = self.writes.get(name, Write()).put
        return {str(row["id"]): row for row in reversed(rows)}

    def remaining(self, name: str) -> dict[str, Row]:
        """The committed rows that the write neither replaces nor removes."""
        write = self.writes.get(name, Write())
        if write.is_overwrite:
            return {}
        superseded = {*write.removed, *self.put(name)}
        rows = {str(row["id"]): row for row in self.committed.get(name, ())}
        return {id: row for id, row in rows.items() if id not in superseded}

    def vanished(self, name: str) -> set[str]:
        """The ids that are committed and will not be there."""
        before = {str(row["id"]) for row in self.committed.get(name, ())}
        return before - set(self.remaining(name)) - set(self.put(name))

    def _unique_faults(self, declared: NodeType | EdgeType) -> Iterator[Fault]:
        rows = self.writes.get(declared.name, Write()).put
        for group in (each for each in declared.constraints if isinstance(each, Unique)):
            taken = [_tuple(row, group) for row in self.remaining(declared.name).values()]
            met: set[str] = set()
            for row in rows:
                values = _tuple(row, group)
                is_repeated = str(row["id"]) in met
                met.add(str(row["id"]))
                if is_repeated or None in values:
                    continue
                if any(_are_same(values, other) for other in taken):
                    shown = [_plain(value) for value in values]
                    name = group.columns[0] if len(shown) == 1 else None
                    value = shown[0] if len(shown) == 1 else shown
                    yield Fault(declared.name, str(row["id"]), "unique", name, value)
                taken.append(values)

    def _endpoint_faults(self, edge: EdgeType) -> Iterator[Fault]:
        ends = (("src", edge.source), ("dst", edge.target))
        for column, node in ends:
            there = {*self.remaining(node), *self.put(node)}
            for row in self.writes.get(edge.name, Write()).put:
                if row[column] not in there:
                    yield Fault(edge.name, str(row["id"]), "endpoint", column, row[column])
        for column, node in ends:
            for id, row in sorted(self.remaining(edge.name).items()):
                if row[column] in self.vanished(node):
                    yield Fault(edge.name, id, "endpoint", column, row[column])

    def _cardinality_faults(self, edge: EdgeType) -> Iterator[Fault]:
        before = {str(row["id"]): row for row in self.committed.get(edge.name, ())}
        put, remaining = self.put(edge.name), self.remaining(edge.name)
        gaining = {str(row["src"]) for row in put.values()}
        losing = {str(row["src"]) for id, row in before.items() if id not in remaining}
        sources = [str(row["src"]) for row in (*put.values(), *remaining.values())]
        write = self.writes.get(edge.source, Write())
        for source in sorted(gaining | losing):
            is_removed = source not in self.put(edge.source) and (
                write.is_overwrite or source in write.removed
            )
            count, bounds = sources.count(source), edge.cardinality
            too_many = source in gaining and bounds.maximum is not None and count > bounds.maximum
            if not is_removed and (too_many or count < bounds.minimum):
                yield Fault(edge.name, source, "cardinality", None, count)


def _null_faults(declared: NodeType | EdgeType, write: Write) -> Iterator[Fault]:
    for name, each in sorted(declared.properties.items()):
        for row in write.put:
            value = row.get(name)
            is_missing = value is None and not each.type.is_nullable
            if is_missing or (isinstance(value, list) and None in value):
                yield Fault(declared.name, str(row["id"]), "required", name, None)


def _enum_faults(declared: NodeType | EdgeType, write: Write) -> Iterator[Fault]:
    for name, each in sorted(declared.properties.items()):
        for row in write.put:
            value = row.get(name)
            elements = value if isinstance(value, list) else [value]
            allowed = each.type.enum_values
            wrong = [e for e in elements if e is not None and allowed and e not in allowed]
            if wrong:
                yield Fault(declared.name, str(row["id"]), "enum", name, wrong[0])


def _range_faults(declared: NodeType | EdgeType, write: Write) -> Iterator[Fault]:
    for each in (each for each in declared.constraints if isinstance(each, Range)):
        for row in write.put:
            value = row.get(each.property)
            if not isinstance(value, int | float):
                continue
            is_low = each.minimum is not None and value < each.minimum
            is_high = each.maximum is not None and value > each.maximum
            if is_low or is_high or math.isnan(value):
                yield Fault(declared.name, str(row["id"]), "range", each.property, _plain(value))


def _pattern_faults(declared: NodeType | EdgeType, write: Write) -> Iterator[Fault]:
    for each in (each for each in declared.constraints if isinstance(each, Check)):
        # Python's `$` also stands before a final line break; ours is the end of the text.
        pattern = re.compile(each.pattern.replace("$", r"\Z"), re.ASCII)
        for row in write.put:
            value = row.get(each.property)
            if isinstance(value, str) and not pattern.search(value):
                yield Fault(declared.name, str(row["id"]), "check", each.property, value)


def _repeated_id_faults(declared: NodeType | EdgeType, write: Write) -> Iterator[Fault]:
    key = declared.key if isinstance(declared, NodeType) else ()
    met: set[str] = set()
    for row in write.put:
        id = str(row["id"])
        if id in met and key:
            values = [_plain(row.get(column)) for column in key]
            name = key[0] if len(key) == 1 else None
            value = values[0] if len(key) == 1 else values
            yield Fault(declared.name, id, "key", name, value)
        elif id in met:
            yield Fault(declared.name, id, "id", None, id)
        met.add(id)


def _tuple(row: Row, group: Unique) -> tuple[object, ...]:
    return tuple(row.get(column) for column in group.columns)


def _are_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    # As results spell them, every NaN is the same.
    return all(a == b or _plain(a) == _plain(b) == "NaN" for a, b in zip(one, other, strict=True))


def _plain(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return format_datetime(value)
    return value.isoformat() if isinstance(value, date) else value
