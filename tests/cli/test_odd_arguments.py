"""Unusual numbers, texts and files on the command line are accepted or refused cleanly."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.commands import invoke_command
from tests.support.graphs import social_graph

READ = "query people() { match { $p: Person } return { $p.name } }"
HUGE = "9" * 30


@pytest.mark.parametrize("command", [["log"], ["changes"], ["commit", "list"]], ids=" ".join)
def test_a_limit_beyond_all_numbers_leaves_nothing_out(tmp_path: Path, command: list[str]) -> None:
    social_graph(tmp_path / "graph").close()

    ended = invoke_command(*command, "--limit", HUGE, "--store", tmp_path / "graph")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == invoke_command(*command, "--store", tmp_path / "graph").out


@pytest.mark.parametrize(
    "statement",
    [f"\\log {HUGE}", f"\\log {'9' * 5000}", f"\\param x={'[' * 100_000}"],
    ids=lambda text: text[:12],
)
def test_a_nonsensical_statement_of_the_shell_is_refused(tmp_path: Path, statement: str) -> None:
    social_graph(tmp_path / "graph").close()

    ended = invoke_command("shell", tmp_path / "graph", stdin=f"{statement}\n")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: ")
    assert "Traceback" not in ended.err


def test_the_name_of_a_file_is_not_interpreted_by_a_terminal(tmp_path: Path) -> None:
    ended = invoke_command("query", "--query", "\x1b[2J\nnone.gq", "--store", tmp_path)

    assert ended.code == 1
    assert "\x1b" not in ended.err


@pytest.mark.parametrize("content", [b"\xff\xfe\x00q", b"\x00\x1b[2J", "query é".encode("utf-16")])
def test_a_file_that_is_not_a_text_is_refused_without_its_bytes(
    tmp_path: Path, content: bytes
) -> None:
    social_graph(tmp_path / "graph").close()
    (tmp_path / "a.gq").write_bytes(content)

    ended = invoke_command("query", "--query", tmp_path / "a.gq", "--store", tmp_path / "graph")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.replace("\n", "").isprintable()


@pytest.mark.parametrize("options", [[], ["--format", "csv"]], ids=["lines", "csv"])
def test_a_pipe_that_rows_are_written_to_stays_a_pipe(tmp_path: Path, options: list[str]) -> None:
    social_graph(tmp_path / "graph").close()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = [
        "query",
        "-e",
        READ,
        *options,
        "--out",
        str(pipe),
        "--store",
        str(tmp_path / "graph"),
    ]

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(pipe.read_bytes)
        ended = invoke_command(*arguments)
        read = reading.result()

    assert ended.code == 0
    assert pipe.is_fifo()
    assert b"Alice" in read
