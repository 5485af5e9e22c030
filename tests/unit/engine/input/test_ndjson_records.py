"""NDJSON, line by line: what a record may say, what it becomes, and how a bad one is named."""

import io
import json
from datetime import date

import pyarrow as pa
import pytest

from omnigraph.errors import InvalidValueError, LimitExceededError
from omnigraph.model.limits import LOAD_BLOCK_BYTES
from omnigraph.storage.row_files import table_schema
from tests.support.graphs import FLEET, GAUGE
from tests.support.received import receive_all, receive_lines, rows_of
from tests.support.schemas import compile_text

ODDITIES = """
node Log { text: String }
node Odd { type: String @key  edge: I32?  data: I32?  src: String?  dst: String?  to: String? }
node Dates { day: Date?  at: DateTime?  days: [Date]?  blob: Blob? }
node Required { count: I32 }
edge Likes: Log -> Log { type: String?  data: I32? }
"""


def gauge(**properties: object) -> str:
    """A line with one gauge."""
    return json.dumps({"type": "Gauge", "data": {"code": "g", **properties}})


def read_gauge(**properties: object) -> dict[str, object]:
    """What the properties of a gauge become."""
    (row,) = rows_of(receive_lines(gauge(**properties), schema=GAUGE), "node:Gauge")
    return {name: row[name] for name in properties}


def refuse(*lines: str, schema: str) -> InvalidValueError:
    """The refusal of lines."""
    with pytest.raises(InvalidValueError) as refused:
        receive_lines(*lines, schema=schema)
    return refused.value


# What comes in


def test_rows_have_the_columns_of_their_type() -> None:
    received = receive_lines(
        '{"type":"Pilot","data":{"handle":"ada","hours":410}}',
        '{"edge":"Mentors","from":"ada","to":"ben","data":{"since":"2024-06-01"}}',
        schema=FLEET,
    )

    catalog = compile_text(FLEET)
    assert list(received) == ["edge:Mentors", "node:Pilot"]
    assert received["node:Pilot"].rows.schema == table_schema(catalog.nodes["Pilot"])
    assert received["edge:Mentors"].rows.schema == table_schema(catalog.edges["Mentors"])


def test_rows_keep_their_order_across_spellings_of_an_edge_type() -> None:
    received = receive_lines(
        '{"edge":"mentors","from":"a","to":"b"}',
        '{"edge":"Mentors","from":"c","to":"d"}',
        '{"edge":"MENTORS","from":"e","to":"f"}',
        '{"edge":"mentors","from":"g","to":"h"}',
        schema=FLEET,
    )

    assert [row["src"] for row in rows_of(received, "edge:Mentors")] == ["a", "c", "e", "g"]


def test_every_property_type_is_read_from_json() -> None:
    given = {
        "f": 2,
        "g": 0.1,
        "i": -(2**31),
        "l": 2**63 - 1,
        "u": 2**32 - 1,
        "w": 2**64 - 1,
        "on": True,
        "day": "2024-06-01",
        "at": "2024-06-01T12:00:00.123000+02:00",
        "tags": ["x", ""],
        "nums": [],
        "v": [0.25, -1],
        "kind": "in-between",
    }

    read = read_gauge(**given)

    narrow = pa.scalar(0.1, pa.float32()).as_py()
    assert read == {**given, "g": narrow, "day": date(2024, 6, 1), "at": 1717236000123}
    assert isinstance(read["f"], float)


@pytest.mark.parametrize(
    ("written", "day"),
    [("1970-01-01", 0), ("0001-01-01", -719162), ("9999-12-31", 2932896), ("19700101", 0)],
)
def test_a_date_is_text(written: str, day: int) -> None:
    line = json.dumps({"type": "Dates", "data": {"day": written, "days": [written, "1970-01-02"]}})

    rows = receive_lines(line, schema=ODDITIES)["node:Dates"].rows

    assert rows["day"].cast(pa.int32()).to_pylist() == [day]
    assert rows["days"].combine_chunks().values.cast(pa.int32()).to_pylist() == [day, 1]


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [(0, 0), (-62135596800000, -62135596800000), ("1969-12-31 23:59:59.9990", -1)],
)
def test_a_datetime_is_milliseconds_or_text(written: object, milliseconds: int) -> None:
    lines = [json.dumps({"type": "Dates", "data": {"at": each}}) for each in (written, 5, None)]

    rows = rows_of(receive_lines(*lines, schema=ODDITIES), "node:Dates")

    assert [row["at"] for row in rows] == [milliseconds, 5, None]


