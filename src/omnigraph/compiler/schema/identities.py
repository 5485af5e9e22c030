"""The numbers that stand for types and properties in the canonical form of a schema.

They are hashes of names, so two texts agree on them without asking anybody. The price is that two
names may collide; a schema in which two do is refused.
"""

from collections.abc import Iterable, Iterator

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.schema.syntax import Word
from omnigraph.model.catalog import EdgeType, Interface, NodeType, TypeKind
from omnigraph.model.names import fnv1a_32


def type_identity(kind: TypeKind, name: str) -> int:
    """The number of a type, the same in every schema that declares it."""
    return _hash_name(f"{kind}:{name}")


def property_identity(kind: TypeKind, type_name: str, name: str) -> int:
    """The number of a property, the same in every schema that declares it."""
    return _hash_name(f"{kind}:{type_name}:{name}")


def report_collisions(
    declared: Iterable[tuple[Word, Interface | NodeType | EdgeType]], diagnostics: Diagnostics
) -> None:
    """Report types of one schema, and properties of one type, whose numbers are equal."""
    name_by_identity: dict[int, str] = {}
    for word, type in declared:
        noun = f"{type.kind} `{type.name}`"
        taken = name_by_identity.setdefault(type_identity(type.kind, type.name), noun)
        if taken != noun:
            problem = f"{taken} and {noun} have the same identity number"
            diagnostics.error("C7", problem, word.span, "rename one of them")
        for one, other in _colliding_properties(type):
            problem = f"`{one}` and `{other}` of `{type.name}` have the same identity number"
            diagnostics.error("C7", problem, word.span, "rename one of the two properties")


def _colliding_properties(type: Interface | NodeType | EdgeType) -> Iterator[tuple[str, str]]:
    name_by_identity: dict[int, str] = {}
    for name in type.properties:
        taken = name_by_identity.setdefault(property_identity(type.kind, type.name, name), name)
        if taken != name:
            yield taken, name


def _hash_name(text: str) -> int:
    # Zero means "no number" in the stored form.
    return fnv1a_32(text) or 1
