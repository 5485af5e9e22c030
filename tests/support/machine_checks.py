"""What a graph with branches promises, looked at from outside and held against the model.

Some looks are cheap enough for every step; those at all of history are for now and then. Nothing
here writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import NotFoundError
from omnigraph.model.errors import Conflict
from tests.support.graph_model import adopt
from tests.support.graphs import Contents, Row, contents, read_export, require_linear, sidecars
from tests.support.machine_model import (
    TYPES,
    Merged,
    ModelHistory,
    Remembered,
    Sides,
    require_rules,
    row_of,
)

EVERY_PERSON = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"


# Reading


def find_adopted(predicted: Contents, found: Contents) -> Contents | None:
    """A predicted state with real ids for made-up ones; None if what was found is another."""
    try:
        adopted = adopt(predicted, found)
    except AssertionError:
        return None
    return found if adopted == found else None


def require_adopted(predicted: Contents, found: Contents) -> Contents:
    """A predicted state with real ids for made-up ones; fail if what was found is another."""
    assert adopt(predicted, found) == found
    return found


# Conflicts


def require_conflicts(found: Sequence[Conflict], sides: Sides, merged: Merged) -> None:
    """Fail unless these are the conflicts, each with the images of its three sides."""
    reported = Counter((each.type, each.id, each.kind) for each in found)
    assert reported in merged.conflicts, (
        f"{dict(reported)} instead of {list(map(dict, merged.conflicts))}"
    )
    for each in found:
        if each.kind == "cardinality_violation":
            # Broken by the edges of a node together: there is no one row to show.
            continue
        entity = each.type, each.id
        assert each.source == row_of(sides.source, entity)
        assert each.target == row_of(sides.target, entity)
        if each.kind in ("divergent_insert", "divergent_update", "delete_vs_update"):
            assert each.base == row_of(sides.base, entity)


# Every step


def require_present(graph: Graph, history: ModelHistory) -> None:
    """Fail unless the branches are those of the model, each at its head, and so are the tags."""
    assert graph.branches() == history.branches
    assert {branch: graph.head(branch) for branch in history.branches} == history.heads
    assert graph.tags() == history.tags


def require_rows(graph: Graph, history: ModelHistory, branch: str) -> None:
    """Fail unless a branch has its rows, counts them right, and they keep the rules."""
    found = contents(graph, branch)
    assert found == history.state(branch), f"on {branch}"
    require_rules(found)
    counted = {
        key.partition(":")[2]: table.row_count for key, table in graph.tables(branch).items()
    }
    assert counted == {name: len(found.get(name, {})) for name in counted}


def require_quiet(root: Path) -> None:
    """Fail if a write is recorded as under way."""
    assert sidecars(root) == []


# All of history


def require_history(graph: Graph, history: ModelHistory) -> None:
    """Fail unless each branch is a chain of the commits that were made, with their parents."""
    for branch in history.branches:
        commits = graph.commits(branch)
        require_linear(commits)
        assert [each.id for each in commits] == history.chain(branch)
        for each in commits:
            merged = history.commits[each.id].parents[1:]
            assert not merged or merged == (each.merged_parent_id,)


def require_past(graph: Graph, history: ModelHistory, commits: Iterable[Remembered]) -> None:
    """Fail unless commits read as they did when they were made, or went with their branch."""
    for each in commits:
        if history.is_readable(each):
            assert read_export(graph.export(commit=each.id)) == each.state, f"at {each.id}"
        else:
            with pytest.raises(NotFoundError):
                list(graph.export(commit=each.id))


def require_tagged(graph: Graph, history: ModelHistory) -> None:
    """Fail unless every tag still reads as the commit that it was given to."""
    for name, commit_id in history.tags.items():
        assert read_export(graph.export(commit=name)) == history.commits[commit_id].state


def require_difference(graph: Graph, old: Remembered, new: Remembered) -> None:
    """Fail unless a diff of two commits is what differs between two dictionaries."""
    found = list(graph.diff(old.id, new.id))
    assert [(each.type, each.id, each.op) for each in found] == compare(old.state, new.state)
    for each in found:
        assert each.before == row_of(old.state, (each.type, each.id))
        assert each.after == row_of(new.state, (each.type, each.id))


def require_feed(graph: Graph, history: ModelHistory, branch: str) -> None:
    """Fail unless a feed goes through every commit of a branch, and reports what each changed.

    Of a branch other than `main`, only what it does not share with it.
    """
    chain, main = history.chain(branch), set() if branch == "main" else set(history.chain("main"))
    own = [id for id in chain[1:] if id not in main]
    start = chain[-1 - len(own)]
    reported = []
    for each in graph.changes(f"after:{start}", branch):
        old, new = (
            history.commits[id].state for id in (str(each.commit.parent_id), each.commit.id)
        )
        changes = [(change.type, change.id, change.op) for change in each.changes]
        assert changes == compare(old, new), f"by {each.commit.id}"
        reported.append(each.commit.id)
    assert reported == own


def require_one_result(graph: Graph, history: ModelHistory, branch: str) -> None:
    """Fail unless a query reads the head of a branch."""
    result = graph.query(EVERY_PERSON, branch=branch)
    people = history.state(branch).get("Person", {})
    found = {row["name"]: row["age"] for row in result}
    assert found == {id: row["age"] for id, row in people.items()}
    assert result.commit_id == history.heads[branch]


def require_merged_once(graph: Graph, history: ModelHistory) -> None:
    """Fail unless a branch has nothing to take from one that is part of its past."""
    for source in history.branches:
        for target in history.branches:
            if source != target and history.heads[source] in history.past(history.heads[target]):
                found = graph.merge(source, into=target, dry_run=True)
                assert found.outcome == "already_up_to_date"


def compare(old: Contents, new: Contents) -> list[tuple[str, str, str]]:
    """What differs between two states: type, id and sort, in the order of a diff."""
    return [
        (name, id, _sort_of(old.get(name, {}), new.get(name, {}), id))
        for name in TYPES
        for id in sorted({*old.get(name, {}), *new.get(name, {})}, key=str.encode)
        if old.get(name, {}).get(id) != new.get(name, {}).get(id)
    ]


def _sort_of(before: Mapping[str, Row], after: Mapping[str, Row], id: str) -> str:
    return "insert" if id not in before else "update" if id in after else "delete"
