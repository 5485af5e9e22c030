"""Merges cell by cell, value by value and rule by rule, and how reverts interact with them."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import MergeConflictError
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import (
    Record,
    build_graph,
    contents,
    edge,
    ends,
    ndjson,
    node,
    open_with,
    require_linear,
    rows,
    sidecars,
    unchanged,
)
from tests.support.processes import started
from tests.support.queries import query
from tests.support.teams import ages, does, kinds, merges, team

# The table of cases, all at once

CELLS: Mapping[str, tuple[int | None, int | None, int | None, int | str | None]] = {
    "neither side has it": (None, None, None, None),
    "the target added it": (None, None, 1, 1),
    "the source added it": (None, 1, None, 1),
    "both added it alike": (None, 1, 1, 1),
    "both added it": (None, 1, 2, "divergent_insert"),
    "neither side changed it": (1, 1, 1, 1),
    "the target changed it": (1, 1, 2, 2),
    "the target removed it": (1, 1, None, None),
    "the source changed it": (1, 2, 1, 2),
    "both changed it alike": (1, 2, 2, 2),
    "both changed it": (1, 2, 3, "divergent_update"),
    "the source changed it, the target removed it": (1, 2, None, "delete_vs_update"),
    "the source removed it": (1, None, 1, None),
    "the source removed it, the target changed it": (1, None, 2, "delete_vs_update"),
    "both removed it": (1, None, None, None),
}
"""What base, source and target have of an entity; what the target has then, or why not."""


def cell_graph(path: Path, type_name: str) -> Graph:
    """A graph with an entity for each cell, and a branch; both sides have the changes of cells."""
    graph = build_graph(
        path,
        "node N { name: String @key  at: I32? } node H { name: String @key } "
        "edge E: H -> H { at: I32? }",
        node("H", name="h"),
    )
    graph.load(ndjson(*cell_records(type_name, 0)), mode="append")
    graph.create_branch("feature")
    for side, branch in ((1, "feature"), (2, "main")):
        heads = [node("H", name="h")]
        graph.load(ndjson(*heads, *cell_records(type_name, side)), mode="overwrite", branch=branch)
    return graph


def cell_records(type_name: str, side: int) -> Iterator[Record]:
    """The entities of one side as a load reads them."""
    for name, cell in CELLS.items():
        if cell[side] is not None and type_name == "N":
            yield node("N", name=name, at=cell[side])
        elif cell[side] is not None:
            yield edge("E", "h", "h", id=name, at=cell[side])


@pytest.mark.parametrize("type_name", ["N", "E"])
@pytest.mark.parametrize(("source", "into"), [("feature", "main"), ("main", "feature")])
def test_every_cell_of_the_table_ends_as_it_says(
    tmp_path: Path, type_name: str, source: str, into: str
) -> None:
    graph = cell_graph(tmp_path, type_name)
    before = contents(graph, into)

    found = graph.merge(source, into=into, dry_run=True).conflicts

    expected = [(type_name, name, end) for name, (*_, end) in CELLS.items() if isinstance(end, str)]
    assert kinds(found) == sorted(expected)
    assert contents(graph, into) == before
    merged = graph.merge(
        source, into=into, resolve={(each.type, each.id): "target" for each in found}
    )
    assert merged.outcome == "merged"
    mine = 2 if into == "main" else 1
    after = {
        name: cell[mine] if isinstance(cell[3], str) else cell[3] for name, cell in CELLS.items()
    }
    assert {name: row["at"] for name, row in rows(graph, type_name, into).items()} == {
        name: at for name, at in after.items() if at is not None
    }


# Rules


def test_an_edge_that_both_sides_add_and_only_one_may_is_a_conflict(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node U { name: String @key } edge Leads: U -> U { @unique(src, dst) }",
        node("U", name="a"),
        node("U", name="b"),
    )
    graph.create_branch("feature")
    for branch, id in (("feature", "e1"), ("main", "e2")):
        graph.load(ndjson(edge("Leads", "a", "b", id=id)), mode="append", branch=branch)

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.merge("feature")

    assert kinds(refused.value.conflicts) == [("Leads", "e1", "unique_violation")]
    merged = graph.merge("feature", resolve={("Leads", "e1"): "target"})
    assert merged.outcome == "merged"
    assert rows(graph, "Leads").keys() == {"e2"}


def test_a_unique_value_that_one_side_moved_to_another_row_is_not_a_conflict(
    tmp_path: Path,
) -> None:
    graph = build_graph(
        tmp_path,
        "node U { name: String @key  email: String? @unique }",
        node("U", name="x", email="e"),
        node("U", name="y", email="f"),
    )
    graph.create_branch("feature")
    merges(node("U", name="x", email="f"), node("U", name="y", email="e"))(graph, "feature")
    merges(node("U", name="z", email="g"))(graph, "main")

    assert graph.merge("feature").outcome == "merged"

    found = {id: row["email"] for id, row in rows(graph, "U").items()}
    assert found == {"x": "f", "y": "e", "z": "g"}


def team_with_leads(path: Path) -> Graph:
    """A person who leads two others and must lead at least one, and a branch."""
    graph = build_graph(
        path,
        "node U { name: String @key } edge Leads: U -> U @card(1..)",
        *(node("U", name=name) for name in "abc"),
        edge("Leads", "a", "b"),
        edge("Leads", "a", "c"),
    )
    graph.create_branch("feature")
    return graph


@pytest.mark.parametrize(
    ("on_source", "on_target"),
    [
        ('delete Leads where to = "b"', 'delete Leads where to = "c"'),
        ('delete U where name = "b"', 'delete U where name = "c"'),
        ('delete U where name = "c"', 'delete Leads where to = "b"'),
    ],
)
def test_edges_deleted_by_both_sides_below_a_minimum_are_a_conflict(
    tmp_path: Path, on_source: str, on_target: str
) -> None:
    graph = team_with_leads(tmp_path)
    does(on_source)(graph, "feature")
    does(on_target)(graph, "main")

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.merge("feature")

    assert kinds(refused.value.conflicts) == [("Leads", "a", "cardinality_violation")]


def test_deleting_a_node_with_all_its_edges_violates_no_minimum(tmp_path: Path) -> None:
    graph = team_with_leads(tmp_path)
    does('delete U where name = "a"')(graph, "feature")
    does('delete Leads where to = "c"')(graph, "main")

    assert graph.merge("feature").outcome == "merged"

    assert rows(graph, "U").keys() == {"b", "c"}
    assert ends(graph, "Leads") == []


# Edges that moved


@pytest.mark.parametrize("order", [1, -1], ids=["there", "back"])
def test_an_edge_that_moved_and_whose_old_end_the_other_side_removed_is_a_conflict(
    tmp_path: Path, order: int
) -> None:
    graph = team(tmp_path)
    (id,) = rows(graph, "Knows")
    moves, removes = ("feature", "main")[::order]
    merges(edge("Knows", "Alice", "Carol", id=id))(graph, moves)
    does('delete Person where name = "Bob"')(graph, removes)

    found = graph.merge("feature", dry_run=True).conflicts

    assert kinds(found) == [("Knows", id, "delete_vs_update")]
    choice = "source" if moves == "feature" else "target"
    graph.merge("feature", resolve={("Knows", id): choice})
    assert ends(graph, "Knows") == [("Alice", "Carol")]
    assert "Bob" not in ages(graph)


def test_an_edge_that_moved_to_a_node_that_the_other_side_removed_is_a_conflict(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    (id,) = rows(graph, "Knows")
    merges(edge("Knows", "Bob", "Dan", id=id))(graph, "feature")
    does('delete Person where name = "Dan"')(graph, "main")

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.merge("feature")

    (found,) = refused.value.conflicts
    assert (found.type, found.id, found.kind) == ("Knows", id, "orphan_edge")
    assert found.base == found.target == {"id": id, "src": "Bob", "dst": "Carol", "since": None}
    assert found.source == {"id": id, "src": "Bob", "dst": "Dan", "since": None}


def test_an_edge_that_one_side_moved_and_the_other_dated_merges_by_property(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    (id,) = rows(graph, "Knows")
    merges(edge("Knows", "Alice", "Dan", id=id))(graph, "feature")
    merges(edge("Knows", "Bob", "Carol", id=id, since=7))(graph, "main")

    assert graph.merge("feature", granularity="property").outcome == "merged"

    assert rows(graph, "Knows") == {id: {"from": "Alice", "to": "Dan", "since": 7}}


# Values

EVERYTHING = """
node T {
  name: String @key  count: I32?
  text: String?  flag: Bool?  i64: I64?  u64: U64?  f32: F32?  f64: F64?  day: Date?
  moment: DateTime?  blob: Blob?  vector: Vector(2)?  kind: enum(a, b)?
  texts: [String]?  numbers: [I64]?  floats: [F64]?  moments: [DateTime]?  flags: [Bool]?
}
"""

VALUES: Mapping[str, object] = {
    "text": 'é"\x1f',
    "flag": False,
    "i64": 2**63 - 1,
    "u64": 2**64 - 1,
    "f32": 0.1,
    "f64": -0.1,
    "day": "1969-12-31",
    "moment": "2020-01-02T03:04:05.678Z",
    "blob": "base64:AAEC",
    "vector": [0.1, 0.2],
    "kind": "a",
    "texts": ["a", ""],
    "numbers": [1, 2**60],
    "floats": [0.1, -0.0],
    "moments": ["2020-01-02T03:04:05.678Z"],
    "flags": [True, False],
}


def test_every_sort_of_value_merges_by_property_and_is_reverted(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERYTHING, *(node("T", name=name) for name in VALUES))
    graph.create_branch("feature")
    merges(*(node("T", name=name, **{name: value}) for name, value in VALUES.items()))(
        graph, "feature"
    )
    merges(*(node("T", name=name, count=7) for name in VALUES))(graph, "main")
    given, before = rows(graph, "T", "feature"), rows(graph, "T")
    assert all(given[name][name] is not None for name in VALUES)

    merged = graph.merge("feature", granularity="property")

    assert rows(graph, "T") == {name: {**given[name], "count": 7} for name in VALUES}
    graph.revert(str(merged.commit_id))
    assert rows(graph, "T") == before


def test_a_row_of_a_conflict_can_be_passed_as_its_resolution(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERYTHING, node("T", name="x"))
    graph.create_branch("feature")
    merges(node("T", name="x", **VALUES))(graph, "feature")
    merges(node("T", name="x", count=1))(graph, "main")
    (found,) = graph.merge("feature", dry_run=True).conflicts

    graph.merge("feature", resolve={("T", "x"): found.source})

    assert list(graph.diff("feature", "main")) == []


# Merging and undoing


def test_reverted_merge_changes_stay_absent_until_the_revert_is_reverted(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    does('insert Person { name: "Eve" }')(graph, "feature")
    merged = graph.merge("feature")
    reverted = graph.revert(str(merged.commit_id))
    does('insert Person { name: "Fay" }')(graph, "feature")

    graph.merge("feature")

    assert ages(graph).keys() == {"Alice", "Bob", "Carol", "Dan", "Fay"}
    graph.revert(str(reverted.commit_id))
    assert contents(graph) == contents(graph, "feature")


def test_a_change_of_reverted_rows_is_a_conflict(tmp_path: Path) -> None:
    graph = team(tmp_path)
    does('insert Person { name: "Eve" }')(graph, "feature")
    merged = graph.merge("feature")
    graph.revert(str(merged.commit_id))
    does('update Person set { age: 3 } where name = "Eve"')(graph, "feature")

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.merge("feature")

    assert kinds(refused.value.conflicts) == [("Person", "Eve", "delete_vs_update")]


def test_a_merge_is_picked_as_what_it_brought_to_its_target(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.create_branch("other")
    does('insert Person { name: "Eve" }')(graph, "feature")
    does('insert Person { name: "Fay" }')(graph, "main")
    merged = graph.merge("feature")

    graph.cherry_pick(str(merged.commit_id), onto="other")

    assert ages(graph, "other").keys() == {"Alice", "Bob", "Carol", "Dan", "Eve"}
    assert graph.commits("other")[-1].merged_parent_id is None
    graph.merge("main", into="other")
    assert contents(graph, "other") == contents(graph)


# Concurrent writes


def test_a_merge_is_complete_although_its_source_is_deleted_meanwhile(tmp_path: Path) -> None:
    does('insert Person { name: "Eve" }')(team(tmp_path), "feature")
    failpoints = Failpoints()
    graph, place = open_with(tmp_path, failpoints), Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION

    with failpoints.activate(place, Park(timeout_s=60)) as parked:
        merging = threading.Thread(target=graph.merge, args=("feature",))
        merging.start()
        parked.wait_for_arrival()
        omnigraph.open(tmp_path).delete_branch("feature")
        parked.release()
        merging.join()

    assert graph.branches() == ["main"]
    assert "Eve" in ages(graph)


MERGE_OR_CHANGE = """
import sys
import omnigraph
from omnigraph.errors import MergeConflictError, MovedError

