"""Who may use a server that knows its callers by their tokens."""

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
def test_whether_a_server_lives_is_told_to_everybody(server: Server, token: str | None) -> None:
    answer = server.request("GET", "/healthz", token=token)

    assert answer.status_code == 200
    assert set(answer.json()) == {"status", "version"}
    assert answer.json()["status"] == "ok"


def test_the_description_of_the_server_is_for_everybody(server: Server) -> None:
    answer = server.request("GET", "/openapi.json", token=None)

    assert answer.status_code == 200


@pytest.mark.parametrize(("method", "path"), GRAPH_ROUTES)
def test_without_a_token_nothing_else_is_told(server: Server, method: str, path: str) -> None:
    answer = server.request(method, path, token=None)

    assert answer.status_code == 401
    assert answer.json() == {"error": "missing bearer token", "code": "unauthorized"}


@pytest.mark.parametrize("header", ["Basic x", "bearer t-ann", "Bearer", "t-ann", ""])
def test_a_header_of_another_kind_is_no_token(server: Server, header: str) -> None:
    answer = server.request(
        "GET", "/graphs/default/snapshot", token=None, headers={"Authorization": header}
    )

    assert answer.status_code == 401
    assert answer.json()["error"] == "missing bearer token"


def test_two_tokens_are_as_good_as_none(server: Server) -> None:
    both = [("Authorization", "Bearer t-ann"), ("Authorization", "Bearer t-bob")]

    with server.client(token=None) as client:
        answer = client.get("/graphs/default/snapshot", headers=both)

    assert answer.status_code == 401
    assert answer.json()["error"] == "missing bearer token"


@pytest.mark.parametrize("token", ["wrong", "t-ann2", "t-cyd", " t-ann"])
def test_a_token_that_nobody_has_is_refused(server: Server, token: str) -> None:
    answer = server.request("GET", "/graphs/default/snapshot", token=token)

    assert answer.status_code == 401
    assert answer.json()["error"] == "invalid bearer token"


@pytest.mark.parametrize("token", ["legacy", "t-ann", "t-bob"])
def test_each_token_of_each_source_is_known(server: Server, token: str) -> None:
    answer = server.request("GET", "/graphs/default/snapshot", token=token)

    assert answer.status_code == 200


def test_without_a_policy_holders_of_tokens_may_read_and_nothing_else(server: Server) -> None:
    ask = partial(server.request, token="t-ann")
    query = {"query": FIND_PERSON, "name": "all_people"}
    schema = {"schema_source": "node X { a: String @key }"}

    answers = {
        "snapshot": ask("GET", "/graphs/default/snapshot"),
        "query": ask("POST", "/graphs/default/query", json=query),
        "change": ask("POST", "/graphs/default/change", json=CHANGE),
        "mutate": ask("POST", "/graphs/default/mutate", json=CHANGE),
        "apply": ask("POST", "/graphs/default/schema/apply", json=schema),
        "stored": ask("POST", "/graphs/default/queries/x"),
        "export": ask("POST", "/graphs/default/export", json={}),
        "graphs": ask("GET", "/graphs"),
    }

    statuses = {name: answer.status_code for name, answer in answers.items()}
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


def test_a_denial_for_want_of_a_policy_says_so(server: Server) -> None:
    answer = server.request("POST", "/graphs/default/change", token="t-ann", json=CHANGE)

    assert answer.json()["code"] == "forbidden"
    assert "default-deny" in answer.json()["error"]


def test_who_somebody_says_to_be_does_not_matter(server: Server) -> None:
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
    answer = server.request("GET", "/metrics", token="t-ann")

    assert answer.status_code == 200
    assert "omnigraph_http_requests_total" in answer.text
