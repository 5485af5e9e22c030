"""Words and vectors scored by Spark's tasks, and rankings by them: as in process, to the bit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from omnigraph.compiler.ir import Comparator, Nearest
from omnigraph.engine.read.ordering import order_keys
from omnigraph.engine.read.ranking import fuse
from omnigraph.engine.read.search.text_index import TextQuery, build_text_index
from omnigraph.engine.read.search.vectors import vector_column
from omnigraph.engine.rows.conditions import (
    NEVER,
    BoundCondition,
    Column,
    Compare,
)
from omnigraph.errors import UnavailableError
from omnigraph.model.types import Scalar, TextLanguage
from omnigraph.spark.query.column_pruning import Search
from omnigraph.spark.query.output import ByColumn, Fused, RankedBy, rank_rows
from omnigraph.storage.predicates import IsNull, IsPresent
from tests.support.graphs import build_graph, ndjson, node
from tests.support.queries import query
from tests.support.spark_search import (
    FACE,
    NOTES,
    frames_of,
    holds,
    near,
    notebook,
    queries,
    read,
    relevant,
    whole,
    words,
)

SLUG = Column("slug", Scalar.STRING)
FIRST, SECOND = ByColumn("distance", is_distance=True), ByColumn("score", is_distance=False)
HERE_AND_THERE = pytest.mark.parametrize("rows_max", [10_000, 0], ids=["here", "in tasks"])
"""A small type is read where the plan is made, a large one by tasks."""


def read_up_to(rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.spark.query.tables.SPARK_LOCAL_ROWS_MAX", rows_max)


def by_id(frame: DataFrame) -> pa.Table:
    return frame.toArrow().combine_chunks().sort_by("id")


def known(numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pa.Array:
    return pa.array(numbers, mask=np.isnan(numbers))


def bits(values: pa.ChunkedArray) -> list[object]:
    """Values in a form in which equal numbers have equal bits."""
    return [each.hex() if isinstance(each, float) else each for each in values.to_pylist()]


# What is said of a row


@HERE_AND_THERE
def test_words_are_found_as_in_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    read_up_to(rows_max, monkeypatch)
    frames = frames_of(spark, notebook(tmp_path / "graph", loads=4, count=60))
    sought = [TextQuery(text, edits) for text in queries(3, seed=1) for edits in (None, 0, 2)]
    searches: dict[Search, str] = {
        holds(each.words, edits=each.edits, is_negated=is_negated): f"{number}{is_negated}"
        for number, each in enumerate(dict.fromkeys(sought))
        for is_negated in (False, True)
    }

    found = by_id(read(frames, {"id": "id"}, searches=searches))

    bodies = whole(frames)["body"].combine_chunks()
    index = build_text_index(bodies, TextLanguage.ENGLISH)
    for number, each in enumerate(dict.fromkeys(sought)):
        marks = index.holding(each)
        assert found[f"{number}False"].to_pylist() == marks.tolist(), each
        assert found[f"{number}True"].to_pylist() == (~marks & ~index.is_null).tolist(), each


@HERE_AND_THERE
def test_scores_are_those_of_the_whole_column_whatever_rows_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    read_up_to(rows_max, monkeypatch)
    frames = frames_of(spark, notebook(tmp_path / "graph", loads=4, count=60))
    texts = list(dict.fromkeys(queries(3, seed=2)))
    half = Compare(SLUG, Comparator.GT, "z")

    found = by_id(
        read(
            frames,
            {"id": "id"},
            condition=half,
            searches={relevant(text): str(number) for number, text in enumerate(texts)},
        )
    )

    rows = whole(frames)
    index = build_text_index(rows["body"].combine_chunks(), TextLanguage.ENGLISH)
    is_read = [id > "z" for id in rows["id"].to_pylist()]
    assert 0 < sum(is_read) < len(is_read)
    for number, text in enumerate(texts):
        expected = known(index.score(text)).filter(pa.array(is_read))
        assert bits(found[str(number)]) == bits(expected), text


@HERE_AND_THERE
def test_distances_are_those_of_single_precision_vectors_in_double_precision(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    read_up_to(rows_max, monkeypatch)
    frames = frames_of(spark, notebook(tmp_path / "graph", loads=4, count=60))
    vectors = [(0.1, 0.0, 1.0), (3.4e38, -3.4e38, 0.0), (1e-45, -0.0, 7.0)]

    found = by_id(
        read(
            frames,
            {"id": "id"},
            searches={near(each): str(number) for number, each in enumerate(vectors)},
        )
    )

    faces = vector_column(whole(frames)["face"].combine_chunks())
    every = np.arange(len(faces.vectors))
    for number, vector in enumerate(vectors):
        expected = known(faces.distances(np.array(vector, np.float32), every))
        assert bits(found[str(number)]) == bits(expected)


@HERE_AND_THERE
def test_a_search_for_null_says_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    read_up_to(rows_max, monkeypatch)
    frames = frames_of(
        spark, build_graph(tmp_path / "graph", NOTES, node("Note", slug="a", body="sun"))
    )
    searches: dict[Search, str] = {
        holds(None, is_negated=True): "h",
        near(None): "d",
        relevant(None): "s",
    }

    found = read(frames, {"id": "id"}, searches=searches).toArrow().to_pylist()

    assert found == [{"id": "a", "h": False, "d": None, "s": None}]


def test_a_text_without_an_embedder_is_refused_before_anything_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    frames = frames_of(spark, build_graph(tmp_path / "graph", NOTES))

    with pytest.raises(UnavailableError, match=r"embed the text that \$n.face is compared with"):
        read(frames, {"id": "id"}, searches={Nearest(FACE, words("sun"), None): "d"})


# Which rows, of which state


@HERE_AND_THERE
def test_a_condition_decides_which_rows_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    read_up_to(rows_max, monkeypatch)
    bodies = {"a": "", "b": None, "c": "x"}
    records = [node("Note", slug=slug, body=body) for slug, body in bodies.items()]
    frames = frames_of(spark, build_graph(tmp_path / "graph", NOTES, *records))
    ids_by_condition: dict[BoundCondition, list[str]] = {
        Compare(SLUG, Comparator.GE, "b"): ["b", "c"],
        IsNull("body"): ["b"],
        IsPresent("body"): ["a", "c"],
        NEVER: [],
    }

    for condition, ids in ids_by_condition.items():
        found = read(frames, {"id": "id", "face": "f"}, condition=condition)

        assert found.columns == ["id", "f"]
        assert by_id(found).to_pylist() == [{"id": id, "f": None} for id in ids]


@HERE_AND_THERE
def test_a_property_that_is_younger_than_the_rows_is_null_in_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    read_up_to(rows_max, monkeypatch)
    graph = build_graph(
        tmp_path / "graph", "node Note { slug: String @key }", node("Note", slug="a")
    )
    graph.create_branch("side")
    graph.apply_schema(NOTES)
    frames = frames_of(spark, graph, branch="side")
    searches: dict[Search, str] = {
        holds("sun", is_negated=True): "h",
        near([0, 0, 1]): "d",
        relevant("sun"): "s",
    }

    found = read(frames, {"body": "b", "face": "f"}, searches=searches)
    only = read(frames, {"body": "b"}, condition=IsNull("face"))

    assert whole(frames).column_names == ["id", "slug"]
    nothing = {"b": None, "f": None, "h": False, "d": None, "s": None}
    assert found.toArrow().to_pylist() == [nothing]
    assert only.toArrow().to_pylist() == [{"b": None}]
    assert read(frames, {"id": "i"}, condition=IsPresent("face")).count() == 0


def test_a_frame_is_of_its_branch_and_commit_however_late_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_up_to(0, monkeypatch)
    graph = build_graph(tmp_path / "graph", NOTES, node("Note", slug="a", body="sun"))
    before = graph.head()
    graph.create_branch("side")
    graph.load(ndjson(node("Note", slug="b", body="sun")), mode="append", branch="side")
    searches: dict[Search, str] = {relevant("sun"): "s"}
    frames = {
        "main": frames_of(spark, graph),
        "side": frames_of(spark, graph, branch="side"),
        "past": frames_of(spark, graph, commit=before),
    }
    lazy = {name: read(each, {"id": "id"}, searches=searches) for name, each in frames.items()}

    graph.mutate(query('delete Note where slug = "a"'))

    found = {name: by_id(frame)["id"].to_pylist() for name, frame in lazy.items()}
    assert found == {"main": ["a"], "side": ["a", "b"], "past": ["a"]}
    assert read(frames_of(spark, graph), {"id": "id"}, searches=searches).count() == 0


# Rankings


def entities(count: int, *, seed: int) -> pa.Table:
    """Entities with few different distances and scores, so that many of them tie."""
    chance = Random(seed)
    ids = [f"{chance.choice('aéZ')}{number}" for number in range(count)]
    return pa.table(
        {
            "id": ids,
            "distance": pa.array(chance.choices([None, 0.0, 0.5, 1.25], k=count), pa.float64()),
            "score": pa.array(chance.choices([None, 0.0, 0.1, 0.3, 7.5], k=count), pa.float64()),
        }
    )


def rank_in_process(arm: ByColumn, rows: pa.Table, wanted: int | None) -> list[int]:
    """The places of the ranked entities, best first."""
    values = rows[arm.column].to_numpy()
    keys = values if arm.is_distance else np.where(values > 0, -values, np.nan)
    order = np.lexsort((order_keys(rows["id"], is_descending=False), keys))
    ranked = order[: np.count_nonzero(~np.isnan(keys))]
    return [int(each) for each in (ranked[:wanted] if arm.is_distance else ranked)]


def fuse_in_process(by: Fused, rows: pa.Table, wanted: int | None) -> list[tuple[str, float]]:
    assert by.k is not None
    first, second = (rank_in_process(arm, rows, wanted) for arm in (by.primary, by.secondary))
    codes, scores = fuse(np.array(first, np.int64), np.array(second, np.int64), by.k)
    ids = rows["id"].to_pylist()
    pairs = zip(codes.tolist(), scores.tolist(), strict=True)
    return [(ids[code], score) for code, score in pairs][:wanted]


def ranked(
    spark: SparkSession, rows: pa.Table, by: RankedBy, wanted: int | None
) -> Sequence[Mapping[str, object]]:
    """The ranked rows in their order."""
    frame = spark.createDataFrame(rows).repartition(3)
    ranked, order = rank_rows(frame, by, id="id", place="p", score="fused", wanted=wanted)
    ordered = ranked.orderBy(*order)
    shown = ordered if wanted is None else ordered.limit(wanted)
    rows_found: list[dict[str, object]] = shown.toArrow().to_pylist()
    return rows_found


@pytest.mark.parametrize("arm", [FIRST, SECOND])
@pytest.mark.parametrize("wanted", [None, 4])
def test_one_ranking_orders_by_itself_then_by_id(
    spark: SparkSession, arm: ByColumn, wanted: int | None
) -> None:
    rows = entities(60, seed=3)

    found = [row["id"] for row in ranked(spark, rows, arm, wanted)]

    expected = rows["id"].take(rank_in_process(arm, rows, None)).to_pylist()
    assert found == expected[:wanted]


@pytest.mark.parametrize(
    ("primary", "secondary", "k", "wanted"),
    [
        (FIRST, SECOND, 60, None),
        (FIRST, SECOND, 60, 5),
        (FIRST, SECOND, 1, 3),
        (SECOND, FIRST, 1, 3),
        (SECOND, ByColumn("distance", is_distance=False), 1, 2),
        (FIRST, ByColumn("score", is_distance=True), 2, 4),
        (FIRST, SECOND, 10**9, 3),
        (FIRST, SECOND, 60, 0),
    ],
)
def test_two_rankings_are_fused_as_in_process(
    spark: SparkSession, primary: ByColumn, secondary: ByColumn, k: int, wanted: int | None
) -> None:
    rows, by = entities(60, seed=4), Fused(primary, secondary, k)

    found = [(row["id"], row["fused"]) for row in ranked(spark, rows, by, wanted)]

    assert found == fuse_in_process(by, rows, wanted)


def test_entities_are_ranked_once_and_who_is_unbound_not_at_all(spark: SparkSession) -> None:
    rows = entities(20, seed=5)
    unbound = rows.slice(0, 2).set_column(0, "id", pa.nulls(2, pa.string()))
    twice, by = pa.concat_tables([rows, rows, unbound]), Fused(FIRST, SECOND, 1)

    found = [row["id"] for row in ranked(spark, twice, by, None)]

    assert found == [id for id, _ in fuse_in_process(by, rows, None) for _ in range(2)]


def test_without_a_constant_no_entity_is_ranked(spark: SparkSession) -> None:
    assert ranked(spark, entities(5, seed=6), Fused(FIRST, SECOND, None), None) == []
