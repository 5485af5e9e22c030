"""Columns of awkward values in Arrow and in Spark, and what the local executor says of them.

Every value of a type stands beside every value of any other, and nulls among them. Conditions are
all there are between columns, and a sample of those between a column and a constant.
"""

import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Constant,
    Now,
    NullTest,
    PropertyValue,
    Value,
)
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import bind, evaluate_mask
from omnigraph.engine.rows.values import column_of, compare
from omnigraph.model.catalog import TypeKind
from omnigraph.model.types import NUMBERS, STRING, PropertyType, Scalar, Vector
from omnigraph.spark.query.relation import property_column
from omnigraph.spark.types import spark_type, to_spark
from tests.support.generated_conditions import (
    COMPARATORS,
    NOW,
    SCALARS,
    awkward_constants,
    awkward_values,
)

Marks = npt.NDArray[np.bool_]

VARIABLE = "$it's"
ROW = "row"

_CONSTANTS_OF_EACH = 2
_SIGNIFICANT = (
    {Scalar.I64, Scalar.F64},
    {Scalar.U64, Scalar.F64},
    {Scalar.U64, Scalar.I64},
)
_MANY = 12
"""So many constants that Spark looks them up in a set."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Columns by name, in Arrow, and the types of their values."""

    types: Mapping[str, PropertyType]
    columns: Mapping[str, pa.Array]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values())))

    def operand(self, name: str) -> PropertyValue:
        """A column as a property of the variable."""
        return PropertyValue(VARIABLE, name, self.types[name])


def cells_of(types: Mapping[str, PropertyType], values: Mapping[str, Sequence[Value]]) -> Cells:
    """Columns of the values."""
    columns = {name: column_of(values[name], type, subject=name) for name, type in types.items()}
    return Cells(types, columns)


def paired_cells() -> Cells:
    """Two columns of each scalar type and two of lists of it: each value of one beside each of the
    other."""
    types: dict[str, PropertyType] = {}
    values: dict[str, Sequence[Value]] = {}
    longest = 1 + max(len(awkward_values(scalar)) for scalar in SCALARS)
    pairs = tuple(product(range(longest), repeat=2))
    for scalar in SCALARS:
        found = (None, *awkward_values(scalar))
        lists = (None, (), *((each, found[-1 - i]) for i, each in enumerate(found[1:-1])))
        for side, name in enumerate(("left", "Left")):
            types[f"{name}_{scalar}"] = PropertyType(scalar, is_nullable=True)
            values[f"{name}_{scalar}"] = [found[pair[side] % len(found)] for pair in pairs]
        types[f"list_{scalar}"] = PropertyType(scalar, is_nullable=True, is_list=True)
        values[f"list_{scalar}"] = [_without_null(lists[one % len(lists)]) for one, _ in pairs]
    return cells_of(types, values)


def _without_null(cell: Value) -> Value:
    return tuple(each for each in cell if each is not None) if isinstance(cell, tuple) else cell


def sorted_types() -> dict[str, PropertyType]:
    """A type of each kind that has an order, by name."""
    scalars = {str(scalar): PropertyType(scalar, is_nullable=True) for scalar in Scalar}
    lists = {
        f"list of {scalar}": PropertyType(scalar, is_nullable=True, is_list=True)
        for scalar in (Scalar.STRING, Scalar.F32, Scalar.F64)
    }
    return {**scalars, **lists, "vector": PropertyType(Vector(2), is_nullable=True)}


def sorted_cells(count: int) -> Cells:
    """A column of each kind of type, values in no order, most of them more than once."""
    chance = random.Random(7)
    types = sorted_types()
    values = {name: [_choose(type, chance) for _ in range(count)] for name, type in types.items()}
    return cells_of(types, values)


def _choose(type: PropertyType, chance: random.Random) -> Value:
    if chance.random() < 0.1:
        return None
    if isinstance(type.element, Vector):
        return tuple(_choose_scalar(Scalar.F32, chance) for _ in range(2))
    if type.is_list:
        length = chance.randrange(3)
        return tuple(_choose_scalar(type.element, chance) for _ in range(length))
    return _choose_scalar(type.element, chance)


def _choose_scalar(scalar: Scalar, chance: random.Random) -> Value:
    if scalar is Scalar.BLOB:
        return chance.choice(
            ("base64:", "base64:AA==", "base64:/w==", "base64:AAE=", "base64:fw==")
        )
    return chance.choice(awkward_values(scalar))


# Numbers to sum


