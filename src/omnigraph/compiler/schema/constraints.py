"""Constraints: from `@word(…)` and its one-property sugar to checked, canonical values.

Knows the properties of the owning type; uniqueness across types is the checker's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.schema.annotations import CONSTRAINT_ADVICE
from omnigraph.compiler.schema.patterns import find_pattern_problem
from omnigraph.compiler.schema.syntax import (
    AnnotationSyntax,
    LiteralArgument,
    RangeArgument,
    Word,
)
from omnigraph.model.catalog import (
    Check,
    Constraint,
    Index,
    Key,
    Property,
    Range,
    TypeKind,
    Unique,
)
from omnigraph.model.source import Span
from omnigraph.model.types import STRING, PropertyType

_ENDPOINTS: Mapping[str, PropertyType] = {"src": STRING, "dst": STRING}
_ENDPOINT_BY_ROLE = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True)
class ConstraintScope:
    """The type whose constraints are checked: its columns and where faults go.

    `declared` also names the properties whose own type was refused, which need no second fault.
    """

    kind: TypeKind
    type_name: str
    properties: Mapping[str, Property]
    declared: frozenset[str]
    diagnostics: Diagnostics

    def find_type(self, column: Word) -> PropertyType | None:
        """The type of a column that a constraint may name, reporting one that does not exist."""
        if (found := self.properties.get(column.text)) is not None:
            return found.type
        if self.kind is TypeKind.EDGE and column.text in _ENDPOINTS:
            return _ENDPOINTS[column.text]
        if column.text not in self.declared:
            self._report_unknown(column)
        return None

    def _report_unknown(self, column: Word) -> None:
        problem = f"the constraint references unknown property `{column.text}` of {self.type_name}"
        if self.kind is not TypeKind.EDGE:
            self.diagnostics.unknown("S9", problem, column.span, column.text, self.properties)
        elif (endpoint := _ENDPOINT_BY_ROLE.get(column.text)) is not None:
            self.diagnostics.error("S9", problem, column.span, f"write `{endpoint}`")
        else:
            names = (*self.properties, *_ENDPOINTS)
            self.diagnostics.unknown("S9", problem, column.span, column.text, names)


def check_constraints(
    sugar: Iterable[tuple[str, Word]],
    body: Sequence[AnnotationSyntax],
    *,
    scope: ConstraintScope,
) -> tuple[Constraint, ...]:
    """The constraints of one type in canonical order.

    `sugar` holds the constraint words that stand behind a property, with that property's name.
    """
    found: list[tuple[Constraint | None, Span]] = [
        (_check_columns(word, (column,), scope), column.span) for word, column in sugar
    ]
    found += [(_check_body_constraint(each, scope), each.span) for each in body]
    for extra in [span for constraint, span in found if isinstance(constraint, Key)][1:]:
        problem = "multiple @key constraints; a type has one key"
        advice = "for a composite key write `@key(first, second)`"
        scope.diagnostics.error("S12", problem, extra, advice)
    by_key = {constraint_key(each): each for each, _ in found if each is not None}
    return tuple(by_key[key] for key in sorted(by_key))


def constraint_key(constraint: Constraint) -> str:
    """The text that orders constraints and tells equal ones apart."""
    match constraint:
        case Key(columns):
            return f"key:{','.join(columns)}"
        case Unique(columns):
            return f"unique:{','.join(columns)}"
        case Index(columns):
            return f"index:{','.join(columns)}"
        case Range(name, minimum, maximum):
            return f"range:{name}:{minimum}:{maximum}"
        case Check(name, pattern):
            return f"check:{name}:{pattern}"


def _check_body_constraint(each: AnnotationSyntax, scope: ConstraintScope) -> Constraint | None:
    word = each.name.text
    if scope.kind is TypeKind.EDGE and word in {"key", "range", "check"}:
        problem = f"the @{word} constraint is not supported on edges"
        advice = "write `@unique(src, dst)` for one edge per pair" if word == "key" else None
        scope.diagnostics.error("S5", problem, each.span, advice)
        return None
    if word == "range":
        return _check_range(each, scope)
    if word == "check":
        return _check_pattern(each, scope)
    columns: list[Word] = []
    for argument in each.arguments:
        if not isinstance(argument, Word):
            problem = "expected property name in constraint"
            scope.diagnostics.error("S11", problem, argument.span, f"write `@{word}(property)`")
            return None
        columns.append(argument)
    return _check_columns(word, columns, scope)


def _check_columns(
    word: str, columns: Sequence[Word], scope: ConstraintScope
) -> Key | Unique | Index | None:
    names: set[str] = set()
    for column in columns:
        if column.text in names:
            scope.diagnostics.error("S11", f"@{word} names `{column.text}` twice", column.span)
            return None
        names.add(column.text)
    # All of them, so that every unfit column is reported.
    unfit_count = sum(not _is_column_fit(word, column, scope) for column in columns)
    if unfit_count:
        return None
    canonical = tuple(sorted(names))
    if word == "key":
        return Key(canonical)
    return Unique(canonical) if word == "unique" else Index(canonical)


def _is_column_fit(word: str, column: Word, scope: ConstraintScope) -> bool:
    type = scope.find_type(column)
    if type is None:
        return False
    if word == "key" and type.is_nullable:
        problem = f"the key property `{column.text}` cannot be nullable"
        scope.diagnostics.error("S7", problem, column.span, "remove the ? behind its type")
        return False
    shape = "list" if type.is_list else "vector" if type.is_vector else "blob"
    is_fit = type.is_scalar or (word == "index" and not type.is_blob)
    if not is_fit:
        problem = f"@{word} is not supported on {shape} property `{column.text}`"
        scope.diagnostics.error("S6", problem, column.span)
    return is_fit


def _check_range(each: AnnotationSyntax, scope: ConstraintScope) -> Range | None:
    diagnostics, advice = scope.diagnostics, CONSTRAINT_ADVICE["range"]
    match each.arguments:
        case (Word() as column, RangeArgument() as bounds):
            return _check_bounds(column, bounds, scope)
        case (Word(), LiteralArgument() | Word() as other, *_):
            diagnostics.error("S11", "expected range bounds", other.span, advice)
        case _:
            diagnostics.error("S11", "@range takes a property and bounds", each.span, advice)
    return None


def _check_bounds(column: Word, bounds: RangeArgument, scope: ConstraintScope) -> Range | None:
    type = scope.find_type(column)
    if type is None:
        return None
    low, high = bounds.minimum, bounds.maximum
    if not type.is_number:
        problem = f"@range requires a numeric type; `{column.text}` is {type}"
        scope.diagnostics.error("S10", problem, column.span)
    elif low is not None and high is not None and low > high:
        problem = f"the bounds {low}..{high} exclude every value"
        scope.diagnostics.error("S11", problem, bounds.span, "write the smaller one first")
    else:
        return Range(column.text, low, high)
    return None


def _check_pattern(each: AnnotationSyntax, scope: ConstraintScope) -> Check | None:
    diagnostics = scope.diagnostics
    match each.arguments:
        case (Word() as column, LiteralArgument(value=str() as pattern) as literal):
            type = scope.find_type(column)
            if type is None:
                return None
            if not type.is_string:
                problem = f"@check requires String type; `{column.text}` is {type}"
                diagnostics.error("S10", problem, column.span)
                return None
            if fault := find_pattern_problem(pattern):
                diagnostics.error("S16", f"the pattern cannot be used: {fault}", literal.span)
                return None
            return Check(column.text, pattern)
        case _:
            problem, advice = "@check takes a property and a pattern", CONSTRAINT_ADVICE["check"]
            diagnostics.error("S11", problem, each.span, advice)
            return None
