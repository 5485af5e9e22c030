"""Every comparison that compiles has one result: the oracle's, in process and on Spark alike."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.errors import CompileError
from tests.support.comparison_table import (
    Case,
    every_case,
    read_of,
    read_of_all,
    rows_for,
    update_of_all,
)
from tests.support.generated_graphs import GeneratedRead
from tests.support.read_comparison import ROWS_MAX, find_fault
from tests.support.read_graphs import compile_for, run_oracle, store
from tests.support.spark_reads import planned_for_few_rows

CASES_MIN = 2_000
CASES_PER_READ = 400

Results = list[tuple[object, ...]]
"""The number of a case, and that of a row which it keeps."""


@pytest.fixture(scope="module")
def compiled() -> Mapping[int, Case]:
    """The comparisons that compile, by number; `CompileError` is the only way not to."""
    graph = rows_for(())
    found: list[Case] = []
    for case in every_case():
        try:
            compile_for(graph, case.read())
        except CompileError:
            continue
        found.append(case)
    return dict(enumerate(found))


def test_a_comparison_that_compiles_gives_the_result_of_the_oracle(
    compiled: Mapping[int, Case], tmp_path: Path
) -> None:
    graph = rows_for([0])
    stored = store(tmp_path / "g", graph)

    faults: list[str] = []
    for case in compiled.values():
        expected = run_oracle(graph, case.read(), case.params, rows_max=ROWS_MAX)
        fault = find_fault(stored, GeneratedRead(case.read(), case.params), expected)
        if fault is not None:
            faults.append(f"{case.condition}: {fault}")

    assert len(compiled) > CASES_MIN
    assert not faults


def test_a_comparison_keeps_the_same_rows_beside_others(
    compiled: Mapping[int, Case], tmp_path: Path
) -> None:
    stored = store(tmp_path / "g", rows_for(compiled))

    found = _run_all(stored, compiled, spark=None)

    assert found == _expected(compiled)


def test_a_mutation_changes_the_rows_that_a_comparison_keeps(
    compiled: Mapping[int, Case], tmp_path: Path
) -> None:
    stored = store(tmp_path / "g", rows_for(compiled))
    cases = {number: each for number, each in compiled.items() if each.may_stand_in_a_mutation}

    stored.mutate(*update_of_all(cases, assigned='other: "changed"'))

    found = stored.query(read_of('$p.other = "changed"', {}))
    assert len(cases) > CASES_MIN // 10
    assert [(row["p.case"], row["p.row"]) for row in found] == _expected(cases)


def test_a_comparison_keeps_the_same_rows_on_spark(
    compiled: Mapping[int, Case], tmp_path: Path, spark: SparkSession
) -> None:
    stored = store(tmp_path / "g", rows_for(compiled))

    with planned_for_few_rows(spark):
        found = _run_all(stored, compiled, spark=spark)

    assert found == _expected(compiled)


def test_a_comparison_with_a_column_keeps_the_same_rows_when_lance_evaluates_it(
    compiled: Mapping[int, Case], tmp_path: Path, spark: SparkSession
) -> None:
    stored = store(tmp_path / "g", rows_for(compiled))
    cases = {number: each for number, each in compiled.items() if each.is_about_one_column}

    with planned_for_few_rows(spark):
        found = _run_all(stored, cases, spark=spark)

    assert found == _expected(cases)


def _run_all(stored: Graph, cases: Mapping[int, Case], *, spark: SparkSession | None) -> Results:
    """The rows that each comparison keeps, asked in few reads."""
    results: Results = []
    waiting = iter(cases.items())
    engine = "local" if spark is None else "spark"
    while part := dict(islice(waiting, CASES_PER_READ)):
        text, params = read_of_all(part)
        found = stored.query(text, params, engine=engine, spark=spark)
        results += [(row["p.case"], row["p.row"]) for row in found.rows]
    return results


def _expected(cases: Mapping[int, Case]) -> Results:
    graph = rows_for([0])
    results: Results = []
    for number, case in cases.items():
        outcome = run_oracle(graph, case.read(), case.params, rows_max=ROWS_MAX)
        results += [(number, row) for _, row in outcome.rows]
    return results
