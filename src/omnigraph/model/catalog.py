"""The catalog: a compiled schema, as every later stage reads it.

Everything is in canonical order (names sorted, columns of a constraint sorted), so that two texts
of the same schema compile to equal catalogs. `renamed_from` is a hint for the migration planner and
not part of the meaning of a schema. The module has no knowledge of text or storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import ClassVar, Literal

from omnigraph.model.names import fold_edge_name
from omnigraph.model.types import PropertyType, TextLanguage


class TypeKind(StrEnum):
    """The kind of a declaration."""

    INTERFACE = "interface"
    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation (`@name`) as written: its value and keyword arguments are texts."""

    name: str
    value: str | None
    arguments: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Key:
    """The columns that identify a node."""

    columns: tuple[str, ...]

    word: ClassVar = "key"


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns whose combined values are unique; a row with a null among them is exempt."""

    columns: tuple[str, ...]

    word: ClassVar = "unique"


@dataclass(frozen=True, slots=True)
class Index:
    """Columns with an index, which never changes a result."""

    columns: tuple[str, ...]

    word: ClassVar = "index"


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of a numeric property; `None` leaves a side open."""

    property: str
    minimum: int | float | None
    maximum: int | float | None


@dataclass(frozen=True, slots=True)
class Check:
    """A regular expression that must match somewhere in a text."""

    property: str
    pattern: str


Constraint = Key | Unique | Index | Range | Check

COLUMN_CONSTRAINTS: dict[str, type[Key | Unique | Index]] = {
    each.word: each for each in (Key, Unique, Index)
}
"""The constraints of columns alone, by their word; they may be written behind a property."""


SEARCHED_CONSTRAINTS = frozenset({Key.word, Index.word})
"""The constraint words that take a `language` behind a text property."""


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of a type may leave one source node."""

    minimum: int
    maximum: int | None

    def __str__(self) -> str:
        return f"{self.minimum}..{'' if self.maximum is None else self.maximum}"


ANY_CARDINALITY = Cardinality(0, None)


@dataclass(frozen=True, slots=True)
class Embedding:
    """The source property of an `@embed` vector, and the model that computes it."""

    source: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Property:
    """A declared property of a type."""

    name: str
    type: PropertyType
    annotations: tuple[Annotation, ...]
    renamed_from: str | None

    @property
    def embedding(self) -> Embedding | None:
        """The `@embed` annotation of a vector property, if it has one."""
        for annotation in self.annotations:
            if annotation.name == "embed" and annotation.value is not None:
                return Embedding(annotation.value, dict(annotation.arguments).get("model"))
        return None

    @property
    def language(self) -> TextLanguage:
        """The language in which a text property is searched."""
        for annotation in self.annotations:
            if annotation.name in SEARCHED_CONSTRAINTS and annotation.arguments:
                return TextLanguage(dict(annotation.arguments)["language"])
        return TextLanguage.ENGLISH


@dataclass(frozen=True, slots=True)
class Interface:
    """A set of properties that node types share; it has no rows."""

    name: str
    properties: Mapping[str, Property]

    kind: Literal[TypeKind.INTERFACE] = TypeKind.INTERFACE


@dataclass(frozen=True, slots=True)
class NodeType:
    """A declared node type."""

    name: str
    properties: Mapping[str, Property]
    constraints: tuple[Constraint, ...]
    annotations: tuple[Annotation, ...]
    implements: tuple[str, ...]
    renamed_from: str | None

    kind: Literal[TypeKind.NODE] = TypeKind.NODE

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns in the order in which they form an id; empty if ids are generated."""
        for constraint in self.constraints:
            if isinstance(constraint, Key):
                return constraint.columns
        return ()

    @property
    def ends(self) -> Mapping[str, str]:
        """A node has no ends."""
        return {}


@dataclass(frozen=True, slots=True)
class EdgeType:
    """A declared edge type."""

    name: str
    source: str
    target: str
    cardinality: Cardinality
    properties: Mapping[str, Property]
    constraints: tuple[Constraint, ...]
    annotations: tuple[Annotation, ...]
    renamed_from: str | None

    kind: Literal[TypeKind.EDGE] = TypeKind.EDGE

    @property
    def ends(self) -> Mapping[str, str]:
        """The node types at both ends, by the columns that hold their ids."""
        return {"src": self.source, "dst": self.target}


DeclaredType = Interface | NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class Catalog:
    """A compiled schema: its types by name, and edges also by their folded name."""

    interfaces: Mapping[str, Interface]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    edge_by_folded_name: Mapping[str, EdgeType]

    def find_edge(self, spelling: str) -> EdgeType | None:
        """The edge type with a name in a query: an exact match, else a case-insensitive one."""
        return self.edges.get(spelling) or self.edge_by_folded_name.get(fold_edge_name(spelling))

    def implementers(self, interface: str) -> list[str]:
        """The node types that implement an interface, by name."""
        return [node.name for node in self.nodes.values() if interface in node.implements]

    def stored_types(self) -> list[NodeType | EdgeType]:
        """The types that have rows: nodes, then edges."""
        return [*self.nodes.values(), *self.edges.values()]

    def incident_edges(self, node_type: str) -> Iterator[EdgeType]:
        """The edge types that start or end at a node type, by name."""
        return (e for e in self.edges.values() if node_type in (e.source, e.target))


def columns_of(constraint: Constraint) -> tuple[str, ...]:
    """The columns that a constraint names."""
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return columns
        case Range(name) | Check(name):
            return (name,)


def describe_constraint(constraint: Constraint) -> str:
    """A constraint in the syntax of the schema language."""
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return f"@{constraint.word}({', '.join(columns)})"
        case Range(name, minimum, maximum):
            return f"@range({name}, {_write_bound(minimum)}..{_write_bound(maximum)})"
        case Check(name, pattern):
            return f"@check({name}, {quote_text(pattern)})"


def quote_text(text: str) -> str:
    """A text as a string literal of the query and schema languages."""
    return f'"{text.translate(_ESCAPE_BY_CHARACTER)}"'


def _write_bound(bound: int | float | None) -> str:
    if bound is None:
        return ""
    # Schemas have no exponents, and a float without a fraction would be parsed as an integer.
    digits = format(Decimal(repr(bound)), "f")
    return digits if isinstance(bound, int) or "." in digits else f"{digits}.0"


_ESCAPE_BY_CHARACTER = str.maketrans(
    {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
)
