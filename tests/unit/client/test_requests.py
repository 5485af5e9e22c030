"""Parameters on their way to a server: Python values become JSON, or are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from omnigraph.client.requests import encode_body, plain_params
from omnigraph.errors import InvalidValueError


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        (2**63, 2**63),
        (np.int64(7), 7),
        (0.1, 0.1),
        (np.float32(0.5), 0.5),
        (date(2024, 1, 2), "2024-01-02"),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), "2024-01-02T03:00:00+00:00"),
        (datetime(2024, 1, 2, 3), "2024-01-02T03:00:00+00:00"),  # noqa: DTZ001  # as embedded
        (
            datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
            "2024-01-02T02:00:00+00:00",
        ),
        (
            datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
            "2024-01-02T03:04:05.123456+00:00",
        ),
        ((1, 2), [1, 2]),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
    ],
)
def test_a_value_is_sent_as_json_has_it(given: object, sent: object) -> None:
    assert plain_params({"p": given}) == {"p": sent}


@pytest.mark.parametrize(
    "given", [float("nan"), float("inf"), [1.0, float("nan")], b"bytes", object(), "\ud800"]
)
def test_values_without_a_json_form_are_refused(given: object) -> None:
    with pytest.raises(InvalidValueError, match="param 'p'"):
        plain_params({"p": given})


def test_params_are_a_mapping() -> None:
    with pytest.raises(InvalidValueError, match="expected a mapping, got list"):
        plain_params([1])


def test_a_number_of_more_than_64_bits_is_sent_in_full() -> None:
    assert encode_body({"n": 10**30, "left_out": None}) == b'{"n": 1000000000000000000000000000000}'
