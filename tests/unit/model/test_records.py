"""Records: what is stored of a dataclass, and what is refused when it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

import orjson
import pytest

from omnigraph.model.records import RecordError, decode_record, encode_record


class Colour(StrEnum):
    RED = "red"


class Pair(NamedTuple):
    name: str
    number: int | None


@dataclass(frozen=True)
class Part:
    size: float


@dataclass(frozen=True)
class Record:
    id: str = field(metadata={"json": None})
    colour: Colour
    made_at: datetime = field(metadata={"json": "time"})
    part: Part
    counts: Mapping[str, int]
    owner: str | None
    pairs: tuple[Pair, ...] = ()


RECORD = Record(
    id="a",
    colour=Colour.RED,
    made_at=datetime(2026, 1, 2, tzinfo=UTC),
    part=Part(1.5),
    counts={"x": 1},
    owner=None,
)
STORED: Mapping[str, object] = {
    "format_version": 1,
    "colour": "red",
    "time": "2026-01-02T00:00:00+00:00",
    "part": {"size": 1.5},
    "counts": {"x": 1},
    "owner": None,
}


def read(document: object) -> Record:
    return decode_record(Record, orjson.dumps(document), version=1, id="a")


def test_a_record_is_stored_by_its_fields_without_an_empty_optional_one() -> None:
    assert orjson.loads(encode_record(RECORD, version=1)) == STORED
    assert read(STORED) == RECORD


def test_a_named_tuple_is_stored_as_a_list() -> None:
    found = read({**STORED, "pairs": [["x", 1], ["y", None]]})

    assert found.pairs == (Pair("x", 1), Pair("y", None))
    assert orjson.loads(encode_record(found, version=1))["pairs"] == [["x", 1], ["y", None]]


def test_an_unknown_member_is_ignored_and_a_whole_number_is_a_float() -> None:
    assert read({**STORED, "later": [1], "part": {"size": 2}}).part == Part(2.0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format_version": 2}, "it has format 2, this version of OmniGraph reads 1"),
        ({"format_version": None}, "a field is missing"),
        ({"colour": "blue"}, "blue"),
        ({"time": "2026-01-02"}, "no time zone"),
        ({"part": [1.5]}, "a field is missing"),
        ({"part": {}}, "a field is missing"),
        ({"counts": {"x": "1"}}, "a field is missing"),
        ({"owner": 1}, "a field is missing"),
        ({"pairs": [["x"]]}, "a field is missing"),
        ({"pairs": None}, "a field is missing"),
    ],
)
def test_a_record_with_another_member_is_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(RecordError, match=problem):
        read({**STORED, **change})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_a_content_that_is_no_record_is_refused(content: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(Record, content, version=1, id="a")
