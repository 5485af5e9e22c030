"""The guides of the command line: every command in them prints what they show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.consoles import Typed, parse_page, rewrite_page, run_page
from tests.support.source_tree import ROOT

GUIDES = [
    path
    for path in sorted((ROOT / "docs" / "guide").glob("*.md"))
    if "\n```console\n" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_every_command_of_a_guide_prints_what_the_guide_shows(guide: Path, tmp_path: Path) -> None:
    page = guide.read_text(encoding="utf-8")

    surprises = run_page(page, tmp_path)

    if os.environ.get("OMNIGRAPH_BLESS"):
        guide.write_text(rewrite_page(page, surprises), encoding="utf-8")
        return
    assert not surprises, "\n\n".join(map(str, surprises))


def test_a_page_that_shows_something_else_than_its_command_prints_is_noticed(
    tmp_path: Path,
) -> None:
    page = (
        "Save as `a.txt`:\n\n```text\nwind\n```\n\n```console\n"
        "$ cat a.txt\nwind\n$ cat a.txt\nwater\n$ cat a.txt\nw…d\n$ false\n"
        "$ printf 'a\\nb\\nc\\n'\na\n…\n```\n"
    )

    surprises = run_page(page, tmp_path)

    assert [(each.typed.line_number, each.printed, each.code) for each in surprises] == [
        (10, "wind", 0),
        (14, "", 1),
    ]


def test_a_page_can_be_given_what_its_commands_print_now(tmp_path: Path) -> None:
    page = "```console\n$ echo wind\nwater\n$ echo 01ARZ3NDEKTSV4RRFFQ69G5FAV done\n```\n"

    rewritten = rewrite_page(page, run_page(page, tmp_path))

    assert (
        rewritten
        == "```console\n$ echo wind\nwind\n$ echo 01ARZ3NDEKTSV4RRFFQ69G5FAV done\n… done\n```\n"
    )


def test_a_shell_keeps_its_directory_and_variables(tmp_path: Path) -> None:
    page = (
        "```console\n$ mkdir a; cd a\n$ export WIND=west\n"
        "$ echo $WIND \\\n> ${PWD##*/}\nwest a\n```\n"
    )

    (_, _, said) = parse_page(page)

    assert isinstance(said, Typed)
    assert said.command == "echo $WIND \\\n${PWD##*/}"
    assert run_page(page, tmp_path) == []
