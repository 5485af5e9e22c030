"""Property types, the rules of comparison and assignment, and dates and timestamps as text.

Parameters, literals and loads share one parser of dates and timestamps. Timestamps are UTC with
millisecond precision, as columns store them. The module knows neither Arrow nor Lance.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum


class Scalar(StrEnum):
    """The scalar types, by their keyword."""

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


class TextLanguage(StrEnum):
    """How texts are divided into searchable words: by a language, or without one."""

    ARABIC = "arabic"
    ARMENIAN = "armenian"
    BASQUE = "basque"
    CATALAN = "catalan"
    CZECH = "czech"
    DANISH = "danish"
    DUTCH = "dutch"
    ENGLISH = "english"
    ESPERANTO = "esperanto"
    ESTONIAN = "estonian"
    FINNISH = "finnish"
    FRENCH = "french"
    GERMAN = "german"
    GREEK = "greek"
    HINDI = "hindi"
    HUNGARIAN = "hungarian"
    INDONESIAN = "indonesian"
    IRISH = "irish"
    ITALIAN = "italian"
    LITHUANIAN = "lithuanian"
    NEPALI = "nepali"
    NORWEGIAN = "norwegian"
    PERSIAN = "persian"
    POLISH = "polish"
    PORTUGUESE = "portuguese"
    ROMANIAN = "romanian"
    RUSSIAN = "russian"
    SERBIAN = "serbian"
    SESOTHO = "sesotho"
    SPANISH = "spanish"
    SWEDISH = "swedish"
    TAMIL = "tamil"
    TURKISH = "turkish"
    YIDDISH = "yiddish"
    NONE = "none"
    NGRAM = "ngram"


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
    """The type of one property: an element type, optionally a list, optionally nullable."""

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
        """Whether a value is a single comparable value: not a list, a vector or a blob."""
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
        """Whether a value is a single text; this includes enums, which are stored as text."""
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


def fits_f32(*numbers: float) -> bool:
    """Whether all numbers are in the range of `F32`; one outside it would become infinite."""
    try:
        # Without an explicit byte order, Python casts as C does and never overflows.
        struct.pack(f"<{len(numbers)}f", *numbers)
    except OverflowError:
        return False
    return True


def are_comparable(one: PropertyType, other: PropertyType) -> bool:
    """Whether two types can be compared: the same scalar, or any two numbers."""
    if not (one.is_scalar and other.is_scalar):
        return False
    return one.element == other.element or (one.is_number and other.is_number)


def is_assignable(given: PropertyType, target: PropertyType) -> bool:
    """Whether a value of one type may be stored as another, ignoring nullability and range.

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


_DATE = r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})-(?P<day>\d{1,2})|(?P<month2>\d{2})(?P<day2>\d{2}))"
_TIME = r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:\.(?P<fraction>\d+))?"
_OFFSET = r"(?P<offset>[Zz]|[+-]\d{2}:?\d{2})?"
_TIMESTAMP = re.compile(rf"{_DATE}(?:[Tt ]{_TIME}{_OFFSET})?", re.ASCII)

HAS_TIME_OF_DAY = "it has a time of day, which a Date does not store; give the day alone"
IS_TOO_FINE = (
    "it has digits below the millisecond, which a DateTime does not store; round it to three digits"
)


class ExcessPrecisionError(ValueError):
    """A date or timestamp with more precision than a column of its type stores."""


def explain(error: ValueError) -> str:
    """The addition to a message about an invalid text: how to reduce excess precision."""
    return f": {error}" if isinstance(error, ExcessPrecisionError) else ""


def parse_date(text: str) -> date:
    """The date that a text represents; raises `ValueError` for any other text.

    A date with a time of day raises `ExcessPrecisionError`.
    """
    timestamp = parse_datetime(text)
    match = _TIMESTAMP.fullmatch(text)
    if match is not None and match["hour"] is not None:
        raise ExcessPrecisionError(HAS_TIME_OF_DAY)
    return timestamp.date()


def parse_datetime(text: str) -> datetime:
    """The UTC timestamp of a date or timestamp text, to the millisecond; raises `ValueError`."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date or timestamp")
    month, day = match["month"] or match["month2"], match["day"] or match["day2"]
    timestamp = datetime(int(match["year"]), int(month), int(day), tzinfo=UTC)
    if match["hour"] is None:
        return timestamp
    fraction = match["fraction"] or ""
    if fraction[3:].strip("0"):
        raise ExcessPrecisionError(IS_TOO_FINE)
    timestamp = timestamp.replace(
        hour=int(match["hour"]),
        minute=int(match["minute"]),
        second=int(match["second"]),
        microsecond=int(fraction[:3].ljust(3, "0")) * 1000,
    )
    try:
        return timestamp - _offset(match["offset"])
    except OverflowError as error:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999") from error


def read_timestamp(text: str) -> datetime:
    """The timestamp in an OmniGraph record, to the microsecond; raises `ValueError` if invalid."""
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"'{text}' is not a valid timestamp") from error
    if timestamp.tzinfo is None:
        raise ValueError(f"'{text}' has no time zone")
    return timestamp


def format_datetime(timestamp: datetime) -> str:
    """A timestamp as results show it: UTC, always with three fraction digits."""
    in_utc = timestamp.astimezone(UTC)
    return f"{in_utc:%Y-%m-%dT%H:%M:%S}.{in_utc.microsecond // 1000:03d}Z".rjust(24, "0")


def _offset(text: str | None) -> timedelta:
    if text is None or text in "Zz":
        return timedelta()
    hours, minutes = int(text[1:3]), int(text[-2:])
    if minutes > 59:
        raise ValueError(f"{text!r} is not an offset from UTC")
    size = timedelta(hours=hours, minutes=minutes)
    return -size if text[0] == "-" else size
