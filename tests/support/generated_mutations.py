"""Valid mutations, generated against a catalog: inserts, updates and deletes."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.model.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.model.types import PropertyType, Scalar
from tests.support.generated_values import Values

_STRING = PropertyType(Scalar.STRING)


def draw_mutation(draw: DrawFn, catalog: Catalog, values: Values) -> str | None:
    """The statements of a mutation, or nothing when no type of the catalog can be written."""
    nodes = [node for node in catalog.nodes.values() if node.properties]
    targets = [*nodes, *catalog.edges.values()]
    if not targets:
        return None
    count = draw(st.integers(1, 3))
    chosen = [draw(st.sampled_from(targets)) for _ in range(count)]
    if draw(st.booleans()):
        return "\n".join(_write_delete(each, values) for each in chosen)
    return "\n".join(_write_change(each, values) for each in chosen)


def _write_change(target: NodeType | EdgeType, values: Values) -> str:
    if isinstance(target, NodeType):
        free = [each for each in target.properties.values() if each.name not in target.key]
        if free and values.is_chosen():
            assigned = values.draw(st.lists(st.sampled_from(free), min_size=1, unique_by=_name_of))
            body = _write_assignments([(each.name, each.type) for each in assigned], values)
            return f"update {target.name} set {body} where {_write_where(target, values)}"
    return _write_insert(target, values)


def _write_insert(target: NodeType | EdgeType, values: Values) -> str:
    ends = [("from", _STRING), ("to", _STRING)] if isinstance(target, EdgeType) else []
    given = [
        (each.name, each.type)
        for each in target.properties.values()
        if not each.type.is_nullable or values.is_chosen()
    ]
    # Something must be assigned, even where nothing has to be.
    needed = [*ends, *given] or [(each.name, each.type) for each in target.properties.values()]
    return f"insert {target.name} {_write_assignments(needed, values)}"


def _write_assignments(assigned: list[tuple[str, PropertyType]], values: Values) -> str:
    written = [f"{name}: {_write_assigned(type, values)}" for name, type in assigned]
    return f"{{ {', '.join(written)} }}"


def _write_assigned(type: PropertyType, values: Values) -> str:
    if type.is_nullable and values.draw(st.integers(0, 4)) == 0:
        return "null"
    return values.write_value(type)


def _write_delete(target: NodeType | EdgeType, values: Values) -> str:
    return f"delete {target.name} where {_write_where(target, values)}"


def _write_where(target: NodeType | EdgeType, values: Values) -> str:
    columns = [
        (each.name, each.type)
        for each in target.properties.values()
        if each.type.is_scalar and each.type.enum_values is None
    ]
    if isinstance(target, EdgeType):
        columns += [("from", _STRING), ("to", _STRING)]
    testable = [each.name for each in target.properties.values() if not each.type.is_blob]

    def write() -> str:
        if not columns or (testable and values.is_chosen()):
            return f"{values.choose(testable or ['from'])} is {values.choose(['', 'not '])}null"
        name, type = values.draw(st.sampled_from(columns))
        return values.write_comparison(name, type, text_operators=())

    return values.join(write)


def _name_of(prop: Property) -> str:
    return prop.name
