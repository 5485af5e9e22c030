"""Which graph a command line reaches, in whose name, and what is asked before it is destroyed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import invoke_command, run_with_reply
from tests.support.graphs import social_graph
from tests.support.policed_servers import ALLOWED_TOKEN, READER_TOKEN, policed_server
from tests.support.servers import Server, open_server

READ = "query people() { match { $p: Person } return { $p.name } order { $p.name } }"
ADD = 'query add() { insert Person { name: "Eve" } }'
# No process listens there.
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("addressed")) as running:
        yield running


@pytest.fixture(scope="module")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with policed_server(tmp_path_factory.mktemp("policed")) as running:
        yield running


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("query --store g --graph k -e x", "already a single graph"),
        ("query --store a --server b -e x", "mutually exclusive"),
        ("branch list --store a --uri b", "mutually exclusive"),
        ("query -e x", "--store <uri>"),
        ("branch list --uri http://h:1", "--server http://h:1"),
        ("snapshot http://h:1", "--server http://h:1"),
        ("query --server absent -e x", "unknown server 'absent'"),
        ("query --profile absent -e x", "unknown profile 'absent'"),
        ("query --cluster brain -e x", "--cluster does not apply"),
        ("optimize http://h:1", "needs direct storage access"),
        ("optimize", "name its storage"),
        ("optimize --cluster ./brain --graph g", "there is no cluster './brain'"),
        ("optimize --cluster http://h:1 --graph g", "'http://h:1' is a server"),
        ("optimize --cluster a --store b", "mutually exclusive"),
        ("graphs list --store g", "remote multi-graph server"),
        ("graphs list --uri g", "remote multi-graph server"),
        ("--server x version", "--server does not apply"),
    ],
)
def test_an_address_that_does_not_add_up_is_refused(line: str, problem: str) -> None:
    ended = invoke_command(*line.split())

    assert (ended.code, ended.out) == (1, "")
    assert problem in ended.err


def test_the_guard_names_the_command_the_flag_and_the_alternatives() -> None:
    ended = invoke_command("optimize", "--server", "prod")

    assert ended.code == 1
    for part in (
        "`optimize`",
        "direct (storage-native)",
        "--server does not apply",
        "a storage URI",
        "--cluster <dir> --graph <id>",
    ):
        assert part in ended.err


def test_a_profile_of_a_server_is_refused_by_maintenance(tmp_path: Path) -> None:
    _configure(tmp_path, f"profiles: {{ p: {{ server: {NOWHERE} }} }}")

    ended = invoke_command("optimize", "--profile", "p", home=tmp_path)

    assert ended.code == 1
    assert "direct storage access" in ended.err


def test_a_profile_of_a_cluster_is_no_place_for_rows(tmp_path: Path) -> None:
    _configure(tmp_path, "profiles: { p: { cluster: ./brain } }")

    ended = invoke_command("branch", "list", "--profile", "p", home=tmp_path)

    assert ended.code == 1
    assert "not valid for graph data commands" in ended.err


def test_a_write_in_storage_is_by_the_actor_that_was_named(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()
    _configure(tmp_path, "operator: { actor: olga }")
    mutate = ["mutate", "-e", ADD, "--json", "--store", str(tmp_path / "graph")]

    anonymous = invoke_command(*mutate)
    configured = invoke_command(*mutate, home=tmp_path)
    typed = invoke_command("--as", "ann", *mutate, home=tmp_path)

    assert [each.fields["actor_id"] for each in (anonymous, configured, typed)] == [
        None,
        "olga",
        "ann",
    ]


def test_who_writes_by_a_server_is_not_the_command_lines_to_say() -> None:
    ended = invoke_command("--as", "ann", "mutate", "-e", ADD, "--server", NOWHERE, "--graph", "g")

    assert (ended.code, ended.out) == (1, "")
    assert "--as" in ended.err
    assert "derives the actor from" in ended.err


def test_a_server_without_a_graph_lists_those_to_choose_from(policed: Server) -> None:
    query = ["query", "--server", policed.url, "-e", READ, "--format", "csv"]

    by_who_may_list = invoke_command(*query, env={"OMNIGRAPH_BEARER_TOKEN": ALLOWED_TOKEN})
    by_who_may_not = invoke_command(*query, env={"OMNIGRAPH_BEARER_TOKEN": READER_TOKEN})

    assert (by_who_may_list.code, by_who_may_list.out) == (1, "")
    assert "default" in by_who_may_list.err
    assert "--graph <id>" in by_who_may_list.err
    assert by_who_may_not.out.splitlines()[1:] == ["Alice", "Bob", "Charlie", "Diana"]


@pytest.mark.parametrize("way", ["flag", "url", "name", "profile", "environment", "defaults"])
def test_a_graph_of_a_server_is_reached_in_many_ways(
    way: str, server: Server, tmp_path: Path
) -> None:
    _configure(
        tmp_path,
        f"servers: {{ here: {{ url: {server.url}/ }} }}\n"
        "profiles: { p: { server: here, default_graph: default } }\n"
        + ("defaults: { server: here, default_graph: default }\n" if way == "defaults" else ""),
    )
    where, env = {
        "flag": (["--server", server.url, "--graph", "default"], {}),
        "url": (["--server", server.graph_url], {}),
        "name": (["--server", "here", "--graph", "default"], {}),
        "profile": (["--profile", "p"], {}),
        "environment": ([], {"OMNIGRAPH_PROFILE": "p"}),
        "defaults": ([], {}),
    }[way]

    ended = invoke_command("query", *where, "-e", READ, "--format", "csv", home=tmp_path, env=env)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == ["p.name", "Alice", "Bob", "Charlie", "Diana"]


def test_a_server_that_does_not_respond_is_named(tmp_path: Path) -> None:
    ended = invoke_command("branch", "list", "--server", NOWHERE, home=tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: ")
    assert "127.0.0.1" in ended.err


def test_graphs_of_a_server_are_listed(policed: Server) -> None:
    env = {"OMNIGRAPH_BEARER_TOKEN": ALLOWED_TOKEN}

    by_flag = invoke_command("graphs", "list", "--server", policed.url, "--json", env=env)
    by_url = invoke_command("graphs", "list", "--uri", policed.url, env=env)
    by_anonymous = invoke_command("graphs", "list", "--uri", policed.url)

    assert by_flag.code == 0
    assert by_flag.fields == policed.request("GET", "/graphs", token=ALLOWED_TOKEN).json()
    assert by_url.out == "default /graphs/default\n"
    assert (by_anonymous.code, by_anonymous.out) == (1, "")
    assert "Try: export OMNIGRAPH_BEARER_TOKEN=TOKEN" in by_anonymous.err


def test_graphs_of_a_server_without_tokens_are_listed(server: Server) -> None:
    ended = invoke_command("graphs", "list", "--server", server.url)

    assert (ended.code, ended.out) == (0, "default /graphs/default\n")


def test_each_server_is_shown_its_own_token(policed: Server, tmp_path: Path) -> None:
    _configure(tmp_path, f"servers: {{ here: {{ url: {policed.url} }} }}")
    read = ["branch", "list", "--server", "here", "--graph", "default"]

    def read_with(**env: str) -> tuple[int, str]:
        ended = invoke_command(*read, home=tmp_path, env=env)
        return ended.code, ended.out

    printed = {
        "nothing": read_with(),
        "its own": read_with(OMNIGRAPH_TOKEN_HERE=READER_TOKEN),
        "for any": read_with(OMNIGRAPH_BEARER_TOKEN=READER_TOKEN),
        "another's": read_with(OMNIGRAPH_TOKEN_THERE=READER_TOKEN),
    }
    invoke_command("login", "here", home=tmp_path, stdin=f"{READER_TOKEN}\n")
    printed["stored"] = read_with()

    assert printed == {
        "nothing": (1, ""),
        "its own": (0, "main\n"),
        "for any": (0, "main\n"),
        "another's": (1, ""),
        "stored": (0, "main\n"),
    }


@pytest.mark.parametrize("is_json", [False, True])
def test_a_branch_of_a_server_is_not_deleted_without_consent(
    server: Server, *, is_json: bool
) -> None:
    name = f"doomed-{is_json}"
    where = ["--server", server.url, "--graph", "default"]
    invoke_command("branch", "create", name, *where)
    delete = ["branch", "delete", name, *where, *(["--json"] if is_json else [])]

    refused = invoke_command(*delete)
    listed = invoke_command("branch", "list", *where)
    done = invoke_command(*delete, "--yes")

    assert (refused.code, bool(refused.out)) == (1, is_json)
    assert "--yes" in refused.err
    assert name in listed.out.splitlines()
    assert done.code == 0


@pytest.mark.parametrize(("reply", "code"), [("y", 0), ("yes", 0), ("n", 1), ("", 1)])
def test_a_terminal_prompts_for_confirmation(server: Server, reply: str, code: int) -> None:
    name = f"asked-{reply or 'nothing'}"
    where = ["--server", server.url, "--graph", "default"]
    invoke_command("branch", "create", name, *where)

    ended, _ = run_with_reply("branch", "delete", name, *where, prompt="[y/N] ", reply=reply)
    listed = invoke_command("branch", "list", *where)

    assert ended.code == code
    assert f"delete branch '{name}'" in ended.err
    assert (name in listed.out.splitlines()) == bool(code)


def test_what_is_ones_own_is_deleted_without_a_question(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()
    store = ["--store", str(tmp_path / "graph")]
    invoke_command("branch", "create", "b", *store)

    ended = invoke_command("branch", "delete", "b", *store)

    assert (ended.code, ended.out) == (0, "deleted branch b\n")


def test_a_write_names_its_target_unless_quiet_is_set(server: Server, tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()
    store = str(tmp_path / "graph")

    direct = invoke_command("branch", "create", "one", "--store", store)
    quiet = invoke_command("branch", "create", "two", "--store", store, "--quiet")
    served = invoke_command("branch", "create", "echo", "--server", server.graph_url)
    failed = invoke_command("branch", "create", "x", "--server", NOWHERE, "--graph", "g")

    assert direct.err == f"omnigraph branch create → {store} (direct, local)\n"
    assert quiet.err == ""
    assert served.err == f"omnigraph branch create → {server.graph_url} (served)\n"
    assert failed.err.startswith(f"omnigraph branch create → {NOWHERE}/graphs/g (served)\n")
    assert [each.out for each in (direct, quiet, served)] == [
        "created branch one from main\n",
        "created branch two from main\n",
        "created branch echo from main\n",
    ]


def _configure(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text, encoding="utf-8")