def test_a_blob_is_base64() -> None:
    lines = [
        '{"type":"Dates","data":{"blob":"base64:aGVsbG8="}}',
        '{"type":"Dates","data":{"blob":"base64:"}}',
    ]

    rows = rows_of(receive_lines(*lines, schema=ODDITIES), "node:Dates")

    assert [row["blob"] for row in rows] == [b"hello", b""]


def test_names_of_the_envelope_are_ordinary_names_of_properties() -> None:
    lines = [
        '{"type":"Odd","data":{"type":"x","edge":1,"data":2,"src":"s","dst":"d","to":"t"}}',
        '{"type":"Odd","data":{"type":"y"}}',
        '{"edge":"Likes","from":"a","to":"b","data":{"type":"z","data":3}}',
    ]

    received = receive_lines(*lines, schema=ODDITIES)

    odd, bare = rows_of(received, "node:Odd")
    assert odd == {
        "id": "x",
        "type": "x",
        "edge": 1,
        "data": 2,
        "src": "s",
        "dst": "d",
        "to": "t",
    }
    assert bare["src"] is None
    assert rows_of(received, "edge:Likes") == [
        {"id": "new-1", "src": "a", "dst": "b", "type": "z", "data": 3}
    ]


def test_ids_are_given_by_the_key_by_the_record_or_made() -> None:
    received = receive_lines(
        '{"type":"Log","data":{"text":"a"}}',
        '{"type":"Log","data":{"text":"b","id":"mine"}}',
        '{"type":"Log","data":{"text":"c"}}',
        '{"type":"Odd","data":{"type":"k","id":"k"}}',
        '{"edge":"Likes","from":"a","to":"b"}',
        schema=ODDITIES,
    )

    assert [row["id"] for row in rows_of(received, "node:Log")] == ["new-2", "mine", "new-3"]
    assert [row["id"] for row in rows_of(received, "node:Odd")] == ["k"]
    assert {key: each.has_given_id for key, each in received.items()} == {
        "edge:Likes": False,
        "node:Log": True,
        "node:Odd": True,
    }


def test_a_missing_required_value_is_left_to_the_integrity_checks() -> None:
    received = receive_lines('{"type":"Log","data":{"text":null}}', schema=ODDITIES)

    assert rows_of(received, "node:Log") == [{"id": "new-1", "text": None}]


def test_nothing_is_received_from_nothing() -> None:
    assert receive_all(io.BytesIO(b""), schema=FLEET) == {}
    assert receive_lines("", " \t", "", schema=FLEET) == {}


def test_a_byte_order_mark_and_foreign_line_ends_are_no_part_of_a_record() -> None:
    one, other = b'{"type":"Ship","data":{"reg":"a"}}', b'{"type":"Ship","data":{"reg":"b"}}'
    content = b"\xef\xbb\xbf" + one + b"\r\n\r\n" + other + b"\r"

    received = receive_all(io.BytesIO(content), schema=FLEET)

    assert [row["id"] for row in rows_of(received, "node:Ship")] == ["a", "b"]


def test_a_file_longer_than_a_block_is_read_whole_and_its_records_numbered() -> None:
    line = json.dumps({"type": "Log", "data": {"text": "x" * 1000}}) + "\n"
    count = 2 * LOAD_BLOCK_BYTES // len(line) + 10

    received = receive_all(io.StringIO(line * count), schema=ODDITIES)
    with pytest.raises(InvalidValueError) as refused:
        receive_all(io.StringIO(line * count + "\n" + line.replace("text", "txt")), schema=ODDITIES)

    assert received["node:Log"].rows.num_rows == count
    assert f"record {count + 1} (line {count + 2})" in str(refused.value)


def test_a_record_longer_than_a_block_is_read() -> None:
    text = "é" * LOAD_BLOCK_BYTES
    line = json.dumps({"type": "Log", "data": {"text": text}}, ensure_ascii=False)

    received = receive_all(io.BytesIO(line.encode()), schema=ODDITIES)

    assert rows_of(received, "node:Log")[0]["text"] == text


# What does not


