"""Property types: what a column can hold, and which types may meet in a comparison.

Knows nothing of Arrow, Lance or text beyond the spelling of a type.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import StrEnum


class Scalar(StrEnum):
    """The scalar types, by the word that declares them."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATETIME = "DateTime"
    DATE = "Date"


SCALAR_BY_NAME = {str(scalar): scalar for scalar in Scalar}


@dataclass(frozen=True, slots=True)
class Vector:
    """A fixed number of 32-bit floats."""

    dimension: int

    def __str__(self) -> str:
        return f"Vector({self.dimension})"


INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMBERS = INTEGERS | FLOATS

INTEGER_RANGE = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class PropertyType:
    """The type of one property: an element, perhaps in a list, perhaps absent."""

    element: Scalar | Vector
    is_nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.describe()}{'?' if self.is_nullable else ''}"

    def describe(self) -> str:
        """The type's spelling without its nullability."""
        if self.enum_values is not None:
            return f"enum({', '.join(self.enum_values)})"
        return f"[{self.element}]" if self.is_list else str(self.element)

    @property
    def is_scalar(self) -> bool:
        """Whether a value is one comparable thing: no list, no vector, no blob."""
        return not self.is_list and self.element is not Scalar.BLOB and not self.is_vector

    @property
    def is_vector(self) -> bool:
        return isinstance(self.element, Vector)

    @property
    def is_blob(self) -> bool:
        return self.element is Scalar.BLOB

    @property
    def is_number(self) -> bool:
        return not self.is_list and self.element in NUMBERS

    @property
    def is_integer(self) -> bool:
        return not self.is_list and self.element in INTEGERS

    @property
    def is_string(self) -> bool:
        """Whether a value is one text; an enum is stored as text and counts."""
        return not self.is_list and self.element is Scalar.STRING

    @property
    def list_element(self) -> PropertyType:
        """The type of one element of a list."""
        return replace(self, is_list=False)

    def as_nullable(self) -> PropertyType:
        """The same type with null allowed."""
        return self if self.is_nullable else replace(self, is_nullable=True)


STRING = PropertyType(Scalar.STRING)
BOOL = PropertyType(Scalar.BOOL)
I64 = PropertyType(Scalar.I64)
F64 = PropertyType(Scalar.F64)
DATE = PropertyType(Scalar.DATE)
DATETIME = PropertyType(Scalar.DATETIME)


def fits_f32(number: float) -> bool:
    """Whether a number is in the range of `F32`; one that is not would become infinite."""
    try:
        # Without a byte order Python casts as C does, and never overflows.
        struct.pack("<f", number)
    except OverflowError:
        return False
    return True


def are_comparable(one: PropertyType, other: PropertyType) -> bool:
    """Whether two scalars may be compared: the same scalar, or any two numbers."""
    if not (one.is_scalar and other.is_scalar):
        return False
    return one.element == other.element or (one.is_number and other.is_number)


def is_assignable(given: PropertyType, target: PropertyType) -> bool:
    """Whether a value of one type may be stored as another, nullability and range aside.

    Integers widen to floats; floats never become integers, because that would drop a fraction.
    """
    if given.is_list != target.is_list:
        return False
    if given.element == target.element:
        return True
    if target.element is Scalar.BLOB:
        return given.element is Scalar.STRING and not given.is_list
    if given.element in INTEGERS:
        return target.element in NUMBERS
    return given.element in FLOATS and target.element in FLOATS