def summed_cells() -> Cells:
    """Groups of numbers, of a kind each: one group for each awkward way to sum them."""
    chance = random.Random(11)
    floats = _float_groups(chance)
    rows: list[dict[str, Value]] = []
    for key, group in enumerate(floats):
        for number in group:
            row: dict[str, Value] = {"key": (math.nan, 0.0, None, *range(3, 99))[key]}
            row |= {"weight": chance.choice((1, 1, 2, 3, 10**12)), "F64": number}
            row["list"] = chance.choice((None, (), (0.0,), (-0.0,), (math.nan,), (-math.nan,)))
            row["F32"] = None if number is None or abs(number) > 1e38 else number
            for scalar in (Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.STRING):
                choices = (None, *awkward_values(scalar))
                row[str(scalar)] = choices[chance.randrange(len(choices))] if key else choices[-1]
            rows.append(row)
    for zero in (row for row in rows if row["key"] == 0):
        zero["key"] = chance.choice((0.0, -0.0))
    chance.shuffle(rows)
    types = {
        name: PropertyType(Scalar(name), is_nullable=True)
        for name in ("F64", "F32", "I32", "I64", "U32", "U64", "String")
    }
    types["key"] = PropertyType(Scalar.F64, is_nullable=True)
    types["list"] = PropertyType(Scalar.F64, is_nullable=True, is_list=True)
    types["weight"] = PropertyType(Scalar.I64)
    return cells_of(types, {name: [row[name] for row in rows] for name in types})


def _float_groups(chance: random.Random) -> list[Sequence[float | None]]:
    largest = sys.float_info.max
    anywhere = [chance.uniform(-1, 1) * 2.0 ** chance.randrange(-1074, 1000) for _ in range(200)]
    return [
        [0.1] * 10,
        [chance.randrange(-(10**6), 10**6) / 64 for _ in range(50)],
        [chance.uniform(-1, 1) for _ in range(300)],
        [*anywhere, *(-each for each in anywhere[1:])],
        [5e-324] * 3 + [-5e-324, 1e-310],
        [-5e-324, None, None],
        [largest, largest, -largest, 1.0],
        [largest, largest],
        [largest, largest, -math.inf],
        [math.inf, 1.0],
        [math.inf, -math.inf],
        [math.nan, 1.0, 2.0],
        [-0.0, -0.0],
        [None, None],
        [2.0**53, 1.0, 1.0],
        [1e16, 1.0, -1e16, 3.0],
        [float(2**k) for k in range(-60, 60)] + [math.nextafter(2.0**k, 0) for k in range(-9, 9)],
        [-1.5],
        [3.4e38, 1e-45, 0.3],
    ]


# Spark


def frame_of(spark: SparkSession, cells: Cells) -> DataFrame:
    """The columns under the names that expressions know, and the number of each row."""
    names = [property_column(VARIABLE, name) for name in cells.types]
    fields = [
        StructField(name, spark_type(type))
        for name, type in zip(names, cells.types.values(), strict=True)
    ]
    schema = StructType([StructField(ROW, LongType()), *fields])
    rows = pa.array(np.arange(cells.count))
    columns = [rows, *(_without_fixed_size(cells.columns[name]) for name in cells.types)]
    stored = pa.record_batch(columns, names=[ROW, *names])
    return spark.createDataFrame(pa.Table.from_batches([to_spark(stored, schema)]), schema)


def _without_fixed_size(column: pa.Array) -> pa.Array:
    # A null among vectors has elements, which are null and would not be let into Spark from here.
    return pa.array(column.to_pylist()) if pa.types.is_fixed_size_list(column.type) else column


