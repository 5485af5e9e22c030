"""Violations as they are gathered: counted in full, told up to a bound.

Also how a cell appears in one: as a value that JSON can hold, and as text in a message. Knows no
rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.model.errors import Violation
from omnigraph.model.limits import VALUE_CHARACTERS_SHOWN_MAX, VIOLATIONS_MAX
from omnigraph.model.temporal import format_datetime

RowNumbers = npt.NDArray[np.int64]
"""Positions of rows, ascending."""


@dataclass(frozen=True, slots=True)
class Violations:
    """What a write breaks: at most `VIOLATIONS_MAX` violations, and how many there are in all."""

    found: tuple[Violation, ...]
    count: int


NOTHING = Violations((), 0)


def tell(rows: RowNumbers, describe: Callable[[int], Violation]) -> Violations:
    """One violation a row; only those that will be shown are described."""
    if not len(rows):
        return NOTHING
    shown = rows[:VIOLATIONS_MAX].tolist()
    return Violations(tuple(describe(row) for row in shown), len(rows))


def gather(parts: Iterable[Violations]) -> Violations:
    """The violations of several checks in their order."""
    gathered = tuple(parts)
    told = (violation for part in gathered for violation in part.found)
    return Violations(tuple(islice(told, VIOLATIONS_MAX)), sum(part.count for part in gathered))


def describe_columns(columns: Sequence[str]) -> str:
    """What stands behind a type's name and a dot: a property, or several as one."""
    return columns[0] if len(columns) == 1 else f"({', '.join(columns)})"


def plain_values(cells: Sequence[pa.Scalar]) -> object:
    """The cells of a constraint: the value of its column, or a list where it has several."""
    values = [plain_value(cell) for cell in cells]
    return values[0] if len(values) == 1 else values


def show_values(cells: Sequence[pa.Scalar]) -> str:
    """The same as a message shows it."""
    shown = [show_value(cell) for cell in cells]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def plain_value(cell: pa.Scalar) -> object:
    """A cell as results encode it: text for dates and for numbers that JSON does not have."""
    if not cell.is_valid:
        return None
    if pa.types.is_date(cell.type):
        return _plain_moment(cell)
    value: object = cell.as_py()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def show_value(cell: pa.Scalar) -> str:
    """A cell as a message shows it."""
    value = plain_value(cell)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return show_text(str(value)) if pa.types.is_string(cell.type) else str(value)


def show_text(text: str) -> str:
    """A text in quotes, cut where nobody reads on."""
    if len(text) > VALUE_CHARACTERS_SHOWN_MAX:
        text = f"{text[:VALUE_CHARACTERS_SHOWN_MAX]}…"
    return f"'{text}'"


def _plain_moment(cell: pa.Scalar) -> object:
    # Arrow makes a bare date of a Date64 and so loses its time.
    try:
        if pa.types.is_date32(cell.type):
            return (date(1970, 1, 1) + timedelta(days=cell.value)).isoformat()
        return format_datetime(
            datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=cell.value)
        )
    except OverflowError:
        # Columns hold more years than calendars do.
        return int(cell.value)
