"""The collector that checkers report to, so that one run finds every error of a text.

It is independent of the language: it counts and bounds diagnostics, and suggests similar names.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.model.errors import CompileError
from omnigraph.model.limits import DIAGNOSTICS_MAX
from omnigraph.model.names import find_near_name
from omnigraph.model.source import Diagnostic, Severity, Source, Span


class Diagnostics:
    """The diagnostics of one source so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.error_count = 0
        self._errors: list[Diagnostic] = []
        self._warnings: list[Diagnostic] = []
        self._seen: set[tuple[str, str, Span]] = set()

    def error(self, code: str, message: str, span: Span, advice: str | None = None) -> None:
        """Report an error; the same error at the same position counts once."""
        if (code, message, span) in self._seen:
            return
        self._seen.add((code, message, span))
        self.error_count += 1
        if self.error_count <= DIAGNOSTICS_MAX:
            self._errors.append(Diagnostic(code, message, Severity.ERROR, span, advice))

    def unknown(
        self, code: str, message: str, span: Span, name: str, candidates: Iterable[str]
    ) -> None:
        """Report an unknown name, with a similar name or the available names as advice."""
        advice = None if self.is_full else advise_name(name, candidates)
        self.error(code, message, span, advice)

    def warn(self, code: str, message: str, span: Span, advice: str) -> None:
        """Report something that is valid but probably not intended."""
        if len(self._warnings) < DIAGNOSTICS_MAX:
            self._warnings.append(Diagnostic(code, message, Severity.WARNING, span, advice))

    @property
    def is_full(self) -> bool:
        """Whether further errors would not be shown and need no advice."""
        return self.error_count >= DIAGNOSTICS_MAX

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors found, in source order."""
        return tuple(sorted(self._errors, key=lambda each: each.span.start if each.span else 0))

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(self._warnings)

    def require_clean(self) -> None:
        """Raise `CompileError` with the errors found, if there are any."""
        if self._errors:
            raise CompileError(diagnostics=self.errors, source=self.source)


def advise_name(name: str, candidates: Iterable[str]) -> str | None:
    """Advice for an unknown name: a similar name, or else the available names if they are few."""
    known = sorted(candidates)
    near = find_near_name(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    if 0 < len(known) <= _LISTED_MAX:
        return f"there is {', '.join(f'`{each}`' for each in known)}"
    return None


_LISTED_MAX = 8
