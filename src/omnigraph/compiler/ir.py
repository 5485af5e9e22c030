"""The intermediate representation of a query: typed, resolved, and the same for every executor.

A read is a pipeline of operators over rows of variables, then columns, ranking, order and limits. A
mutation is a list of operations. All nodes are frozen values. Text output is in `ir_text` and
execution in the engine. A condition that involves null does not match, whatever the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from enum import StrEnum

from omnigraph.model.catalog import TypeKind
from omnigraph.model.types import PropertyType, TextLanguage

Value = None | bool | int | float | str | date | datetime | tuple["Value", ...]

ANONYMOUS = "_"
"""The variable that binds nothing; two anonymous variables are never equal."""


class Direction(StrEnum):
    """How an expansion follows an edge type: from its source, from its target, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    @property
    def reversed(self) -> Direction:
        return {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT}.get(self, self)


class Comparator(StrEnum):
    """The comparison operators."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    LIST_CONTAINS = "contains"
    STRING_CONTAINS = "string_contains"
    STARTS_WITH = "starts_with"
    IN = "in"


class AggregateFunction(StrEnum):
    """The aggregate functions."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class TextFunction(StrEnum):
    """How text is searched: by tokens (two spellings), or by tokens within an edit distance."""

    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"


# Operands


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """A property of the entity that a variable is bound to.

    In the condition of a mutation the variable is empty, and the entity is the current row. There
    the endpoints of an edge are the properties `from` and `to`.
    """

    variable: str
    property: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class EntityId:
    """The id of the entity that a variable is bound to."""

    variable: str
    kind: TypeKind
    type_name: str
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The value of a parameter from the caller."""

    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; the type of `null` is unknown."""

    value: Value
    type: PropertyType | None


@dataclass(frozen=True, slots=True)
class Now:
    """The time at which the query runs, the same wherever it is used."""


Given = ParameterValue | Constant | Now
"""A value that does not depend on a row."""

Operand = PropertyValue | EntityId | Given

ScalarOperand = PropertyValue | Given
"""An operand that can be compared; entities cannot."""


# Conditions


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two operands; numbers compare exactly, whatever their widths."""

    left: ScalarOperand
    comparator: Comparator
    right: ScalarOperand


@dataclass(frozen=True, slots=True)
class NullTest:
    """Whether an operand is null or not null."""

    operand: Operand
    is_negated: bool


@dataclass(frozen=True, slots=True)
class SameEntity:
    """Two variables are bound to one entity, which is how a traversal closes a cycle."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Whether a text property matches a search text or does not."""

    function: TextFunction
    field: PropertyValue
    query: Given
    edits: Given | None
    is_negated: bool
    language: TextLanguage


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every condition holds."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one condition holds."""

    conditions: tuple[Condition, ...]


Condition = Comparison | NullTest | SameEntity | TextMatch | AllOf | AnyOf


# Rankings


@dataclass(frozen=True, slots=True)
class Nearest:
    """Ascending L2 distance to a vector, or to the embedding of a text.

    `effort` is the number of partitions that are read of an index; None leaves it to the engine.
    """

    field: PropertyValue
    query: Given
    effort: Given | Exact | None


class Exact(StrEnum):
    """No index is used: all vectors are compared."""

    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Bm25:
    """Descending relevance; only entities that contain a searched word are ranked."""

    field: PropertyValue
    query: Given
    language: TextLanguage


@dataclass(frozen=True, slots=True)
class Rrf:
    """Reciprocal rank fusion of two rankings of one variable."""

    primary: Nearest | Bm25
    secondary: Nearest | Bm25
    k: Given


Ranking = Nearest | Bm25 | Rrf


# The pipeline of a read


@dataclass(frozen=True, slots=True)
class NodeScan:
    """Bind a variable to every node of a type that passes the filters.

    The result is the cross product with the rows so far.
    """

    variable: str
    type_name: str
    filters: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """Bind the target to the nodes reached from the source over edges of one type.

    Each reached node appears once per row, at its shortest distance; with an edge binding (even an
    anonymous one), once per edge. An anonymous target multiplies rows and binds nothing.
    """

    source: str
    target: str
    edge_type: str
    direction: Direction
    target_type: str
    hops_min: int
    hops_max: int
    filters: tuple[Condition, ...]
    edge_binding: str | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows for which a condition holds."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Keep the rows for which the inner pipeline, started from that row, yields nothing."""

    outer: tuple[str, ...]
    inner: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class OptionalJoin:
    """The rows that the inner pipeline yields for each row.

    Where it yields none, the row itself, with the new variables unbound.
    """

    outer: tuple[str, ...]
    inner: tuple[Operator, ...]


Operator = NodeScan | Expand | Filter | AntiJoin | OptionalJoin


# The result of a read


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function over the rows of a group; without an argument it counts rows."""

    function: AggregateFunction
    argument: PropertyValue | EntityId | None
    is_distinct: bool


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the result; without an alias its name is derived from its expression."""

    name: str
    expression: Operand | Aggregate | Ranking
    type: PropertyType
    is_aliased: bool


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column of the result by its position, as a sort key."""

    position: int


@dataclass(frozen=True, slots=True)
class SortKey:
    """A sort key of rows; null sorts as the smallest value."""

    expression: PropertyValue | ColumnReference
    is_descending: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter."""

    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class ReadIR:
    """A read, ready to be planned."""

    name: str
    parameters: tuple[Parameter, ...]
    pipeline: tuple[Operator, ...]
    columns: tuple[Column, ...]
    is_distinct: bool
    ranking: Ranking | None
    order: tuple[SortKey, ...]
    offset: ParameterValue | Constant | None
    limit: ParameterValue | Constant | None

    @property
    def is_aggregate(self) -> bool:
        """Whether rows are grouped: the columns that are not aggregates are the keys."""
        return any(isinstance(column.expression, Aggregate) for column in self.columns)


# Mutations


@dataclass(frozen=True, slots=True)
class Assignment:
    """A property, or `from` or `to` of an edge, and its new value."""

    property: str
    value: Given


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert a node or edge; a node with an existing key replaces that node."""

    kind: TypeKind
    type_name: str
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """Assign values to every node of a type that matches the condition."""

    type_name: str
    assignments: tuple[Assignment, ...]
    condition: Condition


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the nodes, with their edges, or the edges that match the condition."""

    kind: TypeKind
    type_name: str
    condition: Condition


MutationOperation = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class MutationIR:
    """A mutation, ready to be staged."""

    name: str
    parameters: tuple[Parameter, ...]
    operations: tuple[MutationOperation, ...]


QueryIR = ReadIR | MutationIR


def parts_of(node: object) -> Iterator[object]:
    """The values that a node of a tree, or a tuple of nodes, directly consists of."""
    if isinstance(node, tuple):
        yield from node
    elif is_dataclass(node):
        yield from (getattr(node, each.name) for each in fields(node))


def parts_within(node: object) -> Iterator[object]:
    """The values that a node or a tuple of nodes consists of, at any depth."""
    for part in parts_of(node):
        yield part
        yield from parts_within(part)
