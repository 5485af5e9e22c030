"""Spans: a request, the call of the engine in it, and the phases of that, one below the other."""

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from omnigraph.model.ports import Event, Phase
from omnigraph.server.otel import make_tracing
from omnigraph.server.telemetry import Metrics, TracedObserver, Tracing

CALLER = "0af7651916cd43dd8448eb211c80319c"


def test_a_call_is_traced_as_calls_of_databases_are() -> None:
    spans = InMemorySpanExporter()
    tracing, end = make_tracing(SimpleSpanProcessor(spans), version="1.2.3")

    _respond(tracing, status=200)
    end()

    request, call, phase = _by_depth(spans)
    assert request.name == "POST /graphs/{graph_id}/query"
    assert request.kind is SpanKind.SERVER
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/graphs/{graph_id}/query",
        "http.response.status_code": 200,
        "url.path": "/graphs/g/query",
        "url.scheme": "http",
    }
    assert call.name == "query g"
    assert dict(call.attributes or {}) == {
        "db.system.name": "omnigraph",
        "db.operation.name": "query",
        "db.namespace": "g",
    }
    assert phase.name == "run"
    assert request.resource.attributes["service.name"] == "omnigraph-server"
    assert request.resource.attributes["service.version"] == "1.2.3"


def test_spans_are_children_of_the_caller_and_of_each_other() -> None:
    spans = InMemorySpanExporter()
    tracing, end = make_tracing(SimpleSpanProcessor(spans), version="1")

    _respond(tracing, status=200)
    end()

    request, call, phase = _by_depth(spans)
    assert request.parent is not None
    assert f"{request.parent.trace_id:032x}" == CALLER
    assert call.parent is not None
    assert call.parent.span_id == request.context.span_id
    assert phase.parent is not None
    assert phase.parent.span_id == call.context.span_id


def test_a_failure_of_the_server_is_an_error_and_a_refusal_is_not() -> None:
    spans = InMemorySpanExporter()
    tracing, end = make_tracing(SimpleSpanProcessor(spans), version="1")

    _respond(tracing, status=500)
    _respond(tracing, status=404)
    end()

    requests = [each for each in spans.get_finished_spans() if each.kind is SpanKind.SERVER]
    assert [each.status.status_code for each in requests] == [StatusCode.ERROR, StatusCode.UNSET]


def _respond(tracing: Tracing, *, status: int) -> None:
    observer = TracedObserver(Metrics().observer_of("g"), tracing)
    headers = {b"traceparent": f"00-{CALLER}-b7ad6b7169203331-01".encode()}
    with tracing.request("POST", "/graphs/g/query", headers) as record_response:
        with tracing.operation("query", graph_id="g"), observer.phase(Phase.RUN):
            observer.count(Event.COMPILED_HIT)
        record_response("/graphs/{graph_id}/query", status)


def _by_depth(spans: InMemorySpanExporter) -> tuple[ReadableSpan, ReadableSpan, ReadableSpan]:
    phase, call, request = spans.get_finished_spans()
    return request, call, phase
