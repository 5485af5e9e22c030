"""Reloading: the applied configuration is served atomically, and no request is dropped."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.support.clusters import (
    FIND_EMAIL,
    FIND_PERSON,
    PEOPLE_WITH_EMAIL,
    write_files,
    write_sidecar,
)
from tests.support.commands import invoke_command
from tests.support.served_clusters import (
    EVERYTHING,
    SERVER,
    cluster_server,
    declare,
    policed_cluster,
)
from tests.support.servers import Server, running_server, wait_for_job

KNOWLEDGE = "/graphs/knowledge"


def reload(server: Server, *, token: str = "t-ann") -> httpx.Response:
    return server.request("POST", "/admin/reload", token=token)


def apply(folder: Path) -> None:
    applied = invoke_command("cluster", "apply", "--config", folder, "--as", "ann", "--json")
    assert applied.fields["converged"] is True, applied


def test_a_newly_applied_configuration_is_served_after_a_reload(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    with cluster_server(tmp_path) as server:
        write_files(tmp_path, {"people.pg": PEOPLE_WITH_EMAIL, "queries/people.gq": FIND_EMAIL})
        declare(tmp_path, more={"schema": "people.pg"})
        apply(tmp_path)
        catalog = f"{KNOWLEDGE}/queries"
        before = server.request("GET", catalog, token="t-rob").json()["queries"]

        response = reload(server)

        after = server.request("GET", catalog, token="t-rob").json()["queries"]
        found = server.request(
            "POST", f"{catalog}/find_email", token="t-rob", json={"params": {"name": "Zoe"}}
        )
        more = server.request("GET", "/graphs/more/snapshot", token="t-rob")

    assert [each["name"] for each in before] == ["add_person", "find_person"]
    assert response.json() == {
        "revision": 3,
        "graphs": ["knowledge", "map", "more"],
        "quarantined": [],
    }
    assert [each["name"] for each in after] == ["find_email"]
    assert (found.status_code, more.status_code) == (200, 200)


def test_a_policy_holds_from_the_reload_on(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    adding = {"query": 'query q() { insert Person { name: "Zoe" } }'}
    with cluster_server(tmp_path) as server:
        denied = server.request("POST", f"{KNOWLEDGE}/mutate", token="t-rob", json=adding)
        write_files(
            tmp_path, {"everything.yaml": EVERYTHING.replace("admins: [ann]", "admins: [rob]")}
        )
        apply(tmp_path)

        reload(server)

        allowed = server.request("POST", f"{KNOWLEDGE}/mutate", token="t-rob", json=adding)
        forbidden = server.request("POST", f"{KNOWLEDGE}/mutate", token="t-ann", json=adding)

    assert (denied.status_code, allowed.status_code, forbidden.status_code) == (403, 200, 403)


def test_a_reload_needs_the_admin_permission(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    with cluster_server(tmp_path) as server:
        by_rob, by_unknown = reload(server, token="t-rob"), reload(server, token="none")
    write_files(tmp_path, {"server.yaml": SERVER.replace(", admin]", "]")})
    apply(tmp_path)
    with cluster_server(tmp_path) as server:
        by_ann = reload(server)

    assert (by_rob.status_code, by_unknown.status_code, by_ann.status_code) == (403, 401, 403)


def test_a_cluster_that_cannot_be_served_does_not_replace_the_served_one(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    with cluster_server(tmp_path) as server:
        write_sidecar(tmp_path, "map")
        changing = reload(server)
        (tmp_path / "__cluster/state.json").write_text("{", encoding="utf-8")
        broken = reload(server)

        found = [
            server.request("GET", f"/graphs/{id}/snapshot", token="t-rob").status_code
            for id in ("knowledge", "map")
        ]

    assert (changing.status_code, broken.status_code) == (409, 409)
    assert "graph 'map' is being changed" in changing.json()["error"]
    assert "[invalid_state_json]" in broken.json()["error"]
    assert found == [200, 200]


def test_an_undeclared_graph_is_not_served_after_a_reload(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    declare(tmp_path, more={"schema": "people.pg"})
    apply(tmp_path)
    with cluster_server(tmp_path) as server:
        declare(tmp_path)
        config = ("--config", tmp_path, "--as", "ann")
        invoke_command("cluster", "approve", "graph.more", *config)
        apply(tmp_path)

        response = reload(server)

        removed = server.request("GET", "/graphs/more/snapshot", token="t-rob")

    assert response.json()["graphs"] == ["knowledge", "map"]
    assert removed.status_code == 404


def test_a_signal_reloads_and_a_reload_that_is_refused_is_logged(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    with cluster_server(tmp_path) as server:
        write_files(tmp_path, {"queries/people.gq": FIND_PERSON})
        apply(tmp_path)

        os.kill(server.process.pid, signal.SIGHUP)
        server.wait_for_line("reloaded", revision=3)
        catalog = server.request("GET", f"{KNOWLEDGE}/queries", token="t-rob").json()["queries"]
        (tmp_path / "__cluster/state.json").unlink()
        os.kill(server.process.pid, signal.SIGHUP)
        refused = server.wait_for_line("reload refused")
        response = server.request("GET", f"{KNOWLEDGE}/snapshot", token="t-rob")

    assert [each["name"] for each in catalog] == ["find_person"]
    assert "cluster_state_missing" in str(refused["reason"])
    assert response.status_code == 200


def test_many_concurrent_signals_cause_few_reloads(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    with cluster_server(tmp_path) as server:
        for _ in range(100):
            os.kill(server.process.pid, signal.SIGHUP)
        server.wait_for_line("reloaded")
        response = reload(server)
        reloads = sum(line["event"] == "reloaded" for line in server.log_lines())

    assert response.status_code == 200
    assert reloads < 50


def test_reloads_drop_no_request(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    texts = [EVERYTHING, EVERYTHING.replace("id: all", "id: everything")]
    with cluster_server(tmp_path) as server:
        statuses: list[int] = []
        is_over = threading.Event()

        def read(client: httpx.Client) -> None:
            path = f"{KNOWLEDGE}/queries/find_person"
            response = client.post(path, json={"params": {"name": "Zoe"}})
            statuses.append(response.status_code)

        def write(client: httpx.Client) -> None:
            name = f"n{len(statuses)}-{threading.get_ident()}"
            path = f"{KNOWLEDGE}/queries/add_person"
            response = client.post(path, json={"params": {"name": name}})
            statuses.append(response.status_code)

        def go_on(work: Callable[[httpx.Client], None]) -> None:
            with server.client(token="t-ann") as client:
                while not is_over.is_set():
                    work(client)

        users = [threading.Thread(target=go_on, args=(each,)) for each in (read, read, write)]
        for each in users:
            each.start()
        try:
            # Another policy each time, so that the graph is reopened each time.
            for number in range(4):
                write_files(tmp_path, {"everything.yaml": texts[1 - number % 2]})
                apply(tmp_path)
                assert reload(server).status_code == 200
        finally:
            is_over.set()
            for each in users:
                each.join()
        errors = [line for line in server.log_lines() if line["level"] == "error"]

    assert len(statuses) > 20
    assert set(statuses) == {200}
    assert errors == []


def test_a_background_load_outlives_the_revision_that_it_began_in(tmp_path: Path) -> None:
    policed_cluster(tmp_path)
    rows = "".join(
        f'{{"type":"Person","data":{{"name":"p{number}"}}}}\n' for number in range(50_000)
    )
    with cluster_server(tmp_path) as server, server.client(token="t-ann") as client:
        write_files(tmp_path, {"everything.yaml": f"# another\n{EVERYTHING}"})
        apply(tmp_path)
        started = client.post(f"{KNOWLEDGE}/load?async=true", json={"data": rows, "mode": "append"})
        assert started.status_code == 202

        assert reload(server).status_code == 200

        ended = wait_for_job(client, started.headers["Location"])
        loaded = client.get(f"{KNOWLEDGE}/snapshot").json()["tables"][0]["row_count"]

    assert ended["status"] == "done", ended
    assert loaded == 50_000


def test_a_server_of_one_graph_reads_its_files_again(tmp_path: Path) -> None:
    queries, policy = tmp_path / "stored.gq", tmp_path / "policy.yaml"
    queries.write_text("query one() { match { $p: Person } return { $p.name } }")
    policy.write_text(EVERYTHING)
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"ann": "t-ann"}')
    tokens.chmod(0o640)
    arguments = ("--queries", str(queries), "--policy", str(policy))
    with running_server(
        tmp_path,
        *arguments,
        environment={"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(tokens)},
    ) as server:
        queries.write_text("query two() { match { $p: Person } return { $p.name } }")
        tokens.write_text('{"ann": "t-new"}')

        os.kill(server.process.pid, signal.SIGHUP)
        server.wait_for_line("reloaded")

        path = "/graphs/default/queries"
        old, new = (server.request("GET", path, token=each) for each in ("t-ann", "t-new"))

    assert old.status_code == 401
    assert [each["name"] for each in new.json()["queries"]] == ["two"]
