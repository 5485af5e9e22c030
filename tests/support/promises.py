"""The compiler's guarantee for any text: it compiles or is refused, in bounded time."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from omnigraph.model.errors import CompileError
from omnigraph.model.limits import DIAGNOSTICS_MAX
from omnigraph.model.source import Diagnostic, Source, render_diagnostic

T = TypeVar("T")

# A text of two megabytes takes some seconds; what is not linear takes minutes or for ever.
CPU_SECONDS_MAX = 20.0


def compile_or_refuse(compile: Callable[[], T]) -> T | CompileError:
    """What compiling gives, or the refusal, which is held to its promises. Nothing else passes."""
    try:
        with time_limit(CPU_SECONDS_MAX):
            return compile()
    except CompileError as error:
        require_polite(error)
        return error


def require_polite(error: CompileError) -> None:
    """Fail unless a refusal says something, points into its text and can be shown."""
    assert 1 <= len(error.diagnostics) <= DIAGNOSTICS_MAX
    for diagnostic in error.diagnostics:
        assert re.fullmatch(r"[A-Z]\d+", diagnostic.code)
        assert diagnostic.message
        _require_place(diagnostic, error.source)
        assert render_diagnostic(diagnostic, error.source) in str(error)
    assert str(error).encode()


@contextmanager
def time_limit(cpu_seconds: float) -> Iterator[None]:
    """Fail when the body uses more processor time; that of neighbours does not count."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {cpu_seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _require_place(diagnostic: Diagnostic, source: Source) -> None:
    span = diagnostic.span
    assert span is None or 0 <= span.start <= span.end <= len(source.text)
