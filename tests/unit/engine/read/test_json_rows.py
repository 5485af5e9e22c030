"""Rows as the JSON of results: what people read."""

import math

import pyarrow as pa

from omnigraph.engine.read.json_rows import column_as_json, entity_as_json
from omnigraph.model.types import DATE, DATETIME
from tests.support.gauge_rows import FULL, GAUGE, NEAR, edges, gauges


def test_a_result_writes_dates_as_text_and_numbers_exactly() -> None:
    row = entity_as_json(GAUGE, pa.table(gauges(FULL)))

    assert row == {
        "id": "g1",
        "at": "2024-06-01T12:00:00.250Z",
        "b": "base64:AQID",
        "code": "g1",
        "day": "2024-06-01",
        "days": ["1970-01-02", "1969-12-31"],
        "f": 2.0,
        "fs": [0.10000000149011612, 0.5],
        "g": 0.10000000149011612,
        "l": -(2**63),
        "on": True,
        "tags": ["x", 'say "hi"'],
        "times": ["2024-06-01T12:00:00.250Z"],
        "v": [0.25, 0.10000000149011612],
        "w": 2**64 - 1,
    }


def test_a_result_writes_words_for_numbers_that_json_lacks() -> None:
    rows = gauges(
        {"code": "a", "f": math.nan, "g": -math.inf, "fs": (math.inf, 1), "v": (math.nan, 1)}
    )

    row = entity_as_json(GAUGE, rows)

    assert row["f"] == "NaN"
    assert row["g"] == "-Infinity"
    assert row["fs"] == ["Infinity", 1.0]
    assert row["v"] == [None, 1.0]


def test_a_result_shows_the_ends_of_an_edge() -> None:
    shown = [entity_as_json(NEAR, edges().slice(position, 1)) for position in (0, 1)]

    assert shown == [
        {"id": "e1", "src": "a", "dst": "b", "since": "1970-01-02"},
        {"id": "e2", "src": "b", "dst": "b", "since": None},
    ]


def test_a_result_shows_years_beyond_the_calendar_of_python() -> None:
    days = pa.array([10**7, -719529], pa.int32()).cast(pa.date32())
    moments = pa.chunked_array([[10**16], [None]], pa.int64()).cast(pa.date64())

    assert column_as_json(days, DATE) == ["29349-01-26", "-001-12-31"]
    assert column_as_json(moments, DATETIME) == ["318857-05-20T17:46:40.000Z", None]


def test_an_entity_from_before_a_property_was_added_shows_null() -> None:
    row = entity_as_json(GAUGE, gauges(FULL).drop_columns(["g", "v"]))

    assert list(row) == ["id", *GAUGE.properties]
    assert (row["g"], row["v"], row["f"]) == (None, None, 2.0)
