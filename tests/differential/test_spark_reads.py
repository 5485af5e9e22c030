"""A read returns the same on Spark as in process: rows, order, types and errors."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.behaviour.queries.test_cases import Stored, stored
from tests.support.corpus import corpus_id, corpus_paths, read_corpus_file
from tests.support.generated_graphs import GeneratedRead, graphs, reads
from tests.support.generated_views import views
from tests.support.read_cases import CASES, ReadCase, number_of
from tests.support.read_comparison import GENERATING
from tests.support.read_corpus import parse_case, render_case
from tests.support.read_graphs import PlainGraph, store
from tests.support.spark_reads import planned_for_few_rows, run_both
from tests.support.tiers import sample
from tests.support.views import part_of, see_as_reader

__all__ = ["stored"]

GRAPHS, READS_PER_GRAPH = max(settings().max_examples // 9, 1), 28
READS_MIN = 22 * GRAPHS
VIEWS, READS_PER_VIEW = max(settings().max_examples // 20, 1), 16

CASE_BY_NUMBER = {number_of(case): case for case in CASES}
FIRST_OF_EACH_SECTION = {number[0]: number for number in reversed(CASE_BY_NUMBER)}


@pytest.mark.parametrize(
    "case", sample(CASE_BY_NUMBER, representative=FIRST_OF_EACH_SECTION.values())
)
def test_a_read_returns_the_rows_of_its_case_on_spark(
    stored: Stored, case: ReadCase, spark: SparkSession
) -> None:
    graph = stored(case.graph)

    with planned_for_few_rows(spark):
        found = graph.query(case.text, case.params, engine="spark", spark=spark)

        rows = [[row[name] for name in found.columns] for row in found.rows]
    assert rows == case.cells
    assert case.columns is None or found.columns == case.columns


def test_both_executors_return_the_same_rows(spark: SparkSession) -> None:
    counts: list[int] = []

    @settings(GENERATING, max_examples=GRAPHS, database=None)
    @given(st.data())
    def agree(drawn: st.DataObject) -> None:
        counts.append(_compare(drawn, spark))

    with planned_for_few_rows(spark):
        agree()

    assert sum(counts) >= READS_MIN, "too many reads were given up"


def _compare(drawn: st.DataObject, spark: SparkSession) -> int:
    graph = drawn.draw(graphs())
    strategy = reads(graph)
    with TemporaryDirectory(prefix="omnigraph-reads-") as folder:
        opened = store(Path(folder) / "g", graph)
        for _ in range(READS_PER_GRAPH):
            read = drawn.draw(strategy)
            here, there = run_both(opened, read, spark)
            case = render_case(graph, read.text, read.params)
            assert there == here, f"in process: {here}\non Spark: {there}\n\n{case}"
    return READS_PER_GRAPH


def test_both_executors_return_the_same_rows_through_a_view(spark: SparkSession) -> None:
    @settings(GENERATING, max_examples=VIEWS, database=None)
    @given(st.data())
    def agree(drawn: st.DataObject) -> None:
        graph = drawn.draw(graphs())
        types = drawn.draw(views(graph))
        seen = part_of(graph, types)
        strategy = reads(PlainGraph(seen.schema, seen.catalog, graph.rows_by_type))
        with TemporaryDirectory(prefix="omnigraph-reads-") as folder:
            restricted = see_as_reader(store(Path(folder) / "g", graph), types)
            for _ in range(READS_PER_VIEW):
                read = drawn.draw(strategy)
                here, there = run_both(restricted, read, spark)
                case = render_case(graph, read.text, read.params)
                assert there == here, f"in process: {here}\non Spark: {there}\n\n{types}\n{case}"
            for name in graph.catalog.edges:
                found = restricted.algorithms(name, engine="spark", spark=spark).degrees()
                assert found.rows == restricted.algorithms(name).degrees().rows

    with planned_for_few_rows(spark):
        agree()


@pytest.mark.parametrize("path", corpus_paths("reads/*.gq"), ids=corpus_id)
def test_a_read_that_went_wrong_once_does_so_no_more_on_spark(
    tmp_path: Path, path: Path, spark: SparkSession
) -> None:
    graph, text, params = parse_case(read_corpus_file(path))

    with planned_for_few_rows(spark):
        here, there = run_both(store(tmp_path / "g", graph), GeneratedRead(text, params), spark)

    assert there == here
