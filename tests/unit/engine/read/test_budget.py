"""What a query may cost, and what it hears when it costs more."""

import pytest

from omnigraph.engine.read.budget import Allowance, Budget
from omnigraph.errors import LimitExceededError
from tests.support.clocks import HandClock


def make_budget(
    *, bytes_max: int = 1_000, seconds_max: float = 5.0, clock: HandClock | None = None
) -> Budget:
    """A budget that starts now, by a clock that does not advance unless one is given."""
    return Budget(Allowance(bytes_max, seconds_max, (clock or HandClock()).monotonic))


def test_a_query_may_hold_as_many_bytes_as_its_budget_and_no_more() -> None:
    budget = make_budget(bytes_max=1_000)

    budget.require_bytes(1_000)

    with pytest.raises(LimitExceededError) as refused:
        budget.require_bytes(1_001)
    assert (refused.value.limit, refused.value.found) == (1_000, 1_001)
    assert "memory" in str(refused.value)


def test_a_row_costs_eight_bytes_a_column() -> None:
    budget = make_budget(bytes_max=1_000)

    budget.require_rows(25, width=5)

    with pytest.raises(LimitExceededError):
        budget.require_rows(26, width=5)


def test_a_row_that_binds_nothing_costs_as_much_as_one_column() -> None:
    budget = make_budget(bytes_max=80)

    budget.require_rows(10, width=0)

    with pytest.raises(LimitExceededError):
        budget.require_rows(11, width=0)


def test_a_query_may_run_until_its_time_is_over() -> None:
    clock = HandClock()
    clock.sleep(100)
    budget = make_budget(seconds_max=5, clock=clock)

    clock.sleep(5)
    budget.require_time()

    clock.sleep(2)
    with pytest.raises(LimitExceededError) as refused:
        budget.require_time()
    assert (refused.value.limit, refused.value.found) == (5, 7)
    assert "seconds" in str(refused.value)


def test_the_time_limit_is_checked_when_rows_are_requested() -> None:
    clock = HandClock()
    budget = make_budget(seconds_max=5, clock=clock)
    clock.sleep(6)

    with pytest.raises(LimitExceededError):
        budget.require_rows(0, width=1)
