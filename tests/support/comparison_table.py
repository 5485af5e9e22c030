"""Every comparison that a query can write: each comparator between operands of every kind.

Guarantees that the table holds each pair of operands under each comparator, whether it compiles or
not. Knows nothing of what a comparison means; the oracle decides that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import product

from omnigraph.compiler.ir import Value
from tests.support.read_graphs import NOW, Params, PlainGraph, plain_graph

SCHEMA = """
node Row {
  case: I64  row: I64
  text: String?  other: String?  mood: enum(ben, tense)?
  whole: I64?  huge: U64?  real: F64?  small: F32?  flag: Bool?  day: Date?  moment: DateTime?
  texts: [String]?  wholes: [I64]?  reals: [F64]?  moments: [DateTime]?
  narrow: I32?  wide: U32?  days: [Date]?  flags: [Bool]?  smalls: [F32]?
  vector: Vector(2)?  blob: Blob?
}
"""

_INSTANT = NOW.replace(microsecond=NOW.microsecond // 1000 * 1000)
_EARLIER = datetime(2020, 1, 1, tzinfo=UTC)

_ROWS: Sequence[Mapping[str, Value]] = (
    {},
    {
        "text": "ben", "other": "be", "mood": "ben", "whole": 3, "huge": 3, "real": 3.0,
        "small": 3.0, "flag": True, "day": date(2024, 6, 1), "moment": _INSTANT,
        "texts": ("ben",), "wholes": (3,), "reals": (3.0,), "moments": (_INSTANT,),
        "narrow": 3, "wide": 3, "days": (date(2024, 6, 1),), "flags": (True,), "smalls": (0.1,),
        "vector": (3.0, 1.0),
    },
    {
        "text": "xx ben yy", "other": "ben", "mood": "tense", "whole": -1, "huge": 2**64 - 1,
        "real": 2.5, "small": 0.1, "flag": False, "day": date(2020, 1, 1), "moment": _EARLIER,
        "texts": ("xx", "ben"), "wholes": (1, 2, 3), "reals": (2.5, 0.1),
        "moments": (_EARLIER, _INSTANT), "vector": (0.0, 0.0), "narrow": -(2**31),
        "wide": 2**32 - 1, "days": (date(2020, 1, 1), date(2024, 6, 1)), "flags": (False, True),
        "smalls": (2.5, 3.0),
    },
    {
        "text": "", "other": "x", "whole": 2, "huge": 0, "real": float("nan"), "flag": True,
        "texts": (), "wholes": (), "reals": (float("nan"),), "moments": (),
        "narrow": 2, "wide": 0, "days": (), "flags": (), "smalls": (float("nan"),),
    },
)  # fmt: skip
"""Nulls alone, values that meet those of the queries, values beside them, and empty ones."""

_LITERALS = (
    '"ben"', '"xx ben yy"', "3", "2.5", "true", 'date("2024-06-01")', 'datetime("2020-01-01")',
    '["ben", "xx"]', "[1, 2, 3]", "[2.5, 3.0]", '[datetime("2020-01-01")]', "[]", "null", "now()",
    "-3", "0.1", "9223372036854775807", '[date("2024-06-01")]', "[true]",
)  # fmt: skip

_VALUE_BY_TYPE: Mapping[str, object] = {
    "String": "xx ben yy",
    "I64": 3,
    "F64": 2.5,
    "F32": 0.1,
    "Bool": True,
    "Date": "2020-01-01",
    "DateTime": "2024-06-01T12:00:00.123Z",
    "[String]": ["ben", "", "xx ben yy"],
    "[I64]": [3, -1],
    "[F64]": [2.5, 0.1],
    "[DateTime]": ["2020-01-01T00:00:00Z"],
    "I32": -(2**31),
    "U64": 2**64 - 1,
    "[Date]": ["2020-01-01"],
    "[Bool]": [False],
    "[F32]": [0.1],
    "Vector(2)": [3.0, 1.0],
}

_PROPERTIES = (
    "text", "other", "mood", "whole", "huge", "real", "small", "flag", "day", "moment", "texts",
    "wholes", "reals", "moments", "narrow", "wide", "days", "flags", "smalls", "vector", "blob",
)  # fmt: skip

COMPARATORS = ("=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "in")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison as it is written, and the parameter that it needs."""

    text: str
    parameter: tuple[str, str, object] | None = None
    """Its name, its declared type and its value."""


