"""Whether what a commit did to rows can be said in the words of another schema.

A type that carries on under another name, or lacks a property that a row had, would lose values in
silence. What was added since does no harm: the rows of a commit have nothing of it.
"""

from __future__ import annotations

from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Snapshot, table_key_of, type_name_of
from omnigraph.model.errors import InvalidValueError
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.ports import TableStore


def require_same_types(one: Snapshot, other: Snapshot, *, onto: Basis, tables: TableStore) -> None:
    """Raise if a type in which two states differ is not there any more as it was then."""
    declared_by_key = {table_key_of(each): each for each in onto.catalog.stored_types()}
    for key in sorted({*one.entries, *other.entries}):
        states = [each.entries[key] for each in (one, other) if key in each.entries]
        if len(states) == 2 and states[0].at == states[1].at:
            continue
        declared, known = declared_by_key.get(key), onto.snapshot.entries.get(key)
        if declared is None or known is None or any(each.path != known.path for each in states):
            raise _gone(type_name_of(key), "that type was dropped or renamed since")
        stored = {name for each in states for name in tables.schema(each.at).names}
        missing = sorted(stored - set(table_schema(declared).names))
        if missing:
            raise _gone(
                type_name_of(key), f"its property {missing[0]} was dropped or renamed since"
            )


def _gone(type_name: str, reason: str) -> InvalidValueError:
    return InvalidValueError(
        subject="commit",
        expected="a commit that the present schema can express",
        value=type_name,
        problem=f"the commit changed rows of {type_name}, and {reason}; nothing was changed",
    )
