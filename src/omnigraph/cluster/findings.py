"""What the control plane has to tell: findings with codes, collected, not raised one by one.

An error among them makes a command fail; a warning does not. Programs decide by `code`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.model.errors import GraphError
from omnigraph.model.source import Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to tell: `path` is the field, file or object that it is about."""

    code: str
    severity: Severity
    path: str
    message: str


class StoppedError(Exception):
    """A command cannot go on; what it has done until here stands."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(each.message for each in findings))
        self.findings = findings


class Findings:
    """What was found so far, each finding once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(tuple(self._found))

    @property
    def has_errors(self) -> bool:
        """Whether the command fails."""
        return any(each.severity is Severity.ERROR for each in self._found)

    def add(self, found: Iterable[Finding]) -> None:
        """Keep findings of somebody else."""
        self._found.update(dict.fromkeys(found))

    def error(self, code: str, path: str, message: str) -> None:
        """Keep something that makes the command fail."""
        self.add([error_finding(code, path, message)])

    def warn(self, code: str, path: str, message: str) -> None:
        """Keep something that somebody should know."""
        self.add([Finding(code, Severity.WARNING, path, message)])

    def require_no_errors(self) -> None:
        """Stop unless everything so far is well."""
        if self.has_errors:
            raise StoppedError

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """A block that ends early where it cannot go on; why is kept."""
        try:
            yield
        except StoppedError as error:
            self.add(error.findings)


def error_finding(code: str, path: str, message: str) -> Finding:
    """A finding that makes a command fail."""
    return Finding(code, Severity.ERROR, path, message)


@contextmanager
def telling(code: str, path: str) -> Iterator[None]:
    """A block in which whatever goes wrong with the storage stops the command, under a code."""
    try:
        yield
    except GraphError as error:
        raise StoppedError(error_finding(code, path, str(error))) from error
