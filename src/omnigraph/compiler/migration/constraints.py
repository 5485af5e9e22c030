"""What becomes of the constraints of a type.

Existing rows were never checked against a new one, so only an index, which no row can break, may
be added. None may be taken away.
"""

from collections.abc import Iterator

from omnigraph.compiler.migration.change import TypeChange, constraints_of
from omnigraph.compiler.migration.steps import AddConstraint, Step
from omnigraph.compiler.schema.constraints import constraint_key
from omnigraph.model.catalog import Index, NodeType, describe_constraint


def plan_constraints(change: TypeChange) -> Iterator[Step]:
    """The steps for the constraints of a type that continues."""
    yield from _plan_key_order(change)
    old = map(change.translate_constraint, constraints_of(change.old))
    before = {constraint_key(each): each for each in old}
    after = {constraint_key(each): each for each in constraints_of(change.new)}
    removed = ", ".join(describe_constraint(before[key]) for key in sorted(before.keys() - after))
    if removed:
        yield change.unsupported(f"removing constraints ({removed})", prop=None, code=None)
    for key in sorted(after.keys() - before):
        constraint = after[key]
        if isinstance(constraint, Index):
            yield AddConstraint(change.kind, change.name, constraint)
        else:
            advice = "existing rows were never checked against it"
            reason = f"adding {describe_constraint(constraint)}; {advice}"
            yield change.unsupported(reason, prop=None, code=None)


def _plan_key_order(change: TypeChange) -> Iterator[Step]:
    """A composite id lists its parts by name, so a rename that reorders them would change ids."""
    if not isinstance(change.old, NodeType) or not isinstance(change.new, NodeType):
        return
    parts = [change.new_name_by_old.get(column, column) for column in change.old.key]
    if parts != sorted(parts) and tuple(sorted(parts)) == change.new.key:
        order = f"({', '.join(parts)}) to ({', '.join(change.new.key)})"
        reason = f"renaming a part of the key reorders it from {order}, which would change ids"
        yield change.unsupported(reason, prop=None, code=None)
