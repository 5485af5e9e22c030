"""A graph in a notebook: cells of queries, and what results, commits and differences look like."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import omnigraph.notebook
from omnigraph import Graph
from omnigraph.engine.results import MergeOutcome, MutationResult, Result
from omnigraph.engine.state.history import Commit, CommitLog
from omnigraph.notebook import HistoryPicture
from tests.support.graphs import build_graph, node, social_graph
from tests.support.servers import open_server

PEOPLE = "match { $p: Person } return { $p.name } order { $p.name }"
ADD = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture
def notebook() -> InteractiveShell:
    """A separate IPython that has loaded the extension."""
    settings = Config()
    settings.HistoryManager.enabled = False
    shell: InteractiveShell = InteractiveShell(config=settings)  # type: ignore[no-untyped-call]  # theirs
    run(shell, "%load_ext omnigraph")
    return shell


def run(shell: InteractiveShell, cell: str) -> object:
    """The result of a cell; raises what it raises."""
    with capture_output():
        ran: ExecutionResult = shell.run_cell(cell)  # type: ignore[no-untyped-call]  # theirs
    ran.raise_error()  # type: ignore[no-untyped-call]  # theirs
    result: object = ran.result
    return result


def test_a_cell_runs_a_query_with_the_variables_of_the_notebook(
    notebook: InteractiveShell, tmp_path: Path
) -> None:
    social_graph(tmp_path / "g")
    run(notebook, f"%gq_open {tmp_path / 'g'}")
    run(notebook, "name = 'Bob'")

    result = run(
        notebook,
        "%%gq --out found\n"
        "query who($name: String) {\n"
        "  match { $p: Person { name: $name } } return { $p.name, $p.age }\n"
        "}",
    )

    assert isinstance(result, Result)
    assert result.rows == [{"p.name": "Bob", "p.age": 25}]
    assert notebook.user_ns["found"] is result


def test_a_bare_body_takes_parameters_from_a_dict(
    notebook: InteractiveShell, tmp_path: Path
) -> None:
    social_graph(tmp_path / "g")
    run(notebook, f"%gq_open {tmp_path / 'g'}")
    run(notebook, "wanted = {'oldest': 28}; oldest = 'not this one'; q = 3")

    result = run(
        notebook,
        "%%gq --params wanted\n"
        "match { $p: Person  $p.age > $oldest  $p knows $q } return { $q.name } order { $q.name }",
    )

    assert isinstance(result, Result)
    assert [row["q.name"] for row in result] == ["Bob", "Charlie"]


def test_a_cell_reads_a_branch_or_the_past(notebook: InteractiveShell, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")
    graph.tag("v1", graph.head())
    graph.create_branch("draft")
    graph.mutate(ADD, {"name": "Eve"}, branch="draft")
    notebook.user_ns["graph"] = graph
    run(notebook, "%gq_open graph")

    on_draft = run(notebook, f"%%gq --branch draft\n{PEOPLE}")
    in_the_past = run(notebook, f"%%gq --at v1\n{PEOPLE}")

    assert isinstance(on_draft, Result)
    assert isinstance(in_the_past, Result)
    assert (len(on_draft), len(in_the_past)) == (5, 4)
    assert in_the_past.commit_id == graph.tags()["v1"]


def test_a_cell_changes_the_graph_only_if_it_says_so(
    notebook: InteractiveShell, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "g")
    run(notebook, f"%gq_open {tmp_path / 'g'} --as ann")
    run(notebook, "name = 'Eve'")
    before = graph.head()

    with pytest.raises(UsageError, match="use %%gq --mutate"):
        run(notebook, f"%%gq\n{ADD}")
    assert graph.head() == before

    result = run(notebook, f"%%gq --mutate\n{ADD}")

    assert isinstance(result, MutationResult)
    assert graph.commit(str(result.commit_id)).actor == "ann"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%gq\nmatch { $p: Persn } return { $p.name }", "did you mean `Person`"),
        ("%%gq --branch nowhere\n" + PEOPLE, "branch 'nowhere' not found"),
        ("%%gq --params nothing\n" + PEOPLE, "the variable 'nothing' is not defined"),
        ("%%gq --wrong\n" + PEOPLE, "unrecognized arguments: --wrong"),
        ("%%gq\n   \n", "this cell is empty"),
        (f"%%gq\n{PEOPLE};\n{PEOPLE}", "a cell runs one query, not 2"),
        ("%gq_open /nowhere/at/all", "not found"),
    ],
)
def test_an_error_of_a_cell_is_one_line(
    notebook: InteractiveShell, tmp_path: Path, cell: str, message: str
) -> None:
    social_graph(tmp_path / "g")
    run(notebook, f"%gq_open {tmp_path / 'g'}")

    with pytest.raises(UsageError, match=message):
        run(notebook, cell)


def test_a_cell_without_a_graph_says_how_to_open_one(notebook: InteractiveShell) -> None:
    with pytest.raises(UsageError, match="no graph is open; run %gq_open URI first"):
        run(notebook, f"%%gq\n{PEOPLE}")


def test_a_served_graph_is_opened_by_its_url(notebook: InteractiveShell, tmp_path: Path) -> None:
    with open_server(tmp_path) as server:
        run(notebook, f"%gq_open {server.url} --graph default")

        result = run(notebook, f"%%gq\n{PEOPLE}")
        picture = run(notebook, "%gq_log --limit 5")
        run(notebook, f"%gq_open {server.store}")

    assert isinstance(result, Result)
    assert len(result) == 4
    assert isinstance(picture, HistoryPicture)


def test_the_history_is_a_drawing_in_a_notebook_and_text_elsewhere(
    notebook: InteractiveShell, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "g")
    graph.create_branch("draft")
    run(notebook, f"%gq_open {tmp_path / 'g'}")

    picture = run(notebook, "%gq_log")
    drawn = omnigraph.notebook.draw(graph, branches=["draft"])
    drawn.write(tmp_path / "history.svg")

    assert isinstance(picture, HistoryPicture)
    svg = picture._repr_svg_()
    assert len(ElementTree.fromstring(svg).findall("{*}circle")) == len(graph.commits())
    assert notebook.display_formatter is not None
    shown, _ = notebook.display_formatter.format(picture)  # type: ignore[no-untyped-call]  # theirs
    assert shown["image/svg+xml"] == shown["text/html"] == svg
    assert f"* {graph.head()} (draft) " in repr(drawn)
    assert "draft" in (tmp_path / "history.svg").read_text(encoding="utf-8")


def test_a_result_is_shown_as_a_table_with_the_commit_it_is_of(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")

    shown = graph.query(f"query q() {{ {PEOPLE} }}")._repr_html_()

    assert "<th>p.name</th>" in shown
    assert "<td>Alice</td>" in shown
    assert shown.endswith(f"<p>main at commit {graph.head()}</p>")


def test_the_commits_of_a_branch_are_a_list_that_is_shown_newest_first(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")
    graph.mutate(ADD, {"name": "Eve"}, actor="<b>ann</b>")

    log = graph.commits()
    shown = log._repr_html_()

    assert isinstance(log, CommitLog)
    assert log == list(log)
    places = [shown.index(f"<td>{each.id}</td><td>main</td>") for each in log]
    assert places == sorted(places, reverse=True)
    assert "&lt;b&gt;ann&lt;/b&gt;" in shown
    assert "<b>" not in shown


def test_a_long_history_is_shown_in_part(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")

    shown = CommitLog(graph.commits() * 20)._repr_html_()

    assert shown.count("<tr>") == 21
    assert shown.endswith("<p>and 20 before</p>")


def test_a_commit_is_shown_with_its_notes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")
    undone = graph.mutate(ADD, {"name": "Eve"}, actor="ann").commit_id
    graph.revert(str(undone))

    shown = graph.commit(graph.head())._repr_html_()

    assert f"<th>reverts</th><td>{undone}</td>" in shown
    assert "merged" not in shown


def test_differences_are_shown_with_changed_properties_only(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "g")
    before = graph.head()
    graph.mutate('query q() { update Person set { age: 26 } where name = "Bob" }')
    graph.mutate(ADD, {"name": "<i>"})

    shown = graph.diff(before, "main")._repr_html_()

    assert "1 inserts, 1 updates, 0 deletes" in shown
    assert "<td>{&quot;age&quot;:25}</td><td>{&quot;age&quot;:26}</td>" in shown
    assert "<td>&lt;i&gt;</td>" in shown


def test_a_long_difference_is_shown_in_part(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path / "g", "node N { n: I32 @key }", *(node("N", n=n) for n in range(33))
    )
    first: Commit = graph.commits()[0]

    shown = graph.diff(first.id, "main")._repr_html_()

    assert shown.count("<tr>") == 21
    assert shown.endswith("<p>and 13 more changes</p>")


def test_conflicts_of_a_merge_are_shown_with_their_three_rows(tmp_path: Path) -> None:
    graph = conflicting_graph(tmp_path / "g")

    tried = graph.merge("draft", dry_run=True)
    done = graph.merge("draft", resolve={("Person", "Bob"): "source"})

    assert tried.outcome is MergeOutcome.CONFLICTS
    shown = tried._repr_html_()
    assert "<td>Bob</td>" in shown
    assert all(f"&quot;age&quot;:{age}" in shown for age in (25, 50, 60))
    assert f"<th>commit</th><td>{done.commit_id}</td>" in done._repr_html_()


def conflicting_graph(path: Path) -> Graph:
    """Bob is 50 on a branch and 60 on main."""
    graph = social_graph(path)
    graph.create_branch("draft")
    for age, branch in ((50, "draft"), (60, "main")):
        set_age = f'query q() {{ update Person set {{ age: {age} }} where name = "Bob" }}'
        graph.mutate(set_age, branch=branch)
    return graph
