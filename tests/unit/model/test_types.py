"""Dates and timestamps: one reading of text, one way to write it."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.model.types import format_datetime, parse_date, parse_datetime


@pytest.mark.parametrize(
    "text",
    ["2024-06-01", "2024-6-1", "20240601"],
)
def test_a_text_names_a_date(text: str) -> None:
    assert parse_date(text) == date(2024, 6, 1)


@pytest.mark.parametrize("text", ["2024-06-01T23:59:59Z", "2024-06-01 00:00:00"])
def test_a_date_has_no_time_of_day(text: str) -> None:
    with pytest.raises(ValueError, match="it has a time of day"):
        parse_date(text)


@pytest.mark.parametrize(
    "text",
    [
        "2024-06-01T12:00:00Z",
        "2024-06-01t12:00:00z",
        "2024-06-01 12:00:00",
        "20240601T12:00:00.000",
        "2024-06-01T14:30:00+02:30",
        "2024-06-01T09:30:00-0230",
    ],
)
def test_a_timestamp_names_an_instant_in_utc(text: str) -> None:
    assert parse_datetime(text) == datetime(2024, 6, 1, 12, tzinfo=UTC)


def test_a_date_is_midnight_in_utc() -> None:
    assert parse_datetime("2024-06-01") == datetime(2024, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fraction", "milliseconds"), [(".5", 500), (".05", 50), (".1230000", 123), (".000000", 0)]
)
def test_fractions_are_milliseconds(fraction: str, milliseconds: int) -> None:
    timestamp = parse_datetime(f"2024-06-01T12:00:00{fraction}Z")

    assert timestamp.microsecond == milliseconds * 1000


@pytest.mark.parametrize("fraction", [".1239999", ".0009", ".000000001"])
def test_digits_below_the_millisecond_are_refused(fraction: str) -> None:
    with pytest.raises(ValueError, match="digits below the millisecond"):
        parse_datetime(f"2024-06-01T12:00:00{fraction}Z")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "today",
        "2024",
        "2024-13-01",
        "2023-02-29",
        "0000-01-01",
        "24-06-01",
        "2024-06-01T",
        "2024-06-01T25:00:00Z",
        "2024-06-01T12:00Z",
        "2024-06-01T12:00:60Z",
        "2024-06-01T12:00:00+02:60",
        "2024-06-01T12:00:00 Europe/Berlin",
        " 2024-06-01",
        "2024-06-01\n",
        "202\u0664-06-01",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    ],
)
def test_what_names_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_datetime(text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_formatted_instant_is_read_back_to_the_millisecond(timestamp: datetime) -> None:
    written = format_datetime(timestamp)

    assert len(written) == len("2024-06-01T12:00:00.000Z")
    assert parse_datetime(written) == timestamp.replace(
        microsecond=timestamp.microsecond // 1000 * 1000
    )
