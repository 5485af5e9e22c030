"""The JSON log, Prometheus metrics and the tracing port.

Each log line is one JSON object with time, level, event and request id; tokens are never logged.
Metric labels are routes and graphs, never names that callers choose, so their number is bounded.
All parts are safe to share between threads. OpenTelemetry is behind the port, in `otel`; Prometheus
is a direct dependency.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from threading import Lock
from traceback import format_exception
from typing import BinaryIO, Protocol

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from omnigraph.model.ports import Event, Observer, Phase

LEVELS: Mapping[str, int] = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}

# The id of the current request, for every line that is logged about it.
_REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)

# The standard attributes of a `logging` record; any others are fields from the caller.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_request_id(request_id: str) -> None:
    """Set the request id for log lines of this task and of the threads that work for it."""
    _REQUEST_ID.set(request_id)


class Lines:
    """A stream that receives whole lines, all with the same fixed fields; safe to share between
    threads.
    """

    def __init__(self, stream: BinaryIO, fixed: Mapping[str, object]) -> None:
        self._stream = stream
        self._fixed = fixed
        self._lock = Lock()

    def write(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        """Write one line."""
        line: dict[str, object] = {
            "timestamp": datetime.now(UTC),
            "level": level,
            "event": event,
            **self._fixed,
        }
        request_id = _REQUEST_ID.get()
        if request_id is not None:
            line["request_id"] = request_id
        line.update(fields)
        encoded = orjson.dumps(line, default=str, option=_OPTIONS)
        with self._lock:
            self._stream.write(encoded)
            self._stream.flush()


_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z


class Log:
    """Logs events with fields, from a minimum level on."""

    # This does not use `logging`, which takes longer per line than writing the line does, and some
    # lines are written for every request.

    def __init__(self, lines: Lines, level: int) -> None:
        self._lines = lines
        self._level = level

    @property
    def is_debugging(self) -> bool:
        """Whether `debug` events are written."""
        return self._level <= logging.DEBUG

    def debug(self, event: str, /, **fields: object) -> None:
        """Log an event that is of interest for debugging only."""
        if self._level <= logging.DEBUG:
            self._lines.write("debug", event, fields)

    def event(self, event: str, /, **fields: object) -> None:
        """Log a regular event."""
        if self._level <= logging.INFO:
            self._lines.write("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log an event that needs attention."""
        if self._level <= logging.WARNING:
            self._lines.write("warning", event, fields)

    def error(self, event: str, /, *, error: BaseException | None, **fields: object) -> None:
        """Log a failure, with the trace of an exception if there is one."""
        if self._level <= logging.ERROR:
            if error is not None:
                fields["trace"] = _trace(error)
            self._lines.write("error", event, fields)


