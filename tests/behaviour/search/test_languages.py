"""A text property is searched in the language that its schema declares."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.schema.canonical import encode_schema, hash_schema
from omnigraph.errors import CompileError
from omnigraph.model.limits import SPARK_LOCAL_ROWS_MAX
from omnigraph.model.source import Source
from tests.support.graphs import build_graph, ndjson, node
from tests.support.queries import query

PLAIN = "node Note { slug: String @key  body: String @index }"
HOUSES = (
    node("Note", slug="one", body="Die alten Häuser"),
    node("Note", slug="two", body="Des Hauses Dach"),
    node("Note", slug="three", body="Running in THE rain"),
)


def schema_in(language: str) -> str:
    return PLAIN.replace("@index", f'@index(language="{language}")')


def found(graph: Graph, words: str, *, commit: str | None = None) -> set[object]:
    """The notes that a search finds; those that have a score are the same."""
    text = query(
        "match { $n: Note  search($n.body, $words) } return { $n.slug as slug }",
        parameters="$words: String",
    )
    scored = query(
        "match { $n: Note } return { $n.slug as slug } order { bm25($n.body, $words) } limit 100",
        parameters="$words: String",
    )
    slugs = {row["slug"] for row in graph.query(text, params={"words": words}, commit=commit).rows}
    ranked = graph.query(scored, params={"words": words}, commit=commit).rows
    assert {row["slug"] for row in ranked} == slugs
    return slugs


def test_german_words_are_found_in_every_inflection(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "german", schema_in("german"), *HOUSES)
    english = build_graph(tmp_path / "english", PLAIN, *HOUSES)

    assert found(graph, "Häusern") == {"one", "two"}
    assert found(english, "Häusern") == set()


def test_french_words_are_found_in_every_inflection(tmp_path: Path) -> None:
    words = (node("Note", slug="one", body="Les chevaux"), node("Note", slug="two", body="vache"))
    graph = build_graph(tmp_path / "g", schema_in("french"), *words)

    assert found(graph, "cheval") == {"one"}
    assert found(graph, "vaches") == {"two"}


def test_words_without_a_language_are_found_as_they_are_written(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "none", schema_in("none"), *HOUSES)
    english = build_graph(tmp_path / "english", PLAIN, *HOUSES)

    assert found(english, "runs") == {"three"}
    assert found(english, "the") == set()
    assert found(graph, "runs") == set()
    assert found(graph, "the") == {"three"}


def test_grams_find_parts_of_chinese_texts_and_of_identifiers(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        schema_in("ngram"),
        node("Note", slug="place", body="我爱北京天安门"),
        node("Note", slug="other", body="上海的东方明珠"),
        node("Note", slug="code", body="def parseQueryText(self): ..."),
    )

    assert found(graph, "北京") == {"place"}
    assert found(graph, "明珠") == {"other"}
    assert found(graph, "query") == {"code"}


def test_a_key_has_a_language_too(tmp_path: Path) -> None:
    schema = 'node Note { body: String @key(language="german")  slug: String }'
    graph = build_graph(tmp_path, schema, *HOUSES)

    assert found(graph, "Haus") == {"one", "two"}


def test_two_properties_with_the_same_texts_are_searched_in_their_own_languages(
    tmp_path: Path,
) -> None:
    schema = """
    node Note {
      slug: String @key
      body: String @index(language="german")
      copy: String @index(language="none")
    }
    """
    graph = build_graph(tmp_path, schema, node("Note", slug="a", body="Häuser", copy="Häuser"))

    assert found(graph, "Haus") == {"a"}
    copied = query('match { $n: Note  search($n.copy, "Haus") } return { $n.slug as slug }')
    assert graph.query(copied).rows == []


def test_a_changed_language_applies_at_once_and_to_no_earlier_commit(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, PLAIN, *HOUSES)
    graph.ensure_indices()
    old = graph.head()
    assert found(graph, "Häusern") == set()
    versions = graph.tables()

    applied = graph.apply_schema(schema_in("german"))

    assert [step["kind"] for step in applied.steps] == ["change_language"]
    assert graph.tables() == versions
    for handle in (graph, omnigraph.open(tmp_path)):
        assert found(handle, "Häusern") == {"one", "two"}
        assert found(handle, "Häusern", commit=old) == set()
    graph.load(ndjson(node("Note", slug="four", body="Haus")), mode="append")
    assert found(graph, "Häusern") == {"one", "two", "four"}


def test_retrieval_uses_the_language(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, schema_in("german"), *HOUSES)

    result = graph.retrieve("Haus", hops=0)

    assert {each.id for each in result.passages} == {"one", "two"}


@pytest.mark.parametrize("language", ["german", "none", "ngram"])
def test_tasks_search_in_the_same_language(
    tmp_path: Path, spark: SparkSession, language: str
) -> None:
    count = SPARK_LOCAL_ROWS_MAX + 1_000
    words = np.array(["Häuser", "Hauses", "Dach", "the", "北京天安门", "parseQuery"])
    chosen = words[np.random.default_rng(3).integers(0, len(words), (count, 3))]
    graph = build_graph(tmp_path, schema_in(language))
    slugs = np.char.mod("n%06d", np.arange(count))
    bodies = [" ".join(each) for each in chosen]
    graph.load({"Note": pa.table({"slug": slugs, "body": bodies})}, mode="append")
    text = query(
        'match { $n: Note  search($n.body, "Haus 北京 query Dach") '
        'search($n.body, "the") = false } '
        'return { $n.slug as slug, bm25($n.body, "Haus 北京 query Dach") as score } '
        'order { bm25($n.body, "Haus 北京 query Dach") } limit 50'
    )

    here = graph.query(text).to_arrow()
    there = graph.query(text, engine="spark", spark=spark).to_arrow()

    assert there.num_rows == 50
    assert there.equals(here)


def test_a_schema_without_a_language_keeps_its_canonical_form() -> None:
    default = compile_schema(Source("a.pg", schema_in("english")))

    plain = compile_schema(Source("b.pg", PLAIN))

    assert encode_schema(default) == encode_schema(plain)
    assert "kwargs" not in encode_schema(plain)
    digest = "096a30e06e6d956bda5923aeba9aace959d8c38d72dae302351ac9d148753774"
    assert hash_schema(plain) == f"sha256:{digest}"


def test_an_unknown_language_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        build_graph(tmp_path, schema_in("germn"))

    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "S18"
    assert diagnostic.suggestion == "did you mean `german`?"
