"""`omnigraph shell` on a pseudo-terminal and as a script, embedded and served."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.support.commands import invoke_command
from tests.support.graphs import social_graph
from tests.support.servers import open_server
from tests.support.shells import Screen, on_a_terminal

PEOPLE = "match { $p: Person } return { $p.name } order { $p.name }"
ADD = 'insert Person { name: "Eve" }'
TAB, ENTER, CTRL_C, CTRL_D, UP = "\t", "\r", "\x03", "\x04", "\x1b[A"


@contextmanager
def shell_on(store: Path, home: Path) -> Iterator[Screen]:
    """A shell at its first prompt."""
    with on_a_terminal("shell", store, home=home, env={}) as screen:
        screen.wait_for("main>")
        yield screen


def tagged_graph(path: Path) -> Graph:
    """Four people as `v1`, and a branch with a fifth."""
    graph = social_graph(path)
    graph.tag("v1", graph.head())
    graph.create_branch("draft")
    graph.mutate(f"query add() {{ {ADD} }}", branch="draft")
    return graph


def test_an_interactive_session_reads_writes_and_exits(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")

    with shell_on(tmp_path / "g", tmp_path / "home") as shell:
        shell.type(f"match {{ $p: Person }}{ENTER}return {{ $p.name }} limit 1{ENTER}{ENTER}")
        shell.wait_for(r"1 row from branch main.*p\.name.*Alice.*main>")
        shell.type(f"{ADD};{ENTER}")
        (commit_id,) = shell.wait_for(r"changed on main; commit ([0-9A-Z]{26}).*main>")
        shell.type(CTRL_D)
        code, _ = shell.wait_for_end()

    assert code == 0
    assert graph.head() == commit_id


def test_the_shell_goes_on_after_an_error_and_forgets_what_is_cleared(tmp_path: Path) -> None:
    social_graph(tmp_path / "g")

    with shell_on(tmp_path / "g", tmp_path / "home") as shell:
        shell.type(f"match {{ $p: Persn }} return {{ $p.name }};{ENTER}")
        shell.wait_for("Error: .*did you mean `Person`.*main>")
        shell.type(f"match {{{ENTER} $nonsense{CTRL_C}")
        shell.wait_for("main>")
        shell.type(f"\\nonsense{ENTER}")
        shell.wait_for("Error: there is no command .nonsense.*main>")
        shell.type(f"match {{ $p: Person }} return {{ count($p) as people }};{ENTER}")
        shell.wait_for("people.*4.*main>")
        shell.type(f"\\quit{ENTER}")
        code, _ = shell.wait_for_end()

    assert code == 0


@pytest.mark.parametrize("typed", ["help", "?", "\\help", "\\?", "help;"])
def test_help_is_shown_at_the_first_enter(tmp_path: Path, typed: str) -> None:
    social_graph(tmp_path / "g")

    with shell_on(tmp_path / "g", tmp_path / "home") as shell:
        shell.type(f"{typed}{ENTER}")
        shell.wait_for("Switch to another branch.*main>")


@pytest.mark.parametrize("typed", ["quit", "exit", "\\q", "\\quit", "\\exit", "quit;"])
def test_the_shell_is_left_at_the_first_enter(tmp_path: Path, typed: str) -> None:
    social_graph(tmp_path / "g")

    with shell_on(tmp_path / "g", tmp_path / "home") as shell:
        shell.type(f"{typed}{ENTER}")
        code, said = shell.wait_for_end()

    assert code == 0
    assert "Error" not in said


def test_a_branch_is_created_only_on_request(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")

    with shell_on(tmp_path / "g", tmp_path / "home") as shell:
        shell.type(f"\\branch draft{ENTER}")
        shell.wait_for(
            "Error: branch 'draft' not found; .*branch --create draft creates it .*main>"
        )
        before = graph.branches()
        shell.type(f"\\branch --create draft{ENTER}")
        shell.wait_for("draft>")
        shell.type(f"{ADD};{ENTER}")
        shell.wait_for("changed on draft; commit")

    assert before == ["main"]
    assert graph.branches() == ["main", "draft"]


def test_no_branch_is_created_from_the_past(tmp_path: Path) -> None:
    graph = tagged_graph(tmp_path / "g")
    script = "\\at v1\n\\branch --create old"

    ended = invoke_command("shell", tmp_path / "g", stdin=script)

    assert (ended.code, "nothing was created" in ended.err) == (1, True)
    assert graph.branches() == ["main", "draft"]


def test_names_of_the_schema_are_completed_where_they_fit(tmp_path: Path) -> None:
    social_graph(tmp_path / "g")

    with shell_on(tmp_path / "g", tmp_path / "home") as shell:
        # A terminal is sent what changes: behind `Per` only the rest of the name.
        shell.type(f"match {{ $p: Per{TAB}")
        shell.wait_for("Per.*son")
        shell.type(f"  $p work{TAB}")
        shell.wait_for("work.*sAt")
        shell.type(f" $c }} return {{ $p.ag{TAB}")
        shell.wait_for("ag.*e")
        shell.type(f", $c.name }} order {{ $p.age }};{ENTER}")
        shell.wait_for(r"p\.age \| c\.name.*25 +\| Globex.*30 +\| Acme.*main>")


def test_the_prompt_shows_branch_and_commit_and_the_past_is_read_only(tmp_path: Path) -> None:
    graph = tagged_graph(tmp_path / "g")

    with shell_on(tmp_path / "g", tmp_path / "home") as shell:
        shell.type(f"\\branch draft{ENTER}")
        shell.wait_for("draft>")
        shell.type(f"match {{ $p: Person }} return {{ count($p) as people }};{ENTER}")
        shell.wait_for("people.*5.*draft>")
        shell.type(f"\\at v1{ENTER}")
        shell.wait_for(f"@{graph.tags()['v1'][-8:]}>")
        shell.type(f"match {{ $p: Person }} return {{ count($p) as people }};{ENTER}")
        shell.wait_for("people.*4.*@")
        shell.type(f'insert Person {{ name: "Fay" }};{ENTER}')
        shell.wait_for("Error: .*which is read-only; nothing was done")
        shell.type(f"\\now{ENTER}")
        shell.wait_for("draft>")


def test_the_shell_history_is_saved_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    social_graph(tmp_path / "g")
    home = tmp_path / "home"
    with shell_on(tmp_path / "g", home) as shell:
        shell.type(f"\\branches{ENTER}")
        shell.wait_for(r"\* main.*main>")

    with shell_on(tmp_path / "g", home) as shell:
        shell.type(UP)
        shell.wait_for("branches")
        shell.type(ENTER)
        shell.wait_for(r"\* main.*main>")

    assert stat.S_IMODE((home / "shell_history").stat().st_mode) == 0o600


def test_a_script_runs_to_its_end_and_prints_only_results(tmp_path: Path) -> None:
    graph = tagged_graph(tmp_path / "g")
    script = f"""
    \\format csv
    \\param name="Bob"
    match {{ $p: Person {{ name: $name }} }} return {{ $p.name, $p.age }};
    \\branch draft
    match {{ $p: Person }} return {{ count($p) as people }}

    \\format table
    {ADD};
    quit
    \\nonsense
    """

    ended = invoke_command("shell", tmp_path / "g", stdin=script)

    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "p.name,p.age",
        "Bob,25",
        "people",
        "5",
        f"1 node, 0 edges changed on draft; commit {graph.head('draft')}",
    ]
    assert ended.err.splitlines() == [f"omnigraph shell → {tmp_path / 'g'} (direct, local)"]


def test_a_script_stops_at_its_first_error(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")
    before = graph.head()

    ended = invoke_command(
        "shell", tmp_path / "g", stdin=f"match {{ $p: Absent }} return {{ $p.name }};\n{ADD};"
    )

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: ")
    assert graph.head() == before


def test_every_command_of_the_shell_prints_a_result(tmp_path: Path) -> None:
    graph = tagged_graph(tmp_path / "g")
    script = """
    \\branch
    \\branches
    \\log 1
    \\schema WorksAt
    \\diff main draft
    \\param since: Date = "2024-01-01"
    \\param
    \\timing
    \\explain match { $p: Person } return { $p.name }
    """

    ended = invoke_command("shell", tmp_path / "g", stdin=script)

    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[:3] == ["main", "* main", "  draft"]
    assert lines[3].startswith(f"  * {graph.head('draft')} (draft)")
    assert lines[4:10] == [
        "... and 2 commits before",
        "edge WorksAt: Person -> Company",
        '+ Person Eve {name: "Eve"}',
        "1 type changed: 1 inserted, 0 updated, 0 deleted",
        '$since: Date = "2024-01-01"',
        "timing is on",
    ]
    assert lines[10].startswith("read q()")


def test_a_script_prints_the_same_for_a_served_and_an_embedded_graph(tmp_path: Path) -> None:
    script = f"{PEOPLE};\n\\log\n\\schema Person\n\\branches\n\\format json\n{PEOPLE};"

    with open_server(tmp_path) as server:
        embedded = invoke_command("shell", server.store, stdin=script)
        served = invoke_command("shell", "--server", server.url, "--graph", "default", stdin=script)

    assert embedded.code == 0, embedded.err
    assert (served.code, served.out) == (0, embedded.out), served.err
