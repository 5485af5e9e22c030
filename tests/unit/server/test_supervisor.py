"""What becomes of a server when one of its workers ends."""

import pytest

from omnigraph.model.limits import PROCESS_RESTARTS_MAX
from omnigraph.server.supervisor import find_exit_code


@pytest.mark.parametrize(
    ("code", "was_ready", "recent_ends", "expected"),
    [
        (-9, True, 1, None),
        (1, True, 1, None),
        (0, True, 1, None),
        # It was killed while it started.
        (-9, False, 1, None),
        (1, False, 1, 1),
        (3, False, 1, 3),
        (-9, True, PROCESS_RESTARTS_MAX, None),
        (-9, True, PROCESS_RESTARTS_MAX + 1, 1),
    ],
)
def test_a_worker_is_replaced_unless_it_cannot_start_or_too_many_ended(
    code: int, *, was_ready: bool, recent_ends: int, expected: int | None
) -> None:
    assert find_exit_code(code, was_ready=was_ready, recent_ends=recent_ends) == expected
