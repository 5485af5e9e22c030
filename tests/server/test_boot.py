"""Starting and stopping a server: unsafe settings are refused, and it ends in order."""

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.graphs import social_graph
from tests.support.servers import refused_server, running_server, serving

TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ann": "one"}'}
POLICY = """
version: 1
groups:
  team: [ann]
rules:
  - id: team-reads
    allow: {actors: {group: team}, actions: [read]}
"""


def test_without_a_graph_a_server_says_which_arguments_select_one(tmp_path: Path) -> None:
    ended = refused_server(tmp_path)

    assert ended.code == 1
    assert "boots from a cluster" in ended.said
    assert "--store" in ended.said


def test_missing_authentication_is_refused_before_a_graph_is_opened(tmp_path: Path) -> None:
    ended = refused_server(tmp_path, "--store", str(tmp_path / "no graph"))

    assert ended.code == 1
    assert "--unauthenticated" in ended.said
    assert "not found" not in ended.said


def test_a_policy_without_tokens_is_refused_whatever_other_flags_are_given(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)

    ended = refused_server(
        tmp_path,
        *("--store", str(tmp_path / "no graph"), "--policy", str(policy), "--unauthenticated"),
    )

    assert ended.code == 1
    assert "no bearer tokens" in ended.said
    assert "not found" not in ended.said


def test_an_invalid_policy_prevents_a_server_from_starting(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 2\n")
    social_graph(tmp_path / "graph").close()

    ended = refused_server(
        tmp_path,
        *("--store", str(tmp_path / "graph"), "--policy", str(policy)),
        environment=TOKENS,
    )

    assert ended.code == 1
    assert "version" in ended.said


def test_a_location_without_a_graph_is_refused(tmp_path: Path) -> None:
    ended = refused_server(tmp_path, "--store", str(tmp_path / "none"), "--unauthenticated")

    assert ended.code == 1
    assert "no graph can be served" in ended.said
    assert "Traceback" not in ended.said


@pytest.mark.parametrize(
    "environment",
    [
        {"OMNIGRAPH_SERVER_BEARER_TOKEN": " "},
        {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": "not json s3cret"},
        {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": "[" * 10_000},
        {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": "/nowhere/tokens.json"},
        {"OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET": "arn"},
    ],
)
def test_invalid_tokens_prevent_a_server_from_starting(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    ended = refused_server(tmp_path, "--store", "x", "--unauthenticated", environment=environment)

    assert ended.code == 1
    assert next(iter(environment)).removesuffix("_JSON") in ended.said or "token" in ended.said
    assert "s3cret" not in ended.said
    assert "Traceback" not in ended.said


def test_an_address_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = refused_server(tmp_path, "--store", "x", "--unauthenticated", "--bind", bind)

    assert ended.code == 1
    assert bind in ended.said


def test_an_unknown_flag_is_a_usage_error(tmp_path: Path) -> None:
    ended = refused_server(tmp_path, "--nonsense")

    assert ended.code == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_terminated_server_finishes_its_requests(tmp_path: Path, number: signal.Signals) -> None:
    with (
        running_server(tmp_path, "--unauthenticated") as server,
        ThreadPoolExecutor(4) as pool,
        server.client(token=None) as client,
    ):
        record = '{"type": "Person", "data": {"name": "%s"}}'
        lines = "\n".join(record % each for each in range(20_000))
        load = {"mode": "append", "data": lines}
        under_way = pool.submit(client.post, "/graphs/default/load", json=load)
        server.wait_for_line("graph routed")

        code = server.end(number)

        assert under_way.result().status_code == 200
        assert code == 0
        with pytest.raises(httpx.ConnectError):
            client.get("/healthz")


def test_a_server_in_open_mode_logs_a_warning(tmp_path: Path) -> None:
    with running_server(
        tmp_path, environment={"OMNIGRAPH_UNAUTHENTICATED": "1", "RUST_LOG": "debug"}
    ) as server:
        warned = server.wait_for_line("open mode")

        assert warned["level"] == "warning"


def test_an_invalid_bound_logs_a_warning_and_the_default_applies(tmp_path: Path) -> None:
    with running_server(
        tmp_path,
        "--unauthenticated",
        environment={"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "abc"},
    ) as server:
        warned = server.wait_for_line("setting ignored")

        assert warned["level"] == "warning"
        assert "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX" in str(warned["problem"])
        assert "16" in str(warned["problem"])


def test_a_tilde_in_a_path_is_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "server.yaml").write_text(POLICY.replace("[read]", "[graph_list]"))
    (tmp_path / "all.gq").write_text("query all() { match { $p: Person } return { $p.name } }")
    (tmp_path / "tokens.json").write_text('{"ann": "one"}')
    (tmp_path / "tokens.json").chmod(0o600)
    social_graph(tmp_path / "graph").close()
    environment = {
        "HOME": str(tmp_path),
        "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": "~/tokens.json",
    }

    with serving(
        tmp_path,
        *("--store", "~/graph", "--policy", "~/policy.yaml"),
        *("--server-policy", "~/server.yaml", "--queries", "~/all.gq"),
        environment=environment,
    ) as server:
        listed = server.request("GET", "/graphs/default/queries", token="one")

    assert [each["name"] for each in listed.json()["queries"]] == ["all"]


def test_listing_graphs_is_subject_to_the_servers_policy(tmp_path: Path) -> None:
    policy = tmp_path / "server.yaml"
    policy.write_text(POLICY.replace("[read]", "[graph_list]"))
    with running_server(
        tmp_path,
        *("--server-policy", str(policy)),
        environment={"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ann": "one", "bob": "two"}'},
    ) as server:
        listed = server.request("GET", "/graphs", token="one")
        denied = server.request("GET", "/graphs", token="two")

        assert listed.status_code == 200
        assert [each["graph_id"] for each in listed.json()["graphs"]] == ["default"]
        assert denied.status_code == 403


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o601])
def test_a_file_of_tokens_that_other_users_can_access_is_refused(tmp_path: Path, mode: int) -> None:
    tokens = tmp_path / "tokens of all.json"
    tokens.write_text('{"ann": "t-ann"}', encoding="utf-8")
    tokens.chmod(mode)

    ended = refused_server(
        tmp_path,
        "--store",
        str(tmp_path / "graph"),
        environment={"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(tokens)},
    )

    assert ended.code == 1
    assert f"chmod 600 '{tokens}'" in ended.said
    assert "t-ann" not in ended.said
