"""The errors of OmniGraph. The type says what happened to the graph; the message explains it.

::

    GraphError                     .code .outcome
    └── RequestError               UNCHANGED: the request must change
        ├── CompileError             .diagnostics .source
        ├── InvalidValueError        .type .value
        ├── NotFoundError            .kind .name
        └── UnreadableError          .path .reason

Callers decide by type, `code` and `outcome`, never by the text of a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from omnigraph.model.source import Diagnostic, Source, render_diagnostic


class Outcome(StrEnum):
    """What an operation that raised did to the graph."""

    UNCHANGED = "unchanged"
    MOVED = "moved"
    UNCERTAIN = "uncertain"
    BROKEN = "broken"


class GraphError(Exception):
    """Anything that OmniGraph raises on purpose."""

    code: ClassVar[str]
    outcome: ClassVar[Outcome]


class RequestError(GraphError):
    """The request cannot be carried out as it is; the graph is as it was."""

    code = "bad_request"
    outcome = Outcome.UNCHANGED


class CompileError(RequestError):
    """A schema or query text was refused; `diagnostics` holds every reason that was found."""

    def __init__(self, *, diagnostics: Sequence[Diagnostic], source: Source) -> None:
        super().__init__("\n".join(render_diagnostic(each, source) for each in diagnostics))
        self.diagnostics = tuple(diagnostics)
        self.source = source


class InvalidValueError(RequestError):
    """A value does not fit the type it was given for."""

    def __init__(self, *, subject: str, expected: str, value: object, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject, self.type, self.value = subject, expected, value


class NotFoundError(RequestError):
    """Something that the request names does not exist."""

    code = "not_found"

    def __init__(self, *, kind: str, name: str, advice: str) -> None:
        super().__init__(f"{kind} '{name}' not found{advice and f'; {advice}'}")
        self.kind, self.name = kind, name


class UnreadableError(RequestError):
    """A file that the request names exists and cannot be read."""

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__(f"cannot read '{path}': {reason}")
        self.path, self.reason = path, reason
