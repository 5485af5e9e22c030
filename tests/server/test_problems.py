"""Errors have one shape, with a request id, and reveal nothing hidden."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.servers import FIND_PERSON, Server, running_server

INSERT = "query add($n: String) { insert Person { name: $n } }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("problems")
    with running_server(
        folder, "--unauthenticated", environment={"OMNIGRAPH_LOG": "debug"}
    ) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client(token=None) as opened:
        yield opened


@pytest.mark.parametrize("path", ["/healthz", "/graphs/x/schema", "/nowhere", "/graphs/_/x"])
def test_every_response_has_its_own_request_id(client: httpx.Client, path: str) -> None:
    first, second = client.get(path), client.get(path)

    ids = [each.headers["X-Request-Id"] for each in (first, second)]
    assert all(ids)
    assert ids[0] != ids[1]


def test_a_request_id_of_the_caller_is_returned_and_logged(
    server: Server, client: httpx.Client
) -> None:
    response = client.get("/graphs/default/schema", headers={"X-Request-Id": "my-id.1"})

    assert response.headers["X-Request-Id"] == "my-id.1"
    assert server.wait_for_line("graph routed", request_id="my-id.1")["graph"] == "default"
    assert server.wait_for_line("request", request_id="my-id.1")["status"] == 200


@pytest.mark.parametrize("id", [b"", b"x" * 65, b"a b", b"a\tb", b'{"a":1}', "ä".encode()])
def test_an_id_that_is_long_or_unclean_is_replaced(client: httpx.Client, id: bytes) -> None:
    response = client.get("/healthz", headers={b"X-Request-Id": id})

    assert response.headers["X-Request-Id"].encode("latin-1") != id


def test_a_mutation_sent_as_a_query_is_refused_with_its_route(client: httpx.Client) -> None:
    response = client.post("/graphs/default/query", json={"query": INSERT, "params": {"n": "Eve"}})

    assert response.status_code == 400
    assert "contains mutations" in response.json()["error"]
    assert "POST /mutate" in response.json()["error"]


def test_conflicts_of_a_merge_are_listed(client: httpx.Client) -> None:
    client.post("/graphs/default/branches", json={"name": "side"})
    for branch, age in (("main", 41), ("side", 42)):
        client.post(
            "/graphs/default/mutate",
            json={
                "query": "query older($a: I32) {"
                ' update Person set { age: $a } where name = "Alice" }',
                "params": {"a": age},
                "branch": branch,
            },
        ).raise_for_status()

    response = client.post("/graphs/default/branches/merge", json={"source": "side"})

    assert response.status_code == 409
    body = response.json()
    assert body["code"] == "conflict"
    assert body["error"] == "merge conflicts: node:Person:Alice (divergent_update)"
    found = [(each["table_key"], each["row_id"], each["kind"]) for each in body["merge_conflicts"]]
    assert found == [("node:Person", "Alice", "divergent_update")]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/query", {"query": "nonsense"}),
        ("POST", "/query", {"query": FIND_PERSON, "name": "all_people", "branch": "none"}),
        ("POST", "/query", {"query": FIND_PERSON, "name": "all_people", "snapshot": "none"}),
        ("POST", "/load", {"data": '{"type": "Absent", "data": {}}', "mode": "merge"}),
        ("POST", "/load", {"data": "\x00", "mode": "merge"}),
        ("POST", "/branches", {"name": "../../etc"}),
        ("DELETE", "/branches/none", None),
        ("GET", "/commits/none", None),
        ("POST", "/schema/apply", {"schema_source": "node"}),
    ],
)
def test_no_error_reveals_the_location_or_the_implementation(
    server: Server, client: httpx.Client, method: str, path: str, body: object
) -> None:
    response = client.request(method, f"/graphs/default{path}", json=body)

    assert response.status_code in range(400, 500)
    assert set(response.json()) >= {"error", "code"}
    for secret in (str(server.folder), "Traceback", ".py", "site-packages"):
        assert secret not in response.text


def test_a_graph_that_is_broken_is_a_500_whose_trace_is_in_the_log_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("broken")
    with (
        running_server(folder, "--unauthenticated") as server,
        server.client(token=None) as client,
    ):
        for file in (server.store / "nodes").rglob("*.manifest"):
            file.write_bytes(b"nonsense")

        response = client.post(
            "/graphs/default/query",
            json={"query": FIND_PERSON, "name": "all_people"},
            headers={"X-Request-Id": "broken-1"},
        )

        assert response.status_code == 500
        assert response.json()["code"] in ("internal", "unavailable")
        assert str(folder) not in response.text
        lines = [each for each in server.log_lines() if each.get("request_id") == "broken-1"]
        assert any(each["level"] == "error" and "trace" in each for each in lines)


def test_a_graph_that_is_deleted_while_it_is_served_is_reported_without_its_location(
    tmp_path: Path,
) -> None:
    with (
        running_server(tmp_path, "--unauthenticated") as server,
        server.client(token=None) as client,
    ):
        shutil.rmtree(server.store)

        responses = [
            client.post("/graphs/default/mutate", json={"query": INSERT, "params": {"n": "Eve"}}),
            client.post("/graphs/default/query", json={"query": FIND_PERSON, "name": "all_people"}),
            client.get("/graphs/default/commits"),
            client.post("/admin/reload"),
        ]

    assert [each.status_code for each in responses[:3]] == [500, 500, 500]
    assert not [each.text for each in responses if str(tmp_path) in each.text]
