"""A handle that stays open while rows change returns what a new handle returns.

After a commit of a few rows it does not read whole tables again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.model.limits import CHANGED_BYTES_MAX, CHANGED_ROWS_MAX
from omnigraph.model.ports import Event, Phase
from tests.support.graphs import Record, build_graph, edge, ndjson, node
from tests.support.later_graphs import open_later
from tests.support.queries import query

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String?  tags: [String]?  face: Vector(2)? }
node Team { name: String @key  size: I32? }
edge Knows: Person -> Person { since: I32? }
edge MemberOf: Person -> Team
"""

PEOPLE = ("ann", "ben", "cid", "dan", "eve", "fay")
BIOS = ("likes red wine", "runs marathons", "red runner", None, "wine and dine", "running red")

QUERIES: Mapping[str, str] = {
    "every row": query("match { $p: Person } return { $p.name, $p.age, $p.tags }"),
    "a key": query('match { $p: Person { name: "ben" } } return { $p.age, $p.bio }'),
    "a range": query("match { $p: Person  $p.age > 2 } return { $p.name }"),
    "null": query("match { $p: Person  $p.age is null } return { $p.name }"),
    "out": query("match { $p: Person  $p knows $q } return { $p.name, $q.name, $q.age }"),
    "in": query("match { $t: Team  $p memberOf $t } return { $t.name, $t.size, $p.age }"),
    "both": query("match { $p: Person  $p <knows> $q } return { $p.name, $q.name }"),
    "from one": query(
        'match { $p: Person { name: "ann" }  $p knows $q  $q knows $r } '
        "return { $r.name as name, count(*) as n } order { n desc, name }"
    ),
    "hops": query("match { $p: Person  $p knows{1,3} $q } return { $p.name, $q.name }"),
    "edges": query("match { $p: Person  $p $k:knows $q } return { $p.name, $q.name, $k.since }"),
    "counts": query(
        "match { $p: Person  $p knows $q } return { $q.name as name, count(*) as n } "
        "order { n desc, name }"
    ),
    "old friends": query("match { $p: Person  $p knows $q  $q.age > 2 } return { count(*) as n }"),
    "no friends": query("match { $p: Person  not { $p knows $_ } } return { $p.name }"),
    "perhaps": query(
        "match { $p: Person  optional { $p memberOf $t } } return { $p.name, $t.name }"
    ),
    "words": query('match { $p: Person  search($p.bio, "red") } return { $p.name }'),
    "fuzzy": query('match { $p: Person  fuzzy($p.bio, "wins", 1) } return { $p.name }'),
    "relevance": query(
        "match { $p: Person } "
        'return { $p.name, bm25($p.bio, "red wine") as score } '
        'order { bm25($p.bio, "red wine") desc } limit 4'
    ),
    "nearest": query(
        "match { $p: Person } return { $p.name } order { nearest($p.face, [0.0, 1.0]) } limit 3"
    ),
    "hybrid": query(
        "match { $p: Person } return { $p.name } "
        'order { rrf(nearest($p.face, [1.0, 0.0]), bm25($p.bio, "running")) } limit 4'
    ),
}


def made_graph(root: Path) -> Graph:
    """Six people, their teams and friends."""
    people = [
        node("Person", name=name, age=number, bio=bio, tags=[name], face=[number / 2, 1.0])
        for number, (name, bio) in enumerate(zip(PEOPLE, BIOS, strict=True))
    ]
    friends = [
        edge("Knows", "ann", "ben"),
        edge("Knows", "ben", "cid"),
        edge("Knows", "ann", "ann"),
    ]
    friends += [
        edge("Knows", "cid", "ann"),
        edge("Knows", "ann", "ben"),
        edge("Knows", "eve", "dan"),
    ]
    teams = [node("Team", name="red", size=1), node("Team", name="blue", size=2)]
    members = [edge("MemberOf", "ann", "red"), edge("MemberOf", "eve", "blue")]
    return build_graph(root, SCHEMA, *people, *teams, *friends, *members)


def results(
    graph: Graph, *, branch: str | None = None, commit: str | None = None
) -> dict[str, list[dict[str, object]]]:
    """The rows of every query."""
    return {
        name: graph.query(text, branch=branch, commit=commit).rows for name, text in QUERIES.items()
    }


def mutation(body: str) -> Callable[[Graph], object]:
    return lambda graph: graph.mutate(query(body))


def upsert(*lines: Record) -> Callable[[Graph], object]:
    return lambda graph: graph.load(ndjson(*lines), mode="merge")


def merge_branch(graph: Graph) -> None:
    graph.create_branch("side")
    graph.mutate(query('update Person set { age: 40 } where name = "fay"'), branch="side")
    graph.mutate(query('insert Person { name: "zoe", bio: "red" }'), branch="side")
    results(graph, branch="side")
    graph.merge("side", into="main")
    graph.delete_branch("side")


def optimize(graph: Graph) -> None:
    graph.ensure_indices()
    graph.optimize()


