"""Timestamps and the `date64` of earlier versions: the same numbers, translated both ways."""

import pyarrow as pa
import pytest

from omnigraph.storage.lance.predicates import render_predicate
from omnigraph.storage.lance.timestamps import (
    as_stored,
    date64_columns,
    read_batches,
    read_rows,
    store_rows,
)
from omnigraph.storage.predicates import (
    And,
    Compare,
    HasElement,
    IsNull,
    OneOf,
    Operator,
    Or,
    Predicate,
    equals,
)
from omnigraph.storage.row_files import TIMESTAMP

OLD = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("at", pa.date64()),
        pa.field("all", pa.list_(pa.field("item", pa.date64()))),
        pa.field("day", pa.date32()),
    ]
)
NEW = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP),
        pa.field("all", pa.list_(pa.field("item", TIMESTAMP))),
        pa.field("day", pa.date32()),
    ]
)

ROWS = pa.table(
    {
        "id": ["a", "b", "c"],
        "at": pa.array([1, None, -62_135_596_800_000]).cast(TIMESTAMP),
        "all": pa.array([[1, None], None, []], pa.list_(pa.int64())).cast(NEW.field("all").type),
        "day": pa.array([0, 1, None], pa.int32()).cast(pa.date32()),
    }
).cast(NEW)

LITERAL = "arrow_cast(5, 'Timestamp(Millisecond, Some(\"UTC\"))')"
AT_5 = Compare("at", Operator.EQ, 5, TIMESTAMP)


def test_rows_are_stored_as_their_table_has_them_and_read_as_they_were() -> None:
    stored = store_rows(ROWS, OLD)

    assert stored.schema == OLD
    assert stored["at"].cast(pa.int64()).to_pylist() == [1, None, -62_135_596_800_000]
    assert read_rows(stored).equals(ROWS)


def test_slices_and_empty_batches_keep_their_columns() -> None:
    stored = store_rows(ROWS, OLD)
    (batch,) = stored.combine_chunks().to_batches()

    (last, nothing) = read_batches(iter([batch.slice(2), batch.slice(3)]))

    assert pa.table(last).equals(ROWS.slice(2))
    assert (nothing.num_rows, nothing.schema) == (0, NEW)


def test_a_table_of_timestamps_takes_rows_and_predicates_as_they_are() -> None:
    assert store_rows(ROWS, NEW) is ROWS
    assert read_rows(ROWS) is ROWS
    assert render_predicate(AT_5, NEW) == f"`at` = {LITERAL}"


def test_the_old_columns_of_a_table_are_found() -> None:
    assert date64_columns(OLD) == {"at", "all"}
    assert date64_columns(NEW) == frozenset()
    assert as_stored(NEW, OLD) == OLD


@pytest.mark.parametrize(
    ("predicate", "stored"),
    [
        (Compare("at", Operator.LT, 5, TIMESTAMP), "`at` < arrow_cast(5, 'Date64')"),
        (
            And((OneOf("at", pa.array([5, -1]).cast(TIMESTAMP)), IsNull("day"))),
            "`at` IN (arrow_cast(5, 'Date64'), arrow_cast(-1, 'Date64')) AND `day` IS NULL",
        ),
        (HasElement("all", 5, TIMESTAMP), "array_has(`all`, arrow_cast(5, 'Date64'))"),
        (Compare("day", Operator.EQ, 5, pa.date32()), "`day` = arrow_cast(5, 'Date32')"),
    ],
)
def test_a_predicate_compares_with_the_type_of_the_table(predicate: Predicate, stored: str) -> None:
    assert render_predicate(predicate, OLD) == stored


@pytest.mark.parametrize("text", [LITERAL, f"it's {LITERAL}", "'", f"''{LITERAL}'", f"`{LITERAL}"])
def test_a_text_in_the_form_of_a_literal_stays_a_text(text: str) -> None:
    doubled = text.replace("'", "''")

    found = render_predicate(Or((equals("id", text), AT_5)), OLD)

    assert found == f"`id` = '{doubled}' OR `at` = arrow_cast(5, 'Date64')"
