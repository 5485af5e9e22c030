"""Results as Markdown tables, ready for a document."""

from collections.abc import Iterable, Sequence


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is words, the others are numbers."""
    written = [list(headings), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*written, strict=True)]
    first, *others = widths
    rule = ["-" * first, *(f"{'-' * (width - 1)}:" for width in others)]
    for cells in (written[0], rule, *written[1:]):
        padded = [cells[0].ljust(first), *map(str.rjust, cells[1:], others)]
        print(f"| {' | '.join(padded)} |")
    print()


def milliseconds(seconds: float) -> str:
    """A time that people wait for."""
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def microseconds(seconds: float) -> str:
    """A time that nobody notices by itself."""
    return f"{seconds * 1e6:.1f} µs"
