"""What a server counts: requests by route, and what its graphs tell it."""

from omnigraph.model.observer import Event, Observer, Phase
from omnigraph.server.metrics import Metrics


def test_a_request_is_counted_by_its_route_and_not_by_its_path() -> None:
    metrics = Metrics()

    metrics.observe_request("/graphs/{graph_id}/query", "POST", 200, 0.25)

    text = metrics.encode().decode()
    labels = 'method="POST",route="/graphs/{graph_id}/query"'
    assert f'omnigraph_http_requests_total{{{labels},status="200"}} 1.0' in text
    assert f"omnigraph_http_request_seconds_sum{{{labels}}} 0.25" in text


def test_requests_are_in_flight_while_they_are() -> None:
    metrics = Metrics()

    with metrics.in_flight():
        during = metrics.encode().decode()

    assert "omnigraph_http_requests_in_flight 1.0" in during
    assert "omnigraph_http_requests_in_flight 0.0" in metrics.encode().decode()


def test_what_happens_in_a_graph_is_counted_for_that_graph() -> None:
    metrics = Metrics()
    observer: Observer = metrics.observer_of("g")
    metrics.observer_of("other")

    observer.count(Event.COMMITTED)
    observer.count(Event.COMMITTED)

    text = metrics.encode().decode()
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

    text = metrics.encode().decode()
    for phase in Phase:
        assert f'omnigraph_phase_seconds_count{{graph="g",phase="{phase}"}} 1.0' in text
