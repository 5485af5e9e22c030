"""Conditions, values, orders and aggregates in Spark mean what they mean to the local executor."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from omnigraph.compiler.ir import (
    Aggregate,
    AggregateFunction,
    Constant,
    Now,
    PropertyValue,
    TextMatch,
)
from omnigraph.engine.read.aggregate import aggregate as aggregate_locally
from omnigraph.engine.read.aggregate import group_rows
from omnigraph.engine.read.ordering import order_keys, without_signed_zeros
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.values import column_of
from omnigraph.model.types import DATETIME, STRING
from omnigraph.spark.query.aggregate import AggregateColumn, aggregate
from omnigraph.spark.query.expressions import Expressions, Typed, group_column, sort_column
from omnigraph.spark.query.relation import id_column, property_column
from omnigraph.spark.types import spark_type, to_spark
from tests.support.generated_conditions import NOW
from tests.support.spark_expressions import (
    ROW,
    VARIABLE,
    Cells,
    awkward_givens,
    conditions_about,
    expected_marks,
    frame_of,
    paired_cells,
    settings,
    sorted_cells,
    summed_cells,
)


def _no_search(condition: TextMatch) -> Column:
    raise AssertionError(f"no search evaluates {condition}")


EXPRESSIONS = Expressions(Inputs({}, NOW), _no_search)


def test_a_condition_holds_for_the_same_rows_in_spark(spark: SparkSession) -> None:
    cells = paired_cells()
    conditions = conditions_about(cells)
    frame = frame_of(spark, cells)

    columns = [EXPRESSIONS.condition(each).alias(f"c{i}") for i, each in enumerate(conditions)]
    with settings(spark, spark__sql__session__timeZone="America/St_Johns"):
        found = frame.select(ROW, *columns).toArrow().sort_by(ROW)

    wrong = [
        (condition, int((marks != expected).sum()))
        for i, condition in enumerate(conditions)
        if (
            (marks := found[f"c{i}"].to_numpy()) != (expected := expected_marks(condition, cells))
        ).any()
    ]
    assert not wrong


def test_a_value_of_the_query_is_the_same_in_spark(spark: SparkSession) -> None:
    givens = awkward_givens()

    columns = [
        EXPRESSIONS.value(each).cast(spark_type(each.type or STRING)).alias(f"v{i}")
        for i, each in enumerate(givens)
    ]
    with settings(spark, spark__sql__session__timeZone="America/St_Johns"):
        found = spark.range(1).select(*columns, EXPRESSIONS.value(Now()).alias("now")).toArrow()

    for i, given in enumerate([*givens, Constant(NOW, DATETIME)]):
        type = STRING if given.type is None else given.type
        schema = StructType([StructField("it", spark_type(type))])
        stored = column_of((given.value,), type, subject="it")
        expected = to_spark(pa.record_batch([stored], names=["it"]), schema)["it"]
        assert repr(found[i].cast(expected.type).to_pylist()) == repr(expected.to_pylist())


def test_rows_have_the_same_order_in_spark(spark: SparkSession) -> None:
    cells = sorted_cells(60)
    frame = frame_of(spark, cells)

    wanted = [(name, False) for name in cells.types]
    wanted += [(name, True) for name in ("String", "F64", "U64", "list of F64")]
    ranks = [
        f.dense_rank().over(Window.orderBy(_sort_column(cells, *each))).alias(str(each))
        for each in wanted
    ]
    found = frame.select(ROW, *ranks).toArrow().sort_by(ROW)

    for name, is_descending in wanted:
        keys = order_keys(cells.columns[name], is_descending=is_descending)
        expected = np.unique(keys, return_inverse=True)[1] + 1
        assert found[str((name, is_descending))].to_pylist() == expected.tolist(), name


def test_a_group_shows_zeros_without_a_sign_in_spark(spark: SparkSession) -> None:
    cells = sorted_cells(40)
    frame = frame_of(spark, cells)

    shown = [
        group_column(_value(cells, name), type).cast(spark_type(type)).alias(name)
        for name, type in cells.types.items()
    ]
    found = frame.select(ROW, *shown).toArrow().sort_by(ROW)

    for name in ("F32", "F64", "list of F32", "list of F64", "vector"):
        expected = without_signed_zeros(cells.columns[name])
        assert repr(found[name].to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize(
    ("arguments", "keys", "is_weighted"),
    [
        ("I32 I64 U32 U64 String", "key", False),
        ("F64 F32 I64 String", "key", False),
        ("F64 F32 I64 U64 String", "key", True),
        ("I64 U64 String", "key list", True),
    ],
)
def test_aggregates_are_the_same_in_spark(
    spark: SparkSession, arguments: str, keys: str, *, is_weighted: bool
) -> None:
    cells = summed_cells()
    frame = frame_of(spark, cells).repartition(2)
    wanted = _aggregates(cells, arguments.split())

    with settings(spark, spark__sql__shuffle__partitions="2"):
        groups = _aggregate(frame, cells, wanted, keys=keys.split(), is_weighted=is_weighted)
        found = _shown(groups)

    assert found == _expected(cells, wanted, keys=keys.split(), is_weighted=is_weighted)


@pytest.mark.parametrize("arguments", ["I64", "F64"])
def test_without_keys_there_is_one_group_in_spark_even_of_no_rows(
    spark: SparkSession, arguments: str
) -> None:
    cells = summed_cells()
    frame = frame_of(spark, cells)
    wanted = _aggregates(cells, arguments.split())

    every = _aggregate(frame, cells, wanted, keys=[], is_weighted=False)
    none = _aggregate(frame.where("false"), cells, wanted, keys=[], is_weighted=True)

    assert _shown(every) == _expected(cells, wanted, keys=[], is_weighted=False)
    is_count = [each.function is AggregateFunction.COUNT for each in wanted.values()]
    assert _shown(none) == [tuple("0" if each else "None" for each in is_count)]


def test_no_two_columns_have_one_name_to_spark() -> None:
    words = ("a", "A", "_", "__", "a_", "_a", "a__a", "41", "_41_", "$a'", "é", "", "`", ".")

    names = [id_column(word) for word in words]
    names += [property_column(*pair) for pair in product(words, repeat=2)]

    assert len({name.lower() for name in names}) == len(words) + len(words) ** 2
    assert all(name.isascii() and name.isidentifier() for name in names)


def _sort_column(cells: Cells, name: str, is_descending: bool) -> Column:  # noqa: FBT001
    return sort_column(_value(cells, name), cells.types[name], is_descending=is_descending)


def _aggregate(
    frame: DataFrame,
    cells: Cells,
    wanted: dict[str, Aggregate],
    *,
    keys: list[str],
    is_weighted: bool,
) -> DataFrame:
    columns = [
        AggregateColumn(name, each, None if each.argument is None else _argument(each))
        for name, each in wanted.items()
    ]
    return aggregate(
        frame,
        keys=[(name, group_column(_value(cells, name), cells.types[name])) for name in keys],
        columns=columns,
        weight=property_column(VARIABLE, "weight") if is_weighted else None,
    )


def _value(cells: Cells, name: str) -> Column:
    return EXPRESSIONS.value(cells.operand(name))


def _argument(wanted: Aggregate) -> Typed:
    assert isinstance(wanted.argument, PropertyValue)
    return Typed(EXPRESSIONS.value(wanted.argument), wanted.argument.type)


def _aggregates(cells: Cells, arguments: list[str]) -> dict[str, Aggregate]:
    found = {"rows": Aggregate(AggregateFunction.COUNT, None, is_distinct=False)}
    for name in arguments:
        operand = cells.operand(name)
        functions = set(AggregateFunction)
        if name == "String":
            functions -= {AggregateFunction.SUM, AggregateFunction.AVG}
        for function in sorted(functions):
            found[f"{function} {name}"] = Aggregate(function, operand, is_distinct=False)
        if name in {"String", "F64"}:
            distinct = Aggregate(AggregateFunction.COUNT, operand, is_distinct=True)
            found[f"distinct {name}"] = distinct
    return found


def _expected(
    cells: Cells, wanted: dict[str, Aggregate], *, keys: list[str], is_weighted: bool
) -> list[tuple[str, ...]]:
    """Rows of the local executor, sorted as texts (which distinguish -0.0 from 0.0, not NaNs)."""
    groups = group_rows([cells.columns[name] for name in keys], count=cells.count)
    columns = [
        without_signed_zeros(cells.columns[name].take(pa.array(groups.first))) for name in keys
    ]
    for each in wanted.values():
        argument = each.argument
        assert argument is None or isinstance(argument, PropertyValue)
        found = aggregate_locally(
            each.function,
            None if argument is None else cells.columns[argument.property],
            groups=groups,
            weights=cells.columns["weight"].to_numpy() if is_weighted else None,
            is_distinct=each.is_distinct,
        )
        columns.append(found)
    return sorted(zip(*([str(cell) for cell in each.to_pylist()] for each in columns), strict=True))


def _shown(frame: DataFrame) -> list[tuple[str, ...]]:
    columns = frame.toArrow().columns
    return sorted(zip(*([str(cell) for cell in each.to_pylist()] for each in columns), strict=True))
