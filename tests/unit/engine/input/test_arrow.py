"""Rows in Arrow: which columns fit a property, what they become, and how a bad row is named."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import InvalidValueError, LimitExceededError
from omnigraph.storage.row_files import TIMESTAMP, table_schema
from tests.support.graphs import FLEET
from tests.support.received import receive_all, receive_lines, rows_of
from tests.support.schemas import compile_text

THINGS = """
node Thing { f: F64?  g: F32?  i: I32?  l: I64?  u: U32?  w: U64?  on: Bool?  text: String?
             day: Date?  at: DateTime?  tags: [String]?  nums: [I32]?  days: [Date]?
             v: Vector(2)?  blob: Blob?  src: String? }
node Float { f: F64 @key }
node Pair { a: String  b: I64  @key(a, b) }
edge Links: Thing -> Thing { since: Date? }
node Both { k: String @key }
edge Both: Both -> Both
"""

DAY, AT_MS = date(2024, 6, 1), 1717243200123
INSTANT = datetime(2024, 6, 1, 12, 0, 0, 123000, tzinfo=UTC)


def dictionary(values: pa.Array) -> pa.Array:
    """The values of a column behind indices, and a null."""
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), values)


def read(name: str, column: pa.Array) -> list[object]:
    """What a column of things becomes."""
    received = receive_all({"Thing": pa.table({name: column})}, schema=THINGS)
    schema = table_schema(compile_text(THINGS).nodes["Thing"])
    assert received["node:Thing"].rows.schema == schema
    received["node:Thing"].rows.validate()
    return [row[name] for row in rows_of(received, "node:Thing")]


def refuse(given: object) -> InvalidValueError:
    """The refusal of what was given."""
    with pytest.raises(InvalidValueError) as refused:
        receive_all(given, schema=THINGS)
    return refused.value


ACCEPTED = {
    "wider integers": ("i", pa.array([1, None, -(2**31)], pa.int64()), [1, None, -(2**31)]),
    "narrower integers": ("l", pa.array([1, None], pa.int8()), [1, None]),
    "signs that do not matter": ("u", pa.array([0, 2**32 - 1], pa.int64()), [0, 2**32 - 1]),
    "whole decimals": ("w", pa.array([2**64 - 1], pa.decimal128(20, 0)), [2**64 - 1]),
    "whole decimals for fewer bits": ("i", pa.array([-7, None], pa.decimal128(10, 0)), [-7, None]),
    "whole decimals of many digits": ("l", pa.array([2**62], pa.decimal256(40, 0)), [2**62]),
    "integers as floats": ("f", pa.array([1, 2**53 + 1]), [1.0, float(2**53)]),
    "decimals as floats": ("f", pa.array([Decimal("1.25")]), [1.25]),
    "half floats": ("g", pa.array(np.array([1.5], np.float16)), [1.5]),
    "doubles as floats": ("g", pa.array([0.5, None, math.inf]), [0.5, None, math.inf]),
    "booleans": ("on", pa.array([True, None]), [True, None]),
    "large strings": ("text", pa.array(["a", None], pa.large_string()), ["a", None]),
    "string views": ("text", pa.array(["a" * 20, None], pa.string_view()), ["a" * 20, None]),
    "dictionaries": ("text", dictionary(pa.array(["a", "b"])), ["a", "b", None, "a"]),
    "dictionaries of views": (
        "text",
        dictionary(pa.array(["a", "b"], pa.string_view())),
        ["a", "b", None, "a"],
    ),
    "dictionaries of numbers": ("i", dictionary(pa.array([7, 8])), [7, 8, None, 7]),
    "dictionaries with a null": ("text", dictionary(pa.array(["a", None])), ["a", None, None, "a"]),
    "runs": ("text", pc.run_end_encode(pa.array(["a", "a", "b"])), ["a", "a", "b"]),
    "nothing at all": ("v", pa.nulls(2), [None, None]),
    "nothing of another type": ("i", pa.nulls(2, pa.float64()), [None, None]),
    "dates": ("day", pa.array([DAY, None]), [DAY, None]),
    "dates as milliseconds": ("day", pa.array([86400000]).cast(pa.date64()), [date(1970, 1, 2)]),
    "midnights as dates": ("day", pa.array([-86400], pa.timestamp("s")), [date(1969, 12, 31)]),
    "midnights in nanoseconds": ("day", pa.array([DAY]).cast(pa.timestamp("ns")), [DAY]),
    "dates as text": ("day", pa.array(["2024-06-01", "20240601"]), [DAY, DAY]),
    "seconds": ("at", pa.array([1, None], pa.timestamp("s")), [1000, None]),
    "milliseconds": ("at", pa.array([-1], pa.timestamp("ms")), [-1]),
    "microseconds": ("at", pa.array([INSTANT]), [AT_MS]),
    "microseconds of a zone": ("at", pa.array([-1000, 1000], pa.timestamp("us", "UTC")), [-1, 1]),
    "nanoseconds": ("at", pa.array([-1000000, 1000000], pa.timestamp("ns")), [-1, 1]),
    "time zones": ("at", pa.array([INSTANT], pa.timestamp("us", "Europe/Berlin")), [AT_MS]),
    "dates as instants": ("at", pa.array([DAY]), [1717200000000]),
    "instants as we store them": ("at", pa.array([AT_MS], TIMESTAMP), [AT_MS]),
    "instants as we stored them": ("at", pa.array([AT_MS]).cast(pa.date64()), [AT_MS]),
    "milliseconds as numbers": ("at", pa.array([AT_MS]), [AT_MS]),
    "instants as text": ("at", pa.array(["2024-06-01T12:00:00.123Z"]), [AT_MS]),
    "large lists": (
        "tags",
        pa.array([["a"], None, [], ["b", "c"]], pa.large_list(pa.large_string())),
        [["a"], None, [], ["b", "c"]],
    ),
    "lists of whole decimals": (
        "nums",
        pa.array([[1, 2], None, []], pa.list_(pa.decimal128(20, 0))),
        [[1, 2], None, []],
    ),
    "list views": ("nums", pa.array([[1], None], pa.list_view(pa.int64())), [[1], None]),
    "fixed lists": ("nums", pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    "lists of dictionaries": (
        "tags",
        pa.ListArray.from_arrays([0, 1, 3], pa.array(["a", "b", "a"]).dictionary_encode()),
        [["a"], ["b", "a"]],
    ),
    "lists of nothing": ("nums", pa.array([[], []], pa.list_(pa.null())), [[], []]),
    "lists of dates": ("days", pa.array([["2024-06-01"], []]), [[DAY], []]),
    "vectors": ("v", pa.array([[1, 2], None], pa.list_(pa.float32(), 2)), [[1.0, 2.0], None]),
    "vectors as lists": ("v", pa.array([[1.5, 2.0]]), [[1.5, 2.0]]),
    "vectors of integers": (
        "v",
        pa.array([None, [1, 2]], pa.large_list(pa.int64())),
        [None, [1, 2]],
    ),
    "bytes": ("blob", pa.array([b"x", None]), [b"x", None]),
    "fixed bytes": ("blob", pa.array([b"xy"], pa.binary(2)), [b"xy"]),
    "byte views": ("blob", pa.array([b"xy"], pa.binary_view()), [b"xy"]),
    "bytes as base64": ("blob", pa.array(["base64:eA==", None]), [b"x", None]),
    "a property that is an end elsewhere": ("src", pa.array(["a", None]), ["a", None]),
}


@pytest.mark.parametrize(("name", "column", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_column_that_loses_nothing_fits(
    name: str, column: pa.Array, expected: list[object]
) -> None:
    assert read(name, column) == expected


@pytest.mark.parametrize(("name", "column", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_column_in_slices_and_chunks_is_the_same_column(
    name: str, column: pa.Array, expected: list[object]
) -> None:
    sliced = pa.chunked_array([column.slice(row, 1) for row in range(len(column))])

    assert read(name, sliced) == expected
    assert read(name, column.slice(1)) == expected[1:]


def broken_text(content: bytes) -> pa.Array:
    """A column with one text a byte, whatever the bytes are."""
    offsets = np.arange(len(content) + 1, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(content), buffers)


UNFIT = {
    "integers too large": ("i", pa.array([1, 2**31]), "2147483648 exceeds I32"),
    "decimals too large": ("w", pa.array([1, 2**64], pa.decimal128(20, 0)), "exceeds U64"),
    "negative integers": ("w", pa.array([1, -1]), "-1 exceeds U64"),
    "floats for integers": ("i", pa.array([None, 1.0]), "a whole number is needed, not double"),
    "decimals with a fraction": ("i", pa.array([None, Decimal("1.5")]), "a whole number"),
    "booleans for integers": ("i", pa.array([None, True]), "a whole number is needed, not bool"),
    "integers for booleans": ("on", pa.array([None, 1]), "true or false is needed, not int64"),
    "floats too large": ("g", pa.array([1.0, -1e39]), "too large for F32"),
    "text for floats": ("f", pa.array([None, "1.5"]), "a number is needed, not string"),
    "numbers for text": ("text", pa.array([None, 1]), "a string is needed, not int64"),
    "bytes for text": ("text", pa.array([None, b"a"]), "a string is needed, not binary"),
    "broken text": ("text", broken_text(b"a\xff"), "not valid for its Arrow type"),
    "broken text in lists": (
        "tags",
        pa.ListArray.from_arrays([0, 1, 3], broken_text(b"ab\xff")),
        "not valid for its Arrow type",
    ),
    "no dates": ("day", pa.array(["2024-06-01", "2024-06-31"]), "invalid Date literal"),
    "dates after 9999": ("day", pa.array([0, 2932897], pa.int32()).cast(pa.date32()), "the years"),
    "fractions of days": ("day", pa.array([None, 1.5]), "a Date is needed, not double"),
    "times": ("at", pa.array([None, 1], pa.time64("us")), "a DateTime is needed, not time64"),
    "instants after 9999": ("at", pa.array([0, 2**62], pa.timestamp("s")), "outside the years"),
    "microseconds after 9999": ("at", pa.array([0, 10**18], pa.timestamp("us")), "the years"),
    "fine microseconds": ("at", pa.array([0, 1001], pa.timestamp("us")), "three digits"),
    "fine nanoseconds": ("at", pa.array([0, -1], pa.timestamp("ns")), "three digits"),
    "digits below the millisecond": (
        "at",
        pa.array(["2024-06-01T12:00:00.1230Z", "2024-06-01T12:00:00.1234Z"]),
        "three digits",
    ),
    "days as numbers": ("day", pa.array([None, 19875]), "a Date is needed, not int64"),
    "times for dates": ("day", pa.array([0, 3600], pa.timestamp("s")), "a time of day"),
    "fine times for dates": ("day", pa.array([0, 1], pa.timestamp("ns")), "a time of day"),
    "milliseconds for dates": ("day", pa.array([0, 1]).cast(pa.date64()), "a time of day"),
    "texts with times for dates": (
        "day",
        pa.array(["2024-06-01", "2024-06-01T00:00:00Z"]),
        "a time of day",
    ),
    "milliseconds of many bits": ("at", pa.array([0, 2**64 - 1], pa.uint64()), "outside the years"),
    "vectors of another length": ("v", pa.array([[1.0, 2.0], [1.0]]), "2 dimensions, got 1"),
    "vectors of a fixed other length": (
        "v",
        pa.array([None, [1.0]], pa.list_(pa.float32(), 1)),
        "expects 2 dimensions, got 1",
    ),
    "vectors with a null": ("v", pa.array([[1.0, 2.0], [1.0, None]]), "cannot be null"),
    "vectors of text": ("v", pa.array([None, ["a", "b"]]), "a number is needed, not string"),
    "vectors out of range": ("v", pa.array([[1.0, 2.0], [1e39, 0.0]]), "too large for F32"),
    "numbers for lists": ("nums", pa.array([None, 1]), "an array is needed, not int64"),
    "lists with a null": ("tags", pa.array([["a"], ["b", None]]), "cannot be null"),
    "lists with a null in the dictionary": (
        "tags",
        pa.ListArray.from_arrays([0, 1, 2], dictionary(pa.array(["a", None]))),
        "cannot be null",
    ),
    "lists out of range": ("nums", pa.array([[1, 2], [2**31]]), "2147483648 exceeds I32"),
    "lists in lists": ("tags", pa.array([None, [["a"]]]), "a string is needed, not list"),
    "numbers for bytes": ("blob", pa.array([None, 1]), "bytes are needed, not int64"),
    "text that is not base64": ("blob", pa.array([None, "x"]), 'given as "base64:'),
    "structs": ("text", pa.array([None, {"a": 1}]), "a string is needed, not struct"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "column", "problem"), UNFIT.values(), ids=UNFIT)
def test_a_column_that_would_lose_something_is_refused_at_its_row(
    name: str, column: pa.Array, problem: str
) -> None:
    refused = refuse({"Thing": pa.table({name: column})})

    assert problem in str(refused)
    assert refused.subject == f"row 2, Thing.{name}"


def test_a_broken_dictionary_is_refused() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), broken_text(b"a\xff"))

    refused = refuse({"Thing": pa.table({"text": column})})

    assert "not valid for its Arrow type" in str(refused)


def test_of_several_faults_the_one_in_the_earliest_row_is_reported() -> None:
    table = pa.table(
        {
            "i": [1, 2, 3, 2**40],
            "text": ["a", "b", "c", "d"],
            "v": [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0], [1.0, None]],
            "g": [1.0, 1e39, 1.0, 1.0],
        }
    )

    assert refuse({"Thing": table}).subject == "row 2, Thing.g"
    assert refuse({"Thing": table.drop_columns("g")}).subject == "row 3, Thing.v"


def test_rows_are_counted_across_chunks() -> None:
    column = pa.chunked_array([[1, 2], [3], [2**40]])

    assert refuse({"Thing": pa.table({"i": column})}).subject == "row 4, Thing.i"


# Columns, ids and ends


def test_edges_need_their_ends_and_get_ids() -> None:
    links = pa.table({"dst": ["b", "d"], "src": ["a", "c"]})

    received = receive_all({"links": links}, schema=THINGS)

    assert rows_of(received, "edge:Links") == [
        {"id": "new-1", "src": "a", "dst": "b", "since": None},
        {"id": "new-2", "src": "c", "dst": "d", "since": None},
    ]
    assert not received["edge:Links"].has_given_id


def test_ids_that_are_not_given_are_made() -> None:
    things = pa.table({"id": ["mine", None], "i": [1, 2]})

    received = receive_all({"Thing": things}, schema=THINGS)

    assert [row["id"] for row in rows_of(received, "node:Thing")] == ["mine", "new-1"]
    assert received["node:Thing"].has_given_id


def test_several_producers_of_one_type_are_read_one_after_the_other() -> None:
    parts = [pa.table({"a": ["x"], "b": [1]}), pa.record_batch({"a": ["y"], "b": [2]})]

    received = receive_all({"Pair": parts}, schema=THINGS)

    assert [row["id"] for row in rows_of(received, "node:Pair")] == ['["x","1"]', '["y","2"]']


def test_a_type_without_rows_is_received() -> None:
    received = receive_all({"Thing": pa.table({"i": pa.array([], pa.string())})}, schema=THINGS)

    assert received["node:Thing"].rows.num_rows == 0
    assert not received["node:Thing"].has_given_id


def test_a_struct_array_is_rows() -> None:
    received = receive_all({"Pair": pa.array([{"a": "x", "b": 1}])}, schema=THINGS)

    assert [row["id"] for row in rows_of(received, "node:Pair")] == ['["x","1"]']


def test_a_name_of_a_node_type_and_an_edge_type_has_to_say_which() -> None:
    given = {
        "node:Both": pa.table({"k": ["n"]}),
        "edge:both": pa.table({"src": ["n"], "dst": ["n"]}),
    }

    assert "'node:Both' or 'edge:Both'" in str(refuse({"Both": pa.table({"k": ["n"]})}))
    assert list(receive_all(given, schema=THINGS)) == ["edge:Both", "node:Both"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"Thing": pa.table({"txt": ["a"]})}, "Thing has no property 'txt'; did you mean 'text'?"),
        ({"Thing": pa.table({"_rowid": [1]})}, "'_rowid' is a built-in column"),
        ({"Links": pa.table({"from": ["a"], "src": ["a"], "dst": ["b"]})}, "name the same end"),
        ({"Links": pa.table({"src": ["a"]})}, "the column 'dst' is missing"),
        ({"Links": pa.table({"src": ["a"], "dst": pa.nulls(1)})}, "an edge needs both its ends"),
        ({"Links": pa.table({"src": [1], "dst": ["b"]})}, "a string is needed, not int64"),
        ({"Thing": pa.table([["a"], ["b"]], ["text", "text"])}, "there are 2 columns 'text'"),
        ({"Thng": pa.table({})}, "unknown node type or edge type 'Thng'; did you mean 'Thing'?"),
        ({7: pa.table({})}, "unknown node type or edge type '7'"),
        ({"Thing": pa.array([1])}, "cannot read Arrow rows from a Int64Array"),
        ({"Thing": {"text": "a"}}, "cannot load a value of type dict"),
        ({"Thing": None}, "cannot load a value of type NoneType"),
        ({"Pair": pa.table({"a": ["x"], "b": [1], "id": ["x"]})}, "'x' does not match"),
        ({"Pair": pa.table({"a": ["x"]})}, "missing @key property"),
        ({"Float": pa.table({"f": [math.nan]})}, "nan cannot be a key"),
        (pa.table({"text": ["a"]}), "a mapping from the names of types"),
        (b"{}", "wrap it in io.BytesIO"),
        ([7], "cannot load a value of type int"),
    ],
)
def test_values_that_are_not_rows_of_a_type_are_refused(given: object, problem: str) -> None:
    assert problem in str(refuse(given))


def test_a_spark_frame_is_for_spark() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()

    refused = refuse({"Thing": frame})

    assert 'needs engine="spark"' in str(refused)


def test_a_value_larger_than_a_property_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.engine.input.coerce.PROPERTY_BYTES_MAX", 3)

    for name, column in {"text": ["abc", "abcd"], "tags": [[], ["abcd"]]}.items():
        with pytest.raises(LimitExceededError, match=rf"row 2, Thing\.{name}"):
            receive_all({"Thing": pa.table({name: column})}, schema=THINGS)


def test_rows_larger_than_arrow_can_convert_at_once_are_converted_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("omnigraph.engine.input.arrow.ARROW_PIECE_BYTES_MAX", 64)
    numbers = list(range(100))

    assert read("i", pa.array(numbers)) == numbers
    refused = refuse({"Thing": pa.table({"i": [*numbers, 2**40]})})
    assert refused.subject == "row 101, Thing.i"


@given(st.lists(st.none() | st.integers(-(2**70), 2**70), min_size=1))
def test_integers_fit_exactly_if_they_are_in_range(numbers: list[int | None]) -> None:
    is_fine = all(number is None or -(2**31) <= number < 2**31 for number in numbers)
    column = pa.array(numbers, pa.decimal128(38, 0))

    if is_fine:
        assert read("i", column) == numbers
    else:
        refused = refuse({"Thing": pa.table({"i": column})})
        row = next(r for r, n in enumerate(numbers) if n is not None and not -(2**31) <= n < 2**31)
        assert refused.subject == f"row {row + 1}, Thing.i"


def test_fleet_rows_in_json_and_arrow_are_the_same_rows() -> None:
    lines = [
        '{"type":"Pilot","data":{"handle":"ada","hours":410}}',
        '{"type":"Pilot","data":{"handle":"ben"}}',
    ]
    arrow = pa.table({"hours": [410, None], "handle": ["ada", "ben"]})

    by_json = receive_lines(*lines, schema=FLEET)
    by_arrow = receive_all({"Pilot": arrow}, schema=FLEET)

    assert by_json["node:Pilot"].rows == by_arrow["node:Pilot"].rows
