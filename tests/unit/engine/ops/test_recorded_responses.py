"""Requests with a key: what is the same request, and what a commit keeps of one."""

from datetime import UTC, date, datetime

import numpy as np
import orjson
import pyarrow as pa
import pytest

from omnigraph.engine.ops.recorded_responses import make_request
from omnigraph.engine.state.history import CommitNotes, RecordedResponse, decode_notes
from omnigraph.errors import InvalidValueError
from omnigraph.model.records import RecordError, encode_fields

SAME: list[tuple[object, object]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([1, 2], (1, 2)),
    ({("Person", "ann"): "source"}, {("Person", "ann"): "source"}),
    (date(2026, 1, 2), date(2026, 1, 2)),
    (pa.array([1.5, 2.5]), [1.5, 2.5]),
    ({"x", "y"}, {"y", "x"}),
]

OTHER: list[tuple[object, object]] = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ({"a": "1"}, {"a": 1}),
    ({"a": None}, {}),
    (2**64, 2**64 + 1),
    (0.1, 0.1 + 1e-16),
    ("a", b"a"),
    (date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC)),
    (np.arange(5_000.0), np.append(np.arange(4_999.0), -1)),
    (pa.array(range(5_000)), pa.array([*range(4_999), -1])),
    ([["a"], "b"], ["a", ["b"]]),
    ("\ud800", "?"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_requests_have_equal_digests(one: object, other: object) -> None:
    assert make_request("k", "mutate", one) == make_request("k", "mutate", other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_different_requests_have_different_digests(one: object, other: object) -> None:
    assert make_request("k", "mutate", one) != make_request("k", "mutate", other)
    assert make_request("k", "mutate", one) != make_request("k", "load", one)


def test_a_request_without_a_key_is_none() -> None:
    assert make_request(None, "mutate") is None


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_is_too_short_or_too_long_is_refused(key: str) -> None:
    with pytest.raises(InvalidValueError, match="1 to 255 characters"):
        make_request(key, "mutate")


def test_a_recorded_response_is_read_back_as_it_was_written() -> None:
    notes = CommitNotes(picked_id="x", request=RecordedResponse('k"1', "00", '{"a":1}'))

    fields = orjson.loads(orjson.dumps(encode_fields(notes)))

    assert decode_notes(fields) == notes


@pytest.mark.parametrize("broken", ["k", [], ["k", "00"], ["k", "00", {}], ["k", 0, "{}"]])
def test_a_request_that_lacks_a_part_is_refused(broken: object) -> None:
    with pytest.raises(RecordError):
        decode_notes({"request": broken})