class JsonLines(logging.Handler):
    """Writes the log records of libraries as JSON lines."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info is not None and record.exc_info[1] is not None:
            fields["trace"] = _trace(record.exc_info[1])
        fields["logger"] = record.name
        self._lines.write(record.levelname.lower(), record.getMessage(), fields)


def parse_level(text: str) -> int:
    """A level by its name; `info` for other text, such as the filters that `RUST_LOG` allows."""
    return LEVELS.get(text.strip().lower(), logging.INFO)


def open_log(stream: BinaryIO, level: int, fixed: Mapping[str, object]) -> Log:
    """Send the log of this process to a stream; every line has the fixed fields."""
    lines = Lines(stream, fixed)
    root = logging.getLogger()
    root.handlers[:] = [JsonLines(lines)]
    # The configured level is for the server's own events; libraries log warnings and errors only.
    root.setLevel(max(level, logging.WARNING))
    # Calls of embedding providers are an exception, because they are slow and cost money.
    logging.getLogger("omnigraph.embed").setLevel(level)
    return Log(lines, level)


def _trace(error: BaseException) -> str:
    return "".join(format_exception(error))


SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server; safe to share between threads."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "omnigraph_http_requests",
            "Completed requests.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "omnigraph_http_request_seconds",
            "Duration of requests until their last byte was sent.",
            ("route", "method"),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "omnigraph_http_requests_in_flight",
            "Requests in progress.",
            registry=self._registry,
        )
        self._events = Counter(
            "omnigraph_events",
            "Events in graphs: commits, conflicts, retries, recoveries, cache lookups.",
            ("graph", "event"),
            registry=self._registry,
        )
        self._phases = Histogram(
            "omnigraph_phase_seconds",
            "Duration of the phases of reads and writes.",
            ("graph", "phase"),
            buckets=SECONDS,
            registry=self._registry,
        )

    def in_flight(self) -> AbstractContextManager[object]:
        """A block that counts as one request in progress."""
        return self._in_flight.track_inprogress()

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Record a completed request."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)

    def observer_of(self, graph_id: str) -> GraphMetrics:
        """The observer that records the events of one graph."""
        return GraphMetrics(
            {each: self._events.labels(graph_id, each) for each in Event},
            {each: self._phases.labels(graph_id, each) for each in Phase},
        )

    def encode(self, *, hidden: frozenset[str]) -> bytes:
        """The metrics in Prometheus text format, without the lines of hidden graphs."""
        return hide_graphs(generate_latest(self._registry), hidden)


def hide_graphs(text: bytes, hidden: frozenset[str]) -> bytes:
    """Metrics in text format without the lines of hidden graphs."""
    if not hidden:
        return text
    labels = tuple(f'graph="{each}"'.encode() for each in hidden)
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if not any(each in line for each in labels))


def merge_metrics(text_by_worker: Mapping[int, bytes]) -> bytes:
    """The metrics of several workers in text format; each series has the label `worker`."""
    # The format requires that all series of a metric follow its header.
    series_by_header: dict[bytes, list[bytes]] = {}
    for worker, text in text_by_worker.items():
        series: list[bytes] = []
        header = b""
        for line in text.splitlines(keepends=True):
            if line.startswith(b"# HELP"):
                header = line
            elif line.startswith(b"#"):
                series = series_by_header.setdefault(header + line, [])
            else:
                series.append(_label(line, worker))
    return b"".join(header + b"".join(series) for header, series in series_by_header.items())


def _label(series: bytes, worker: int) -> bytes:
    label = b'worker="%d"' % worker
    name, brace, labels = series.partition(b"{")
    if brace:
        return b"%s{%s,%s" % (name, label, labels)
    name, _, number = series.partition(b" ")
    return b"%s{%s} %s" % (name, label, number)


class GraphMetrics:
    """Records the events of one graph."""

    def __init__(
        self, counter_by_event: dict[Event, Counter], histogram_by_phase: dict[Phase, Histogram]
    ) -> None:
        self._counter_by_event = counter_by_event
        self._histogram_by_phase = histogram_by_phase

    def count(self, event: Event) -> None:
        """Count one event."""
        self._counter_by_event[event].inc()

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """A block that is timed as a phase."""
        return self._histogram_by_phase[phase].time()


RecordResponse = Callable[[str, int], None]
"""Records the route and the status of the response to a request."""


class Tracing(Protocol):
    """Receives the start and end of requests, engine calls and their phases."""

    def request(
        self, method: str, path: str, headers: Mapping[bytes, bytes]
    ) -> AbstractContextManager[RecordResponse]:
        """A block around a request."""

    def operation(self, name: str, *, graph_id: str) -> AbstractContextManager[None]:
        """A block around an engine call, on the thread that runs it."""

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """A block around a phase of a call."""


class NoTracing:
    """Tracing that records nothing."""

    def __init__(self) -> None:
        self._request: AbstractContextManager[RecordResponse] = nullcontext(lambda *_: None)
        self._nothing = nullcontext()

    def request(
        self, method: str, path: str, headers: Mapping[bytes, bytes]
    ) -> AbstractContextManager[RecordResponse]:
        """A block that is not traced."""
        del method, path, headers
        return self._request

    def operation(self, name: str, *, graph_id: str) -> AbstractContextManager[None]:
        """A block that is not traced."""
        del name, graph_id
        return self._nothing

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """A block that is not traced."""
        del phase
        return self._nothing


class TracedObserver:
    """Forwards to another observer, and traces phases."""

    def __init__(self, counting: Observer, tracing: Tracing) -> None:
        self._counting = counting
        self._tracing = tracing

    def count(self, event: Event) -> None:
        """Count one event."""
        self._counting.count(event)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """A block around a phase."""
        with self._counting.phase(phase), self._tracing.phase(phase):
            yield
