"""Requests, calls of the engine and their phases as OpenTelemetry spans.

Names and attributes follow the conventions for HTTP servers and for databases. No span holds a
query's text, a parameter or a token. Imported only where the extra `telemetry` is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from omnigraph.model.ports import Phase
from omnigraph.server.telemetry import RecordResponse

SYSTEM = "omnigraph"


class SpanTracing:
    """Records the work of a server as spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(
        self, method: str, path: str, headers: Mapping[bytes, bytes]
    ) -> Iterator[RecordResponse]:
        """A span for a request, a child of the caller's span if the headers name one."""
        carried = {
            name: headers[name.encode()].decode("latin-1")
            for name in ("traceparent", "tracestate")
            if name.encode() in headers
        }
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(carried),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "url.path": path, "url.scheme": "http"},
        ) as span:
            yield partial(_record_response, span, method)

    @contextmanager
    def operation(self, name: str, *, graph_id: str) -> Iterator[None]:
        """A span for an engine call."""
        with self._tracer.start_as_current_span(
            f"{name} {graph_id}",
            kind=SpanKind.INTERNAL,
            attributes={
                "db.system.name": SYSTEM,
                "db.operation.name": name,
                "db.namespace": graph_id,
            },
        ):
            yield

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """A span for a phase of a call."""
        with self._tracer.start_as_current_span(phase, kind=SpanKind.INTERNAL):
            yield


def _record_response(span: Span, method: str, route: str, status: int) -> None:
    # The route is not known from the path alone, so the span is named only now.
    span.update_name(f"{method} {route}")
    span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_attribute("error.type", str(status))
        span.set_status(Status(StatusCode.ERROR))


def open_tracing(*, version: str) -> tuple[SpanTracing, Callable[[], None]]:
    """Tracing with export to the destination in OpenTelemetry's environment variables."""
    return make_tracing(BatchSpanProcessor(OTLPSpanExporter()), version=version)


def make_tracing(sink: SpanProcessor, *, version: str) -> tuple[SpanTracing, Callable[[], None]]:
    """Tracing to a span processor, and the function that flushes the last spans."""
    named = Resource.create({SERVICE_NAME: "omnigraph-server", SERVICE_VERSION: version})
    # The server shuts the provider down itself, so that requests still in progress are traced.
    provider = TracerProvider(resource=named, shutdown_on_exit=False)
    provider.add_span_processor(sink)
    return SpanTracing(provider.get_tracer("omnigraph.server", version)), provider.shutdown
