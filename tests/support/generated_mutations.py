"""Valid mutations, generated against a catalog: inserts, updates and deletes."""

from collections.abc import Iterable

from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.types import PropertyType
from tests.support.choices import Choices
from tests.support.generated_values import STRING, Values

_ENDS = (("from", STRING), ("to", STRING))


def write_mutation(choices: Choices, catalog: Catalog, values: Values) -> str | None:
    """The statements of a mutation, or nothing when no type of the catalog can be written."""
    # A row can only be found by something else than a blob.
    nodes = (
        node
        for node in catalog.nodes.values()
        if any(not each.type.is_blob for each in node.properties.values())
    )
    targets: list[NodeType | EdgeType] = [*nodes, *catalog.edges.values()]
    if not targets:
        return None
    write = _write_delete if choices.often() else _write_change
    chosen = [choices.one(targets) for _ in range(1 + choices.count(2))]
    return "\n".join(write(choices, each, values) for each in chosen)


def _write_delete(choices: Choices, target: NodeType | EdgeType, values: Values) -> str:
    return f"delete {target.name} where {_write_where(choices, target, values)}"


def _write_change(choices: Choices, target: NodeType | EdgeType, values: Values) -> str:
    if isinstance(target, EdgeType):
        return _write_insert(choices, target, values)
    free = [each for each in target.properties.values() if each.name not in target.key]
    if not free or choices.often():
        return _write_insert(choices, target, values)
    changed = [(each.name, each.type) for each in choices.some(free, least=1, most=3)]
    body = _write_assignments(choices, changed, values)
    return f"update {target.name} set {body} where {_write_where(choices, target, values)}"


def _write_insert(choices: Choices, target: NodeType | EdgeType, values: Values) -> str:
    properties = [(each.name, each.type) for each in target.properties.values()]
    given = [pair for pair in properties if not pair[1].is_nullable or choices.often()]
    if isinstance(target, EdgeType):
        given = [*_ENDS, *given]
    # Something must be assigned, even where nothing has to be.
    return f"insert {target.name} {_write_assignments(choices, given or properties, values)}"


def _write_assignments(
    choices: Choices, assigned: Iterable[tuple[str, PropertyType]], values: Values
) -> str:
    written = [
        f"{name}: {'null' if type.is_nullable and choices.seldom() else values.write(type)}"
        for name, type in assigned
    ]
    return f"{{ {choices.one([', ', ' ']).join(written)}{choices.one(['', ','])} }}"


def _write_where(choices: Choices, target: NodeType | EdgeType, values: Values) -> str:
    columns = [(each.name, each.type) for each in target.properties.values()]
    columns += _ENDS if isinstance(target, EdgeType) else ()
    scalars = [(name, type) for name, type in columns if type.is_scalar]
    testable = [name for name, type in columns if not type.is_blob]

    def write() -> str:
        if not scalars or choices.seldom():
            return f"{choices.one(testable)} is {choices.one(['', 'not '])}null"
        name, type = choices.one(scalars)
        return values.write_comparison(name, type, text_operators=())

    return values.join(write)