CHANGES: Mapping[str, Callable[[Graph], object]] = {
    "a node is inserted": mutation('insert Person { name: "gus", age: 9, bio: "red red wine" }'),
    "an edge is inserted": mutation('insert Knows { from: "gus", to: "ann", since: 3 }'),
    "a parallel edge is inserted": mutation('insert Knows { from: "ann", to: "cid", since: 4 }'),
    "a node is updated": mutation('update Person set { age: 7, bio: "wine" } where name = "ann"'),
    "it is updated again": mutation('update Person set { age: null } where name = "ann"'),
    "a new node is updated": mutation('update Person set { face: [0.0, 9.0] } where name = "gus"'),
    "one of several edges is deleted": mutation("delete Knows where since = 4"),
    "all edges of a node are deleted": mutation('delete Knows where from = "ann"'),
    "a node with edges is deleted": mutation('delete Person where name = "cid"'),
    "a node is deleted and exists again": upsert(node("Person", name="cid", age=50)),
    "a new node is deleted": mutation('delete Person where name = "gus"'),
    "a new node exists again": upsert(node("Person", name="gus"), edge("Knows", "gus", "gus")),
    "a branch is merged": merge_branch,
    "a property is added": lambda graph: graph.apply_schema(
        SCHEMA.replace("size: I32?", "size: I32?  motto: String?")
    ),
    "a node of that type is inserted": mutation('insert Team { name: "new", motto: "on" }'),
    "files are compacted": optimize,
    "a node is inserted after that": mutation('insert Person { name: "hal", age: 1 }'),
    "every node is updated": mutation("update Person set { age: 3 } where age is not null"),
}


def test_queries_after_each_commit_return_what_a_new_handle_returns(tmp_path: Path) -> None:
    graph = made_graph(tmp_path)
    expected = {graph.head(): results(graph)}

    for change, make in CHANGES.items():
        make(graph)

        with omnigraph.open(tmp_path) as fresh:
            for name, text in QUERIES.items():
                assert graph.query(text).rows == fresh.query(text).rows, f"{name}, after {change}"
            expected[graph.head()] = results(fresh)
    for commit, found in reversed(expected.items()):
        assert results(graph, commit=commit) == found


class CountingObserver:
    """Counts events."""

    def __init__(self) -> None:
        self.events: Counter[Event] = Counter()

    def count(self, event: Event) -> None:
        self.events[event] += 1

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        del phase
        return nullcontext()


def cached_table_data(graph: Graph) -> Mapping[str, int]:
    """The bytes that are cached of tables, without what is derived from them."""
    sizes = graph.stats().bytes_by_kind
    return {kind: size for kind, size in sizes.items() if kind != "adjacency"}


@pytest.mark.parametrize(
    "change",
    [
        'insert Person { name: "gus", age: 9 }',
        'update Person set { age: 7 } where name = "ann"',
        'insert Knows { from: "eve", to: "ann", since: 3 }',
        'delete Knows where from = "ann"',
        'delete Person where name = "ann"',
    ],
)
def test_a_query_after_a_commit_of_one_row_reads_no_table_again(
    tmp_path: Path, change: str
) -> None:
    graph = made_graph(tmp_path)
    text = query("match { $p: Person  $p $k:knows $q } return { $p.name, $q.age, $k.since }")
    graph.query(text)
    # A deleted edge is found among the ids of the edges.
    graph.query(
        query("match { $p: Person  $p $k:knows $q } return { $k.since } order { $k.since }")
    )
    graph.mutate(query('insert Knows { from: "ann", to: "fay" }'))
    graph.mutate(query('delete Knows where from = "fay"'))
    graph.query(text)
    graph.mutate(query(change))
    before = cached_table_data(graph)

    graph.query(text)

    assert cached_table_data(graph) == before


def test_a_commit_of_many_rows_is_read_whole(tmp_path: Path) -> None:
    graph = made_graph(tmp_path)
    results(graph)
    names = [f"p{number}" for number in range(CHANGED_ROWS_MAX + 1)]

    graph.load({"Person": [{"name": name, "age": 3} for name in names]}, mode="append")

    counted = graph.query(query("match { $p: Person  $p.age = 3 } return { count(*) as n }"))
    assert counted.rows == [{"n": len(names) + 1}]


def test_a_commit_of_large_rows_is_read_whole_and_once(tmp_path: Path) -> None:
    made_graph(tmp_path).close()
    observer = CountingObserver()
    settings = make_settings(str(tmp_path), storage_options=None, durability="relaxed")
    graph = open_graph(replace(settings, observer=observer), actor=None, is_read_only=False)
    text = query("match { $p: Person  $p.age >= 3 } return { $p.name, $p.bio }")
    graph.query(text)
    row = {"name": "gus", "age": 3, "bio": "x" * CHANGED_BYTES_MAX}
    graph.load({"Person": [row]}, mode="append")

    misses = []
    for _ in range(2):
        observer.events.clear()
        assert len(graph.query(text).rows) == 4
        misses.append(observer.events[Event.CACHE_MISS])

    assert misses[0] > 0
    assert misses[1] == 0


def test_a_version_that_only_a_cache_uses_may_be_cleaned_up(tmp_path: Path) -> None:
    graph = made_graph(tmp_path)
    text = query("match { $p: Person  $p knows $q } return { $p.name, $q.name }")
    graph.query(text)
    graph.mutate(query('update Person set { age: 3 } where name != "none"'))
    graph.query(text)
    open_later(tmp_path).cleanup(keep=1)

    # The ages were never read, and the files of the version whose ids are cached are deleted.
    found = graph.query(query("match { $p: Person  $p knows $q } return { $q.age as age }"))

    assert {row["age"] for row in found.rows} == {3}
    assert results(graph) == results(omnigraph.open(tmp_path))
