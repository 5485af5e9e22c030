"""Finding what is refused among many: halves of a range are tried until single ones are left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from omnigraph.model.errors import RequestError


def find_refused(
    count: int, attempt: Callable[[int, int], object]
) -> Iterator[tuple[int, RequestError]]:
    """The numbers of those that are refused on their own, in order, each with its refusal.

    `attempt` reads those from a number up to another and raises if any of them is refused.
    """
    waiting = [(0, count)] if count else []
    while waiting:
        start, end = waiting.pop()
        try:
            attempt(start, end)
        except RequestError as refusal:
            if end - start == 1:
                yield start, refusal
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