REFUSED = {
    "text for a number": ({"i": "12"}, "a whole number is needed, not a string"),
    "a fraction for an integer": ({"i": 3.5}, "a whole number is needed, not 3.5"),
    "an integral float": ({"i": 3.0}, "a whole number is needed, not 3.0"),
    "a boolean for a number": ({"i": True}, "a whole number is needed, not a boolean"),
    "D22 too large for I32": ({"i": 2**40}, "1099511627776 exceeds I32"),
    "too small for I32": ({"i": -(2**31) - 1}, "exceeds I32"),
    "too large for I64": ({"l": 2**63}, "9223372036854775808 exceeds I64"),
    "too large for any": ({"l": 2**64}, "the number exceeds I64"),
    "much too large": ({"w": 10**40}, "the number exceeds U64"),
    "negative for U32": ({"u": -1}, "-1 exceeds U32"),
    "negative for U64": ({"w": -1}, "-1 exceeds U64"),
    "a boolean for a float": ({"f": False}, "a number is needed, not a boolean"),
    "text for a float": ({"f": "1.5"}, "a number is needed, not a string"),
    "too large for F32": ({"g": 1e39}, "too large for F32"),
    "an integer too large for F32": ({"g": 10**39}, "too large for F32"),
    "a number for a text": ({"kind": 1}, "a string is needed, not a number"),
    "a number for a boolean": ({"on": 1}, "true or false is needed, not a number"),
    "an object": ({"kind": {"a": 1}}, "a string is needed, not an object"),
    "no date": ({"day": "2024-02-30"}, "invalid Date literal '2024-02-30'"),
    "a number for a date": ({"day": 2024}, "a date is needed"),
    "a time of day in a date": ({"day": "2024-06-01T12:00:00Z"}, "it has a time of day"),
    "midnight in a date": ({"day": "2024-06-01T00:00:00Z"}, "it has a time of day"),
    "digits below the millisecond": (
        {"at": "2024-06-01T12:00:00.0001Z"},
        "it has digits below the millisecond",
    ),
    "no timestamp": ({"at": "noon"}, "invalid DateTime literal 'noon'"),
    "a millisecond after 9999": ({"at": 253402300800000}, "outside the years 1 to 9999"),
    "a boolean for a timestamp": ({"at": True}, "a timestamp"),
    "I14 a vector too long": ({"v": [1, 2, 3]}, "expects 2 dimensions, got 3"),
    "a vector too short": ({"v": []}, "expects 2 dimensions, got 0"),
    "I14 a text in a vector": ({"v": ["a", 1]}, "a number is needed, not a string"),
    "null in a vector": ({"v": [None, 1]}, "cannot be null"),
    "a vector element too large": ({"v": [1e39, 1]}, "too large for F32"),
    "a number for a vector": ({"v": 1}, "an array is needed, not a number"),
    "a text for a list": ({"tags": "x"}, "an array is needed, not a string"),
    "null in a list": ({"tags": ["x", None]}, "cannot be null"),
    "a list in a list": ({"tags": [["x"]]}, "a string is needed, not an array"),
    "a list element too large": ({"nums": [1, 2**31]}, "2147483648 exceeds I32"),
}


@pytest.mark.parametrize(("properties", "problem"), REFUSED.values(), ids=REFUSED)
def test_i13_a_value_of_another_type_is_refused_and_named(
    properties: dict[str, object], problem: str
) -> None:
    fine = gauge(f=1, i=1, day="2024-06-01", tags=["x"], v=[1, 2])
    (name,) = properties

    refused = refuse(fine, "", gauge(**properties), fine, schema=GAUGE)

    assert problem in str(refused)
    assert refused.subject == f"record 2 (line 3), Gauge.{name}"
    assert refused.type.endswith("?")


