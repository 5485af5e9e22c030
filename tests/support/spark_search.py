"""A graph of notes with words and vectors, and its rows as a query on Spark reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from omnigraph import Graph
from omnigraph.compiler.ir import Bm25, Constant, Nearest, PropertyValue, TextFunction, TextMatch
from omnigraph.engine.context import GraphContext
from omnigraph.engine.read.ranking import QueryVectors
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import ALWAYS, BoundCondition
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.model.ports import Action, Embedder
from omnigraph.model.types import STRING, PropertyType, TextLanguage, Vector
from omnigraph.spark.query.column_pruning import Search
from omnigraph.spark.query.entities import measure_of
from omnigraph.spark.query.tables import TypeFrames
from tests.support.graphs import Record, build_graph, ndjson, node, root_of
from tests.support.queries import query

NOTES = "node Note { slug: String @key  body: String?  face: Vector(3)? }"
DIMENSION = 3

_WORDS = (
    *("solar", "Solar's", "panels", "panel", "the", "and", "running", "runs", "ran", "été", "Ete"),
    *("straße", "STRASSE", "naïve", "数据", "wind", "windy", "grid42", "42", "a", "x" * 41, "--"),
)
_NUMBERS = (0.0, -0.0, 1.0, 0.1, -2.5, 3.4e38, 1e-45, 0.30000001192092896)

BODY = PropertyValue("n", "body", PropertyType(STRING.element, is_nullable=True))
FACE = PropertyValue("n", "face", PropertyType(Vector(DIMENSION), is_nullable=True))


def notes(count: int, *, seed: int) -> list[Record]:
    """Notes of which some lack a text or a vector, and some say nothing."""
    chance = Random(seed)
    return [
        node(
            "Note",
            slug=f"{chance.choice('bézZ')}{seed}-{number}",
            body=None if chance.random() < 0.1 else _text(chance),
            face=None if chance.random() < 0.1 else _vector(chance),
        )
        for number in range(count)
    ]


def queries(count: int, *, seed: int) -> list[str]:
    """Texts to search for."""
    chance = Random(seed)
    return ["", "the", *(_text(chance) for _ in range(count))]


def notebook(path: Path, *, loads: int, count: int) -> Graph:
    """A graph whose notes lie in several files, from which some are gone."""
    graph = build_graph(path, NOTES)
    for seed in range(loads):
        graph.load(ndjson(*notes(count, seed=seed)), mode="append")
    graph.mutate(query('delete Note where slug < "a"'))
    return graph


def frames_of(
    spark: SparkSession,
    graph: Graph,
    *,
    branch: str | None = None,
    commit: str | None = None,
) -> TypeFrames:
    """How a query on Spark reads the types of a state."""
    opened = _open(graph)
    return TypeFrames(spark, opened, opened.at(branch, commit, action=Action.READ))


def read(
    frames: TypeFrames,
    columns: Mapping[str, str],
    *,
    condition: BoundCondition = ALWAYS,
    searches: Mapping[Search, str] | None = None,
    type_name: str = "Note",
    embedder: Embedder | None = None,
) -> DataFrame:
    """Rows of a node type."""
    declared = frames.basis.catalog.nodes[type_name]
    inputs = Inputs({}, datetime(2024, 6, 1, tzinfo=UTC))
    vectors = QueryVectors(inputs, embedder, frames.basis.catalog, {"n": "Note"})
    statistics = partial(frames.count_words, declared)
    measures = {
        name: measure_of(each, inputs, vectors, statistics)
        for each, name in (searches or {}).items()
    }
    return frames.rows(declared, columns=columns, condition=condition, measures=measures)


def whole(frames: TypeFrames, type_name: str = "Note") -> pa.Table:
    """All rows of a node type as they are stored, by id."""
    entry = frames.basis.snapshot.entries[f"node:{type_name}"]
    tables = frames.opened.stores.tables
    rows = tables.scan(entry.at, columns=tables.schema(entry.at).names, predicate=None)
    return rows.combine_chunks().sort_by("id")


def words(text: str | None) -> Constant:
    """A text as a query has it."""
    return Constant(text, STRING)


def holds(text: str | None, *, edits: int | None = None, is_negated: bool = False) -> TextMatch:
    """A search for words in a note, fuzzy if edits are allowed."""
    function = TextFunction.SEARCH if edits is None else TextFunction.FUZZY
    allowed = None if edits is None else Constant(edits, None)
    return TextMatch(function, BODY, words(text), allowed, is_negated, TextLanguage.ENGLISH)


def near(vector: Sequence[float] | None) -> Nearest:
    """A search for faces like a vector."""
    return Nearest(FACE, Constant(None if vector is None else tuple(vector), FACE.type), None)


def relevant(text: str | None) -> Bm25:
    """A search for the notes that a text is most relevant for."""
    return Bm25(BODY, words(text), TextLanguage.ENGLISH)


def _open(graph: Graph) -> GraphContext:
    settings = make_settings(root_of(graph), storage_options=None, durability="relaxed")
    return GraphContext(settings, open_stores(settings), actor=None, is_read_only=False)


def _text(chance: Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randrange(9)))


def _vector(chance: Random) -> list[float]:
    return chance.choices(_NUMBERS, k=DIMENSION)
