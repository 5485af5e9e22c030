"""Predicates: how a bound condition is written for Lance."""

import math
from datetime import UTC, date, datetime

import pytest

from omnigraph.compiler.ir import Comparator, Value
from omnigraph.engine.read.conditions import (
    ALWAYS,
    NEVER,
    BoundCondition,
    Column,
    Compare,
    Every,
    HasElement,
    HasText,
    IsNull,
    IsPresent,
    OneOf,
    Some,
)
from omnigraph.engine.read.predicates import render_predicate
from omnigraph.model.types import Scalar

A, B, C = IsNull("a"), IsNull("b"), IsPresent("c")


def compare(scalar: Scalar, comparator: str, value: Value) -> Compare:
    return Compare(Column("x", scalar), Comparator(comparator), value)


@pytest.mark.parametrize(
    ("bound", "predicate"),
    [
        (compare(Scalar.STRING, "=", "it's"), "`x` = 'it''s'"),
        (compare(Scalar.STRING, ">=", "\\"), "`x` >= '\\'"),
        (Compare(Column("x", Scalar.BOOL), Comparator.EQ, value=True), "`x` = true"),
        (compare(Scalar.I64, "!=", -7), "`x` != -7"),
        (compare(Scalar.U64, "<", 2**64 - 1), "`x` < 18446744073709551615"),
        (
            compare(Scalar.I64, "=", -(2**63)),
            "`x` = arrow_cast('-9223372036854775808', 'Int64')",
        ),
        (compare(Scalar.F64, "=", 0.1), "`x` = 0.1"),
        (compare(Scalar.F64, "=", math.inf), "`x` = arrow_cast('inf', 'Float64')"),
        (
            compare(Scalar.F64, ">", 1.5),
            "`x` > 1.5 AND `x` <= arrow_cast('inf', 'Float64')",
        ),
        (
            compare(Scalar.F32, "<=", -0.5),
            "`x` <= -0.5 AND `x` >= arrow_cast('-inf', 'Float32')",
        ),
        (compare(Scalar.DATE, "<", date(1970, 1, 2)), "`x` < arrow_cast(1, 'Date32')"),
        (
            compare(Scalar.DATETIME, "=", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
            "`x` = arrow_cast(1000, 'Date64')",
        ),
        (OneOf(Column("x", Scalar.STRING), ("a", "'")), "`x` IN ('a', '''')"),
        (HasElement(Column("x", Scalar.I32), 3), "array_has(`x`, 3)"),
        (HasElement(Column("x", Scalar.U64), 3), "array_has(`x`, arrow_cast(3, 'UInt64'))"),
        (
            HasElement(Column("x", Scalar.F64), 0.0),
            "(array_has(`x`, 0.0) OR array_has(`x`, -0.0))",
        ),
        (HasText(Column("x", Scalar.STRING), "%", is_prefix=True), "starts_with(`x`, '%')"),
        (HasText(Column("x", Scalar.STRING), "%", is_prefix=False), "contains(`x`, '%')"),
        (A, "`a` IS NULL"),
        (C, "`c` IS NOT NULL"),
        (Every((A, B)), "`a` IS NULL AND `b` IS NULL"),
        (Some((A, Every((B, C)))), "`a` IS NULL OR `b` IS NULL AND `c` IS NOT NULL"),
        (Every((A, Some((B, C)))), "`a` IS NULL AND (`b` IS NULL OR `c` IS NOT NULL)"),
        (NEVER, "false"),
        (ALWAYS, None),
    ],
)
def test_a_condition_is_written_for_lance(bound: BoundCondition, predicate: str | None) -> None:
    assert render_predicate(bound) == predicate
