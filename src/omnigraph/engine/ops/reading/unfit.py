"""A value that its column cannot take: found by the readers, turned into a refusal once.

Rows are numbered from 0 within the column that was looked at; who looked knows what that row is
called to the caller: a record and a line, or a row of a column.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.model.errors import InvalidValueError, LimitExceededError, RequestError
from omnigraph.model.limits import PROPERTY_BYTES_MAX


class UnfitError(Exception):
    """A row of a column that cannot be stored; `size` is set if only its size is wrong.

    Who calls a reader of columns knows better which row and column that is, and corrects both.
    """

    def __init__(self, *, row: int, value: object, problem: str, size: int | None) -> None:
        super().__init__(problem)
        self.row, self.value, self.problem, self.size = row, value, problem, size
        self.column = ""


def unfit(row: int, value: object, problem: str) -> UnfitError:
    """A row whose value is wrong."""
    return UnfitError(row=row, value=value, problem=problem, size=None)


def require_none(faults: pa.Array, values: pa.Array, describe: Callable[[object], str]) -> None:
    """Raise for the first row that is marked as a fault."""
    row = pc.index(faults, True).as_py()
    if row >= 0:
        value = values[row].as_py()
        raise unfit(row, value, describe(value))


def require_size(values: pa.Array) -> None:
    """Raise for the first text or blob that is larger than a property may be."""
    sizes = pc.binary_length(values)
    row = pc.index(pc.greater(sizes, PROPERTY_BYTES_MAX), True).as_py()
    if row >= 0:
        raise UnfitError(row=row, value=None, problem="too large", size=sizes[row].as_py())


def refusal(fault: UnfitError, *, subject: str, expected: str) -> RequestError:
    """What the caller is told about a value that does not fit."""
    if fault.size is not None:
        resource = f"the size of {subject} in bytes"
        return LimitExceededError(resource=resource, limit=PROPERTY_BYTES_MAX, found=fault.size)
    return InvalidValueError(
        subject=subject, expected=expected, value=fault.value, problem=fault.problem
    )
