"""Diffs against dictionaries: any history on two branches, any two of its commits compared.

What a diff says is what differs between the two exports, and its images are what the entities are
at either commit. A feed, replayed, goes through the same states.
"""

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from omnigraph import Graph
from omnigraph.errors import IntegrityError, KeyConflictError, MergeConflictError
from omnigraph.model.ports import TypeView
from tests.support.generated_writes import FIRST, SCHEMA, changes, records, removals, write_mutation
from tests.support.graphs import Contents, build_graph, contents, ndjson
from tests.support.views import TypeViews, see_as_reader

# An example costs as much as some hundred generated texts.
EXAMPLES_MAX = max(settings().max_examples // 10, 1)
STEPS_MAX = 10
PAIRS_MAX = 12
EDGES = frozenset({"Knows", "Sits", "Owns", "Cites"})

Step = Literal["change", "remove", "load", "index", "merge"]

BRANCHES = ("main", "feature")
MODES = ("append", "merge", "merge", "overwrite")
WRITES: tuple[Step, ...] = ("change", "change", "remove", "load", "load", "index", "merge")


def write(graph: Graph, branch: str, step: Step, data: DataObject) -> None:
    """One step of a history; what breaks a rule is refused, and changes nothing."""
    state = contents(graph, branch)
    match step:
        case "change":
            graph.mutate(*write_mutation(data.draw(changes(state))), branch=branch)
        case "remove":
            graph.mutate(*write_mutation(data.draw(removals(state))), branch=branch)
        case "load":
            given = ndjson(*data.draw(records(state)))
            graph.load(given, mode=data.draw(st.sampled_from(MODES)), branch=branch)
        case "index":
            graph.ensure_indices(branch=branch)
        case "merge":
            graph.merge(BRANCHES[branch == "main"], into=branch)


def write_history(graph: Graph, data: DataObject) -> Mapping[str, Contents]:
    """Every state that two branches went through, by its commit."""
    graph.create_branch("feature")
    states = {graph.head(): contents(graph)}
    for _ in range(data.draw(st.integers(1, STEPS_MAX))):
        branch = data.draw(st.sampled_from(BRANCHES))
        try:
            write(graph, branch, data.draw(st.sampled_from(WRITES)), data)
        except (IntegrityError, KeyConflictError, MergeConflictError):
            continue
        states[graph.head(branch)] = contents(graph, branch)
    return states


def compare(old: Contents, new: Contents) -> list[tuple[str, str, str]]:
    """What differs between two states: type, id and sort, in the order of a diff."""
    found = []
    for type_name in sorted(old.keys() | new.keys(), key=lambda name: (name in EDGES, name)):
        before, after = old.get(type_name, {}), new.get(type_name, {})
        for id in sorted(before.keys() | after.keys(), key=str.encode):
            if id not in before:
                found.append((type_name, id, "insert"))
            elif id not in after:
                found.append((type_name, id, "delete"))
            elif before[id] != after[id]:
                found.append((type_name, id, "update"))
    return found


def _is_young(row: Mapping[str, object]) -> bool:
    return isinstance(row["age"], int) and row["age"] < 41


VIEWS: tuple[tuple[TypeViews, Mapping[str, Callable[[Mapping[str, object]], bool]]], ...] = (
    (
        {"Person": TypeView(("age < 41", "name = $actor"), frozenset({"email", "role"}))},
        {"Person": _is_young},
    ),
    (
        {
            "Note": TypeView(("rank is null",), frozenset()),
            "Knows": TypeView(('kind = "work"',), frozenset({"since"})),
        },
        {
            "Note": lambda row: row["rank"] is None,
            "Knows": lambda row: row["kind"] == "work",
        },
    ),
    (
        {"Place": TypeView((), frozenset()), "Person": TypeView(('name != "a"',), frozenset())},
        {"Place": lambda _: False, "Person": lambda row: row["name"] != "a"},
    ),
)
"""The view of a caller, and the same in Python."""

ENDS = {
    "Knows": ("Person", "Person"),
    "Sits": ("Person", "Place"),
    "Owns": ("Person", "Note"),
    "Cites": ("Note", "Note"),
}


def cut(state: Contents, number: int) -> Contents:
    """The part of a state that is seen in one of the views."""
    types, tests = VIEWS[number]
    seen = {
        type_name: {
            id: row for id, row in rows.items() if type_name not in tests or tests[type_name](row)
        }
        for type_name, rows in state.items()
    }
    for type_name, (source, target) in ENDS.items():
        seen[type_name] = {
            id: row
            for id, row in seen.get(type_name, {}).items()
            if row["from"] in seen.get(source, {}) and row["to"] in seen.get(target, {})
        }
    return {
        type_name: {
            id: {name: row[name] for name in row if not _is_hidden(type_name, name, types)}
            for id, row in rows.items()
        }
        for type_name, rows in seen.items()
    }


def _is_hidden(type_name: str, name: str, types: TypeViews) -> bool:
    return type_name in types and name in types[type_name].hidden


def name_of(type_name: str) -> str:
    """A type as `entity` takes it."""
    return f"{'edge' if type_name in EDGES else 'node'}:{type_name}"


@given(data=st.data())
@settings(max_examples=EXAMPLES_MAX)
def test_a_diff_is_what_differs_between_two_exports(data: DataObject) -> None:
    with TemporaryDirectory() as folder:
        graph = build_graph(Path(folder), SCHEMA, *FIRST)
        states = write_history(graph, data)

        pairs = st.lists(st.sampled_from(list(product(states, states))), max_size=PAIRS_MAX)
        for old, new in [*product(list(states)[-2:], repeat=2), *data.draw(pairs)]:
            found = list(graph.diff(old, new))

            assert [(each.type, each.id, each.op) for each in found] == compare(
                states[old], states[new]
            )
            for each in found:
                entity = name_of(each.type), each.id
                assert each.before == graph.entity(*entity, commit=old)
                assert each.after == graph.entity(*entity, commit=new)


@given(data=st.data())
@settings(max_examples=EXAMPLES_MAX)
def test_a_feed_goes_through_every_state_of_its_branch(data: DataObject) -> None:
    with TemporaryDirectory() as folder:
        graph = build_graph(Path(folder), SCHEMA, *FIRST)
        first, states = graph.head(), write_history(graph, data)

        for branch in BRANCHES:
            old = first
            for each in graph.changes(f"after:{first}", branch):
                assert each.commit.parent_id == old
                reported = [(change.type, change.id, change.op) for change in each.changes]
                assert reported == compare(states[old], states[each.commit.id])
                old = each.commit.id
            assert old == graph.head(branch)


@given(data=st.data(), number=st.sampled_from(range(len(VIEWS))))
@settings(max_examples=EXAMPLES_MAX)
def test_a_diff_of_a_view_is_the_difference_of_two_visible_parts(
    data: DataObject, number: int
) -> None:
    with TemporaryDirectory() as folder:
        graph = build_graph(Path(folder), SCHEMA, *FIRST)
        states = write_history(graph, data)
        restricted = see_as_reader(graph, VIEWS[number][0])

        pairs = st.lists(st.sampled_from(list(product(states, states))), max_size=PAIRS_MAX)
        for old, new in [*product(list(states)[-2:], repeat=2), *data.draw(pairs)]:
            found = list(restricted.diff(old, new))

            assert [(each.type, each.id, each.op) for each in found] == compare(
                cut(states[old], number), cut(states[new], number)
            )
            for each in found:
                entity = name_of(each.type), each.id
                assert each.before == restricted.entity(*entity, commit=old)
                assert each.after == restricted.entity(*entity, commit=new)


@given(data=st.data(), number=st.sampled_from(range(len(VIEWS))))
@settings(max_examples=EXAMPLES_MAX)
def test_a_feed_of_a_view_covers_every_visible_part(data: DataObject, number: int) -> None:
    with TemporaryDirectory() as folder:
        graph = build_graph(Path(folder), SCHEMA, *FIRST)
        first, states = graph.head(), write_history(graph, data)
        restricted = see_as_reader(graph, VIEWS[number][0])

        for branch in BRANCHES:
            assert contents(restricted, branch) == {
                type_name: rows
                for type_name, rows in cut(states[graph.head(branch)], number).items()
                if rows
            }
            old = first
            for each in restricted.changes(f"after:{first}", branch):
                reported = [(change.type, change.id, change.op) for change in each.changes]
                parts = [cut(states[id], number) for id in (old, each.commit.id)]
                assert reported == compare(*parts)
                old = each.commit.id
            assert old == restricted.head(branch)
