"""What is told to whoever traces requests; without OpenTelemetry that is nobody.

The spans themselves are made in `traces`, which is imported only where OpenTelemetry is installed
and wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from omnigraph.model.observer import Event, Observer, Phase


class RequestTrace(Protocol):
    """A request that is being traced."""

    def answered(self, *, route: str, status: int) -> None:
        """The request was answered."""


class Tracing(Protocol):
    """Is told when requests, calls of the engine and their phases begin and end."""

    def request(
        self, method: str, path: str, headers: Mapping[bytes, bytes]
    ) -> AbstractContextManager[RequestTrace]:
        """Surrounds a request."""

    def operation(self, name: str, *, graph_id: str) -> AbstractContextManager[None]:
        """Surrounds a call of the engine, on the thread that it runs on."""

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """Surrounds a phase of a call."""


class NoRequestTrace:
    """A request that nobody traces."""

    def answered(self, *, route: str, status: int) -> None:
        """Nobody wants to know."""


class NoTracing:
    """Nobody traces."""

    def __init__(self) -> None:
        self._request = nullcontext(NoRequestTrace())
        self._nothing = nullcontext()

    def request(
        self, method: str, path: str, headers: Mapping[bytes, bytes]
    ) -> AbstractContextManager[RequestTrace]:
        """Nothing is traced."""
        del method, path, headers
        return self._request

    def operation(self, name: str, *, graph_id: str) -> AbstractContextManager[None]:
        """Nothing is traced."""
        del name, graph_id
        return self._nothing

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """Nothing is traced."""
        del phase
        return self._nothing


class TracedObserver:
    """Tells another observer, and traces phases."""

    def __init__(self, counting: Observer, tracing: Tracing) -> None:
        self._counting = counting
        self._tracing = tracing

    def count(self, event: Event) -> None:
        """Something has happened once."""
        self._counting.count(event)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Surrounds a phase."""
        with self._counting.phase(phase), self._tracing.phase(phase):
            yield
