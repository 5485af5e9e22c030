"""Claims of readers and clean-ups as they are stored."""

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from omnigraph.engine.state.readers import ReadClaim, decode_claim, encode_claim
from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import LEASE_CLOCK_SKEW_S_MAX
from omnigraph.storage.ports import TableRef, TableVersion

TIMESTAMP = datetime(2026, 5, 1, 12, tzinfo=UTC)
CLAIM = ReadClaim(
    frozenset(
        {
            TableVersion(TableRef("nodes/a", None), 3),
            TableVersion(TableRef("nodes/a", "feature/x"), 4),
        }
    ),
    TIMESTAMP,
)


@pytest.mark.parametrize("claim", [CLAIM, ReadClaim(frozenset(), TIMESTAMP)])
def test_a_claim_is_read_as_it_was_written(claim: ReadClaim) -> None:
    assert decode_claim(encode_claim(claim), path="p") == claim


def test_a_claim_is_over_when_no_clock_can_be_that_wrong() -> None:
    skew = timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)

    assert not CLAIM.is_over(TIMESTAMP + skew)
    assert CLAIM.is_over(TIMESTAMP + skew + timedelta(milliseconds=1))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format_version": 2}, "format 2"),
        ({"expires_at": "soon"}, "not a valid timestamp"),
        ({"expires_at": "2026-05-01T12:00:00"}, "no time zone"),
        ({"versions": [{"table_path": "nodes/a"}]}, "a field is missing"),
        ({"versions": None}, "a field is missing"),
    ],
)
def test_an_invalid_claim_is_rejected(change: dict[str, object], problem: str) -> None:
    document = {**orjson.loads(encode_claim(CLAIM)), **change}

    with pytest.raises(CorruptError, match=problem):
        decode_claim(orjson.dumps(document), path="__readers/r.json")


def test_a_claim_that_is_not_valid_json_is_rejected() -> None:
    with pytest.raises(CorruptError, match="not valid JSON"):
        decode_claim(b"{", path="__readers/r.json")