@contextmanager
def settings(spark: SparkSession, **wanted: str) -> Iterator[None]:
    """Change settings of the session for the block; dots are written as two underscores."""
    names = {name.replace("__", "."): value for name, value in wanted.items()}
    before = {name: spark.conf.get(name) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            assert old is not None
            spark.conf.set(name, old)


# Conditions and values


def awkward_givens() -> list[Constant]:
    """A few constants of each type, lists and null among them."""
    chance = random.Random(2)
    givens = [
        Constant(value, PropertyType(scalar))
        for scalar in SCALARS
        for value in chance.sample(awkward_values(scalar), min(6, len(awkward_values(scalar))))
    ]
    for type in sorted_types().values():
        if not type.is_blob:
            givens += (Constant(None, type), Constant(_choose_present(type, chance), type))
    empty = PropertyType(Scalar.U64, is_list=True)
    return [*givens, Constant((), empty), Constant(None, None)]


def _choose_present(type: PropertyType, chance: random.Random) -> Value:
    while (value := _choose(type, chance)) is None:
        pass
    return value


def conditions_about(cells: Cells) -> list[Condition]:
    """Conditions of every kind about paired columns."""
    leaves = [*_between_columns(cells), *_with_constants(cells), *_about_null(cells)]
    chance = random.Random(5)
    joined: list[Condition] = [
        joint(tuple(chance.sample(leaves, size)))
        for joint in (AllOf, AnyOf)
        for size in (0, 1, 2, 3, 5)
    ]
    return [*leaves, *joined, AllOf((AnyOf(tuple(leaves[:9])), joined[-1]))]


def _between_columns(cells: Cells) -> Iterator[Condition]:
    for one, other in product(SCALARS, repeat=2):
        if one != other and not {one, other} <= NUMBERS:
            continue
        # Spark takes its time over each condition, and small numbers are compared as large ones.
        is_significant = one == other or {one, other} in _SIGNIFICANT
        comparators = COMPARATORS if is_significant else (Comparator.GE,)
        left, right = cells.operand(f"left_{one}"), cells.operand(f"Left_{other}")
        for comparator in comparators:
            yield Comparison(left, comparator, right)
        if is_significant:
            lists = cells.operand(f"list_{other}")
            yield Comparison(cells.operand(f"Left_{one}"), Comparator.IN, lists)
    texts = cells.operand("left_String"), cells.operand("Left_String")
    for comparator in (Comparator.STARTS_WITH, Comparator.STRING_CONTAINS):
        yield Comparison(texts[0], comparator, texts[1])
    floats = cells.operand("Left_F32")
    yield Comparison(cells.operand("list_U64"), Comparator.LIST_CONTAINS, floats)


def _with_constants(cells: Cells) -> Iterator[Condition]:
    chance = random.Random(3)
    for scalar in SCALARS:
        column, constants = cells.operand(f"left_{scalar}"), awkward_constants(scalar)
        for comparator in COMPARATORS:
            for value in chance.sample(constants, min(len(constants), _CONSTANTS_OF_EACH)):
                yield Comparison(column, comparator, _given(value))
        for value in chance.sample(constants, min(len(constants), _CONSTANTS_OF_EACH)):
            yield Comparison(
                cells.operand(f"list_{scalar}"), Comparator.LIST_CONTAINS, _given(value)
            )
            yield Comparison(_given(value), Comparator.GE, column)
        for size in (0, 2, _MANY):
            some = tuple(chance.choice(constants) for _ in range(size))
            yield Comparison(column, Comparator.IN, Constant(some, None))
        every = tuple(each for each in constants if each != 0 or isinstance(each, float))
        yield Comparison(
            column, Comparator.IN, Constant((*every, -0.0) if scalar in NUMBERS else every, None)
        )
    for text in awkward_values(Scalar.STRING)[::2]:
        for comparator in (Comparator.STARTS_WITH, Comparator.STRING_CONTAINS):
            yield Comparison(cells.operand("left_String"), comparator, _given(text))
    yield Comparison(cells.operand("left_DateTime"), Comparator.EQ, Now())
    yield Comparison(Now(), Comparator.LT, cells.operand("left_DateTime"))
    yield Comparison(
        Constant(1, PropertyType(Scalar.I64)),
        Comparator.LT,
        Constant(1.5, PropertyType(Scalar.F64)),
    )
    yield Comparison(Constant("b", STRING), Comparator.LT, Constant("a", STRING))
    yield Comparison(Constant(None, None), Comparator.EQ, Constant("a", STRING))


def _given(value: Value) -> Constant:
    return Constant(value, None)


def _about_null(cells: Cells) -> Iterator[Condition]:
    for name in cells.types:
        yield NullTest(cells.operand(name), is_negated=False)
    yield NullTest(cells.operand("left_F64"), is_negated=True)
    yield NullTest(Constant(None, None), is_negated=False)
    yield NullTest(Now(), is_negated=False)


def expected_marks(condition: Condition, cells: Cells) -> Marks:
    """Where the local executor says that a condition holds."""
    match condition:
        case AllOf(conditions):
            marked = (expected_marks(each, cells) for each in conditions)
            return reduce(np.logical_and, marked, np.ones(cells.count, np.bool_))
        case AnyOf(conditions):
            marked = (expected_marks(each, cells) for each in conditions)
            return reduce(np.logical_or, marked, np.zeros(cells.count, np.bool_))
        case NullTest(PropertyValue(property=name), is_negated):
            valid: Marks = cells.columns[name].is_valid().to_numpy(zero_copy_only=False)
            return valid if is_negated else ~valid
        case Comparison(PropertyValue(property=left), comparator, PropertyValue(property=right)):
            return compare(cells.columns[left], comparator, cells.columns[right])
        case Comparison(PropertyValue(), _, _) | Comparison(_, _, PropertyValue()):
            bound = bind(condition, kind=TypeKind.NODE, inputs=Inputs({}, NOW))
            marks: Marks = evaluate_mask(bound, pa.table(dict(cells.columns))).to_numpy(
                zero_copy_only=False
            )
            return marks
        case Comparison(Constant(left_value), comparator, Constant()):
            return np.full(cells.count, left_value == 1 and comparator is Comparator.LT)
        case NullTest(operand):
            return np.full(cells.count, isinstance(operand, Constant))
        case _:
            raise AssertionError(f"{condition} is not among the conditions")
