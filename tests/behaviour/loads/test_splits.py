"""Split inputs: wherever an input is cut, its splits give the rows and errors of the whole."""

import gzip
import json
import pickle
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from omnigraph.engine.input.batches import NOTHING_YET, Counted, RowCounter
from omnigraph.engine.input.sources import read_split
from omnigraph.engine.input.splits import InputFormat, Split, plan_splits
from omnigraph.errors import InvalidValueError, NotFoundError
from omnigraph.model.limits import LOAD_BLOCK_BYTES
from tests.support.graphs import SOCIAL
from tests.support.received import Row, make_read_context, plain_rows, receive_all, rows_of
from tests.support.schemas import compile_text

CONTEXT = make_read_context(compile_text(SOCIAL))


def plan(given: object, *, split_bytes: int | None) -> tuple[Split, ...]:
    """The splits, after a pickle round trip."""
    splits: tuple[Split, ...] = pickle.loads(
        pickle.dumps(plan_splits(given, context=CONTEXT, split_bytes=split_bytes))
    )
    return splits


def read(split: Split, *, before: Counted) -> tuple[list[Row], Counted]:
    """The rows of a split, and what is counted when it has been read."""
    counter = RowCounter(before)
    pieces = list(read_split(split, context=CONTEXT, counter=counter, report=None))
    return [row for piece in pieces for row in plain_rows(piece.rows)], counter.counted


def read_all(splits: tuple[Split, ...]) -> list[Row]:
    """The rows of splits, each read alone."""
    return [row for split in splits for row in read(split, before=NOTHING_YET)[0]]


def people(*names: str) -> bytes:
    """One line per person."""
    lines = [json.dumps({"type": "Person", "data": {"name": name}}) for name in names]
    return "".join(f"{line}\n" for line in lines).encode()


# Lines

CONTENTS = {
    "lines of one type": people("Ann", "Bob", "C" * 70, "Dan"),
    "no end of the last line": people("Ann", "Bob", "Cid").rstrip(),
    "blank lines": b"\n\n" + people("Ann") + b"  \n\r\n" + people("Bob") + b"\n\n\n" + people("C"),
    "foreign line ends": people("Ann", "Bob", "Cid").replace(b"\n", b"\r\n"),
    "a byte order mark": b"\xef\xbb\xbf" + people("Ann", "Bob"),
    "several types": people("Ann") + b'{"type":"Company","data":{"name":"A"}}\n' + people("Bob"),
    "letters of many bytes": people("Äöü", "日本語", "😀" * 9),
    "nothing": b"",
    "nothing but line ends": b"\n\n\n",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("least_bytes_at_once", [0, 1000])
def test_wherever_lines_are_cut_each_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, least_bytes_at_once: int
) -> None:
    limit = "omnigraph.engine.input.ndjson.LOAD_BLOCK_BYTES_MIN"
    monkeypatch.setattr(limit, least_bytes_at_once)
    path = tmp_path / "people.jsonl"
    path.write_bytes(content)
    (whole,) = plan(path, split_bytes=None)
    expected, counted = read(whole, before=NOTHING_YET)

    for split_bytes in (1, 2, 3, *range(5, len(content) + 1, 13)):
        splits = plan(path, split_bytes=split_bytes)
        before, found = NOTHING_YET, list[Row]()
        for split in splits:
            rows, before = read(split, before=before)
            found += rows
        assert sorted(map(str, found)) == sorted(map(str, expected))
        assert before == counted
        assert read_all(splits) == found
        assert sum(split.size for split in splits) == len(content)