@dataclass(frozen=True, slots=True)
class Case:
    """A comparison as it is written, and the parameters that it needs."""

    condition: str
    types: Mapping[str, str]
    params: Params

    @property
    def may_stand_in_a_mutation(self) -> bool:
        """Whether a mutation can find rows by it: those are found by a property on the left."""
        is_about_part = " contains " in self.condition or " starts_with " in self.condition
        is_left = self.condition.startswith("$p.") and self.is_about_one_column
        return is_left and not is_about_part

    @property
    def is_about_one_column(self) -> bool:
        """Whether it compares a property with a value, which Lance can do."""
        return self.condition.count("$p.") == 1

    def read(self) -> str:
        """A read of the rows for which the comparison holds."""
        return read_of(f"({self.condition})", self.types)


def sides() -> Iterator[Side]:
    """An operand of every kind: literals, parameters with and without a value, properties."""
    yield from map(Side, _LITERALS)
    for number, (type, value) in enumerate(_VALUE_BY_TYPE.items()):
        yield Side(f"$given{number}", (f"given{number}", type, value))
        yield Side(f"$null{number}", (f"null{number}", f"{type}?", None))
    yield from (Side(f"$p.{name}") for name in _PROPERTIES)
    yield Side("$p")


def every_case() -> Iterator[Case]:
    """Each comparator between any two operands."""
    for left, comparator, right in product(sides(), COMPARATORS, sides()):
        used = [each.parameter for each in (left, right) if each.parameter is not None]
        yield Case(
            f"{left.text} {comparator} {right.text}",
            {name: type for name, type, _ in used},
            {name: value for name, _, value in used},
        )


def read_of(condition: str, types: Mapping[str, str]) -> str:
    """A read of the rows that a condition keeps, by the case and the number of each."""
    return (
        f"query q({_declare(types)}) {{ match {{ $p: Row {condition} }} "
        "return { $p.case, $p.row } order { $p.case, $p.row } }"
    )


def rows_for(cases: Iterable[int]) -> PlainGraph:
    """The same rows again for each of some cases, so that one read can ask all of them."""
    rows = [
        {"case": case, "row": number, **row} for case in cases for number, row in enumerate(_ROWS)
    ]
    return plain_graph(SCHEMA, {"Row": rows})


def read_of_all(cases: Mapping[int, Case]) -> tuple[str, Params]:
    """One read that asks each case of the rows that are its own, and its parameters.

    Lance evaluates the condition if every case is about one column, else the executor does.
    """
    condition, types, params = _join(cases)
    bounds = f"$p.case >= {min(cases)} $p.case <= {max(cases)}"
    return read_of(f"{bounds} ({condition})", types), params


def update_of_all(cases: Mapping[int, Case], *, assigned: str) -> tuple[str, Params]:
    """One update of the rows that each case keeps of its own, and its parameters."""
    condition, types, params = _join(cases)
    where = condition.replace("$p.", "")
    return f"query q({_declare(types)}) {{ update Row set {{ {assigned} }} where {where} }}", params


def _join(cases: Mapping[int, Case]) -> tuple[str, Mapping[str, str], Params]:
    types: dict[str, str] = {}
    params: dict[str, object] = {}
    parts: list[str] = []
    for number, case in cases.items():
        parts.append(f"($p.case = {number} and {case.condition})")
        types |= case.types
        params |= case.params
    return " or ".join(parts), types, params


def _declare(types: Mapping[str, str]) -> str:
    return ", ".join(f"${name}: {type}" for name, type in types.items())
