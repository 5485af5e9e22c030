"""Merges against dictionaries, where branches that were merged into both sides are deleted.

The model keeps every state that there ever was, so it knows the base that the graph can no longer
read. Ages and notes are never repeated and no person is deleted twice, so two branches are equal
only if one was merged into the other; equal independent changes would look the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from omnigraph import Graph
from omnigraph.errors import MergeConflictError
from tests.support.graphs import build_graph, ndjson, node, rows
from tests.support.queries import query
from tests.support.three_way import Merged, Rows, merge_rows

# An example costs as much as some hundred generated texts.
EXAMPLES_MAX = max(settings().max_examples // 5, 1)
ROUNDS_MAX = 4
SCHEMA = "node Person { name: String @key  age: I32?  note: I32? }"
NAMES = ("Ann", "Bob", "Cyd", "Dan", "Eve", "Fay")
ACTIONS = ("put", "put", "remove", "age", "note")
LASTING = ("main", "staging")


@dataclass(frozen=True, slots=True)
class Story:
    """A graph, and all that was ever true of it."""

    graph: Graph
    states: dict[str, Rows] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fresh: count[int] = field(default_factory=count)
    deleted: set[str] = field(default_factory=set)

    def note(self, branch: str, *parents: str) -> None:
        """Remember what is true of a branch, and what it came from."""
        head = self.graph.head(branch)
        if head not in self.states:
            self.parents[head] = parents
            self.states[head] = rows(self.graph, "Person", branch)

    def past(self, id: str) -> set[str]:
        """A commit and all before it."""
        return {id}.union(*(self.past(each) for each in self.parents[id]))

    def last_in_common(self, one: str, other: str) -> list[str]:
        """The commits before both that come before no other such one."""
        both = self.past(one) & self.past(other)
        return sorted(
            id for id in both if not any(id != each and id in self.past(each) for each in both)
        )

    def find_base(self, one: str, other: str) -> Rows | None:
        """The state that both were measured from; None if its parts contradict each other."""
        first, *others = self.last_in_common(one, other)
        base = self.states[first]
        for each in others:
            merge_base = self.last_in_common(first, each)
            if len(merge_base) > 1:
                return None
            was, is_now = self.states[merge_base[0]], self.states[each]
            merged = merge_rows(was, is_now, base, by_property=True)
            if merged.conflicts:
                return None
            base = merged.rows
        return base

    def write(self, branch: str, name: str, action: str) -> None:
        """One change; nothing happens if there is no row to change."""
        head, number = self.graph.head(branch), next(self.fresh)
        match action:
            case "remove" if name in self.deleted:
                return
            case "remove":
                self.deleted.add(name)
                self.graph.mutate(query(f'delete Person where name = "{name}"'), branch=branch)
            case "put":
                record = node("Person", name=name, age=number)
                self.graph.load(ndjson(record), mode="merge", branch=branch)
            case property_name:
                body = f'update Person set {{ {property_name}: {number} }} where name = "{name}"'
                self.graph.mutate(query(body), branch=branch)
        self.note(branch, head)

    def merge(self, source: str, into: str, granularity: str) -> None:
        """Merge, and see that it is the merge of dictionaries."""
        one, other = self.graph.head(source), self.graph.head(into)
        last = self.last_in_common(one, other)
        base = self.find_base(one, other)
        expected = None if base is None else self._expect(base, one, other, granularity)
        conflicts: set[str] = set()
        try:
            self.graph.merge(source, into=into, granularity=granularity)
        except MergeConflictError as error:
            conflicts = {each.id for each in error.conflicts}
        else:
            self.note(into, other, one)
        if expected is not None:
            is_lost = not {*last} <= self.readable()
            event(f"{len(last)} last in common, {'some lost' if is_lost else 'all there'}")
            assert conflicts == expected.conflicts.keys()
            if not conflicts:
                assert rows(self.graph, "Person", into) == expected.rows

    def _expect(self, base: Rows, one: str, other: str, granularity: str) -> Merged:
        by_property = granularity == "property"
        return merge_rows(base, self.states[one], self.states[other], by_property=by_property)

    def readable(self) -> set[str]:
        """The commits of the branches that are there."""
        return {each.id for branch in self.graph.branches() for each in self.graph.commits(branch)}


def begin(path: Path) -> Story:
    """Three people, and three branches on which nothing has happened."""
    graph = build_graph(path, SCHEMA, *(node("Person", name=name) for name in NAMES[:3]))
    story = Story(graph)
    story.note("main")
    for name in ("staging", "feature"):
        graph.create_branch(name)
    return story


def write_some(story: Story, branches: Sequence[str], data: DataObject) -> None:
    """Up to three writes on some branches."""
    for _ in range(data.draw(st.integers(0, 3))):
        branch, name = data.draw(st.sampled_from(branches)), data.draw(st.sampled_from(NAMES))
        story.write(branch, name, data.draw(st.sampled_from(ACTIONS)))


def live_a_round(story: Story, granularity: str, data: DataObject) -> None:
    """Two branches take from a third one, which is deleted, and may meet."""
    write_some(story, (*LASTING, "feature"), data)
    for branch in data.draw(st.permutations(LASTING)):
        write_some(story, ("feature",), data)
        story.merge("feature", branch, granularity)
    write_some(story, (*LASTING, "feature"), data)
    story.graph.delete_branch("feature")
    story.graph.create_branch("feature", base=data.draw(st.sampled_from(LASTING)))
    write_some(story, LASTING, data)
    source, into = data.draw(st.permutations(LASTING))
    if data.draw(st.sampled_from((True, False))):
        story.merge(source, into, granularity)


@settings(max_examples=EXAMPLES_MAX)
@given(data=st.data(), granularity=st.sampled_from(("row", "property")))
def test_a_merge_is_right_though_what_both_took_went_with_its_branch(
    data: DataObject, granularity: str
) -> None:
    with TemporaryDirectory() as folder:
        story = begin(Path(folder))
        for _ in range(data.draw(st.integers(1, ROUNDS_MAX))):
            live_a_round(story, granularity, data)
