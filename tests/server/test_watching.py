"""Observing a server: its metrics, logs and traces."""

import gzip
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support.servers import FIND_PERSON, Server, running_server

INSERT = "query add($n: String) { insert Person { name: $n } }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(
        tmp_path_factory.mktemp("watching"),
        environment={
            "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ann": "one"}',
            "OMNIGRAPH_METRICS_PUBLIC": "1",
            "OMNIGRAPH_SOURCE_VERSION": "abc123",
            "OMNIGRAPH_LOG": "debug",
        },
    ) as started:
        yield started


def test_counts_may_be_made_public(server: Server) -> None:
    response = server.request("GET", "/metrics", token=None)

    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")


def test_a_build_may_report_its_source_version(server: Server) -> None:
    response = server.request("GET", "/healthz", token=None)

    assert response.json()["source_version"] == "abc123"


def test_requests_are_counted_by_route_and_what_graphs_do_by_graph(server: Server) -> None:
    # Another parameter each time: a cached response is not computed again.
    for name in ("Alice", "Bob"):
        request = {"query": FIND_PERSON, "name": "get_person", "params": {"name": name}}
        server.request("POST", "/graphs/default/query", token="one", json=request)

    counts = server.request("GET", "/metrics", token=None).text

    route = 'method="POST",route="/graphs/{graph_id}/query",status="200"'
    assert f"omnigraph_http_requests_total{{{route}}} 2.0" in counts
    assert 'omnigraph_events_total{event="compiled_hit",graph="default"} 1.0' in counts
    assert 'omnigraph_phase_seconds_count{graph="default",phase="run"} 2.0' in counts


def test_every_line_of_the_log_is_a_json_object_with_an_event(server: Server) -> None:
    server.request("GET", "/graphs/default/schema", token="one")
    server.request("GET", "/graphs/none/schema", token="one")

    server.wait_for_line("request", status=404)
    lines = server.log_lines()

    assert all({"timestamp", "level", "event"} <= set(line) for line in lines)
    about_requests = [line for line in lines if line["event"] == "request"]
    assert {line["level"] for line in about_requests} == {"debug"}
    assert {line["status"] for line in about_requests} >= {200, 404}


def test_spans_are_sent_where_the_environment_says(tmp_path: Path) -> None:
    collector = Collector()
    with (
        collector.listening() as url,
        running_server(
            tmp_path, "--unauthenticated", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": url}
        ) as server,
    ):
        server.request(
            "POST",
            "/graphs/default/mutate",
            token=None,
            json={"query": INSERT, "params": {"n": "a secret value"}},
        )

        code = server.end(signal.SIGTERM)

        assert code == 0
    sent = b"".join(collector.bodies)
    for name in (
        b"db.system.name",
        b"db.operation.name",
        b"db.namespace",
        b"publish",
        b"http.route",
    ):
        assert name in sent
    assert b"a secret value" not in sent


class Collector:
    """Receives what a server exports, on this machine."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    @contextmanager
    def listening(self) -> Iterator[str]:
        """The url to export to, for as long as the block runs."""
        bodies = self.bodies

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_packed = self.headers.get("Content-Encoding") == "gzip"
                bodies.append(gzip.decompress(body) if is_packed else body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Taking) as taking:
            thread = Thread(target=taking.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{taking.server_port}"
            finally:
                taking.shutdown()
                thread.join()
