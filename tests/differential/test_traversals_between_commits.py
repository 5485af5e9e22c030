"""Traversals on a handle that stays open return what a new handle returns, after any few changes.

All traversals use the adjacency in memory, which is changed instead of built again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.engine.settings import make_settings
from omnigraph.errors import IntegrityError
from tests.support.graphs import build_graph, edge, node
from tests.support.queries import query

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge MemberOf: Person -> Team
"""
NAMES = ("a", "b", "c", "d", "e")
EXAMPLES_MAX = max(settings().max_examples // 5, 1)

QUERIES = (
    query("match { $p: Person  $p knows $q } return { $p.name, $q.name, $q.age }"),
    query("match { $q: Person  $p knows $q } return { $q.name, $p.age }"),
    query("match { $p: Person  $p <knows> $q } return { $p.name, $q.name }"),
    query("match { $p: Person  $p $k:knows $q } return { $p.name, $q.name, $k.since }"),
    query("match { $p: Person  $p knows{1,3} $q } return { $p.name, $q.name }"),
    query(
        "match { $p: Person  $p knows $q  $q knows $r } "
        "return { $r.name as name, count(*) as n } order { n desc, name }"
    ),
    query(
        "match { $p: Person  $p knows $q  $q.age > 1 } return { $p.name as name, count(*) as n }"
    ),
    query("match { $t: Team  $p memberOf $t  not { $p knows $_ } } return { $t.name, $p.name }"),
)

names = st.sampled_from(NAMES)
numbers = st.integers(0, 3)
changes = st.one_of(
    st.builds('insert Person {{ name: "{}", age: {} }}'.format, names, numbers),
    st.builds('insert Knows {{ from: "{}", to: "{}", since: {} }}'.format, names, names, numbers),
    st.builds('insert MemberOf {{ from: "{}", to: "t" }}'.format, names),
    st.builds('update Person set {{ age: {} }} where name = "{}"'.format, numbers, names),
    st.builds("delete Knows where since = {}".format, numbers),
    st.builds('delete Knows where from = "{}"'.format, names),
    st.builds('delete Person where name = "{}"'.format, names),
)


@settings(max_examples=EXAMPLES_MAX)
@given(st.lists(changes, min_size=1, max_size=8), st.data())
def test_traversals_after_each_commit_return_what_a_new_handle_returns(
    steps: list[str], data: st.DataObject
) -> None:
    with TemporaryDirectory(prefix="omnigraph-traversals-") as folder:
        path = Path(folder)
        people = [node("Person", name=name, age=age) for age, name in enumerate(NAMES[:4])]
        pairs = [edge("Knows", one, other, since=1) for one, other in pairwise(NAMES[:4])]
        build_graph(path, SCHEMA, *people, node("Team", name="t"), *pairs).close()
        graph = open_in_memory(path)
        expected = {graph.head(): results(graph)}
        for step in steps:
            # A rejected step leaves the graph as it is, which the queries confirm.
            with suppress(IntegrityError):
                graph.mutate(query(step))

            with open_in_memory(path) as fresh:
                expected[graph.head()] = results(fresh)
            assert results(graph) == expected[graph.head()], step
        commit = data.draw(st.sampled_from(sorted(expected)))
        assert results(graph, commit=commit) == expected[commit]
        graph.close()


def open_in_memory(path: Path) -> Graph:
    """A graph whose traversals read no edge by itself."""
    settings = make_settings(str(path), storage_options=None, durability="relaxed")
    chosen = replace(settings, traversal=TraversalMode.CSR)
    return open_graph(chosen, actor=None, is_read_only=False)


def results(graph: Graph, *, commit: str | None = None) -> list[list[dict[str, object]]]:
    """The rows of every query."""
    return [graph.query(text, commit=commit).rows for text in QUERIES]
