"""Repeated members are found wherever they stand, and nothing else is taken for one."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from omnigraph.engine.input.ndjson import find_repeated_member, has_more_members

TEXTS = st.text(st.sampled_from('a":\\ \t\r,{}'), max_size=4) | st.sampled_from(["data", "", "a"])
NAMES = st.sampled_from(["data", "a", "b", ":", '"', '":', " :", "\u00e9"])
BLANKS = st.sampled_from(["", " ", "\t", "\r", "  "])


@st.composite
def objects(draw: st.DrawFn, values: SearchStrategy[str]) -> str:
    """The text of a JSON object, its members perhaps repeated, with blanks anywhere."""
    members = draw(st.lists(st.tuples(NAMES, BLANKS, BLANKS, values), max_size=3))
    is_ascii = draw(st.booleans())
    return (
        "{"
        + ",".join(
            f"{json.dumps(name, ensure_ascii=is_ascii)}{before}:{after}{value}"
            for name, before, after, value in members
        )
        + "}"
    )


SCALARS = TEXTS.map(json.dumps) | st.sampled_from(["1", "null", '"\\u003a"', '"\\":"', '":"'])
LINES = objects(SCALARS | objects(SCALARS) | objects(SCALARS).map("[{}]".format))


def has_repeats(line: str) -> bool:
    """Whether some object has a name twice, according to a parser that shows every member."""
    found: list[bool] = []
    json.loads(line, object_pairs_hook=lambda pairs: found.append(len(dict(pairs)) < len(pairs)))
    return any(found)


@given(LINES)
def test_a_repeated_member_is_found_exactly_where_there_is_one(line: str) -> None:
    record = orjson.loads(line)

    member = find_repeated_member(line.encode(), record)

    assert (member is not None) == has_repeats(line)


@given(st.lists(LINES, min_size=1, max_size=4))
def test_lines_that_are_passed_over_repeat_no_member(lines: list[str]) -> None:
    records = [orjson.loads(line) for line in lines]
    retained = sum(_count_members(record) for record in records)

    may_repeat = has_more_members("\n".join(lines).encode(), retained)

    assert may_repeat or not any(map(has_repeats, lines))


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"Pilot","data":{"handle":"ada"}}',
        '{ "type" : "Pilot" , "data"\t:\r{ "handle" : "see 12:30 http://x" } }',
    ],
)
def test_ordinary_lines_are_passed_over_at_once(line: str) -> None:
    assert not has_more_members(line.encode(), 3)


def test_members_of_deeply_nested_arrays_are_left_to_their_type() -> None:
    line = '{"a":' + "[" * 1000 + '{"b":1,"b":2}' + "]" * 1000 + "}"

    assert find_repeated_member(line.encode(), orjson.loads(line)) is None


def _count_members(record: dict[str, object]) -> int:
    properties = record.get("data")
    return len(record) + (len(properties) if isinstance(properties, dict) else 0)
