"""What every command line can rely on: exit codes, streams, global flags, help, old spellings."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import command_environment, invoke_command, run_command
from tests.support.graphs import ndjson, node, social_graph
from tests.support.scripted_servers import Hangs, scripted_server

READ = "query people() { match { $p: Person } return { $p.name } order { $p.name } }"
ADD = 'query add() { insert Person { name: "Eve" } }'
SCHEMA = "node Person { name: String @key age: I32? } edge Knows: Person -> Person"


@pytest.mark.parametrize("argument", ["version", "-v", "--version"])
def test_the_version_is_printed_in_three_ways(argument: str) -> None:
    ended = run_command(argument)

    assert (ended.code, ended.out, ended.err) == (0, f"omnigraph {omnigraph.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--colour"],
        ["query", "--colour"],
        ["nothing-like-it"],
        ["branch", "nothing-like-it"],
        ["branch"],
        ["branch", "create"],
        ["--store", "g"],
        ["lint"],
        ["completion", "tcsh"],
        [],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2_and_prints_no_payload(arguments: list[str]) -> None:
    ended = invoke_command(*arguments)

    assert ended.code == 2
    assert ended.out == ""
    assert "Usage: omnigraph" in ended.err


def test_a_misspelt_command_name_suggests_the_right_one() -> None:
    ended = invoke_command("brnch")

    assert ended.code == 2
    assert "branch" in ended.err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_commands_by_what_they_are_able_to_do(flag: str) -> None:
    ended = invoke_command(flag)

    assert (ended.code, ended.err) == (0, "")
    legend = ended.out.partition("COMMANDS BY CAPABILITY")[2]
    places = [legend.index(f"{word} commands") for word in ("data", "served", "direct", "control")]
    assert places == sorted(places)
    assert places[0] < legend.index("query ") < places[1]
    assert places[2] < legend.index("optimize ") < places[3]
    # Old spellings are not advertised; `storage check` is a current one.
    first_words = [line.split()[0] for line in legend.splitlines() if line.strip()]
    assert {"check", "ingest"}.isdisjoint(first_words)


@pytest.mark.parametrize(
    ("command", "shown", "unseen"),
    [
        (["query"], ["--server", "--store", "--query FILE"], ["--cluster"]),
        (["optimize"], ["--cluster", "--store"], ["--server"]),
        (["version"], ["--help"], ["--server", "--store", "--cluster"]),
        (["branch", "create"], ["--server", "--store", "--from"], ["--cluster"]),
    ],
    ids=" ".join,
)
def test_help_of_a_command_shows_the_flags_that_apply_to_it(
    command: list[str], shown: list[str], unseen: list[str]
) -> None:
    ended = invoke_command(*command, "--help")

    assert ended.code == 0
    assert [flag for flag in shown if flag not in ended.out] == []
    assert [flag for flag in unseen if flag in ended.out] == []


@pytest.mark.parametrize("place", ["before", "after", "with ="])
def test_global_flags_stand_before_or_after_the_command(place: str, tmp_path: Path) -> None:
    store = str(tmp_path / "graph")
    social_graph(tmp_path / "graph").close()
    lines = {
        "before": ["--store", store, "branch", "list"],
        "after": ["branch", "list", "--store", store],
        "with =": ["branch", f"--store={store}", "list"],
    }

    ended = invoke_command(*lines[place])

    assert (ended.code, ended.out, ended.err) == (0, "main\n", "")


def test_of_a_flag_that_is_given_twice_the_later_one_counts(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()
    absent, store = str(tmp_path / "absent"), str(tmp_path / "graph")

    ended = invoke_command("--store", absent, "branch", "list", "--store", store)

    assert (ended.code, ended.out) == (0, "main\n")


def test_an_empty_flag_is_not_taken_for_none(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()
    (tmp_path / "config.yaml").write_text(f"defaults: {{store: {tmp_path / 'graph'}}}")

    with_default = invoke_command("branch", "list", home=tmp_path)
    with_empty = invoke_command("branch", "list", "--store", "", home=tmp_path)

    assert with_default.code == 0
    assert with_empty.code == 1


def test_an_error_is_printed_on_stderr_with_the_next_command(tmp_path: Path) -> None:
    ended = run_command("branch", "list", "--store", tmp_path / "absent")

    assert (ended.code, ended.out) == (1, "")
    message, advice = ended.err.splitlines()
    assert message.startswith(f"Error: graph '{tmp_path / 'absent'}' not found")
    assert advice == f"Try: omnigraph init {tmp_path / 'absent'} --schema FILE"


@pytest.mark.parametrize(
    ("old", "today"),
    [
        (["read", "-e", READ], ["query", "-e", READ]),
        (["read", "--json", "-e", READ], ["query", "--json", "-e", READ]),
    ],
)
def test_old_spellings_of_reads_do_the_same_and_say_so(
    old: list[str], today: list[str], tmp_path: Path
) -> None:
    social_graph(tmp_path / "graph").close()
    where = ["--store", str(tmp_path / "graph")]

    before, now = invoke_command(*where, *old), invoke_command(*where, *today)

    assert (before.code, before.out) == (now.code, now.out) == (0, now.out)
    assert now.err == ""
    assert len(before.err.splitlines()) == 1
    assert f"`omnigraph {old[0]}` is deprecated" in before.err


def test_the_old_spelling_of_a_mutation_does_the_same_and_says_so(tmp_path: Path) -> None:
    for name in ("old", "today"):
        social_graph(tmp_path / name).close()

    before = invoke_command("change", "-e", ADD, "--store", tmp_path / "old", "--quiet")
    now = invoke_command("mutate", "-e", ADD, "--store", tmp_path / "today", "--quiet")

    assert (before.code, before.out) == (now.code, now.out) == (0, now.out)
    assert before.err.splitlines() == [
        "warning: `omnigraph change` is deprecated; use `omnigraph mutate`"
    ]


@pytest.mark.parametrize("old", ["check", "query lint", "query check"])
def test_old_spellings_of_lint_do_the_same_and_say_so(old: str, tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "q.gq").write_text(READ)
    flags = ["--schema", str(tmp_path / "s.pg"), "--query", str(tmp_path / "q.gq")]

    before, now = invoke_command(*old.split(), *flags), invoke_command("lint", *flags)

    assert (before.code, before.out) == (now.code, now.out) == (0, now.out)
    assert len(before.err.splitlines()) == 1
    assert f"`omnigraph {old}` is deprecated" in before.err


def test_a_reader_that_leaves_early_ends_a_command_quietly(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    many = [node("Person", name=f"p{number:06}") for number in range(50_000)]
    graph.load(ndjson(*many), mode="merge")
    graph.close()
    command = [sys.executable, "-m", "omnigraph", "export", str(tmp_path / "graph")]

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=command_environment()
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        child.stdout.close()
        said = child.stderr.read()

    assert first.startswith(b"{")
    assert said == b""


def test_a_payload_that_fits_a_pipe_ends_quietly_too(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "omnigraph", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=command_environment(home=tmp_path),
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read()

    assert said == b""


def test_output_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no disk that is always full")
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "omnigraph", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=command_environment(home=tmp_path),
            check=False,
        )

    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: cannot write the output: No space left on device")


def test_an_interrupt_ends_with_a_line_and_no_traceback(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "schema.pg")
    command = [sys.executable, "-m", "omnigraph", "lint", "--query", "x", "--schema"]

    with subprocess.Popen(
        [*command, str(tmp_path / "schema.pg")],
        stderr=subprocess.PIPE,
        text=True,
        env=command_environment(),
    ) as child:
        # Opening a pipe for writing waits for its reader, so the command is running afterwards.
        writing = os.open(tmp_path / "schema.pg", os.O_WRONLY)
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate()
        os.close(writing)

    assert child.returncode == 1
    assert said.strip() == "Error: interrupted"


def test_an_interrupted_write_is_not_reported_as_undone() -> None:
    with scripted_server(Hangs(seconds=30)) as server:
        command = [sys.executable, "-m", "omnigraph", "mutate", "-e", ADD, "--server", server.url]
        with subprocess.Popen(
            [*command, "--graph", "g"],
            stderr=subprocess.PIPE,
            text=True,
            env=command_environment(),
        ) as child:
            while not server.received:
                time.sleep(0.02)
            child.send_signal(signal.SIGINT)
            _, said = child.communicate()

    assert child.returncode == 1
    assert "may have completed" in said
    assert f"Try: omnigraph log --server {server.url} --graph g" in said
    assert "Traceback" not in said
