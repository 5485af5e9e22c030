"""A condition means one thing: to Lance with and without indexes, to Arrow, and on paper."""

from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Constant,
    NullTest,
    PropertyValue,
)
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import bind, evaluate_mask, find_predicate
from omnigraph.engine.rows.values import column_of
from omnigraph.model.catalog import TypeKind
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.types import PropertyType, Scalar
from omnigraph.storage.lance.predicates import render_predicate
from tests.support.condition_oracle import holds
from tests.support.generated_conditions import (
    COMPARATORS,
    NOW,
    SCALARS,
    BoundCondition,
    Rows,
    awkward_constants,
    awkward_rows,
    awkward_values,
    conditions,
    generated_rows,
)
from tests.support.lance_probes import create_table

AWKWARD = awkward_rows()


@given(st.data())
def test_a_predicate_a_mask_and_the_rules_agree(data: st.DataObject) -> None:
    rows = data.draw(generated_rows())
    stored = _as_table(rows)
    drawn = data.draw(conditions(rows))

    with TemporaryDirectory() as folder:
        found = _find(create_table(Path(folder) / "t", stored), drawn, has_index=False)

    assert found == _expected(drawn, rows)
    assert _marked(drawn, stored) == found


@pytest.mark.parametrize("scalar", SCALARS)
def test_every_awkward_value_finds_its_place(tmp_path: Path, scalar: Scalar) -> None:
    column = PropertyValue("", "order", PropertyType(scalar, is_nullable=True))
    values = (None, *awkward_values(scalar))
    rows = Rows({"order": column.type}, tuple({"order": value} for value in values))
    stored = _as_table(rows)
    uri = create_table(tmp_path / "t", stored)

    for constant in awkward_constants(scalar):
        for comparator in (*COMPARATORS, Comparator.IN):
            given = (constant,) if comparator is Comparator.IN else constant
            drawn = BoundCondition(Comparison(column, comparator, Constant(given, None)), {})
            found = _find(uri, drawn, has_index=False)
            assert found == _marked(drawn, stored), drawn
            assert found == _expected(drawn, rows), drawn


def test_an_index_changes_no_result(tmp_path: Path) -> None:
    stored = _as_table(AWKWARD)
    uri = create_table(tmp_path / "t", stored)
    for name in AWKWARD.types:
        lance.dataset(uri).create_scalar_index(name, "BTREE")

    @given(conditions(AWKWARD))
    def agree(drawn: BoundCondition) -> None:
        found = _find(uri, drawn, has_index=True)
        assert found == _find(uri, drawn, has_index=False)
        assert found == _marked(drawn, stored)
        assert found == _expected(drawn, AWKWARD)

    agree()


def test_the_deepest_condition_that_is_bound_is_one_that_lance_reads(tmp_path: Path) -> None:
    # Of all leaves the one with the longest predicate, and always in the last place.
    zeros = PropertyValue("", "zeros", PropertyType(Scalar.F64, is_list=True))
    condition: Condition = Comparison(zeros, Comparator.LIST_CONTAINS, Constant(0.0, None))
    absent = NullTest(zeros, is_negated=False)
    for _ in range(CONDITION_NESTING_MAX):
        condition = AllOf((NullTest(zeros, is_negated=True), AnyOf((absent, condition))))
    rows = Rows({"zeros": zeros.type}, ({"zeros": (-0.0,)}, {"zeros": (1.0,)}, {"zeros": None}))
    uri = create_table(tmp_path / "t", _as_table(rows))

    found = _find(uri, BoundCondition(condition, {}), has_index=False)

    assert found == [0]


def _as_table(rows: Rows) -> pa.Table:
    columns = {
        name: column_of(rows.values_of(name), type, subject=name)
        for name, type in rows.types.items()
    }
    return pa.table({"row": list(range(len(rows.rows))), **columns})


def _find(uri: str, drawn: BoundCondition, *, has_index: bool) -> list[int]:
    bound = bind(drawn.condition, kind=TypeKind.NODE, inputs=Inputs(drawn.parameters, NOW))
    table = lance.dataset(uri)
    text = render_predicate(find_predicate(bound), table.schema)
    scanner = table.scanner(columns=["row"], filter=text, use_scalar_index=has_index)
    found: list[int] = scanner.to_table()["row"].to_pylist()
    return sorted(found)


def _marked(drawn: BoundCondition, stored: pa.Table) -> list[int]:
    bound = bind(drawn.condition, kind=TypeKind.NODE, inputs=Inputs(drawn.parameters, NOW))
    # In two chunks, as a table that was put together is.
    chunked = pa.concat_tables([stored.slice(0, 1), stored.slice(1)])
    marked: list[int] = stored["row"].filter(evaluate_mask(bound, chunked)).to_pylist()
    return marked


def _expected(drawn: BoundCondition, rows: Rows) -> list[int]:
    return [
        position
        for position, row in enumerate(rows.rows)
        if holds(drawn.condition, row, values=drawn.parameters, now=NOW)
    ]
