"""The same type in two states of a graph, whatever it was called and however it was declared.

A type is where its rows are: a renamed one is the same, and so is one that was dropped and declared
again. What only the older state has is declared as it was then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType


@dataclass(frozen=True, slots=True)
class TypePair:
    """A type as it is declared, and its rows in an older and in a newer state, if there are any."""

    declared: NodeType | EdgeType
    old: Entry | None
    new: Entry | None

    @property
    def is_unchanged(self) -> bool:
        """Whether both states name the same rows."""
        return self.old is not None and self.new is not None and self.old.at == self.new.at

    @property
    def row_count(self) -> int:
        """How many rows both states have together."""
        return sum(each.row_count for each in (self.old, self.new) if each is not None)


def pair_types(old: Basis | None, new: Basis) -> Iterator[TypePair]:
    """Every type that either state has; None is the state before the first commit."""
    before = {} if old is None else dict(old.snapshot.entries)
    after = new.snapshot.entries
    key_by_place = {entry.path: key for key, entry in before.items()}
    kept = {entry.path for entry in after.values()}
    for declared in new.catalog.stored_types():
        key = table_key_of(declared)
        entry, was = after.get(key), before.get(key)
        if entry is not None and entry.path in key_by_place:
            was = before.get(key_by_place[entry.path])
        elif was is not None and was.path in kept:
            # Its rows are another type's by now.
            was = None
        if was is not None:
            del before[was.table_key]
        yield TypePair(declared, was, entry)
    if old is not None:
        for declared in old.catalog.stored_types():
            gone = before.get(table_key_of(declared))
            if gone is not None:
                yield TypePair(declared, gone, None)
