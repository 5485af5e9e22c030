"""From a request line to a route: ids, percent encoding, sizes and types of bodies."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest

from omnigraph.model.limits import BODY_S_MIN
from omnigraph.server.context import Pool, Route
from omnigraph.server.requests import IDEMPOTENCY_KEY, IF_COMMIT, NO_BODY
from omnigraph.server.routes.table import make_routes
from omnigraph.server.telemetry import Metrics
from tests.support.served_graphs import require_refused
from tests.support.servers import FIND_PERSON, Server, open_server

MEBIBYTE = 1024 * 1024

ROUTES = make_routes(
    version="0",
    source_version=None,
    metrics=Metrics(),
    group=None,
    is_authenticated=False,
    agents_write_main=False,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("routing")) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client(token=None) as opened:
        yield opened


@pytest.mark.parametrize("path", ["/snapshot", "/query", "/", "/graphs/default"])
def test_there_are_no_other_routes(client: httpx.Client, path: str) -> None:
    response = client.get(path)

    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("query", "POST"), ("branches", "GET, HEAD, POST"), ("schema", "GET, HEAD")],
)
def test_a_path_has_the_methods_that_it_has(client: httpx.Client, path: str, allowed: str) -> None:
    response = client.put(f"/graphs/default/{path}", json={})

    assert response.status_code == 405
    assert response.json()["code"] == "method_not_allowed"
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize(
    "graph_id",
    ["bad_id", "healthz", "graphs", "openapi", "policies", "a%2Fb", "x" * 65, "ä"],
)
def test_an_invalid_graph_id_is_refused(client: httpx.Client, graph_id: str) -> None:
    response = client.get(f"/graphs/{graph_id}/snapshot")

    assert response.status_code == 400
    assert response.json()["code"] == "bad_request"


def test_a_graph_that_is_not_served_is_not_found(client: httpx.Client) -> None:
    response = client.get(f"/graphs/{'x' * 64}/snapshot")

    assert response.status_code == 404
    body = response.json()
    assert (body["error"], body["code"]) == (f"graph '{'x' * 64}' not found", "not_found")


def test_a_name_in_a_path_may_hold_a_slash(client: httpx.Client) -> None:
    client.post("/graphs/default/branches", json={"name": "a/b"})

    response = client.delete("/graphs/default/branches/a%2Fb")

    assert response.status_code == 200
    assert response.json()["name"] == "a/b"


def test_a_name_that_is_not_utf_8_is_refused(client: httpx.Client) -> None:
    response = client.delete("/graphs/default/branches/%ff")

    assert response.status_code == 400


def test_a_body_over_a_mebibyte_is_too_long_where_nothing_is_loaded(client: httpx.Client) -> None:
    query = FIND_PERSON + "//" + "x" * MEBIBYTE

    response = client.post("/graphs/default/read", json={"query_source": query})

    assert response.status_code == 413
    assert response.json()["code"] == "resource_limit"


def test_a_body_of_unknown_length_is_cut_off_where_it_gets_too_long(client: httpx.Client) -> None:
    pieces = (b"x" * 65536 for _ in range(20))

    response = client.post(
        "/graphs/default/query", content=pieces, headers={"Content-Type": "application/json"}
    )

    assert response.status_code == 413


def test_a_load_may_be_longer(client: httpx.Client) -> None:
    record = '{"type": "Person", "data": {"name": "Zoe"}}'
    lines = record + " " * 2 * MEBIBYTE

    response = client.post("/graphs/default/load", json={"mode": "merge", "data": lines})

    assert response.status_code == 200


def test_a_load_has_a_bound_too(client: httpx.Client) -> None:
    response = client.post("/graphs/default/load", json={"data": " " * (32 * MEBIBYTE)})

    assert response.status_code == 413


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{}", None, 415),
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"{}", "application/json", 422),
        (b'{"query": 1}', "application/json", 422),
        (b"[]", "application/json", 422),
        (b"null", "application/json; charset=utf-8", 422),
    ],
)
def test_a_body_has_to_be_json_of_the_right_shape(
    client: httpx.Client, content: bytes, kind: str | None, status: int
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}

    response = client.post("/graphs/default/query", content=content, headers=headers)

    assert response.status_code == status
    assert set(response.json()) == {"error", "code"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_refuses_a_query_parameter_that_it_does_not_know(
    client: httpx.Client, route: Route
) -> None:
    path = route.path.replace("{graph_id}", "default").replace("{", "").replace("}", "")

    response = client.request(route.method, path, params={"whatever": "1"}, json={})

    require_refused(response, 400, code="bad_request", says="unknown query parameter 'whatever'")


@pytest.mark.parametrize(
    "route",
    [each for each in ROUTES if each.body.shape is not None],
    ids=lambda each: f"{each.method} {each.path}",
)
def test_every_route_refuses_a_field_that_it_does_not_know(
    client: httpx.Client, route: Route
) -> None:
    path = route.path.replace("{graph_id}", "default").replace("{", "").replace("}", "")

    response = client.request(route.method, path, json={"whatever": {"a": 1}})

    require_refused(response, 400, code="bad_request", says="unknown field 'whatever'")


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_refuses_a_query_parameter_that_is_given_twice(
    client: httpx.Client, route: Route
) -> None:
    path = route.path.replace("{graph_id}", "default").replace("{", "").replace("}", "")
    name = min(route.query_parameters, default="whatever")

    response = client.request(route.method, path, params=[(name, "main"), (name, "other")], json={})

    says = f"'{name}'"
    require_refused(response, 400, code="bad_request", says=says)


@pytest.mark.parametrize(
    "route",
    [each for each in ROUTES if each.body is NO_BODY],
    ids=lambda each: f"{each.method} {each.path}",
)
def test_a_route_without_a_body_refuses_one(client: httpx.Client, route: Route) -> None:
    path = route.path.replace("{graph_id}", "default").replace("{", "").replace("}", "")

    response = client.request(route.method, path, json={"force": True})

    require_refused(response, 400, code="bad_request", says="takes no body")


def test_a_route_without_a_body_accepts_an_empty_object(client: httpx.Client) -> None:
    assert client.request("GET", "/graphs/default/head", json={}).status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [("branch", "other"), ("mode", "overwrite"), ("from", "main"), ("embed", "now"),
     ("engine", "inline")],
)  # fmt: skip
def test_a_load_whose_body_has_the_options_refuses_them_in_the_query_string(
    client: httpx.Client, name: str, value: str
) -> None:
    line = '{"type": "Person", "data": {"name": "Twice"}}'

    response = client.post("/graphs/default/load", params={name: value}, json={"data": line})

    require_refused(response, 400, code="bad_request", says=f"'{name}' in the body")


@pytest.mark.parametrize(
    "route",
    [each for each in ROUTES if IF_COMMIT not in each.parameters],
    ids=lambda each: f"{each.method} {each.path}",
)
def test_a_route_that_cannot_check_the_head_refuses_to_be_given_one(
    client: httpx.Client, route: Route
) -> None:
    path = route.path.replace("{graph_id}", "default").replace("{", "").replace("}", "")

    response = client.request(route.method, path, headers={IF_COMMIT.name: "x"}, json={})

    require_refused(response, 400, code="bad_request", says=IF_COMMIT.name)


@pytest.mark.parametrize(
    "route",
    [each for each in ROUTES if each.pool is Pool.WRITE and IDEMPOTENCY_KEY not in each.parameters],
    ids=lambda each: f"{each.method} {each.path}",
)
def test_a_write_that_cannot_be_retried_by_a_key_refuses_to_be_given_one(
    client: httpx.Client, route: Route
) -> None:
    path = route.path.replace("{graph_id}", "default").replace("{", "").replace("}", "")

    response = client.request(route.method, path, headers={IDEMPOTENCY_KEY.name: "x"}, json={})

    require_refused(response, 400, code="bad_request", says=IDEMPOTENCY_KEY.name)


def test_a_read_may_have_a_key(client: httpx.Client) -> None:
    response = client.get("/graphs/default/head", headers={IDEMPOTENCY_KEY.name: "x"})

    assert response.status_code == 200


def test_a_plan_of_a_schema_has_no_engine(client: httpx.Client) -> None:
    body = {"schema_source": "node Person { name: String @key }", "engine": "spark"}

    response = client.post("/graphs/default/schema/plan", json=body)

    require_refused(response, 400, code="bad_request", says="unknown field 'engine'")


def test_a_field_within_a_list_is_checked_too(client: httpx.Client) -> None:
    decision = {"type": "Person", "id": "Alice", "choice": "source", "chocie": "target"}

    response = client.post(
        "/graphs/default/branches/merge", json={"source": "feature", "resolve": [decision]}
    )

    require_refused(response, 400, code="bad_request", says="unknown field 'resolve.0.chocie'")


def test_a_target_without_a_path_is_not_a_route(server: Server) -> None:
    said = _say(server, b"GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 404")


def test_endless_headers_are_not_buffered(server: Server) -> None:
    said = _say(server, b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * MEBIBYTE)

    assert said.startswith(b"HTTP/1.1 431")


def test_a_request_that_is_not_http_is_refused(server: Server) -> None:
    said = _say(server, b"\x16\x03\x01 nonsense\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 400")


def _say(server: Server, request: bytes) -> bytes:
    address = urlsplit(server.url)
    assert address.hostname is not None
    with socket.create_connection((address.hostname, address.port or 80), timeout=30) as speaking:
        speaking.sendall(request)
        return speaking.recv(65536)


def test_a_slow_body_is_refused_with_408(server: Server) -> None:
    address = urlsplit(server.url)
    assert address.hostname is not None
    head = (
        b"POST /graphs/default/query HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    began = time.monotonic()

    with socket.create_connection((address.hostname, address.port or 80), timeout=60) as slow:
        slow.sendall(head)
        slow.settimeout(0.5)
        response = b""
        while not response and time.monotonic() - began < 4 * BODY_S_MIN:
            slow.sendall(b"x")
            with suppress(TimeoutError):
                response = slow.recv(65536)
        # The head and the body of the response may arrive in separate packets.
        slow.settimeout(60)
        while chunk := slow.recv(65536):
            response += chunk
    took = time.monotonic() - began

    assert response.startswith(b"HTTP/1.1 408 "), response
    assert b"the body arrived too slowly; nothing was changed" in response
    assert BODY_S_MIN <= took < 3 * BODY_S_MIN


def test_a_long_body_may_take_longer_if_it_keeps_coming(server: Server) -> None:
    address = urlsplit(server.url)
    assert address.hostname is not None
    row = b'{"type": "Person", "data": {"name": "Slow"}}\n'
    rows = row + b" " * 600_000
    head = (
        b"POST /graphs/default/load?mode=merge HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/x-ndjson\r\n"
        b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(rows)
    )
    pieces = [rows[start : start + 50_000] for start in range(0, len(rows), 50_000)]

    with socket.create_connection((address.hostname, address.port or 80), timeout=60) as steady:
        steady.sendall(head)
        for piece in pieces:
            steady.sendall(piece)
            time.sleep(1.2 * BODY_S_MIN / len(pieces))
        response = steady.recv(65536)

    assert response.startswith(b"HTTP/1.1 200 "), response
