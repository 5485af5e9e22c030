"""Columns of dates as text mean what each text means by itself."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.input.coerce import CoercionError, floor_divide, parse_timestamps
from omnigraph.model.types import Scalar, parse_date, parse_datetime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

YEARS = st.sampled_from(["0000", "0001", "1969", "1970", "2024", "9999"]) | st.from_regex(
    r"[0-9]{4}", fullmatch=True
)
TWO_DIGITS = st.integers(0, 61).map("{:02d}".format)
DATES = st.tuples(YEARS, TWO_DIGITS, TWO_DIGITS).map("-".join)
FRACTIONS = st.sampled_from(["", ".5", ".12", ".123", ".1230000", ".999999999", ".0001", "."])
ZONES = st.sampled_from(["", "Z", "z", "+02:00", "-0130", "+23:59", "-00:00", "+00:60", "+2"])
TIMES = st.tuples(TWO_DIGITS, TWO_DIGITS, TWO_DIGITS).map(":".join)
TIMESTAMPS = st.tuples(DATES, st.sampled_from("T t"), TIMES, FRACTIONS, ZONES).map("".join)
ODD_DATES = st.sampled_from(
    ["20240601", "2024-6-1", "2024-06-01\n", " 2024-06-01", "", "\uff12024-06-01"]
)
TEXTS = DATES | TIMESTAMPS | ODD_DATES | st.datetimes().map(datetime.isoformat)


def naive(text: str, scalar: Scalar) -> int | None:
    """The milliseconds that one text names, or None."""
    try:
        if scalar is Scalar.DATE:
            return (parse_date(text) - EPOCH.date()) // timedelta(milliseconds=1)
        return (parse_datetime(text) - EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        return None


@given(
    st.lists(TEXTS, max_size=4) | st.lists(TIMESTAMPS, max_size=4) | st.lists(DATES, max_size=4),
    st.sampled_from([Scalar.DATE, Scalar.DATETIME]),
)
def test_a_column_of_texts_is_converted_as_each_text_is(texts: list[str], scalar: Scalar) -> None:
    expected = [naive(text, scalar) for text in texts]

    if None in expected:
        with pytest.raises(CoercionError, match=f"invalid {scalar} literal") as refused:
            parse_timestamps(pa.array(texts, pa.string()), scalar)

        assert refused.value.row == expected.index(None)
    else:
        timestamps = parse_timestamps(pa.array(texts, pa.string()), scalar)

        assert timestamps.to_pylist() == expected


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-06-01", None],
        [None, "2024-06-01T12:00:00Z", None],
        ["2024-6-1", None, "2024-6-1"],
        [None, None],
    ],
)
def test_a_null_text_gives_a_null_timestamp(texts: list[str | None]) -> None:
    timestamps = parse_timestamps(pa.array(texts, pa.string()), Scalar.DATETIME)

    assert timestamps.to_pylist() == [
        None if text is None else naive(text, Scalar.DATETIME) for text in texts
    ]


@given(st.lists(st.integers(-(2**53), 2**53)), st.sampled_from([1, 1000, 1_000_000, 86_400_000]))
def test_division_rounds_down_on_both_sides_of_1970(numbers: list[int], divisor: int) -> None:
    quotients = floor_divide(pa.array(numbers, pa.int64()), divisor)

    assert quotients.to_pylist() == [number // divisor for number in numbers]
