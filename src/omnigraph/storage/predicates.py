"""Predicates on the rows of a table, as values that every table store evaluates alike.

A comparison with null matches nothing. A NaN in a column is unequal to every value and neither
smaller nor greater, and the two zeros are equal. A predicate can be sent to other processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

StoredScalar = bool | int | float | str
"""A value in stored form: a date as its days, a timestamp as its milliseconds."""


class Operator(StrEnum):
    """The order between a column and a value."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value of the column's type."""

    column: str
    operator: Operator
    value: StoredScalar
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class OneOf:
    """A column has one of some values of its type; null and NaN among them match nothing."""

    column: str
    values: pa.Array


@dataclass(frozen=True, slots=True)
class HasElement:
    """A list column contains a value of the type of its elements."""

    column: str
    value: StoredScalar
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class HasText:
    """A text column contains a text, or starts with it."""

    column: str
    text: str
    is_prefix: bool


@dataclass(frozen=True, slots=True)
class WithinText:
    """A text contains the value of a text column, or starts with it."""

    column: str
    text: str
    is_prefix: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null."""

    column: str


@dataclass(frozen=True, slots=True)
class IsPresent:
    """A column is not null."""

    column: str


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without parts it holds for every row."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts holds; without parts it holds for no row."""

    parts: tuple[Predicate, ...]


Predicate = Compare | OneOf | HasElement | HasText | WithinText | IsNull | IsPresent | And | Or


def compare(column: str, operator: Operator, value: str | int) -> Compare:
    """A comparison of a column of texts or of 64-bit integers."""
    return Compare(column, operator, value, pa.string() if isinstance(value, str) else pa.int64())


def equals(column: str, value: str | int) -> Compare:
    """A column of texts or of 64-bit integers has a value."""
    return compare(column, Operator.EQ, value)
