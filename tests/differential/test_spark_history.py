"""Diffs and merges on Spark are those in process: any history on two branches, any two commits."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import omnigraph
from omnigraph import Graph
from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import (
    IntegrityError,
    InvalidValueError,
    KeyConflictError,
    MergeConflictError,
    NotFoundError,
    RecoveryRequiredError,
)
from omnigraph.spark.ops.diff import SparkChanges
from omnigraph.storage.failpoints import Failpoint
from tests.differential.test_diff import BRANCHES, Step, write, write_history
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.generated_rows import EVERYTHING, Row, thing_table, things
from tests.support.generated_writes import FIRST, SCHEMA
from tests.support.graphs import build_graph, contents, edge, ndjson, node, sidecars
from tests.support.spark_loads import files_below

# The first example that is generated is the least one.
EXAMPLES_MAX = max(settings().max_examples // 33, 1)
PAIRS_MAX = 2
MANY = 20_000
NETWORK = """
node Person { name: String @key  age: I32?  email: String?  @unique(email) }
node Place { name: String @key }
edge Knows: Person -> Person
"""
ON_SPARK = settings(
    max_examples=EXAMPLES_MAX,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def _many_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any number are brought together by several tasks."""
    monkeypatch.setattr("omnigraph.spark.ops.range_shuffle.UNSAMPLED_ROWS_MAX", 3)
    monkeypatch.setattr("omnigraph.spark.ops.range_shuffle.RANGE_BYTES_MAX", 1_000)


def describe(changes: ChangeSet) -> Sequence[object]:
    """Everything that a diff says."""
    return [(each.type, each.id, each.op, repr(each.before), repr(each.after)) for each in changes]


def twins(graph: Graph, folder: Path) -> tuple[Graph, Graph]:
    """The graph and a copy."""
    root = Path(graph.uri)
    graph.close()
    shutil.copytree(root, folder / "other")
    omnigraph.relocate(folder / "other")
    one, other = (
        omnigraph.open(str(each), durability="relaxed") for each in (root, folder / "other")
    )
    return one, other


def part_ways(graph: Graph, data: DataObject) -> None:
    """Let both branches do something that the other has not."""
    steps: tuple[Step, ...] = ("load", "change", "remove")
    for branch, step in product(BRANCHES, steps):
        with suppress(IntegrityError, KeyConflictError):
            write(graph, branch, step, data)


@dataclass(frozen=True, slots=True)
class MergeCall:
    """A merge that is tried, and then done, by one engine or the other."""

    source: str
    into: str
    granularity: str
    resolve: Mapping[tuple[str, str], object]

    def run(self, graph: Graph, spark: SparkSession | None) -> tuple[object, ...]:
        """What the merge said and left."""
        reported: list[object] = []
        try:
            for dry_run in (True, False):
                done = graph.merge(
                    self.source,
                    into=self.into,
                    dry_run=dry_run,
                    granularity=self.granularity,
                    resolve=self.resolve,
                    engine="spark" if spark else "local",
                    spark=spark,
                )
                reported += [done.outcome, done.conflicts]
        except MergeConflictError as error:
            reported += [error.conflicts, str(error)]
        except InvalidValueError as error:
            reported += [str(error)]
        head = graph.commits(self.into)[-1]
        return reported, contents(graph, self.into), head.merged_parent_id, head.notes.resolutions


@given(data=st.data())
@ON_SPARK
@pytest.mark.usefixtures("_many_ranges")
def test_a_diff_on_spark_is_the_one_in_process(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, data: DataObject
) -> None:
    graph = build_graph(tmp_path_factory.mktemp("graph"), SCHEMA, *FIRST)
    states = write_history(graph, data)
    first, last = next(iter(states)), list(states)[-1]
    pairs = st.lists(st.sampled_from(list(product(states, states))), max_size=PAIRS_MAX)

    for old, new in [(first, last), *data.draw(pairs)]:
        expected = graph.diff(old, new, engine="local")
        found = graph.diff(old, new, engine="spark", spark=spark)

        assert describe(found) == describe(expected)
        assert found.stats == expected.stats
        assert found.to_arrow().equals(expected.to_arrow())


