"""The checker of schema constraints: keys, uniqueness, indexes, ranges, and patterns.

Constraints come out in canonical order, whichever of their two spellings the schema uses. A
pattern may use only the regular expression syntax that every supported engine interprets alike, so
that no write meets a pattern that it cannot run. The module knows one type at a time.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.parser import Literal, Name
from omnigraph.compiler.schema.annotations import CONSTRAINT_ADVICE
from omnigraph.compiler.schema.parser import AnnotationSyntax, KeywordArgument, RangeArgument
from omnigraph.model.catalog import (
    COLUMN_CONSTRAINTS,
    SEARCHED_CONSTRAINTS,
    Check,
    Constraint,
    Index,
    Key,
    Property,
    Range,
    TypeKind,
    Unique,
)
from omnigraph.model.limits import PATTERN_CHARACTERS_MAX, PATTERN_REPETITION_MAX
from omnigraph.model.names import END_BY_ROLE
from omnigraph.model.source import Span
from omnigraph.model.types import STRING, PropertyType

_SET_ESCAPES = frozenset("dDwWsSntrfvx")
_ESCAPES = _SET_ESCAPES | frozenset("bBA")
_PART = re.compile(
    r"""
      \\(?P<escape>.)
    | \((?P<group>\?(?:P<[A-Za-z_]\w*>|[a-zA-Z-]*[:)]|.?.?))
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*+\]) | (?P<open_set>\[)
    | (?P<possessive>(?:[*+?]|\{\d+(?:,\d*)?\})\+)
    | \{(?P<repeat>\d*,?\d*)\}
    | (?P<brace>\{)
    | .
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_GROUPS = re.compile(r"\?(?:P<[A-Za-z_]\w*>|[ims]*[:)])", re.ASCII)


def find_unsupported_pattern(pattern: str) -> str | None:
    """Why a pattern is not supported, or `None` if it is."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        return f"it has more than {PATTERN_CHARACTERS_MAX} characters"
    for part in _PART.finditer(pattern):
        if problem := _problem_of(part):
            return problem
    if _repeats_too_often(pattern):
        return f"repetitions inside each other multiply to at most {PATTERN_REPETITION_MAX}"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is not a regular expression: {error}"
    return None


def _problem_of(part: re.Match[str]) -> str | None:
    match part.lastgroup:
        case "escape":
            return _escape_problem(part["escape"], known=_ESCAPES)
        case "group":
            if not _GROUPS.fullmatch(part["group"]):
                return f"`({part['group']}` is not supported: patterns have no look-around"
        case "set":
            return _set_problem(part["set"])
        case "open_set":
            return "a set that starts with `[` does not end with `]`"
        case "possessive":
            return f"`{part[0]}` is not supported"
        case "repeat":
            return _repeat_problem(part["repeat"])
        case "brace":
            return "a `{` that starts no repetition is written `\\{`"
        case _:
            pass  # a character, an anchor or a plain group has the same meaning in every engine
    return None


def _escape_problem(escape: str, *, known: frozenset[str]) -> str | None:
    if escape.isdigit():
        return f"back-references (`\\{escape}`) are not supported"
    # In some engines \< and \> match word boundaries, in others the characters themselves.
    if (escape.isalnum() and escape not in known) or escape in "<>":
        return f"`\\{escape}` is not supported"
    return None


def _set_problem(characters: str) -> str | None:
    body = characters[1:-1]
    for escape in re.finditer(r"\\(.)", body, re.DOTALL):
        if problem := _escape_problem(escape[1], known=_SET_ESCAPES):
            return problem
    plain = re.sub(r"\\.", "", body, flags=re.DOTALL)
    if "[" in plain or re.search(r"&&|--|~~|\|\|", plain):
        return "write `[`, `&&`, `--`, `~~` and `||` with a backslash inside a set"
    return None


def _repeat_problem(repeat: str) -> str | None:
    if not repeat or repeat.startswith(","):
        return f"`{{{repeat}}}` is read differently by different engines; write `{{0,n}}`"
    if any(len(n) > 4 or int(n) > PATTERN_REPETITION_MAX for n in repeat.split(",") if n):
        return f"a repetition is at most {PATTERN_REPETITION_MAX}"
    return None


def _repeats_too_often(pattern: str) -> bool:
    """Whether nested repetitions multiply to more than a linear-time engine expands."""
    most_by_depth = [1]
    last = 1
    for part in _PART.finditer(pattern):
        if part["repeat"]:
            last *= max(int(bound) for bound in part["repeat"].split(",") if bound)
            most_by_depth[-1] = max(most_by_depth[-1], last)
        elif part[0] == "(" or (part["group"] and not part["group"].endswith(")")):
            most_by_depth.append(1)
        elif part[0] == ")" and len(most_by_depth) > 1:
            last = most_by_depth.pop()
            most_by_depth[-1] = max(most_by_depth[-1], last)
        elif part[0] not in {"*", "+", "?"}:
            last = 1
    return max(most_by_depth) > PATTERN_REPETITION_MAX


_ENDPOINTS: Mapping[str, PropertyType] = {"src": STRING, "dst": STRING}


@dataclass(frozen=True, slots=True)
class ConstraintScope:
    """The type whose constraints are checked: its columns, and the collector of errors.

    `declared` also has the properties whose own type was rejected; these cause no second error.
    """

    kind: TypeKind
    type_name: str
    properties: Mapping[str, Property]
    declared: frozenset[str]
    diagnostics: Diagnostics

    def find_type(self, column: Name) -> PropertyType | None:
        """The type of a column that a constraint names; an unknown column is reported."""
        if (found := self.properties.get(column.text)) is not None:
            return found.type
        if self.kind is TypeKind.EDGE and column.text in _ENDPOINTS:
            return _ENDPOINTS[column.text]
        if column.text not in self.declared:
            self._report_unknown(column)
        return None

    def _report_unknown(self, column: Name) -> None:
        problem = f"the constraint references unknown property `{column.text}` of {self.type_name}"
        if self.kind is not TypeKind.EDGE:
            self.diagnostics.unknown("S9", problem, column.span, column.text, self.properties)
        elif (endpoint := END_BY_ROLE.get(column.text)) is not None:
            self.diagnostics.error("S9", problem, column.span, f"write `{endpoint}`")
        else:
            names = (*self.properties, *_ENDPOINTS)
            self.diagnostics.unknown("S9", problem, column.span, column.text, names)


def check_constraints(
    sugar: Iterable[tuple[str, Name]],
    body: Sequence[AnnotationSyntax],
    *,
    scope: ConstraintScope,
) -> tuple[Constraint, ...]:
    """The constraints of one type in canonical order.

    `sugar` holds the constraint words after a property's type, with the name of the property.
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
    """The text that orders constraints and identifies equal ones."""
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return f"{constraint.word}:{','.join(columns)}"
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
    columns: list[Name] = []
    for argument in each.arguments:
        if not isinstance(argument, Name):
            problem = "expected property name in constraint"
            advice = f"write `@{word}(property)`"
            if isinstance(argument, KeywordArgument) and word in SEARCHED_CONSTRAINTS:
                option = f"@{word}({argument.name.text}=…)"
                advice = f"an option follows the type of one property: `name: String {option}`"
            scope.diagnostics.error("S11", problem, argument.span, advice)
            return None
        columns.append(argument)
    return _check_columns(word, columns, scope)


def _check_columns(
    word: str, columns: Sequence[Name], scope: ConstraintScope
) -> Key | Unique | Index | None:
    names: set[str] = set()
    for column in columns:
        if column.text in names:
            scope.diagnostics.error("S11", f"@{word} names `{column.text}` twice", column.span)
            return None
        names.add(column.text)
    # All columns are checked, so that every invalid one is reported.
    are_fit = [_is_column_fit(word, column, scope) for column in columns]
    return COLUMN_CONSTRAINTS[word](tuple(sorted(names))) if all(are_fit) else None


def _is_column_fit(word: str, column: Name, scope: ConstraintScope) -> bool:
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
        case (Name() as column, RangeArgument() as bounds):
            return _check_bounds(column, bounds, scope)
        case (Name(), Literal() | Name() as other, *_):
            diagnostics.error("S11", "expected range bounds", other.span, advice)
        case _:
            diagnostics.error("S11", "@range takes a property and bounds", each.span, advice)
    return None


def _check_bounds(column: Name, bounds: RangeArgument, scope: ConstraintScope) -> Range | None:
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
        case (Name() as column, Literal(value=str() as pattern) as literal):
            type = scope.find_type(column)
            if type is None:
                return None
            if not type.is_string:
                problem = f"@check requires String type; `{column.text}` is {type}"
                diagnostics.error("S10", problem, column.span)
                return None
            if fault := find_unsupported_pattern(pattern):
                diagnostics.error("S16", f"the pattern cannot be used: {fault}", literal.span)
                return None
            return Check(column.text, pattern)
        case _:
            problem, advice = "@check takes a property and a pattern", CONSTRAINT_ADVICE["check"]
            diagnostics.error("S11", problem, each.span, advice)
            return None
