"""JSON log, Prometheus metrics, tracing port."""

import logging
from contextvars import copy_context
from io import BytesIO

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from omnigraph.model.ports import Event, Observer, Phase
from omnigraph.server.telemetry import (
    JsonLines,
    Lines,
    Log,
    Metrics,
    merge_metrics,
    parse_level,
    set_request_id,
)


def test_a_line_has_a_time_a_level_an_event_and_its_fields() -> None:
    stream = BytesIO()

    Log(Lines(stream, {}), logging.INFO).event("graph routed", graph="g")

    line = orjson.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "info", "event": "graph routed", "graph": "g"}


def test_a_line_about_a_request_names_it() -> None:
    stream = BytesIO()
    log = Log(Lines(stream, {}), logging.INFO)

    _in_a_request("r-1", log)

    assert orjson.loads(stream.getvalue())["request_id"] == "r-1"


def test_what_is_below_the_level_is_not_written() -> None:
    stream = BytesIO()
    log = Log(Lines(stream, {}), logging.ERROR)

    log.debug("a")
    log.event("b")
    log.warning("c")
    log.error("d", error=None)

    assert [orjson.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["d"]


def test_a_failure_is_written_with_its_trace_on_one_line() -> None:
    stream = BytesIO()

    try:
        raise ZeroDivisionError("never")
    except ZeroDivisionError as error:
        Log(Lines(stream, {}), logging.INFO).error("failed", error=error)

    (line,) = stream.getvalue().splitlines()
    assert "ZeroDivisionError: never" in orjson.loads(line)["trace"]


def test_what_a_library_logs_becomes_a_line_with_its_fields() -> None:
    stream = BytesIO()
    logger = logging.Logger("some.library")
    logger.addHandler(JsonLines(Lines(stream, {})))

    logger.warning("%s of %s", 1, 2, extra={"actor": "ann"})

    line = orjson.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("1 of 2", "warning", "some.library")
    assert line["actor"] == "ann"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("debug", logging.DEBUG),
        (" WARN ", logging.WARNING),
        ("error", logging.ERROR),
        ("", logging.INFO),
        ("omnigraph=debug,hyper=warn", logging.INFO),
    ],
)
def test_a_level_is_known_by_its_name_and_is_otherwise_info(text: str, level: int) -> None:
    assert parse_level(text) == level


def _in_a_request(request_id: str, log: Log) -> None:
    def respond() -> None:
        set_request_id(request_id)
        log.event("routed")

    copy_context().run(respond)


def test_a_request_is_counted_by_its_route_and_not_by_its_path() -> None:
    metrics = Metrics()

    metrics.observe_request("/graphs/{graph_id}/query", "POST", 200, 0.25)

    text = metrics.encode(hidden=frozenset()).decode()
    labels = 'method="POST",route="/graphs/{graph_id}/query"'
    assert f'omnigraph_http_requests_total{{{labels},status="200"}} 1.0' in text
    assert f"omnigraph_http_request_seconds_sum{{{labels}}} 0.25" in text


def test_requests_are_in_flight_while_they_are() -> None:
    metrics = Metrics()

    with metrics.in_flight():
        during = metrics.encode(hidden=frozenset()).decode()

    assert "omnigraph_http_requests_in_flight 1.0" in during
    assert "omnigraph_http_requests_in_flight 0.0" in metrics.encode(hidden=frozenset()).decode()


def test_what_happens_in_a_graph_is_counted_for_that_graph() -> None:
    metrics = Metrics()
    observer: Observer = metrics.observer_of("g")
    metrics.observer_of("other")

    observer.count(Event.COMMITTED)
    observer.count(Event.COMMITTED)

    text = metrics.encode(hidden=frozenset()).decode()
    assert 'omnigraph_events_total{event="committed",graph="g"} 2.0' in text
    assert 'omnigraph_events_total{event="committed",graph="other"} 0.0' in text


def test_every_phase_is_timed_even_if_it_fails() -> None:
    metrics = Metrics()
    observer = metrics.observer_of("g")

    for phase in Phase:
        try:
            with observer.phase(phase):
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    text = metrics.encode(hidden=frozenset()).decode()
    for phase in Phase:
        assert f'omnigraph_phase_seconds_count{{graph="g",phase="{phase}"}} 1.0' in text


def test_the_metrics_of_workers_are_one_text_in_which_each_series_names_its_worker() -> None:
    one, two = Metrics(), Metrics()
    one.observe_request("/graphs/{graph_id}/query", "POST", 200, 0.25)
    two.observe_request("/healthz", "GET", 200, 0.25)

    merged = merge_metrics({1: one.encode(hidden=frozenset()), 2: two.encode(hidden=frozenset())})

    families = {each.name: each for each in text_string_to_metric_families(merged.decode())}
    counted = {
        (each.labels["worker"], each.labels["route"])
        for each in families["omnigraph_http_requests"].samples
        if each.name.endswith("_total")
    }
    assert counted == {("1", "/graphs/{graph_id}/query"), ("2", "/healthz")}
    in_flight = families["omnigraph_http_requests_in_flight"].samples
    assert [each.labels for each in in_flight] == [{"worker": "1"}, {"worker": "2"}]
    helps = [line for line in merged.splitlines() if line.startswith(b"# HELP")]
    assert len(helps) == len(set(helps))
