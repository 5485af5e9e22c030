"""Source texts, positions in them, and diagnostics that refer to a position.

A diagnostic is a value: compilers collect diagnostics, and `render_diagnostic` is the only way to
display them. The module has no knowledge of the languages.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a diagnostic: an error rejects the text, the others do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters, end exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about a source text, with its position and a suggestion."""

    code: str
    message: str
    severity: Severity
    span: Span | None
    suggestion: str | None


@dataclass(frozen=True, slots=True)
class Source:
    """A text and its display name, usually its path."""

    name: str
    text: str

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset."""
        start = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset) + 1, offset - start + 1

    def line_at(self, offset: int) -> str:
        """The line that contains a character offset, without its line break."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


_WIDTH_MAX = 200
_STAGE_BY_LETTER = {
    "P": "parse",
    "S": "parse",
    "C": "catalog",
    "T": "type",
    "D": "type",
    "M": "migration",
}


def summarize_diagnostic(diagnostic: Diagnostic) -> str:
    """One line: the compiler stage, the message and the code."""
    if diagnostic.severity is Severity.ERROR:
        stage = _STAGE_BY_LETTER.get(diagnostic.code[:1])
        heading = f"{stage} error" if stage else "error"
    else:
        heading = str(diagnostic.severity)
    return f"{heading}: {diagnostic.message} [{diagnostic.code}]"


def render_diagnostic(diagnostic: Diagnostic, source: Source) -> str:
    """The summary, then the source line with a caret below the position and the suggestion."""
    summary = summarize_diagnostic(diagnostic)
    if diagnostic.span is None:
        return f"{summary}\n  {diagnostic.suggestion}" if diagnostic.suggestion else summary
    line_number, column = source.line_and_column(diagnostic.span.start)
    shown, shift = _clip(source.line_at(diagnostic.span.start), column)
    # The padding repeats tabs, so that the caret is aligned.
    padding = "".join("\t" if c == "\t" else " " for c in shown[: column - 1 - shift])
    width = max(1, min(diagnostic.span.end - diagnostic.span.start, len(shown) - len(padding)))
    gutter = str(line_number)
    note = f" {diagnostic.suggestion}" if diagnostic.suggestion else ""
    return "\n".join(
        (
            summary,
            f"  {' ' * len(gutter)}--> {source.name}:{line_number}:{column}",
            f"  {gutter} | {shown}",
            f"  {' ' * len(gutter)} | {padding}{'^' * width}{note}",
        )
    )


def _clip(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around a column, and the offset at which the part starts."""
    if len(line) <= _WIDTH_MAX:
        return line, 0
    start = max(0, column - 1 - _WIDTH_MAX // 2)
    return line[start : start + _WIDTH_MAX], start
