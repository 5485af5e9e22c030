"""Pending rows: the latest image of each id, and ids removed once."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.rows.snapshot_rows import PendingRows, keep_last
from omnigraph.model.source import Source
from omnigraph.storage.row_files import table_schema

PERSON = compile_schema(Source("s", "node Person { name: String @key  age: I32? }")).nodes["Person"]


def rows(**age_by_name: int) -> pa.Table:
    """People, in the order of the arguments."""
    names, ages = list(age_by_name), list(age_by_name.values())
    return pa.table([names, pa.array(ages, pa.int32()), names], schema=table_schema(PERSON))


def ages(people: pa.Table) -> dict[str, int]:
    """Who is how old."""
    return dict(zip(people["id"].to_pylist(), people["age"].to_pylist(), strict=True))


def test_the_last_row_of_an_id_is_its_row_version() -> None:
    pending = PendingRows(PERSON)

    pending.put(rows(ann=1, bob=2), replaces_committed=False)
    pending.put(rows(ann=3), replaces_committed=True)

    assert ages(pending.rows()) == {"bob": 2, "ann": 3}
    assert pending.replaces_committed


def test_an_id_is_removed_once() -> None:
    pending = PendingRows(PERSON)

    fresh = [pending.remove(pa.array(ids)).to_pylist() for ids in (["a", "b", "a"], ["b", "c"])]

    assert fresh == [["a", "b"], ["c"]]
    assert pending.removed.to_pylist() == ["a", "b", "c"]


def test_nothing_done_is_empty() -> None:
    pending = PendingRows(PERSON)
    pending.remove(pa.array([], pa.string()))

    assert pending.is_empty


@given(st.lists(st.sampled_from("abcdef")))
def test_keeping_the_last_of_each_id_keeps_their_order(ids: list[str]) -> None:
    numbered = pa.table({"id": pa.array(ids, pa.string()), "number": range(len(ids))})

    latest = keep_last(numbered)

    expected = sorted({each: number for number, each in enumerate(ids)}.values())
    assert latest["number"].to_pylist() == expected