@given(rows=things(), others=things())
@ON_SPARK
@pytest.mark.usefixtures("_many_ranges")
def test_row_versions_of_every_value_are_those_in_process(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    rows: Sequence[Row],
    others: Sequence[Row],
) -> None:
    graph = build_graph(tmp_path_factory.mktemp("graph"), EVERYTHING)
    graph.load({"Thing": thing_table(rows)}, mode="append")
    first = graph.head()
    graph.load({"Thing": thing_table(others)}, mode="overwrite")

    expected = graph.diff(first, "main", engine="local")
    found = graph.diff(first, "main", engine="spark", spark=spark)

    assert found.stats == expected.stats
    typed, wanted = found.to_arrow("Thing"), expected.to_arrow("Thing")
    assert typed.schema == wanted.schema
    assert repr(typed.to_pydict()) == repr(wanted.to_pydict())
    frames = found.to_spark("Thing"), expected.to_spark("Thing", spark)
    assert frames[0].schema == frames[1].schema
    assert not frames[0].exceptAll(frames[1]).count()
    assert found.to_spark().toArrow().equals(expected.to_spark(session=spark).toArrow())


def test_a_diff_of_few_changes_shuffles_few_rows(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = build_graph(tmp_path, NETWORK)
    people = [node("Person", name=f"p{number}", age=number) for number in range(MANY)]
    graph.load(ndjson(*people), mode="append")
    before = graph.head()
    graph.mutate("query q() { update Person set { age: 0 } where age < 100 }")
    graph.mutate("query q() { delete Person where age > 19990 }")

    found = graph.diff(before, "main", engine="spark", spark=spark)
    changes = found._found  # noqa: SLF001  # shuffled rows are not public
    assert isinstance(changes, SparkChanges)
    sent = changes.send(spark).agg(f.sum("row_count")).first()

    assert sent is not None
    assert sent[0] <= 2 * len(found)
    assert len(found) == 99 + 9

    # By default the number of compared rows decides, not the number of stored rows.
    monkeypatch.setattr("omnigraph.engine.ops.diff.DIFF_INLINE_ROWS_MAX", 1_000)
    assert "updates" in repr(graph.diff(before, "main"))
    monkeypatch.setattr("omnigraph.engine.ops.diff.DIFF_INLINE_ROWS_MAX", 100)
    assert "updates" not in repr(graph.diff(before, "main"))


def test_a_diff_of_a_deleted_state_is_rejected(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path, NETWORK, node("Person", name="a"))
    for name in ("deleted", "recreated"):
        graph.create_branch(name)
        graph.load(ndjson(node("Person", name=name)), mode="append", branch=name)
    changes = [
        graph.diff("main", name, engine="spark", spark=spark) for name in ("deleted", "recreated")
    ]

    for name in ("deleted", "recreated"):
        graph.delete_branch(name)
    graph.create_branch("recreated")
    graph.load(ndjson(node("Person", name="other")), mode="append", branch="recreated")

    for each in changes:
        with pytest.raises(NotFoundError):
            list(each)


@given(data=st.data())
@ON_SPARK
@pytest.mark.usefixtures("_many_ranges")
def test_a_merge_on_spark_is_the_one_in_process(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, data: DataObject
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    graph = build_graph(folder / "one", SCHEMA, *FIRST)
    write_history(graph, data)
    part_ways(graph, data)
    source, into = data.draw(st.permutations(["main", "feature"]))
    granularity = data.draw(st.sampled_from(["row", "property"]))
    there, here = twins(graph, folder)
    resolve: dict[tuple[str, str], object] = {}

    for _ in range(2):
        call = MergeCall(source, into, granularity, dict(resolve))
        expected, found = call.run(here, None), call.run(there, spark)

        assert found == expected
        tried = here.merge(source, into=into, dry_run=True, granularity=granularity)
        for each in tried.conflicts:
            resolve[each.type, each.id] = data.draw(st.sampled_from(["source", "target"]))


@pytest.mark.parametrize("into", ["main", "side"])
@pytest.mark.usefixtures("_many_ranges")
def test_a_merge_on_spark_finds_rows_that_were_moved_and_leaves_others_where_they_are(
    tmp_path: Path, spark: SparkSession, into: str
) -> None:
    graph = build_graph(tmp_path / "one", NETWORK)
    for start in range(0, 60, 20):
        people = [node("Person", name=f"p{n}", age=n) for n in range(start, start + 20)]
        knows = [edge("Knows", f"p{start}", f"p{n}") for n in range(start, start + 20)]
        graph.load(ndjson(*people, *knows), mode="append")
    graph.load(ndjson(*(node("Place", name=name) for name in "abc")), mode="append")
    graph.create_branch("side")
    graph.create_branch("source", base="side")
    graph.mutate('query q() { delete Place where name = "b" }', branch="source")
    graph.mutate("query q() { update Person set { age: 7 } where age > 50 }", branch=into)
    graph.optimize(branch=into)
    graph.mutate("query q() { delete Person where age = 8 }", branch=into)
    graph.mutate("query q() { delete Person where age < 5 }", branch="source")
    graph.mutate("query q() { update Person set { age: 99 } where age < 12 }", branch="source")
    graph.load(
        ndjson(node("Person", name="new"), edge("Knows", "new", "p9")),
        mode="append",
        branch="source",
    )
    graph.load(ndjson(node("Person", name="p6", age=1)), mode="merge", branch="source")
    there, here = twins(graph, tmp_path)
    call = MergeCall("source", into, "row", {("Person", "p8"): "target"})

    expected, found = call.run(here, None), call.run(there, spark)

    assert found == expected
    assert expected[0] == ["merged", (), "merged", ()]
    assert there.doctor().is_healthy


def test_a_merge_on_spark_that_is_refused_leaves_no_file(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(tmp_path, NETWORK, node("Person", name="a"), node("Person", name="b"))
    graph.create_branch("side")
    graph.load(ndjson(node("Person", name="c", email="x")), mode="append")
    graph.load(ndjson(node("Person", name="d", email="x")), mode="append", branch="side")
    files, head = files_below(tmp_path), graph.head()

    with pytest.raises(MergeConflictError) as caught:
        graph.merge("side", engine="spark", spark=spark)
    with pytest.raises(InvalidValueError, match="neither side changed Person 'b'"):
        graph.merge("side", engine="spark", resolve={("Person", "b"): "source"})

    assert [(each.kind, each.id) for each in caught.value.conflicts] == [("unique_violation", "d")]
    assert files_below(tmp_path) == files
    assert graph.head() == head


def test_a_merge_on_spark_whose_publishing_fails_is_undone_or_finished(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(tmp_path, NETWORK, node("Person", name="a"), node("Person", name="b"))
    graph.create_branch("side")
    graph.mutate('query q() { update Person set { age: 1 } where name = "a" }', branch="side")
    graph.mutate('query q() { delete Person where name = "b" }', branch="side")
    before, after = contents(graph), contents(graph, "side")
    place, failpoints = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, Failpoints()
    plain = make_settings(str(tmp_path), storage_options=None, durability="relaxed")
    failing = open_graph(
        replace(plain, spark_package="omnigraph.spark", failpoints=failpoints),
        actor=None,
        is_read_only=False,
    )

    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        failing.merge("side", engine="spark", spark=spark)

    found = contents(omnigraph.open(str(tmp_path), durability="relaxed"))
    assert found in (before, after)
    assert not sidecars(tmp_path)
    assert graph.merge("side", engine="spark", spark=spark).outcome != "conflicts"
    assert contents(graph) == after