def test_a_line_longer_than_many_splits_and_blocks_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    names = ["Ann", "x" * (2 * LOAD_BLOCK_BYTES), "Bob", "y" * LOAD_BLOCK_BYTES]
    path.write_bytes(people(*names))

    splits = plan(path, split_bytes=LOAD_BLOCK_BYTES // 3)

    assert len(splits) > 8
    assert [row["name"] for row in read_all(splits)] == names


@pytest.mark.parametrize("bad", range(6))
def test_a_split_read_again_with_its_counts_says_what_the_whole_file_says(
    tmp_path: Path, bad: int
) -> None:
    path = tmp_path / "people.jsonl"
    lines = [*people(*"abcdef").splitlines(keepends=True)]
    lines[bad] = b'\n{"type":"Person","data":{"name":7}}\n\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(InvalidValueError) as inline:
        receive_all(path, schema=SOCIAL)

    before = NOTHING_YET
    with pytest.raises(InvalidValueError) as refused:  # noqa: PT012
        for split in plan(path, split_bytes=60):
            _, counted = read(split, before=NOTHING_YET)
            before = Counted(before.records + counted.records, before.lines + counted.lines)
    with pytest.raises(InvalidValueError) as again:
        read(split, before=before)

    assert str(again.value) == str(inline.value)
    assert f"record {bad + 1} (line {bad + 2})" in str(again.value)
    assert str(refused.value).partition("record")[0] == f"{path}: "


def test_a_byte_order_mark_is_passed_over_only_where_a_file_begins(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    start = len(people("Ann"))
    path.write_bytes(people("Ann") + b"\xef\xbb\xbf" + people("Bob"))
    (whole,) = plan(path, split_bytes=None)

    for split in (whole, replace(whole, start=start, end=whole.size)):
        with pytest.raises(InvalidValueError, match="invalid JSON"):
            read(split, before=NOTHING_YET)


def test_compressed_lines_are_not_cut_however_they_are_named(tmp_path: Path) -> None:
    for name in ("people.jsonl", "people.jsonl.gz"):
        (tmp_path / name).write_bytes(gzip.compress(people(*map(str, range(100)))))

        (split,) = plan(tmp_path / name, split_bytes=10)

        assert (split.start, split.end) == (0, None)
        assert len(read_all((split,))) == 100


def test_planning_splits_does_not_read_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "Person.parquet").write_bytes(b"no Parquet")

    (split,) = plan(tmp_path, split_bytes=100)

    assert split == Split(
        f"{tmp_path}/Person.parquet", InputFormat.PARQUET, "node:Person", 0, None, 10, None, None
    )


def test_a_split_is_small_enough_to_send_many_of_them(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_bytes(people(*map(str, range(1000))))

    splits = plan(path, split_bytes=10)

    assert len(splits) > 1000
    assert len(pickle.dumps(splits)) / len(splits) < 100


# Rows in columns

MANY = pa.table({"name": [f"person {number}" for number in range(1000)]})


def write_parquet(path: Path) -> Path:
    parquet.write_table(MANY, path / "Person.parquet", row_group_size=100)
    return path / "Person.parquet"


def write_arrow(path: Path) -> Path:
    with ipc.new_file(path / "Person.arrow", MANY.schema) as writer:
        writer.write_table(MANY, max_chunksize=100)
    return path / "Person.arrow"


def write_lance(path: Path) -> Path:
    lance.write_dataset(MANY, path / "Person.lance", max_rows_per_file=100, max_rows_per_group=100)
    return path / "Person.lance"


@pytest.mark.parametrize("write", [write_parquet, write_arrow, write_lance])
def test_files_of_columns_are_cut_between_their_parts(tmp_path: Path, write: object) -> None:
    assert callable(write)
    path = write(tmp_path)

    whole = plan(path, split_bytes=None)
    fine = plan(path, split_bytes=1)
    coarse = plan(path, split_bytes=3 * fine[0].size)

    assert (len(whole), len(fine)) == (1, 10)
    assert len(coarse) in (4, 5)
    expected = rows_of(receive_all(path, schema=SOCIAL), "node:Person")
    assert len(expected) == 1000
    for splits in (whole, fine, coarse):
        assert read_all(splits) == expected


def test_rows_are_counted_across_the_splits_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "Person.parquet"
    rows = pa.table({"name": list("abcdef"), "age": pa.array([1, 2, 3, 4, 2**40, 6])})
    parquet.write_table(rows, path, row_group_size=2)
    first, second, third = plan(path, split_bytes=1)

    _, before = read(first, before=NOTHING_YET)
    _, before = read(second, before=before)

    with pytest.raises(InvalidValueError, match=r"Person\.parquet: row 5, Person\.age"):
        read(third, before=before)


def test_a_lance_table_that_changes_after_planning_is_read_as_it_was(tmp_path: Path) -> None:
    path = write_lance(tmp_path)
    splits = plan(path, split_bytes=1)

    lance.write_dataset(MANY.slice(0, 1), path, mode="overwrite")

    assert len(read_all(splits)) == 1000


def test_planning_splits_refuses_the_same_inputs_as_reading(tmp_path: Path) -> None:
    path = write_parquet(tmp_path)

    with pytest.raises(NotFoundError, match="nowhere"):
        plan([path, tmp_path / "nowhere"], split_bytes=None)
    with pytest.raises(InvalidValueError, match="cannot load a value of type int"):
        plan({"Person": 7}, split_bytes=None)
