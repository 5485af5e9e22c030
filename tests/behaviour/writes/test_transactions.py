"""Transactions: several calls become one commit, or leave no trace."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import (
    ForbiddenError,
    IntegrityError,
    InvalidNameError,
    MergeConflictError,
    NotFoundError,
    StillNeededError,
)
from tests.support.graphs import (
    edge,
    ends,
    ndjson,
    node,
    rows,
    social_graph,
    unchanged,
    values,
)
from tests.support.processes import race, started
from tests.support.queries import query
from tests.support.table_stores import Place

EVE = query('insert Person { name: "Eve" }')
FRANK = query('insert Person { name: "Frank" }')
DYING = """
import sys, omnigraph
graph = omnigraph.open(sys.argv[1])
with graph.transaction(*sys.argv[2:]) as tx:
    tx.mutate('query q() { insert Person { name: "Eve" } }')
    print("in the middle", flush=True)
    sys.stdin.read()
"""
NAMES = "query q() { match { $p: Person } return { $p.name as name } order { $p.name } }"


class GivingUpError(Exception):
    """An error that a caller raises to abandon its transaction."""


def require_no_trace(root: Path) -> None:
    """Fail if anything of a transaction is left on the disk but its lock files."""
    trees = [path for path in root.rglob("tree/*") if path.name.startswith("__tx__")]
    references = list(root.rglob("_refs/branches/__tx__*"))
    records = list((root / "__transactions").glob("*"))
    assert (trees, references, records) == ([], [], [])


def test_the_writes_of_a_transaction_are_one_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = graph.head()

    with graph.transaction() as tx:
        tx.mutate(EVE)
        tx.load(ndjson(node("Person", name="Gil"), edge("Knows", "Eve", "Gil")), mode="append")
        tx.mutate(query('update Person set { age: 31 } where name = "Alice"'))
        tx.mutate(query('delete Person where name = "Bob"'))

    commits = graph.commits()
    assert commits[-1].id == tx.commit_id == graph.head()
    assert commits[-1].parent_id == before
    assert commits[-2].id == before
    assert rows(graph, "Person").keys() == {"Alice", "Charlie", "Diana", "Eve", "Gil"}
    assert values(graph, "Person", "age")["Alice"] == 31
    assert ends(graph, "Knows") == [("Alice", "Charlie"), ("Eve", "Gil")]
    require_no_trace(tmp_path)


def test_only_the_transaction_sees_its_uncommitted_writes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    onlooker = omnigraph.open(tmp_path)

    with graph.transaction() as tx:
        tx.mutate(EVE)
        ours = [row["name"] for row in tx.query(NAMES).rows]
        entity = tx.entity("Person", "Eve")
        exported = [line for line in tx.export(types=["Person"]) if "Eve" in line]
        theirs = [rows(each, "Person").keys() for each in (graph, onlooker)]
        is_moved = tx.head() != graph.head()

    assert ours == ["Alice", "Bob", "Charlie", "Diana", "Eve"]
    assert entity is not None
    assert len(exported) == 1
    assert all("Eve" not in names for names in theirs)
    assert is_moved
    assert "Eve" in rows(onlooker, "Person")


def test_a_transaction_does_not_see_concurrent_writes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with graph.transaction() as tx:
        graph.mutate(FRANK)
        seen = [row["name"] for row in tx.query(NAMES).rows]
        tx.mutate(EVE)

    assert "Frank" not in seen
    assert {"Eve", "Frank"} <= rows(graph, "Person").keys()


def test_an_exception_leaves_no_trace(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    def give_up() -> None:
        with graph.transaction() as tx:
            tx.mutate(EVE)
            tx.load(ndjson(node("Company", name="Initech")), mode="append")
            raise GivingUpError

    with unchanged(graph), pytest.raises(GivingUpError):
        give_up()

    assert graph.recoveries() == []
    require_no_trace(tmp_path)


def test_a_call_that_is_refused_and_caught_leaves_the_transaction_as_it_was(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with graph.transaction() as tx:
        tx.mutate(EVE)
        with pytest.raises(IntegrityError):
            tx.load(ndjson(edge("Knows", "Eve", "Absent")), mode="append")
        tx.load(ndjson(edge("Knows", "Eve", "Bob")), mode="append")

    assert ("Eve", "Bob") in ends(graph, "Knows")


def test_a_transaction_that_changed_nothing_makes_no_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph), graph.transaction() as tx:
        tx.query(NAMES)

    assert tx.commit_id is None
    require_no_trace(tmp_path)


def test_concurrently_changed_rows_are_a_conflict_and_nothing_is_applied(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)

    def overlap() -> None:
        with graph.transaction() as tx:
            tx.mutate(query('update Person set { age: 31 } where name = "Alice"'))
            tx.mutate(EVE)
            graph.mutate(query('update Person set { age: 32 } where name = "Alice"'))

    with pytest.raises(MergeConflictError) as refused:
        overlap()

    assert [(each.type, each.id) for each in refused.value.conflicts] == [("Person", "Alice")]
    assert values(graph, "Person", "age")["Alice"] == 32
    assert "Eve" not in rows(graph, "Person")
    require_no_trace(tmp_path)


def test_a_transaction_on_a_branch_ends_on_that_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.mutate(FRANK, branch="feature")

    with unchanged(graph), graph.transaction("feature", actor="ann") as tx:
        done = tx.load(ndjson(node("Person", name="Eve")), mode="append")

    assert (tx.branch, done.branch) == ("feature", "feature")
    assert {"Eve", "Frank"} <= rows(graph, "Person", "feature").keys()
    assert graph.commits("feature")[-1].actor == "ann"
    require_no_trace(tmp_path)


def test_the_branch_of_a_transaction_is_not_listed(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with graph.transaction() as tx:
        inside = tx.mutate(EVE).commit_id
        assert inside is not None
        branches = graph.branches()
        with pytest.raises(NotFoundError):
            graph.tag("mine", inside)
        with pytest.raises(InvalidNameError, match="internal"):
            graph.head(private_name(tmp_path))

    assert branches == ["main"]
    with pytest.raises(NotFoundError, match="merged it"):
        list(graph.export(commit=inside))


def test_a_branch_is_not_deleted_while_a_transaction_is_on_it(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")

    with graph.transaction("feature") as tx:
        tx.mutate(EVE)
        with pytest.raises(StillNeededError, match="a transaction still depends on it"):
            graph.delete_branch("feature")

    assert "Eve" in rows(graph, "Person", "feature")
    graph.delete_branch("feature")


def test_a_transaction_that_has_ended_refuses_calls(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    with graph.transaction() as tx:
        tx.mutate(EVE)

    for call in (
        lambda: tx.query(NAMES),
        lambda: tx.explain(NAMES),
        lambda: tx.mutate(FRANK),
        lambda: tx.load(ndjson(node("Person", name="Gil")), mode="append"),
        lambda: list(tx.export()),
        lambda: tx.entity("Person", "Eve"),
        tx.head,
    ):
        with pytest.raises(ForbiddenError, match="it has ended"):
            call()

    assert "Frank" not in rows(graph, "Person")


def test_no_transaction_begins_where_it_could_not_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    reader = omnigraph.open(tmp_path, read_only=True)

    with pytest.raises(ForbiddenError), reader.transaction():
        pytest.fail("a read-only handle began a transaction")
    with pytest.raises(NotFoundError), graph.transaction("nope"):
        pytest.fail("a transaction began on no branch")
    with pytest.raises(InvalidNameError), graph.transaction("__tx__1"):
        pytest.fail("a transaction began inside another")

    require_no_trace(tmp_path)


def test_transactions_at_once_all_land(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    def work(number: int) -> str | None:
        with graph.transaction() as tx:
            tx.load(ndjson(node("Person", name=f"p{number}")), mode="append")
            tx.load(ndjson(edge("Knows", f"p{number}", "Bob")), mode="append")
        return tx.commit_id

    landed = race(work, count=4)

    assert landed.count(None) == 0
    assert {f"p{number}" for number in range(4)} <= rows(graph, "Person").keys()
    assert len(ends(graph, "Knows")) == 3 + 4
    require_no_trace(tmp_path)


def test_a_transaction_is_one_commit_on_every_store(place: Place) -> None:
    options = dict(place.storage_options)
    schema = "node Person { name: String @key }"
    graph = omnigraph.init(place.root, schema, storage_options=options)

    with graph.transaction() as tx:
        tx.mutate(EVE)
        tx.mutate(FRANK)

    assert rows(graph, "Person").keys() == {"Eve", "Frank"}
    assert len(graph.commits()) == 2
    assert graph.branches() == ["main"]


# Failures


def test_a_dead_transaction_is_cleaned_up_by_the_next_open(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    with started(DYING, str(tmp_path)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in the middle\n"
    left = private_name(tmp_path)

    graph = omnigraph.open(tmp_path)

    assert left.startswith("__tx__")
    assert "Eve" not in rows(graph, "Person")
    assert graph.branches() == ["main"]
    assert graph.recoveries() == []
    require_no_trace(tmp_path)


def test_a_dead_transaction_keeps_no_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    with started(DYING, str(tmp_path), "feature") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in the middle\n"

    graph.delete_branch("feature")

    assert graph.branches() == ["main"]
    require_no_trace(tmp_path)


def test_opening_a_graph_does_not_end_a_living_transaction(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with graph.transaction() as tx:
        tx.mutate(EVE)
        omnigraph.open(tmp_path)
        tx.mutate(FRANK)

    assert {"Eve", "Frank"} <= rows(graph, "Person").keys()


def test_a_strange_file_among_transactions_harms_no_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    (tmp_path / "__transactions").mkdir()
    (tmp_path / "__transactions" / "feature.json").write_text("{}", encoding="utf-8")

    graph.refresh()

    assert graph.branches() == ["main", "feature"]


def private_name(root: Path) -> str:
    """The private branch of the one transaction that is under way."""
    (record,) = (root / "__transactions").glob("*.json")
    return record.stem