graph = omnigraph.open(sys.argv[1], durability="relaxed")
print("ready", flush=True)
input()
for each in sys.argv[2:]:
    try:
        done = graph.merge(each) if each.startswith("draft") else graph.mutate(each)
        print(done.commit_id, flush=True)
    except (MergeConflictError, MovedError) as error:
        print(type(error).__name__, flush=True)
"""


def run_together(root: Path, *actions: Sequence[str]) -> list[list[str]]:
    """The output of each operation of processes that started at once."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(started(MERGE_OR_CHANGE, str(root), *each)) for each in actions
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        said = [child.communicate()[0].split() for child in children]
    assert [len(each) for each in said] == [len(each) for each in actions]
    return said


def draft(graph: Graph, number: int, body: str) -> str:
    """A branch on which a person was added and another change made."""
    name = f"draft{number}"
    graph.create_branch(name)
    does(f'insert Person {{ name: "new{number}" }} {body}')(graph, name)
    return name


def newcomers(graph: Graph) -> set[str]:
    """The people who were not in the team."""
    return ages(graph).keys() - {"Alice", "Bob", "Carol", "Dan"}


def test_processes_that_merge_into_one_branch_at_once_all_land(tmp_path: Path) -> None:
    graph = team(tmp_path)
    drafts = [
        draft(graph, number, f'insert Knows {{ from: "new{number}", to: "Bob" }}')
        for number in range(8)
    ]

    said = run_together(tmp_path, drafts[:4], drafts[4:])

    commits = graph.commits()
    require_linear(commits)
    assert {*said[0], *said[1]} == {each.id for each in commits if each.merged_parent_id}
    assert newcomers(graph) == {f"new{number}" for number in range(8)}
    assert len(ends(graph, "Knows")) == 9
    assert sidecars(tmp_path) == []