def test_i13_a_wrong_value_of_a_required_property_says_that_it_is_required() -> None:
    refused = refuse('{"type":"Required","data":{"count":"12"}}', schema=ODDITIES)

    assert "cannot be null or invalid" in str(refused)


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        ("https://example.org/a.png", "https:// is never followed"),
        ("base64:A", "not valid base64"),
        ("base64:é", "not valid base64"),
        ("base64:QQ==QQ==", "not valid base64"),
    ],
)
def test_a_blob_that_is_not_base64_is_refused(blob: str, problem: str) -> None:
    refused = refuse(json.dumps({"type": "Dates", "data": {"blob": blob}}), schema=ODDITIES)

    assert problem in str(refused)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"type":"Pilott"}', "unknown node type 'Pilott'; did you mean 'Pilot'?"),
        ('{"type":"pilot"}', "unknown node type 'pilot'; did you mean 'Pilot'?"),
        ('{"edge":"Mentor"}', "unknown edge type 'Mentor'; did you mean 'Mentors'?"),
        ('{"type":null}', "'type' must be a string, not null"),
        ('{"type":["Pilot"]}', "'type' must be a string, not an array"),
        ('{"edge":7,"from":"a","to":"b"}', "'edge' must be a string, not a number"),
        ('{"type":"Pilot","edge":"Mentors"}', "both 'type' and 'edge'"),
        ('{"edge":"Mentors","from":"a","to":null}', "'to' must be a string, not null"),
        ('{"type":"Pilot","data":[]}', "'data' must be an object, not an array"),
        ('{"type":"Pilot","data":null}', "'data' must be an object, not null"),
        ('{"type":"Pilot","from":"a"}', "unknown field 'from'"),
        ('"Pilot"', "expected 'type' or 'edge' in an object, not a string"),
        ('{"type":"Pilot","data":{"hndle":"x"}}', "no property 'hndle'; did you mean 'handle'?"),
        ('{"type":"Pilot","data":{"_rowid":1}}', "'_rowid' is a built-in column"),
        ('{"type":"Pilot","data":{"_tombstone":1}}', "Pilot has no property '_tombstone'"),
        ('{"edge":"Flies","from":"a","to":"b","data":{"dst":"c"}}', "ends of an edge are 'from'"),
        ('{"type":"Ship","data":{"reg":"x","id":7}}', "a string is needed, not a number"),
        ('{"type":"Ship","data":{"reg":"x","id":null}}', "'id' must be a string, not null"),
        ('{"type":"Ship","data":{"reg":"x","id":"y"}}', "'y' does not match 'x'"),
        ('{"type":"Ship","data":{"tons":1}}', "missing @key property"),
        ('{"type":"Ship","data":{"reg":"x","reg":"x"}}', "the member 'reg' is given twice"),
        ('{"type":"Ship","type":"Ship","data":{"reg":"x"}}', "the member 'type' is given twice"),
        ('{"type":"Ship","data":{"reg":{"a":1,"a":2}}}', "the member 'a' is given twice"),
        ('{"type":"Ship","data":{"reg":"\\ud800"}}', "invalid JSON at column"),
        ('{"type":"Ship","data":{"reg":"a\tb"}}', "invalid JSON at column"),
        ('{"type":"Ship","data":{"reg":"x","tons":1e400}}', "invalid JSON at column"),
        ('{"type":"Ship"} {"type":"Ship"}', "a line holds one object"),
        ("{", "a line holds one object"),
    ],
)
def test_a_line_that_is_not_a_record_is_refused_and_named(line: str, problem: str) -> None:
    fine = '{"type":"Ship","data":{"reg":"s","tons":1.5}}'

    refused = refuse(fine, "", line, fine, schema=FLEET)

    assert problem in str(refused)
    assert refused.subject.startswith("record 2 (line 3)")


def test_bytes_that_are_no_utf8_are_refused_and_their_line_named() -> None:
    content = b'{"type":"Ship","data":{"reg":"s"}}\n\n{"type":"Ship","data":{"reg":"\xff"}}'

    with pytest.raises(InvalidValueError, match=r"record 2 \(line 3\): invalid UTF-8 at byte 31"):
        receive_all(io.BytesIO(content), schema=FLEET)


def test_text_that_no_bytes_can_hold_is_refused_and_its_line_named() -> None:
    refused = refuse("", '{"type":"Ship","data":{"reg":"\ud800"}}', schema=FLEET)

    assert refused.subject == "record 1 (line 2)"


FAULTS = [
    '{"type":"Ship","data":{"reg":"x","tons":"heavy"}}',
    '{"type":"Ship","data":{"reg":"x","id":"y"}}',
    '{"type":"Ship","data":{"reg":"x","speed":1}}',
    '{"type":"Ship","data":{"reg":"x","reg":"y"}}',
    '{"type":"Pilot","data":{"handle":1}}',
    '{"edge":"Mentors","from":"a","to":"b","data":{"since":"soon"}}',
    '{"edge":"Flies","from":"a"}',
    '{"type":"Boat"}',
    "not JSON",
]


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_of_several_faults_the_one_in_the_earliest_record_is_reported(first: int) -> None:
    fine = ['{"type":"Ship","data":{"reg":"s"}}', '{"edge":"Flies","from":"p","to":"s"}']
    later = FAULTS[first + 1 :] + FAULTS[:first]

    refused = refuse(*fine, FAULTS[first], *fine, *later, schema=FLEET)

    assert refused.subject.startswith("record 3 (line 3)")
    alone = refuse(*fine, FAULTS[first], schema=FLEET)
    assert str(refused) == str(alone)


def test_a_text_larger_than_a_property_may_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.engine.input.coerce.PROPERTY_BYTES_MAX", 8)

    with pytest.raises(LimitExceededError) as refused:
        receive_lines('{"type":"Log","data":{"text":"ääääé"}}', schema=ODDITIES)

    assert (refused.value.limit, refused.value.found) == (8, 10)
    assert "record 1 (line 1), Log.text" in str(refused.value)


def test_a_line_larger_than_a_record_may_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.engine.input.files.LOAD_BLOCK_BYTES", 4)
    monkeypatch.setattr("omnigraph.engine.input.files.RECORD_BYTES_MAX", 64)

    with pytest.raises(LimitExceededError, match="at most 64"):
        receive_lines(json.dumps({"type": "Log", "data": {"text": "x" * 64}}), schema=ODDITIES)
