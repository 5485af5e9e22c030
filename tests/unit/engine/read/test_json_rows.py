"""Rows as JSON: the lines of an export, and the rows of a result."""

import math
from datetime import UTC, date, datetime

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import Value
from omnigraph.engine.read.json_rows import column_as_json, encode_rows, entity_as_json
from omnigraph.engine.read.values import column_of
from omnigraph.errors import InvalidValueError
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.types import DATE, DATETIME
from tests.support.schemas import compile_text

CATALOG = compile_text("""
node Gauge { code: String @key  at: DateTime?  b: Blob?  day: Date?  days: [Date]?  f: F64?
             fs: [F32]?  g: F32?  l: I64?  on: Bool?  tags: [String]?  times: [DateTime]?
             v: Vector(2)?  w: U64? }
edge Near: Gauge -> Gauge { since: Date? }
""")
GAUGE, NEAR = CATALOG.nodes["Gauge"], CATALOG.edges["Near"]

MOMENT = datetime(2024, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)
FULL: dict[str, Value] = {
    "at": MOMENT,
    "b": "base64:AQID",
    "code": "g1",
    "day": date(2024, 6, 1),
    "days": (date(1970, 1, 2), date(1969, 12, 31)),
    "f": 2.0,
    "fs": (0.1, 0.5),
    "g": 0.1,
    "l": -(2**63),
    "on": True,
    "tags": ("x", 'say "hi"'),
    "times": (MOMENT,),
    "v": (0.25, 0.1),
    "w": 2**64 - 1,
}


def gauges(*rows: dict[str, Value]) -> pa.RecordBatch:
    """Rows whose ids are their codes; what is left out is null."""
    columns = {
        name: column_of([row.get(name) for row in rows], prop.type, subject=name)
        for name, prop in GAUGE.properties.items()
    }
    return pa.record_batch({"id": columns["code"], **columns})


def lines_of(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> list[str]:
    return list(encode_rows(declared, rows))


def test_a_node_is_a_type_and_its_values_in_the_order_of_columns() -> None:
    assert lines_of(GAUGE, gauges(FULL)) == [
        '{"type":"Gauge","data":{"id":"g1","at":1717243200250,"b":"base64:AQID","code":"g1",'
        '"day":19875,"days":[1,-1],"f":2.0,"fs":[0.1,0.5],"g":0.1,"l":-9223372036854775808,'
        '"on":true,"tags":["x","say \\"hi\\""],"times":[1717243200250],"v":[0.25,0.1],'
        '"w":18446744073709551615}}'
    ]


def test_what_is_absent_is_written_as_null() -> None:
    (line,) = lines_of(GAUGE, gauges({"code": "g4"}))

    content = orjson.loads(line)["data"]
    assert content == {"id": "g4", **dict.fromkeys(GAUGE.properties), "code": "g4"}


def test_absent_lists_and_empty_ones_stay_apart() -> None:
    rows = gauges(
        {"code": "a", "tags": ()},
        {"code": "b", "tags": ("x", "y"), "v": (1, 2)},
        {"code": "c"},
        {"code": "d", "tags": ("z",), "v": (3, 4)},
    ).slice(1)

    contents = [orjson.loads(line)["data"] for line in lines_of(GAUGE, rows)]

    assert [each["tags"] for each in contents] == [["x", "y"], None, ["z"]]
    assert [each["v"] for each in contents] == [[1.0, 2.0], None, [3.0, 4.0]]
    assert lines_of(GAUGE, gauges({"code": "a", "tags": ()}))[0].count('"tags":[]') == 1


def test_a_column_that_the_rows_lack_is_null() -> None:
    rows = gauges(FULL).drop_columns(["g", "v"])

    content = orjson.loads(lines_of(GAUGE, rows)[0])["data"]

    assert list(content) == ["id", *GAUGE.properties]
    assert (content["g"], content["v"], content["f"]) == (None, None, 2.0)


def test_an_edge_names_its_ends_beside_its_values() -> None:
    rows = _edges()

    assert lines_of(NEAR, rows) == [
        '{"edge":"Near","from":"a","to":"b","data":{"id":"e1","since":1}}',
        '{"edge":"Near","from":"b","to":"b","data":{"id":"e2","since":null}}',
    ]


def test_no_rows_are_no_lines() -> None:
    assert lines_of(GAUGE, gauges(FULL).slice(0, 0)) == []


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("f", math.inf, "inf"),
        ("f", math.nan, "nan"),
        ("g", -math.inf, "-inf"),
        ("fs", (0.5, math.nan), "nan"),
        ("v", (math.inf, 0.0), "inf"),
    ],
)
def test_a_number_that_json_lacks_stops_the_export(name: str, value: Value, written: str) -> None:
    rows = gauges({"code": "ok", "fs": (1.0,), "v": (0.0, 0.0)}, {"code": "bad", name: value})

    with pytest.raises(InvalidValueError) as caught:
        lines_of(GAUGE, rows)

    assert f"Gauge 'bad', property '{name}': {written} cannot be written" in str(caught.value)


NEXT_TO_ITS_DECIMAL = np.array([0x15AE43FD], np.uint32).view(np.float32)[0]
"""The shortest decimal of this F32, read with 64 bits and rounded, is the next F32."""


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_a_narrow_float_is_read_back_bit_for_bit(numbers: list[float]) -> None:
    narrow = np.array([*numbers, NEXT_TO_ITS_DECIMAL], np.float32)
    rows = pa.record_batch({"id": ["a"], "fs": [narrow]})

    content = orjson.loads(lines_of(GAUGE, rows)[0])["data"]

    reread = np.array(content["fs"], np.float64).astype(np.float32)
    assert reread.tobytes() == narrow.tobytes()


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
    shown = [entity_as_json(NEAR, _edges().slice(position, 1)) for position in (0, 1)]

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


def _edges() -> pa.RecordBatch:
    since = column_of([date(1970, 1, 2), None], NEAR.properties["since"].type, subject="since")
    return pa.record_batch(
        {"id": ["e1", "e2"], "src": ["a", "b"], "dst": ["b", "b"], "since": since}
    )
