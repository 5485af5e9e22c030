"""Bars and colours: on a terminal, and nowhere else."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.graphs import SOCIAL, build_graph, ndjson, node
from tests.support.scripted_servers import Hangs, responds, scripted_server
from tests.support.shells import on_a_terminal

ROWS = 2_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose branch `feature` has a Bob more than main."""
    root = tmp_path_factory.mktemp("terminal") / "graph"
    with build_graph(root, SOCIAL, node("Person", name="Ann")) as graph:
        graph.create_branch("feature")
        graph.load(ndjson(node("Person", name="Bob" * 50)), mode="append", branch="feature")
    return root


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    people = [node("Person", name=f"p{number}") for number in range(ROWS)]
    path.write_text(ndjson(*people).getvalue())
    return path


def watch(*arguments: str | Path, env: Mapping[str, str]) -> str:
    """What a terminal of 100 columns gets to see of a command."""
    with on_a_terminal(*arguments, home=None, env=env) as screen:
        code, shown = screen.wait_for_end()
    assert code == 0, shown
    return shown


def load(rows: Path, store: Path) -> tuple[str | Path, ...]:
    return ("load", store, "--data", rows, "--mode", "merge")


def test_a_load_draws_a_bar_on_a_terminal(store: Path, rows: Path) -> None:
    shown = watch(*load(rows, store), env={"NO_COLOR": "1"})

    assert f"read  [{'#' * 24}] 100%  {ROWS:,} of" in shown
    assert f"loaded {store} on branch main" in shown
    assert "\x1b" not in shown


def test_a_load_draws_nothing_without_a_terminal(store: Path, rows: Path) -> None:
    ended = run_command(*load(rows, store))

    assert ended.code == 0
    assert ended.err == f"omnigraph load → {store} (direct, local)\n"
    assert "\r" not in ended.out


def test_a_terminal_that_cannot_draw_gets_no_bar(store: Path, rows: Path) -> None:
    shown = watch(*load(rows, store), env={"TERM": "dumb"})

    assert "####" not in shown


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("query", ("query", "-e", "query q() { match { $p: Person } return { $p } }")),
        ("query", ("query", "stored")),
        ("mutate", ("mutate", "-e", 'query q() { delete Person where name = "Ann" }')),
        ("mutate", ("mutate", "stored")),
        ("revert", ("revert", "01ARZ3NDEKTSV4RRFFQ69G5FAV")),
        ("cherry-pick", ("cherry-pick", "01ARZ3NDEKTSV4RRFFQ69G5FAV")),
        ("merge feature", ("merge", "feature")),
        ("apply", ("schema", "apply", "--schema", "SCHEMA", "--json")),
    ],
    ids=str,
)
def test_what_takes_a_while_says_so_on_a_terminal(
    action: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "schema.pg").write_text(SOCIAL)
    given = [each.replace("SCHEMA", str(tmp_path / "schema.pg")) for each in arguments]
    refusal = responds({"error": "not today", "code": "bad_request"}, status=400)

    with scripted_server(Hangs(1.5), refusal) as server:
        address = ("--server", server.url, "--graph", "default")
        with on_a_terminal(*given, *address, home=None, env={}) as screen:
            _, shown = screen.wait_for_end()

    assert f"\r{action} ... 1 s" in shown
    assert "not today" in shown


def test_differences_are_coloured_and_cut_on_a_terminal(store: Path) -> None:
    shown = watch("diff", "main", "feature", "--op", "insert", "--uri", store, env={})

    first = shown.splitlines()[0]
    assert first.startswith("\x1b[32m+ Person Bob")
    assert first.endswith("…\x1b[0m")
    assert len(first) - len("\x1b[32m") - len("\x1b[0m") == 100


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_may_be_declined(store: Path, env: dict[str, str]) -> None:
    shown = watch("diff", "main", "feature", "--op", "insert", "--uri", store, env=env)

    assert shown.startswith("+ Person Bob")
    assert "\x1b" not in shown


def test_what_goes_through_a_pipe_is_neither_coloured_nor_cut(store: Path) -> None:
    ended = run_command("diff", "main", "feature", "--op", "insert", "--uri", store)

    assert ended.out.startswith(f"+ Person {'Bob' * 50} {{")
    assert "\x1b" not in ended.out
