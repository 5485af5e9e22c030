"""Diffs against dictionaries: any history on two branches, any two of its commits compared.

What a diff says is what differs between the two exports, and its images are what the entities are
at either commit. A feed, replayed, goes through the same states.
"""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from omnigraph import Graph
from omnigraph.errors import IntegrityError, KeyConflictError, MergeConflictError
from tests.support.generated_writes import FIRST, SCHEMA, changes, records, removals, write_mutation
from tests.support.graphs import Contents, build_graph, contents, ndjson

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
                told = [(change.type, change.id, change.op) for change in each.changes]
                assert told == compare(states[old], states[each.commit.id])
                old = each.commit.id
            assert old == graph.head(branch)
