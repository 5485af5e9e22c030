"""Histories that are isolated because nothing in them happened at once, and ways to spoil one.

Every transaction of a generated history takes effect at one moment within its time, one after the
other, and some fail or end unknown; so it has an order. A flaw is planted after its end: what is
planted no order explains, whatever came before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from hypothesis import strategies as st

from tests.support.histories import (
    Append,
    History,
    Operation,
    Outcome,
    Read,
    ReadList,
    ReadSet,
    Transaction,
)

LISTS = ("x", "y")
BAG = "bag"
KEYS = (*LISTS, BAG)

STEP = 10  # the time between two transactions' effects
SPREAD_MAX = 4 * STEP  # so that a transaction overlaps a few others
FRESH = 1_000  # no generated history appends this many values


class Fate(Enum):
    """What becomes of a transaction, and what its client hears."""

    OK = auto()
    FAILED = auto()
    UNKNOWN_BUT_DONE = auto()
    UNKNOWN_AND_NOT_DONE = auto()


@dataclass(frozen=True, slots=True)
class Plan:
    """A transaction to be: what it reads and appends to, and how much earlier and later it runs."""

    reads: frozenset[str]
    appends: tuple[str, ...]
    fate: Fate
    earlier: int
    later: int


def plans() -> st.SearchStrategy[Plan]:
    """Any transaction."""
    spread = st.integers(0, SPREAD_MAX)
    return st.builds(
        Plan,
        reads=st.frozensets(st.sampled_from(KEYS)),
        appends=st.lists(st.sampled_from(KEYS), max_size=3).map(tuple),
        fate=st.sampled_from(Fate),
        earlier=spread,
        later=spread,
    )


def serial_histories() -> st.SearchStrategy[History]:
    """Any history that has an order: two appends to each key, anything, a look at everything."""
    first = [Plan(frozenset(), KEYS, Fate.OK, 0, 0)] * 2
    last = Plan(frozenset(KEYS), (), Fate.OK, 0, 0)
    return st.lists(plans(), max_size=10).map(lambda middle: run_serially([*first, *middle, last]))


def run_serially(planned: Sequence[Plan]) -> History:
    """What clients see who run such transactions one after the other."""
    state: dict[str, tuple[int, ...]] = dict.fromkeys(KEYS, ())
    history: list[Transaction] = []
    value = 0
    for number, plan in enumerate(planned):
        reads = [look(key, state[key]) for key in sorted(plan.reads)]
        appends = [Append(key, value + place) for place, key in enumerate(plan.appends)]
        value += len(appends)
        if plan.fate in (Fate.OK, Fate.UNKNOWN_BUT_DONE):
            for each in appends:
                state[each.key] = (*state[each.key], each.value)
        # The last one reads a state that no longer changes.
        at = STEP * number + (2 * SPREAD_MAX if plan is planned[-1] else 0)
        history.append(
            make_transaction(
                number, at - plan.earlier, at + plan.later, plan.fate, [*reads, *appends]
            )
        )
    return history


def look(key: str, values: tuple[int, ...]) -> Read:
    """A read of a list or of the set."""
    return ReadSet(key, values) if key == BAG else ReadList(key, values)


def make_transaction(
    number: int, started: int, ended: int, fate: Fate, operations: Sequence[Operation]
) -> Transaction:
    """A transaction whose client heard what its fate says."""
    outcome = {Fate.OK: Outcome.OK, Fate.FAILED: Outcome.FAILED}.get(fate, Outcome.UNKNOWN)
    return Transaction("c", number, started, ended, tuple(operations), outcome, None)


# Flaws


Call = tuple[Fate, Sequence[Operation]]


def after(history: History, *calls: Call) -> History:
    """A history and what came later, one after the other."""
    for call in calls:
        history = at_once(history, call)
    return history


def at_once(history: History, *calls: Call) -> History:
    """A history and what came later, all at the same time."""
    start = history[-1].started + STEP
    later = [
        make_transaction(number, start, start + 1, fate, operations)
        for number, (fate, operations) in enumerate(calls, start=len(history))
    ]
    return [*history, *later]


def found_at_last(history: History, key: str) -> tuple[int, ...]:
    """What a key held in the end."""
    return next(each.values for each in history[-1].reads if each.key == key)


def read_stale(history: History) -> History:
    """A read of what a list was before its last append."""
    return after(history, (Fate.OK, [ReadList("x", found_at_last(history, "x")[:-1])]))


def read_stale_set(history: History) -> History:
    """A read of a set without one of its values."""
    return after(history, (Fate.OK, [ReadSet(BAG, found_at_last(history, BAG)[1:])]))


def read_nobodys_value(history: History) -> History:
    """A read of a value that was never appended."""
    return after(history, (Fate.OK, [ReadList("x", (*found_at_last(history, "x"), FRESH))]))


def read_twice_the_same(history: History) -> History:
    """A read that holds a value twice."""
    values = found_at_last(history, "x")
    return after(history, (Fate.OK, [ReadList("x", (*values, values[-1]))]))


def read_in_another_order(history: History) -> History:
    """A read of a list the other way round."""
    return after(history, (Fate.OK, [ReadList("x", found_at_last(history, "x")[::-1])]))


def lose_an_append(history: History) -> History:
    """An append that was acknowledged and is not there."""
    append, values = Append("x", FRESH), found_at_last(history, "x")
    return after(history, (Fate.OK, [append]), (Fate.OK, [ReadList("x", values)]))


def read_what_failed(history: History) -> History:
    """A read of a value whose append failed."""
    append, values = Append("x", FRESH), found_at_last(history, "x")
    return after(history, (Fate.FAILED, [append]), (Fate.OK, [ReadList("x", (*values, FRESH))]))


def read_half_of_a_write(history: History) -> History:
    """A read of one list of two that were appended to together."""
    x, y = (found_at_last(history, key) for key in LISTS)
    reads = [ReadList("x", (*x, FRESH)), ReadList("y", y)]
    return at_once(history, (Fate.OK, [Append("x", FRESH), Append("y", FRESH)]), (Fate.OK, reads))


def read_half_of_an_append(history: History) -> History:
    """A read of one value of two that were appended together."""
    values = (*found_at_last(history, "x"), FRESH)
    appends = [Append("x", FRESH), Append("x", FRESH + 1)]
    return at_once(history, (Fate.OK, appends), (Fate.OK, [ReadList("x", values)]))


def append_twice_to_one_state(history: History) -> History:
    """Two who append to the same state of a list, of whom the second wins over the first."""
    values = found_at_last(history, "x")
    first, second = (Append("x", FRESH + place) for place in range(2))
    read = ReadList("x", values)
    return at_once(history, (Fate.OK, [read, first]), (Fate.OK, [read, second]))


def skew(history: History) -> History:
    """Two who look at both lists and append to one each."""
    reads = [look(key, found_at_last(history, key)) for key in LISTS]
    return at_once(history, *((Fate.OK, [*reads, Append(key, FRESH)]) for key in LISTS))


def fork(history: History) -> History:
    """Two appends, and two readers of whom each saw only one of them."""
    values = found_at_last(history, BAG)
    new = [FRESH, FRESH + 1]
    return at_once(
        history,
        *((Fate.OK, [Append(BAG, value)]) for value in new),
        *((Fate.OK, [ReadSet(BAG, (*values, value))]) for value in new),
    )


FLAWS: Mapping[str, Callable[[History], History]] = {
    flaw.__name__: flaw
    for flaw in (
        read_stale,
        read_stale_set,
        read_nobodys_value,
        read_twice_the_same,
        read_in_another_order,
        lose_an_append,
        read_what_failed,
        read_half_of_a_write,
        read_half_of_an_append,
        append_twice_to_one_state,
        skew,
        fork,
    )
}