def test_a_merge_and_a_mutation_of_two_processes_land_one_after_the_other(tmp_path: Path) -> None:
    graph = team(tmp_path)
    # Every other branch changes the row that the mutations change.
    touching = ["", 'update Person set { age: 1 } where name = "Bob"'] * 3
    drafts = [draft(graph, number, body) for number, body in enumerate(touching)]
    changes = [
        query(f'update Person set {{ age: {age} }} where name = "Bob"') for age in range(100, 106)
    ]

    merged, changed = run_together(tmp_path, drafts, changes)

    made = [each.id for each in graph.commits()]
    require_linear(graph.commits())
    lost = {each for each in (*merged, *changed) if each not in made}
    assert lost <= {"MergeConflictError", "ExpectedVersionMismatchError", "ReadSetChangedError"}
    assert all(merged[number] in made for number, body in enumerate(touching) if not body)
    assert newcomers(graph) == {f"new{number}" for number in range(6) if merged[number] in made}
    ages_of_bob = {id: 1 for id, body in zip(merged, touching, strict=True) if body}
    ages_of_bob |= {id: age for age, id in enumerate(changed, start=100)}
    last = max(ages_of_bob.keys() & set(made), key=made.index)
    assert ages(graph)["Bob"] == ages_of_bob[last]
    assert sidecars(tmp_path) == []
