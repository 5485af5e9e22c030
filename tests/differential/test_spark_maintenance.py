"""Maintenance on Spark and in process leave the same graph: the same rows, the same results."""

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import lance
import numpy as np
import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.embed.providers import MockEmbedder
from omnigraph.errors import GraphError, InvalidValueError
from tests.support.embedders import Listening, embedding
from tests.support.graphs import (
    Record,
    build_graph,
    contents,
    edge,
    ndjson,
    node,
    root_of,
    rows,
    unchanged,
)
from tests.support.queries import query

SCHEMA = """
node Thing {
  code: String @key
  title: String? @index
  count: I64? @index
  kind: enum(red, green)? @index
  place: Vector(3)? @index
  secret: String?
  grams: F64?
}
edge Likes: Thing -> Thing
"""
NARROWER = """
node Thing {
  code: String @key
  title: String? @index
  count: I64? @index
  kind: enum(red, green)? @index
  place: Vector(3)? @index
  weight: F64? @rename_from("grams")
  born: Date?
}
edge Likes: Thing -> Thing
"""
MEMOS = 'node Memo { head: String @key  body: String?  v: Vector(3)? @embed("body") }'
SEEDS = range(max(settings().max_examples // 50, 2))
WORDS = ["old", "new", "borrowed", "blue"]
FILTERS = {
    "id": ["id >= 't2' AND id < 't4'", "id = 't7'"],
    "count": ["count = 3", "count > 5", "count IS NULL"],
    "kind": ["kind = 'red'"],
}


def worn_graph(root: Path, seed: int) -> Graph:
    """Things that came in several commits, some of which changed or left since."""
    chance = random.Random(seed)
    graph = build_graph(root, SCHEMA)
    for batch in range(chance.randint(3, 7)):
        numbers = range(batch * 10, batch * 10 + chance.randint(1, 10))
        things = [make_thing(number, chance) for number in numbers]
        likes = [edge("Likes", f"t{batch * 10}", f"t{number}") for number in numbers]
        graph.load(ndjson(*things, *likes), mode="append")
    for number in range(chance.randint(1, 3)):
        graph.mutate(query(f'update Thing set {{ count: 3 }} where code = "t{number}"'))
    graph.mutate(query('delete Thing where code = "t1"'))
    return graph


def make_thing(number: int, chance: random.Random) -> Record:
    """A thing that may lack any of its properties."""
    given = {
        "title": f"{chance.choice(WORDS)} {chance.choice(WORDS)} thing",
        "count": chance.randint(0, 9),
        "kind": chance.choice(["red", "green"]),
        "place": [chance.random() for _ in range(3)],
        "secret": f"s{number}",
        "grams": number / 4,
    }
    # The first ones have neither words nor a place: there are parts without anything to index.
    if number < 10:
        given = {name: given[name] for name in ("count", "kind", "secret")}
    retained = {name: value for name, value in given.items() if chance.random() < 0.8}
    return node("Thing", code=f"t{number}", **retained)


def copy_of(graph: Graph, name: str) -> Graph:
    """The same graph at another place, opened again."""
    root = root_of(graph).parent / name
    shutil.copytree(root_of(graph), root)
    return omnigraph.open(str(root))


def table_of(graph: Graph, branch: str = "main", key: str = "node:Thing") -> lance.LanceDataset:
    """A type as plain Lance sees it, at the version that counts."""
    table = graph.tables(branch)[key]
    return lance.dataset(table.path, version=table.version)


def results(graph: Graph, branch: str = "main", *, with_index: bool) -> Mapping[str, object]:
    """What filters, words and a vector find; by reading all rows unless indexes are asked."""
    table = table_of(graph, branch)
    found: dict[str, object] = {
        each: sorted(
            table.scanner(columns=["id"], filter=each, use_scalar_index=with_index)
            .to_table()["id"]
            .to_pylist()
        )
        for filters in FILTERS.values()
        for each in filters
    }
    near = {"column": "place", "q": [0.1, 0.5, 0.9], "k": 100, "use_index": with_index}
    ranked = table.scanner(columns=["id", "_distance"], nearest=near).to_table().to_pydict()
    distances = [round(each, 5) for each in ranked["_distance"]]
    found["near"] = sorted(zip(distances, ranked["id"], strict=True))
    for word in WORDS:
        if with_index:
            rows = table.scanner(columns=["id", "_score"], full_text_query=word).to_table()
        else:
            rows = table.scanner(columns=["id"], filter=f"contains(title, '{word}')").to_table()
        found[word] = sorted(rows["id"].to_pylist())
    return found


def scores(graph: Graph) -> Mapping[str, Mapping[str, float]]:
    """How well each row fits a word, as the index weighs it."""
    found = {}
    for word in WORDS:
        scanner = table_of(graph).scanner(columns=["id", "_score"], full_text_query=word)
        rows = scanner.to_table().to_pydict()
        found[word] = dict(zip(rows["id"], rows["_score"], strict=True))
    return found


def coverage(graph: Graph, branch: str = "main") -> Mapping[str, tuple[frozenset[int], int]]:
    """Which fragments each index knows, and in how many segments."""
    return {
        index.name: (
            frozenset().union(*(each.fragment_ids for each in index.segments)),
            len(index.segments),
        )
        for index in table_of(graph, branch).describe_indices()
    }


def segments_written(graph: Graph) -> int:
    """How many parts of indexes lie below a type, whether anything names them or not."""
    return len(list(Path(table_of(graph).uri.removeprefix("file://")).glob("_indices/*")))


def ordered_rows(graph: Graph) -> object:
    """The rows of a type as a scan finds them, with the ids that Lance gives them."""
    return table_of(graph).scanner(with_row_id=True).to_table().to_pydict()


@pytest.mark.parametrize("seed", SEEDS)
def test_indexes_that_spark_builds_are_those_of_this_process(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    bare = worn_graph(tmp_path / "bare", seed)
    here, there = copy_of(bare, "here"), copy_of(bare, "there")

    expected = here.ensure_indices()
    reports = there.ensure_indices(spark=spark)

    assert reports == expected
    assert coverage(there) == coverage(here)
    assert results(there, with_index=True) == results(here, with_index=True)
    assert scores(there) == scores(here)
    assert results(there, with_index=True) == results(bare, with_index=False)
    assert contents(there) == contents(bare)
    assert len(there.commits()) == len(bare.commits()) + 1
    assert segments_written(there) > segments_written(here), "executors wrote one piece each"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_graph_that_spark_lays_out_is_that_of_this_process(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    worn = worn_graph(tmp_path / "worn", seed)
    worn.ensure_indices()
    worn.load(ndjson(*(make_thing(n, random.Random(n)) for n in range(100, 105))), mode="append")
    here, there = copy_of(worn, "here"), copy_of(worn, "there")

    expected = here.optimize(engine="local")
    reports = there.optimize(engine="spark", spark=spark)

    assert reports == expected
    assert coverage(there) == coverage(here)
    assert ordered_rows(there) == ordered_rows(here)
    assert results(there, with_index=True) == results(worn, with_index=False)
    assert contents(there) == contents(worn)
    assert len(there.commits()) == len(worn.commits()) + 1
    assert not any(each.committed for each in there.optimize(spark=spark))


def test_files_that_several_tasks_join_hold_the_rows_in_their_order(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    worn = worn_graph(tmp_path / "worn", seed=11)
    for batch in range(10, 16):
        things = [make_thing(batch * 10 + each, random.Random(batch)) for each in range(5)]
        worn.load(ndjson(*things), mode="append")
    here, there = copy_of(worn, "here"), copy_of(worn, "there")
    monkeypatch.setattr("omnigraph.storage.lance.compaction.FRAGMENT_ROWS_MAX", 16)

    here.optimize(engine="local")
    there.optimize(spark=spark)

    counts = [each.count_rows() for each in table_of(there).get_fragments()]
    assert ordered_rows(there) == ordered_rows(here)
    assert len(counts) > 2
    assert all(8 <= count <= 16 for count in counts)
    assert results(there, with_index=True) == results(worn, with_index=False)
    assert not any(each.committed for each in there.optimize(spark=spark))


def test_spark_maintains_the_tables_of_a_branch(tmp_path: Path, spark: SparkSession) -> None:
    graph = worn_graph(tmp_path / "graph", seed=7)
    graph.create_branch("draft")
    graph.load(ndjson(make_thing(200, random.Random(1))), branch="draft", mode="append")
    before = contents(graph), contents(graph, "draft")

    graph.optimize(branch="draft", spark=spark)

    assert (contents(graph), contents(graph, "draft")) == before
    assert results(graph, "draft", with_index=True) == results(graph, "draft", with_index=False)
    assert len(table_of(graph, "draft").get_fragments()) == 1
    assert not coverage(graph)


def test_vectors_that_spark_makes_are_those_of_this_process(
    tmp_path: Path, spark: SparkSession
) -> None:
    memos = [node("Memo", head=f"m{number}", body=f"text {number % 5}") for number in range(20)]
    plain = build_graph(tmp_path / "plain", MEMOS, *memos[:8])
    plain.load(ndjson(*memos[8:]), mode="append")
    plain.load(ndjson(node("Memo", head="bare")), mode="append")
    plain.mutate(query('delete Memo where head = "m3"'))
    here, there = (embedding(copy_of(plain, name), MockEmbedder("A")) for name in ("here", "there"))

    expected = here.embed("Memo", engine="local")
    result = there.embed("Memo", spark=spark)

    assert result.rows_by_property == expected.rows_by_property == {"v": 19}
    assert (result.engine, expected.engine) == ("spark", "local")
    assert contents(there) == contents(here)
    assert there.embed("Memo", engine="spark", spark=spark).commit_id is None


def test_a_branch_is_embedded_on_spark_without_the_one_it_came_from(
    tmp_path: Path, spark: SparkSession
) -> None:
    plain = build_graph(tmp_path, MEMOS, node("Memo", head="m1", body="text"))
    graph = embedding(plain, MockEmbedder("A"))
    graph.create_branch("draft")
    before = contents(graph)

    graph.embed("Memo", branch="draft", spark=spark)

    assert contents(graph) == before
    made = np.array(rows(graph, "Memo", "draft")["m1"]["v"], np.float32)
    assert tuple(made.tolist()) == MockEmbedder("A").embed("text", 3)


def test_a_provider_that_cannot_travel_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    plain = build_graph(tmp_path, MEMOS, node("Memo", head="m1", body="text"))
    graph = embedding(plain, Listening(before=lambda: None))

    with unchanged(graph), pytest.raises(InvalidValueError, match='engine="local"'):
        graph.embed("Memo", engine="spark", spark=spark)


def test_rows_that_spark_writes_for_a_schema_are_those_of_this_process(
    tmp_path: Path, spark: SparkSession
) -> None:
    worn = worn_graph(tmp_path / "worn", seed=3)
    here, there = copy_of(worn, "here"), copy_of(worn, "there")
    old_commit = worn.commits()[-1].id

    expected = here.apply_schema(NARROWER, allow_data_loss=True, engine="local")
    result = there.apply_schema(NARROWER, allow_data_loss=True, spark=spark)

    assert result.steps == expected.steps
    assert contents(there) == contents(here)
    assert ordered_rows(there) == ordered_rows(here)
    assert len(there.commits()) == len(worn.commits()) + 1
    with pytest.raises(GraphError):
        list(there.query(query("match { $t: Thing } return { $t.secret }"), commit=old_commit))
