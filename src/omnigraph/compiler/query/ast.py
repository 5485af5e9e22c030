"""The syntax tree of a `.gq` text: what is written and where, without its meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.compiler.ir import parts_within
from omnigraph.compiler.parser import Literal, Name
from omnigraph.model.source import Span


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, stored without the dollar sign."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class PropertyAccess:
    """`$variable.property`."""

    variable: Variable
    property: Name
    span: Span


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, b]`."""

    elements: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`; only `count` may have a star or `distinct`."""

    function: Name
    arguments: tuple[Expression, ...]
    has_star: bool
    is_distinct: bool
    span: Span


Expression = Name | Variable | PropertyAccess | Literal | ListLiteral | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`; in a mutation the left side is the name of a property."""

    left: Expression
    operator: Name
    right: Expression

    @property
    def span(self) -> Span:
        return Span(self.left.span.start, self.right.span.end)


@dataclass(frozen=True, slots=True)
class NullTest:
    """`operand is null` or `operand is not null`."""

    operand: Expression
    is_negated: bool


@dataclass(frozen=True, slots=True)
class BooleanCondition:
    """Conditions joined by `or`, a disjunction, or by `and`."""

    conditions: tuple[Condition, ...]
    is_disjunction: bool


Condition = Comparison | NullTest | BooleanCondition | Call


@dataclass(frozen=True, slots=True)
class Assignment:
    """`property: value`, a condition in a binding and a new value in a mutation."""

    property: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Binding:
    """`$variable: Type { property: value }`."""

    variable: Variable
    type: Name
    matches: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Hops:
    """`{min,max}`; a missing maximum is rejected later, with a better message."""

    minimum: int
    maximum: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$source $edge_binding:edge{1,3} $target`."""

    source: Variable
    edge_binding: Variable | None
    edge: Name
    is_undirected: bool
    hops: Hops | None
    target: Variable


@dataclass(frozen=True, slots=True)
class Block:
    """`not { … }` or `optional { … }`."""

    clauses: tuple[Clause, ...]
    is_optional: bool
    span: Span


Clause = Binding | Traversal | Block | Condition


@dataclass(frozen=True, slots=True)
class Projection:
    """`expression as alias`."""

    expression: Expression
    alias: Name | None


@dataclass(frozen=True, slots=True)
class Ordering:
    """`expression desc`."""

    expression: Expression
    direction: Name | None


@dataclass(frozen=True, slots=True)
class Read:
    """`match { … } return { … } order { … } limit n offset n`."""

    clauses: tuple[Clause, ...]
    is_distinct: bool
    projections: tuple[Projection, ...]
    orderings: tuple[Ordering, ...]
    limit: Literal | Variable | None
    offset: Literal | Variable | None


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert Type { … }`."""

    type: Name
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """`update Type set { … } where …`."""

    type: Name
    assignments: tuple[Assignment, ...]
    condition: Condition


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete Type where …`."""

    type: Name
    condition: Condition


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Mutation:
    """One or more statements that become one commit."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ParameterSyntax:
    """`$name: Type?`, `$name: [Type]` or `$name: Vector(n)`."""

    variable: Variable
    type: Name
    dimension: int | None
    is_list: bool
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class QueryAnnotation:
    """`@description("…")` or `@instruction("…")`."""

    name: Name
    value: str


@dataclass(frozen=True, slots=True)
class QuerySyntax:
    """One named query."""

    name: Name
    parameters: tuple[ParameterSyntax, ...]
    annotations: tuple[QueryAnnotation, ...]
    body: Read | Mutation


def variables_in(clauses: Iterable[Clause]) -> Iterator[str]:
    """The variables that clauses mention, including those of inner blocks, with repetitions."""
    for clause in clauses:
        if isinstance(clause, Block):
            yield from variables_in(clause.clauses)
        else:
            yield from direct_variables(clause)


def direct_variables(clause: Clause) -> Iterator[str]:
    """The variables that a clause itself mentions, without those of inner blocks."""
    match clause:
        case Binding(variable=variable):
            yield variable.name
        case Block():
            return
        case _:
            yield from (each.name for each in parts_within(clause) if isinstance(each, Variable))
