"""Schema rules hold under concurrent writers: no check uses rows that have changed since.

In each test several writers race for something that only one of them may have.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.errors import IntegrityError, KeyConflictError, MovedError
from tests.support.graphs import (
    build_graph,
    edge,
    ends,
    head_versions,
    hub_graph,
    ndjson,
    node,
    pins,
    require_linear,
    rows,
    sidecars,
    social_graph,
    values,
)
from tests.support.queries import query

TURNS_MAX = 100


def test_of_many_writers_for_one_remaining_edge_one_succeeds(tmp_path: Path) -> None:
    graph = hub_graph(tmp_path)
    desks = ["d1", "d2", "d1", "d2"]

    outcomes = race(
        tmp_path,
        [writer(f'insert Sits {{ from: "ann", to: "{desk}" }}') for desk in desks],
    )

    assert sorted(outcomes) == ["landed", "refused", "refused", "refused"]
    assert len(rows(graph, "Sits")) == 1
    require_linear(graph.commits())


def test_of_many_writers_of_one_unique_value_one_succeeds(tmp_path: Path) -> None:
    graph = hub_graph(tmp_path)
    inserts = [
        writer(f'insert User {{ name: "u{number}", role: "guest", email: "same" }}')
        for number in range(4)
    ]

    outcomes = race(tmp_path, inserts)

    assert sorted(outcomes) == ["landed", "refused", "refused", "refused"]
    emails = [email for email in values(graph, "User", "email").values() if email == "same"]
    assert emails == ["same"]


def test_of_many_appends_of_one_key_one_succeeds(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key  age: I32? }")

    def append(age: int) -> Callable[[Graph], object]:
        return lambda own: own.load(ndjson(node("Person", name="x", age=age)), mode="append")

    outcomes = race(tmp_path, [append(age) for age in range(4)])

    assert sorted(outcomes) == ["landed", "refused", "refused", "refused"]
    assert list(rows(graph, "Person")) == ["x"]
    assert graph.tables()["node:Person"].row_count == 1


def test_no_edge_is_written_to_a_concurrently_deleted_node(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Person { name: String @key } edge Knows: Person -> Person",
        node("Person", name="hub"),
        *(node("Person", name=f"p{number}") for number in range(3)),
    )

    def come_and_go(own: Graph) -> None:
        for _ in range(5):
            until_it_lands(lambda: own.mutate(query('delete Person where name = "hub"')))
            until_it_lands(lambda: own.mutate(query('insert Person { name: "hub" }')))

    def join(number: int) -> Callable[[Graph], None]:
        def write(own: Graph) -> None:
            for _ in range(8):
                until_it_lands(
                    lambda: own.mutate(query(f'insert Knows {{ from: "p{number}", to: "hub" }}'))
                )

        return write

    race(tmp_path, [come_and_go, *(join(number) for number in range(3))])

    people = rows(graph, "Person")
    assert sorted(people) == ["hub", "p0", "p1", "p2"]
    assert all(source in people and target in people for source, target in ends(graph, "Knows"))
    require_linear(graph.commits())
    assert head_versions(tmp_path) == pins(graph)
    assert sidecars(tmp_path) == []


def test_no_edge_is_left_behind_by_an_overwrite_of_its_nodes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    retained = [node("Company", name="Acme"), node("Company", name="Globex")]

    def replace(own: Graph) -> None:
        for _ in range(4):
            until_it_lands(lambda: own.load(ndjson(*retained), mode="overwrite"))
            until_it_lands(
                lambda: own.load(ndjson(*retained, node("Company", name="New")), mode="overwrite")
            )

    def employ(own: Graph) -> None:
        for _ in range(8):
            until_it_lands(lambda: own.load(ndjson(edge("WorksAt", "Diana", "New")), mode="append"))

    race(tmp_path, [replace, employ])

    companies = rows(graph, "Company")
    assert all(target in companies for _, target in ends(graph, "WorksAt"))
    require_linear(graph.commits())


def test_a_minimum_holds_under_two_concurrent_deletions(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node U { n: String @key } edge Sits: U -> U @card(1..)",
        *(node("U", n=name) for name in "abc"),
        edge("Sits", "a", "b"),
        edge("Sits", "a", "c"),
    )

    outcomes = race(
        tmp_path, [writer(f'delete Sits where to = "{target}"') for target in ("b", "c")]
    )

    assert sorted(outcomes) == ["landed", "refused"]
    assert len(rows(graph, "Sits")) == 1


WRITE_FROM_OUTSIDE = """
import sys
import omnigraph
from omnigraph.errors import MovedError

root, name = sys.argv[1:]
graph = omnigraph.open(root)
for number in range(10):
    while True:
        try:
            graph.mutate(
                'query q($n: String) { insert Person { name: $n } '
                'insert Knows { from: $n, to: "Alice" } }',
                {"n": f"{name}-{number}"},
            )
        except MovedError:
            continue
        break
"""


def test_writers_of_different_processes_make_one_chain(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = len(graph.commits())

    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE_FROM_OUTSIDE, str(tmp_path), name])
        for name in ("one", "two")
    ]
    for number in range(10):
        insert_own = writer(f'insert Person {{ name: "own-{number}" }}')
        until_it_lands(partial(insert_own, graph))
    codes = [each.wait() for each in writers]

    assert codes == [0, 0]
    commits = graph.commits()
    require_linear(commits)
    assert len(commits) == before + 30
    assert len(rows(graph, "Person")) == 4 + 30
    assert len(rows(graph, "Knows")) == 3 + 20
    assert head_versions(tmp_path) == pins(graph)
    assert sidecars(tmp_path) == []


def race(root: Path, writes: Sequence[Callable[[Graph], object]]) -> list[str]:
    """Run each write on its own graph, all at once; the outcome of each."""
    start = threading.Barrier(len(writes))
    outcomes = ["lost"] * len(writes)

    def run(number: int) -> None:
        with omnigraph.open(str(root), durability="relaxed") as own:
            start.wait()
            outcomes[number] = until_it_lands(lambda: writes[number](own))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(writes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def writer(body: str) -> Callable[[Graph], object]:
    """A mutation for a race."""
    return lambda own: own.mutate(query(body))


def until_it_lands(write: Callable[[], object]) -> str:
    """Write with the retries of an application; whether a rule refused it."""
    for _ in range(TURNS_MAX):
        try:
            write()
        except MovedError:
            continue
        except (IntegrityError, KeyConflictError):
            return "refused"
        return "landed"
    raise AssertionError(f"overtaken {TURNS_MAX} times")
