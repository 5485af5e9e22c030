"""Reading continues after a fault: each fault is reported as it would be alone."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from omnigraph.engine.input.batches import NOTHING_YET, Counted, RowBatch, RowCounter, RowError
from omnigraph.engine.input.sources import read_split
from omnigraph.engine.input.splits import plan_splits
from omnigraph.errors import InvalidValueError, UnreadableError
from tests.support.graphs import SOCIAL
from tests.support.received import make_read_context, plain_rows, receive_all, rows_of
from tests.support.schemas import compile_text

CONTEXT = make_read_context(compile_text(SOCIAL))
BAD_LINES = [
    b"not JSON",
    b'{"type":"Person"}',
    b'{"type":"Person","data":{"name":"a","name":"b"}}',
    b'{"type":"Person","data":{"name":"a","age":2147483648}}',
    b'{"type":"Person","data":{"name":"a","size":1}}',
    b'{"type":"Person","data":{"name":"a","id":"b"}}',
    b'{"edge":"Knows","from":"a"}',
    b'{"edge":"Knows","from":"a","to":"b","data":{"since":"soon"}}',
    b'{"type":"Robot"}',
    b'{"type":"Person","data":{"name":"\xff"}}',
    b"[]",
]


def read(path: Path) -> tuple[list[RowBatch], list[RowError], Counted]:
    """The rows read of a file, its faults, and the counts."""
    faults: list[RowError] = []
    counter = RowCounter(NOTHING_YET)
    (split,) = plan_splits(path, context=CONTEXT, split_bytes=None)
    pieces = list(read_split(split, context=CONTEXT, counter=counter, report=faults.append))
    return pieces, faults, counter.counted


def names_of(pieces: list[RowBatch]) -> list[object]:
    """The names of the people that were read."""
    rows = [piece.rows for piece in pieces if piece.declared.name == "Person"]
    return [row["name"] for each in rows for row in plain_rows(each)]


def person(name: str) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name}}).encode()


def test_refused_lines_are_skipped_and_reported_as_if_each_were_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "people.jsonl"
    lines = [b""]
    for number, bad in enumerate(BAD_LINES):
        lines += [person(f"before {number}"), bad, bad, b" ", person(f"after {number}")]
    path.write_bytes(b"\n".join(lines))

    pieces, faults, counted = read(path)

    expected = [
        f"{word} {number}" for number in range(len(BAD_LINES)) for word in ("before", "after")
    ]
    assert names_of(pieces) == expected
    assert [fault.original for fault in faults] == [each for each in BAD_LINES for _ in range(2)]
    assert counted == Counted(4 * len(BAD_LINES), len(lines) - 1)
    for fault in faults:
        assert fault.place.line is not None
        upto = lines[: fault.place.line]
        good = [each if each not in BAD_LINES else person("x") for each in upto[:-1]]
        path.write_bytes(b"\n".join([*good, upto[-1]]))
        with pytest.raises(InvalidValueError) as alone:
            receive_all(path, schema=SOCIAL)
        assert fault.message == str(alone.value)
        assert fault.message.startswith(f"{fault.place}")


def test_a_file_of_nothing_but_faults_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(b"\n".join([b'{"type":"Person"}'] * 2000))

    pieces, faults, counted = read(path)

    assert sum(piece.rows.num_rows for piece in pieces) == 0
    assert [fault.place.record for fault in faults] == list(range(1, 2001))
    assert counted == Counted(2000, 1999)


def test_one_fault_among_many_lines_costs_only_its_line(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    lines = [person(str(number)) for number in range(60_000)]
    lines[45_678] = person("x").replace(b'"x"', b"5")
    path.write_bytes(b"\n".join(lines))

    pieces, (fault,), _ = read(path)

    assert names_of(pieces) == [str(each) for each in range(60_000) if each != 45_678]
    assert (fault.place.record, fault.place.line) == (45_679, 45_679)


def test_a_row_knows_its_line_and_how_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    lines = [
        b'  {"type": "Person", "data": {"name": "Ann"}}\r',
        b'{"type":"Company","data":{"name":"Acme"}}',
        b"oops",
        b"",
        b'{"edge":"knows","from":"Ann","to":"Bob"}',
        b'{"type":"Person","data":{"name":"Bob"}}',
        b'{"edge":"KNOWS","from":"Bob","to":"Ann"}',
    ]
    path.write_bytes(b"\n".join(lines))

    pieces, _, _ = read(path)

    found = {
        (piece.declared.name, place.record, place.line): piece.origin.original(row)
        for piece in pieces
        for row in range(piece.rows.num_rows)
        for place in [piece.origin.locate(row)]
    }
    assert found == {
        ("Person", 1, 1): lines[0].strip(),
        ("Company", 2, 2): lines[1],
        ("Knows", 4, 5): lines[4],
        ("Person", 5, 6): lines[5],
        ("Knows", 6, 7): lines[6],
    }


def test_a_row_among_thousands_of_one_type_knows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    lines = [person(str(number)) for number in range(120_000)]
    path.write_bytes(b"\n".join(lines))

    pieces, _, counted = read(path)

    assert len(pieces) > 1
    assert counted == Counted(120_000, 119_999)
    last = pieces[-1].rows.num_rows - 1
    place = pieces[-1].origin.locate(last)
    assert (place.record, place.line) == (120_000, 120_000)
    assert pieces[-1].origin.original(last) == lines[-1]
    assert pieces[1].origin.locate(0).record == pieces[0].rows.num_rows + 1


def test_refused_rows_of_a_columnar_file_are_skipped_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "Person.parquet"
    ages = [1, 2**31, None, 4, -(2**40), 6]
    parquet.write_table(pa.table({"name": [*"abcde", None], "age": pa.array(ages)}), path)

    pieces, faults, counted = read(path)

    assert names_of(pieces) == ["a", "c", "d"]
    assert [(fault.place.record, fault.place.line) for fault in faults] == [
        (2, None),
        (5, None),
        (6, None),
    ]
    assert faults[0].message.startswith(f"{path}: row 2, Person.age: 2147483648 exceeds I32")
    assert faults[0].original == b'{"type":"Person","data":{"name":"b","age":2147483648}}'
    assert counted == Counted(6, 0)
    (piece,) = pieces
    assert [piece.origin.locate(row).record for row in range(3)] == [1, 3, 4]


def test_refused_rows_of_a_csv_file_are_skipped_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    path.write_bytes(b"name,age\na,1\nb\nc,many\nd,4\n\ne,5,6\nf,\n,7\ng\xff,8\nh,9\ni\n")

    pieces, faults, counted = read(path)

    assert names_of(pieces) == ["a", "d", "f", "h"]
    assert sorted((fault.place.record, fault.message.partition(": ")[2]) for fault in faults) == [
        (2, "row 2: Expected 2 columns, got 1"),
        (3, "row 3, Person.age: a whole number is needed, not 'many'"),
        (5, "row 5: Expected 2 columns, got 3"),
        (7, "row 7, Person.name: missing @key property; a required property cannot be null or "
            "invalid"),
        (8, "row 8, Person.name: the field holds invalid UTF8; a required property cannot be null "
            "or invalid"),
        (10, "row 10: Expected 2 columns, got 1"),
    ]  # fmt: skip
    assert counted == Counted(10, 0)
    located = [
        piece.origin.locate(row).record for piece in pieces for row in range(piece.rows.num_rows)
    ]
    assert located == [1, 4, 6, 9]


def test_a_row_of_columns_reads_as_a_line_that_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "Knows.parquet"
    rows = {"src": ["Ann", 'a"b'], "dst": ["Bob", "c"], "since": ["2024-06-01", None]}
    parquet.write_table(pa.table({**rows, "id": [None, "k"]}), path)

    (piece,), _, _ = read(path)
    (tmp_path / "again.jsonl").write_bytes(b"\n".join(map(piece.origin.original, range(2))))

    received = receive_all(tmp_path / "again.jsonl", schema=SOCIAL)
    assert [{**row, "id": None} for row in rows_of(received, "edge:Knows")] == [
        {**row, "id": None} for row in plain_rows(piece.rows)
    ]
    assert json.loads(piece.origin.original(0))["data"] == {"since": "2024-06-01"}
    assert json.loads(piece.origin.original(1))["data"]["id"] == "k"


def test_an_unreadable_file_is_an_error_and_not_a_row_fault(tmp_path: Path) -> None:
    for name in ("people.gz", "Person.parquet"):
        (tmp_path / name).write_bytes(b"something else")
        with pytest.raises(UnreadableError):
            read(tmp_path / name)


def test_an_unknown_column_is_an_error_and_not_a_row_fault(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"name": ["a"], "size": [1]}), tmp_path / "Person.parquet")

    with pytest.raises(InvalidValueError, match="has no property 'size'"):
        read(tmp_path / "Person.parquet")
