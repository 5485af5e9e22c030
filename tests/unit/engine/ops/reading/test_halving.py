"""Those that are refused are found among many, with few attempts if they are few."""

import pytest

from omnigraph.engine.ops.reading.halving import find_refused
from omnigraph.errors import RequestError


@pytest.mark.parametrize(
    ("count", "bad"),
    [(0, set()), (1, set()), (1, {0}), (7, {0, 3, 6}), (8, {7}), (5, {0, 1, 2, 3, 4})],
)
def test_exactly_those_that_are_refused_are_found_in_order(count: int, bad: set[int]) -> None:
    def attempt(start: int, end: int) -> None:
        found = sorted(bad & set(range(start, end)))
        if found:
            raise RequestError(f"number {found[0]}")

    refused = list(find_refused(count, attempt))

    assert [index for index, _ in refused] == sorted(bad)
    assert [str(error) for _, error in refused] == [f"number {index}" for index in sorted(bad)]


def test_one_among_thousands_takes_few_attempts() -> None:
    attempts = []

    def attempt(start: int, end: int) -> None:
        attempts.append((start, end))
        if start <= 1234 < end:
            raise RequestError("number 1234")

    ((index, _),) = find_refused(4096, attempt)

    assert index == 1234
    assert len(attempts) <= 2 * 12 + 1
