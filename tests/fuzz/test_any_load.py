"""Whatever a load is given, it is read as it says or refused; nothing else comes out."""

import io
import json
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from omnigraph.engine.input.batches import ReceivedRows
from omnigraph.engine.input.sources import read_input
from omnigraph.errors import RequestError
from tests.support.naive_records import RefusedRecordError, Row, read_naively
from tests.support.received import CountedIds, make_read_context
from tests.support.schemas import compile_text

CATALOG = compile_text("""
node Thing { f: F64?  g: F32?  i: I32?  l: I64?  u: U32?  w: U64?  on: Bool?  text: String?
             day: Date?  at: DateTime?  tags: [String]?  nums: [I32]?  days: [Date]?  v: Vector(2)?
             blob: Blob?  kind: enum(a, b)? }
node Person { name: String @key  age: I32?  score: F64 }
node Number { n: I64 @key }
edge Knows: Person -> Person { since: Date?  weight: F32? }
""")

CONTEXT = make_read_context(CATALOG)

VALUES: dict[str, SearchStrategy[object]] = {
    "f": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70),
    "g": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 2**130),
    "i": st.integers(-(2**31) - 1, 2**31),
    "l": st.integers(-(2**63) - 1, 2**63),
    "u": st.integers(-1, 2**32),
    "w": st.integers(-1, 2**64),
    "n": st.integers(-(2**63), 2**63 - 1),
    "age": st.integers(0, 99),
    "score": st.floats(-1, 1),
    "on": st.booleans(),
    "text": st.text(max_size=6) | st.sampled_from([":", ' :"', "a\\b"]),
    "name": st.text(max_size=3),
    "kind": st.sampled_from(["a", "b", "c"]),
    "day": st.integers(-719163, 2932897) | st.dates().map(str),
    "since": st.dates().map(str),
    "at": st.integers(-62135596800001, 253402300800000) | st.datetimes().map(str),
    "tags": st.lists(st.text(max_size=3), max_size=3),
    "nums": st.lists(st.integers(-9, 9), max_size=3),
    "days": st.lists(st.integers(-9, 9) | st.dates().map(str), max_size=3),
    "v": st.lists(st.floats(-1, 1) | st.integers(-9, 9), min_size=2, max_size=2),
    "weight": st.floats(-1, 1, width=32),
    "blob": st.sampled_from(["base64:", "base64:QUI=", "base64:QQ=", "http://x"]),
}
ANYTHING: SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner),
    max_leaves=4,
)


NAMES = ["Thing", "Thing", "Person", "Number", "Knows", "kNOWS"]


@st.composite
def record_lines(draw: DrawFn, names: Sequence[str] = NAMES) -> str:
    """A line with a record, most often a good one, spelled in one of JSON's ways."""
    name = draw(st.sampled_from(names))
    declared = CATALOG.nodes.get(name) or CATALOG.find_edge(name)
    assert declared is not None
    required = [each for each in ("name", "n", "score") if each in declared.properties]
    chosen = draw(st.lists(st.sampled_from(list(declared.properties)), max_size=4, unique=True))
    properties = {each: draw(VALUES[each]) for each in {*required, *chosen}}
    record: dict[str, object] = {"data": properties}
    if declared.name == "Knows":
        record |= {"edge": name, "from": draw(VALUES["name"]), "to": draw(VALUES["name"])}
    else:
        record["type"] = name
    match draw(st.integers(0, 30)):
        case 0:
            properties[draw(st.sampled_from([*properties, "id", "other"]))] = draw(ANYTHING)
        case 1:
            record[draw(st.sampled_from([*record, "edge", "type", "other"]))] = draw(ANYTHING)
        case 2:
            del record[draw(st.sampled_from(list(record)))]
        case 3:
            properties["id"] = draw(st.sampled_from(["x", *map(str, properties.values())]))
        case _:
            pass
    blank = draw(st.sampled_from(["", " ", "\t"]))
    separators = (f"{blank},", f"{blank}:{blank}")
    line = json.dumps(record, ensure_ascii=draw(st.booleans()), separators=separators)
    if not draw(st.integers(0, 30)):
        return line.replace("{", '{"data":{},', 1)
    return line


