"""Rows for people one below the other, a line a column: for rows that are wider than a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def list_rows(names: Sequence[str], columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of all rows, an empty one between two of them."""
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        if number > 1:
            yield ""
        yield f"row {number}"
        for name, cell in zip(names, row, strict=True):
            yield f"{name}: {cell}"
