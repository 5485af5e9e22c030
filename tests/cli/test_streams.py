"""Standard streams that are closed, full, or terminals that must not obey what is stored."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import ENDS_WITHIN_S, Ended, command_environment, run_command
from tests.support.graphs import edge, ndjson, node, social_graph

READ = "query people() { match { $p: Person } return { $p.name } }"
ADD = 'query add() { insert Person { name: "Eve" } }'


@pytest.mark.parametrize("arguments", [["version"], ["query", "-e", READ]], ids=" ".join)
def test_an_unread_payload_is_not_a_failure(tmp_path: Path, arguments: list[str]) -> None:
    store = _store(tmp_path)

    ended = _run(">&-", *arguments, *(["--store", store] if len(arguments) > 1 else []))

    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("arguments", [["query", "--query", "-"], ["shell"]], ids=" ".join)
def test_a_closed_standard_input_is_an_empty_one(tmp_path: Path, arguments: list[str]) -> None:
    ended = _run("<&-", *arguments, "--store", _store(tmp_path))

    assert "Traceback" not in ended.err


def test_a_login_without_an_input_says_that_the_token_is_empty(tmp_path: Path) -> None:
    ended = _run("<&-", "login", "prod", home=tmp_path)

    assert ended.code == 1
    assert "the token is empty" in ended.err


def test_a_write_without_any_stream_is_done(tmp_path: Path) -> None:
    store = _store(tmp_path)

    ended = _run("<&- >&- 2>&-", "mutate", "-e", ADD, "--store", store)

    assert ended.code == 0
    assert '"Eve"' in _run("2>&-", "export", store).out


def test_a_full_disk_below_the_output_is_not_taken_for_a_failed_write(tmp_path: Path) -> None:
    store = _store(tmp_path)

    ended = _run(">/dev/full", "mutate", "-e", ADD, "--store", store)

    assert ended.code == 1
    assert "cannot write the output" in ended.err
    assert '"Eve"' in _run("2>&-", "export", store).out


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_a_terminal_that_knows_few_characters_gets_the_others_written_out(
    tmp_path: Path, encoding: str
) -> None:
    store = _store(tmp_path)
    with omnigraph.open(store) as graph:
        before = graph.head()
        graph.load(ndjson(edge("Knows", "Alice", "Charlie")), mode="append")

    ended = run_command(
        *("diff", before, "main", "--store", store), env={"PYTHONIOENCODING": encoding}
    )

    assert (ended.code, ended.err) == (0, "")
    assert ("Alice \\u2192 Charlie" if encoding == "latin-1" else "Alice → Charlie") in ended.out


@pytest.mark.parametrize("format", ["table", "kv", "csv", "jsonl", "json"])
def test_no_value_is_interpreted_by_a_terminal_in_any_format(tmp_path: Path, format: str) -> None:
    store = _store(tmp_path)
    with omnigraph.open(store) as graph:
        graph.load(ndjson(node("Person", name="\x1b[2J\x1b]0;owned\x07\x9b\u202e")), mode="append")
    terminal, its_end = pty.openpty()

    command = ["query", "-e", READ, "--store", store, "--format", format]
    with subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *command],
        stdout=its_end,
        env=command_environment(),
    ) as child:
        os.close(its_end)
        shown = _read_all(terminal)

    assert child.returncode == 0
    assert "owned" in shown
    assert shown.replace("\r\n", "").isprintable()


def _read_all(terminal: int) -> str:
    read = b""
    # A terminal that no process has open gives an error.
    with suppress(OSError):
        while piece := os.read(terminal, 65_536):
            read += piece
    os.close(terminal)
    return read.decode()


def _store(tmp_path: Path) -> str:
    with social_graph(tmp_path / "graph"):
        return str(tmp_path / "graph")


def _run(redirected: str, *arguments: str, home: Path | None = None) -> Ended:
    """Run a command line with streams that a shell has closed or led elsewhere."""
    finished = subprocess.run(
        ["sh", "-c", f'exec "$0" -m omnigraph "$@" {redirected}', sys.executable, *arguments],
        capture_output=True,
        env=command_environment(home=home),
        timeout=ENDS_WITHIN_S,
        check=False,
    )
    return Ended(finished.returncode, finished.stdout.decode(), finished.stderr.decode())