@st.composite
def edited_lines(draw: DrawFn) -> str:
    """A line with a piece cut out, or something put in."""
    line = draw(record_lines())
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(start + 2, len(line))))
    odd = st.sampled_from(["", '"', ":", "{", "}", ",", "\\", "1", "e", "null", "\n", "\ud800"])
    return line[:start] + draw(odd | st.characters()) + line[end:]


LINES = record_lines() | st.sampled_from(["", " \t", "\r"])


@given(st.binary() | st.text().map(lambda text: text.encode("utf-16")))
def test_any_bytes_are_loaded_or_refused(content: bytes) -> None:
    with suppress(RequestError):
        read_input(io.BytesIO(content), context=CONTEXT, runtime=CountedIds())


@given(st.lists(LINES, max_size=8).map("\n".join))
def test_records_mean_what_a_naive_reader_says_they_mean(text: str) -> None:
    require_agreement(text)


@given(st.lists(LINES | edited_lines(), max_size=4).map("\n".join))
def test_edited_records_mean_what_a_naive_reader_says_they_mean(text: str) -> None:
    require_agreement(text)


@st.composite
def lines_of_one_type(draw: DrawFn) -> str:
    """Lines that can be read at once, but for what is odd about some of them."""
    name = draw(st.sampled_from(NAMES))
    lines = draw(
        st.lists(record_lines([name, name.lower()][: 2 if name == "Knows" else 1]), max_size=6)
    )
    odd = {"null": "-0", "true": "null", "1": "NaN", "0": "1e999", '"id"': '"i\\u0064"'}
    spelling = draw(st.none() | st.sampled_from(sorted(odd)))
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    return text if spelling is None else text.replace(spelling, odd[spelling], 1)


@given(lines_of_one_type())
def test_records_of_one_type_mean_what_a_naive_reader_says_they_mean(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.engine.input.ndjson.LOAD_BLOCK_BYTES_MIN", 0)
        require_agreement(text)


@given(st.dictionaries(st.sampled_from(["Thing", "knows", "Nothing", ""]), ANYTHING) | ANYTHING)
def test_any_value_is_loaded_or_refused(value: object) -> None:
    with suppress(RequestError):
        read_input(value, context=CONTEXT, runtime=CountedIds())


@st.composite
def any_columns(draw: DrawFn) -> pa.Array:
    """A column of some Arrow type, whatever it is meant for."""
    values = draw(st.lists(draw(st.sampled_from([*VALUES.values()])) | st.none(), max_size=3))
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(values)
    return pa.nulls(len(values))


@given(st.sampled_from([*CATALOG.nodes["Thing"].properties, "id", "other"]), any_columns())
def test_any_column_fits_a_property_or_is_refused(name: str, column: pa.Array) -> None:
    with suppress(RequestError):
        rows = pa.table({name: column})
        received = read_input({"Thing": rows}, context=CONTEXT, runtime=CountedIds())

        assert received["node:Thing"].rows.num_rows == len(column)


def require_agreement(text: str) -> None:
    """Fail unless both readers refuse the same record, or read the same rows."""
    try:
        expected = read_naively(text, CATALOG)
    except RefusedRecordError as refused:
        with pytest.raises(RequestError, match=rf"^record {refused.number} \(line "):
            read_input(io.StringIO(text), context=CONTEXT, runtime=CountedIds())
        return
    received = read_input(io.StringIO(text), context=CONTEXT, runtime=CountedIds())
    assert list(received) == list(expected)
    for key, rows in expected.items():
        require_rows(received[key], rows)


def require_rows(received: ReceivedRows, expected: list[Row]) -> None:
    """Fail unless these are the rows, but for ids that were made."""
    columns = [_to_numbers(column) for column in received.rows.columns]
    rows: list[Row] = pa.table(columns, names=received.rows.column_names).to_pylist()
    assert received.has_given_id == any(row["id"] is not None for row in expected)
    for row, wanted in zip(rows, expected, strict=True):
        if wanted["id"] is None:
            assert str(row["id"]).startswith("new-")
        assert row == {**wanted, "id": wanted["id"] or row["id"]}


def _to_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    if pa.types.is_list(column.type) and pa.types.is_date32(column.type.value_type):
        return column.cast(pa.list_(pa.int32()))
    return column
