"""Prints results as Markdown tables."""

from collections.abc import Iterable, Sequence


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is left-aligned, the others are right-aligned."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    first, *others = widths
    rule = ["-" * first, *(f"{'-' * (width - 1)}:" for width in others)]
    for cells in (lines[0], rule, *lines[1:]):
        padded = [cells[0].ljust(first), *map(str.rjust, cells[1:], others)]
        print(f"| {' | '.join(padded)} |")
    print()


def milliseconds(seconds: float) -> str:
    """Format a duration in milliseconds."""
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def microseconds(seconds: float) -> str:
    """Format a duration in microseconds."""
    return f"{seconds * 1e6:.1f} µs"
