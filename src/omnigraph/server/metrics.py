"""What a server counts and times, as Prometheus reads it.

Names of routes and graphs are labels, names of actors, branches and queries are not: what callers
invent would grow without bound.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from omnigraph.model.observer import Event, Phase

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What one server counts; safe to share between threads."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "omnigraph_http_requests",
            "Requests that were answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "omnigraph_http_request_seconds",
            "How long requests took until their last byte was handed over.",
            ("route", "method"),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "omnigraph_http_requests_in_flight",
            "Requests that are being answered.",
            registry=self._registry,
        )
        self._events = Counter(
            "omnigraph_events",
            "What happened in graphs: commits, conflicts, retries, recoveries, look-ups in caches.",
            ("graph", "event"),
            registry=self._registry,
        )
        self._phases = Histogram(
            "omnigraph_phase_seconds",
            "How long the phases of reads and writes took.",
            ("graph", "phase"),
            buckets=SECONDS,
            registry=self._registry,
        )

    def in_flight(self) -> AbstractContextManager[object]:
        """A block in which a request is being answered."""
        return self._in_flight.track_inprogress()

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)

    def observer_of(self, graph_id: str) -> GraphMetrics:
        """Whom a graph tells what happens in it."""
        return GraphMetrics(
            {each: self._events.labels(graph_id, each) for each in Event},
            {each: self._phases.labels(graph_id, each) for each in Phase},
        )

    def encode(self) -> bytes:
        """All of it as the text that Prometheus reads."""
        return generate_latest(self._registry)


class GraphMetrics:
    """Counts what happens in one graph."""

    def __init__(
        self, counter_by_event: dict[Event, Counter], histogram_by_phase: dict[Phase, Histogram]
    ) -> None:
        self._counter_by_event = counter_by_event
        self._histogram_by_phase = histogram_by_phase

    def count(self, event: Event) -> None:
        """Something has happened once."""
        self._counter_by_event[event].inc()

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """Times a phase."""
        return self._histogram_by_phase[phase].time()
