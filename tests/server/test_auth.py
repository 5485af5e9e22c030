"""Access to a server that identifies its callers by their tokens."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.servers import FIND_PERSON, Server, running_server

CHANGE = {
    "query": "query add($n: String) { insert Person { name: $n } }",
    "params": {"n": "Eve"},
}
GRAPH_ROUTES = (
    ("GET", "/graphs"),
    ("GET", "/graphs/default/snapshot"),
    ("POST", "/graphs/default/query"),
    ("GET", "/graphs/unknown/snapshot"),
    ("GET", "/graphs/bad_id/snapshot"),
    ("GET", "/graphs/default/no-such-route"),
    ("GET", "/metrics"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("auth")
    tokens = folder / "tokens.json"
    tokens.write_text('{"ann": " t-ann ", "bob": "t-bob"}')
    tokens.chmod(0o600)
    with running_server(
        folder,
        environment={
            "OMNIGRAPH_SERVER_BEARER_TOKEN": "legacy",
            "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(tokens),
            "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"cyd": "t-cyd"}',
            "OMNIGRAPH_LOG": "debug",
        },
    ) as started:
        yield started


@pytest.mark.parametrize("token", [None, "t-ann", "nonsense"])
def test_the_health_check_needs_no_token(server: Server, token: str | None) -> None:
    response = server.request("GET", "/healthz", token=token)

    assert response.status_code == 200
    assert set(response.json()) == {"status", "version"}
    assert response.json()["status"] == "ok"


def test_the_openapi_document_needs_no_token(server: Server) -> None:
    response = server.request("GET", "/openapi.json", token=None)

    assert response.status_code == 200


@pytest.mark.parametrize(("method", "path"), GRAPH_ROUTES)
def test_without_a_token_every_other_route_is_refused(
    server: Server, method: str, path: str
) -> None:
    response = server.request(method, path, token=None)

    assert response.status_code == 401
    assert response.json() == {"error": "missing bearer token", "code": "unauthorized"}


@pytest.mark.parametrize("header", ["Basic x", "bearer t-ann", "Bearer", "t-ann", ""])
def test_an_authorization_header_of_another_scheme_is_refused(server: Server, header: str) -> None:
    response = server.request(
        "GET", "/graphs/default/snapshot", token=None, headers={"Authorization": header}
    )

    assert response.status_code == 401
    assert response.json()["error"] == "missing bearer token"


def test_two_authorization_headers_are_refused(server: Server) -> None:
    both = [("Authorization", "Bearer t-ann"), ("Authorization", "Bearer t-bob")]

    with server.client(token=None) as client:
        response = client.get("/graphs/default/snapshot", headers=both)

    assert response.status_code == 401
    assert response.json()["error"] == "missing bearer token"


@pytest.mark.parametrize("token", ["wrong", "t-ann2", "t-cyd", " t-ann"])
def test_an_unknown_token_is_refused(server: Server, token: str) -> None:
    response = server.request("GET", "/graphs/default/snapshot", token=token)

    assert response.status_code == 401
    assert response.json()["error"] == "invalid bearer token"


@pytest.mark.parametrize("token", ["legacy", "t-ann", "t-bob"])
def test_each_token_of_each_source_is_known(server: Server, token: str) -> None:
    response = server.request("GET", "/graphs/default/snapshot", token=token)

    assert response.status_code == 200


def test_without_a_policy_holders_of_tokens_may_read_and_nothing_else(server: Server) -> None:
    send = partial(server.request, token="t-ann")
    query = {"query": FIND_PERSON, "name": "all_people"}
    schema = {"schema_source": "node X { a: String @key }"}

    responses = {
        "snapshot": send("GET", "/graphs/default/snapshot"),
        "query": send("POST", "/graphs/default/query", json=query),
        "change": send("POST", "/graphs/default/change", json=CHANGE),
        "mutate": send("POST", "/graphs/default/mutate", json=CHANGE),
        "apply": send("POST", "/graphs/default/schema/apply", json=schema),
        "stored": send("POST", "/graphs/default/queries/x"),
        "export": send("POST", "/graphs/default/export", json={}),
        "graphs": send("GET", "/graphs"),
    }

    statuses = {name: response.status_code for name, response in responses.items()}
    assert statuses == {
        "snapshot": 200,
        "query": 200,
        "change": 403,
        "mutate": 403,
        "apply": 403,
        "stored": 404,
        "export": 403,
        "graphs": 403,
    }


def test_a_denial_for_lack_of_a_policy_says_so(server: Server) -> None:
    response = server.request("POST", "/graphs/default/change", token="t-ann", json=CHANGE)

    assert response.json()["code"] == "forbidden"
    assert "default-deny" in response.json()["error"]


def test_an_actor_claimed_by_the_request_is_ignored(server: Server) -> None:
    server.request(
        "GET",
        "/graphs/default/snapshot",
        token="t-bob",
        headers={"X-Actor-Id": "ann", "X-Request-Id": "who-is-it"},
    )

    decided = [
        line
        for line in server.log_lines()
        if line.get("request_id") == "who-is-it" and line["event"] == "policy decision"
    ]
    assert [line["actor"] for line in decided] == ["bob"]
    assert decided[0]["allowed"] is True
    assert decided[0]["action"] == "read"


def test_no_token_is_ever_logged(server: Server) -> None:
    server.request("GET", "/graphs/default/snapshot", token="t-ann")
    server.request(
        "GET",
        "/graphs/default/snapshot",
        token="a-guess",
        headers={"X-Request-Id": "guessed"},
    )

    server.wait_for_line("request", request_id="guessed")
    said = server.log_text()

    assert '"event":"request"' in said
    for token in ("t-ann", "t-bob", "legacy", "a-guess"):
        assert token not in said.replace("OMNIGRAPH_SERVER_BEARER_TOKEN", "")


def test_counts_are_for_holders_of_tokens(server: Server) -> None:
    response = server.request("GET", "/metrics", token="t-ann")

    assert response.status_code == 200
    assert "omnigraph_http_requests_total" in response.text
