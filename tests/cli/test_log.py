"""`omnigraph log`: the same history as text, JSON and a picture, embedded and served."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omnigraph import Graph
from tests.support.commands import invoke_command
from tests.support.graphs import social_graph
from tests.support.servers import open_server
from tests.support.shells import on_a_terminal

ADD = "query add($name: String) { insert Person { name: $name } }"
WITHOUT_IDS_AND_TIMES = re.compile(r"[0-9A-Z]{26}|\d{4}-\d\d-\d\d \d\d:\d\dZ")


def reviewed_graph(path: Path) -> Graph:
    """A branch of Ragnor's that was merged and tagged, and one that was not."""
    graph = social_graph(path)
    graph.create_branch("draft")
    graph.mutate(ADD, {"name": "Eve"}, branch="draft", actor="ragnor")
    graph.mutate(ADD, {"name": "Fay"})
    graph.merge("draft", actor="ann")
    graph.tag("v1", graph.head())
    graph.create_branch("open")
    graph.mutate(ADD, {"name": "Gil"}, branch="open")
    return graph


def test_the_log_draws_branches_tags_and_merges(tmp_path: Path) -> None:
    reviewed_graph(tmp_path / "g")

    ended = invoke_command("log", tmp_path / "g")

    drawn = WITHOUT_IDS_AND_TIMES.sub("-", ended.out).splitlines()
    assert drawn == [
        "  * - (open) -  change",
        " /",
        "* - (main, tag: v1) - ann  merge of draft",
        "|\\",
        "* | - -  change",
        "| * - (draft) - ragnor  change",
        "|/",
        "* - -  change",
        "* - -  start",
    ]


def test_ids_in_the_log_are_whole_so_that_they_can_be_used(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")

    ended = invoke_command("log", tmp_path / "g")

    assert [line.split()[1] for line in ended.out.splitlines()] == [
        each.id for each in reversed(graph.commits())
    ]


def test_a_limit_says_what_it_leaves_out_and_all_lifts_it(tmp_path: Path) -> None:
    reviewed_graph(tmp_path / "g")

    few = invoke_command("log", tmp_path / "g", "--limit", "1", "--branch", "main")
    everything = invoke_command("log", tmp_path / "g", "--limit", "1", "--all", "--json")

    assert few.out.splitlines()[1:] == ["... and 3 commits before"]
    commits = everything.fields["commits"]
    assert isinstance(commits, list)
    assert len(commits) == 6
    assert everything.fields["older_commits"] == 0


def test_a_branch_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    social_graph(tmp_path / "g")

    ended = invoke_command("log", tmp_path / "g", "--branch", "nowhere")

    assert (ended.code, ended.out) == (1, "")
    assert "Error: branch 'nowhere' not found" in ended.err


def test_a_picture_goes_to_a_file_or_to_standard_output(tmp_path: Path) -> None:
    reviewed_graph(tmp_path / "g")

    to_file = invoke_command("log", tmp_path / "g", "--svg", tmp_path / "history.svg")
    to_stdout = invoke_command("log", tmp_path / "g", "--svg", "-")

    assert (to_file.code, to_file.out) == (0, "")
    picture = (tmp_path / "history.svg").read_text(encoding="utf-8")
    assert to_stdout.out == f"{picture}\n"
    assert len(ElementTree.fromstring(picture).findall("{*}circle")) == 6


def test_a_served_graph_has_the_same_log(tmp_path: Path) -> None:
    with open_server(tmp_path) as server:
        for arguments in ([], ["--json"], ["--svg", "-"]):
            embedded = invoke_command("log", server.store, *arguments)
            served = invoke_command("log", "--server", server.url, "--graph", "default", *arguments)

            assert served.code == 0, served.err
            assert served.out == embedded.out


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_has_colours_unless_it_wants_none(tmp_path: Path, *, no_color: bool) -> None:
    social_graph(tmp_path / "g")
    wishes = {"NO_COLOR": "1"} if no_color else {}

    with on_a_terminal("log", tmp_path / "g", home=None, env=wishes) as screen:
        code, said = screen.wait_for_end()

    assert code == 0
    assert "start" in said
    assert ("\x1b[" in said) is not no_color
