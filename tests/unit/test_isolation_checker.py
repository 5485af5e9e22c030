"""The checker of histories finds what it is there for, and nothing where nothing is wrong.

Times are small numbers: `during=(0, 1)` began at 0 and ended at 1. Histories without times overlap.
"""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from tests.support.generated_histories import BAG, FLAWS, serial_histories
from tests.support.histories import (
    Append,
    History,
    Operation,
    Outcome,
    ReadList,
    ReadSet,
    Transaction,
)
from tests.support.isolation_checker import Kind, find_anomalies, find_contradictions


def did(
    client: str,
    *operations: Operation,
    during: tuple[int, int] = (0, 9),
    outcome: Outcome = Outcome.OK,
    commit_id: str | None = None,
) -> Transaction:
    """The first call of a client."""
    started, ended = during
    return Transaction(client, 1, started, ended, operations, outcome, commit_id)


def append(key: str, value: int) -> Append:
    """An append."""
    return Append(key, value)


def read(key: str, *values: int) -> ReadList:
    """A read of a list."""
    return ReadList(key, values)


def read_bag(*values: int) -> ReadSet:
    """A read of the set."""
    return ReadSet(BAG, values)


# What is in order

CLEAN: Mapping[str, History] = {
    "nothing": [],
    "one after the other": [
        did("a", append("x", 1), during=(0, 1)),
        did("b", read("x", 1), append("x", 2), during=(2, 3)),
        did("c", read("x", 1, 2), during=(4, 5)),
    ],
    "readers who overlap a write": [
        did("a", append("x", 1), append("y", 1), during=(0, 9)),
        did("b", read("x", 1), read("y", 1), during=(1, 2)),
        did("c", read("x"), read("y"), during=(1, 2)),
    ],
    "a failed write that no read saw": [
        did("a", append("x", 1), outcome=Outcome.FAILED, during=(0, 1)),
        did("b", read("x"), during=(2, 3)),
    ],
    "an unknown write that took effect late": [
        did("a", append("x", 1), outcome=Outcome.UNKNOWN, during=(0, 1)),
        did("b", read("x"), during=(2, 3)),
        did("c", read("x", 1), during=(4, 5)),
    ],
    "an unknown write that only another unknown one saw": [
        did("a", append("x", 1), outcome=Outcome.UNKNOWN),
        did("b", read("x", 1), append("y", 2), outcome=Outcome.UNKNOWN),
        did("c", read("y", 2)),
    ],
    "an unknown write that no read saw": [
        did("a", append("x", 1), outcome=Outcome.UNKNOWN, during=(0, 1)),
        did("b", read("x"), during=(2, 3)),
    ],
    "blind appends to a set, seen in any order of values": [
        did("a", append(BAG, 2), during=(0, 1)),
        did("b", append(BAG, 1), during=(2, 3)),
        did("c", read_bag(1, 2), during=(4, 5)),
    ],
    "an append after the last read": [
        did("a", read("x"), during=(0, 1)),
        did("b", append("x", 1), during=(2, 3)),
    ],
}


@pytest.mark.parametrize("history", CLEAN.values(), ids=CLEAN)
def test_a_history_that_some_order_explains_passes(history: History) -> None:
    assert not find_anomalies(history)


# What is not

FLAWED: Mapping[str, tuple[Kind, History]] = {
    "two appends on one state": (
        Kind.LOST_UPDATE,
        [
            did("a", read("x", 1), append("x", 2)),
            did("b", read("x", 1), append("x", 3)),
            did("c", append("x", 1)),
        ],
    ),
    "an append that no read saw": (
        Kind.LOST_UPDATE,
        [did("a", append("x", 1), during=(0, 1)), did("b", read("x"), during=(2, 3))],
    ),
    "an addition that no read saw": (
        Kind.LOST_UPDATE,
        [did("a", append(BAG, 1), during=(0, 1)), did("b", read_bag(), during=(2, 3))],
    ),
    "a value of no write": (Kind.DIRTY_READ, [did("a", read("x", 1))]),
    "a value of a failed append": (
        Kind.ABORTED_READ,
        [did("a", append("x", 1), outcome=Outcome.FAILED), did("b", read("x", 1))],
    ),
    "half of what one did to a list": (
        Kind.INTERMEDIATE_READ,
        [did("a", append("x", 1), append("x", 2)), did("b", read("x", 1))],
    ),
    "half of what one did to a set": (
        Kind.INTERMEDIATE_READ,
        [did("a", append(BAG, 1), append(BAG, 2)), did("b", read_bag(2))],
    ),
    "one list of two that one appended to": (
        Kind.FRACTURED_READ,
        [did("a", append("x", 1), append("y", 2)), did("b", read("x", 1), read("y"))],
    ),
    "the set but not the list": (
        Kind.FRACTURED_READ,
        [did("a", append("x", 1), append(BAG, 2)), did("b", read("x"), read_bag(2))],
    ),
    "half of a write whose outcome is unknown": (
        Kind.FRACTURED_READ,
        [
            did("a", append("x", 1), append("y", 2), outcome=Outcome.UNKNOWN),
            did("b", read("x", 1), read("y")),
        ],
    ),
    "two states in one transaction": (
        Kind.UNREPEATABLE_READ,
        [did("a", append("x", 1)), did("b", read("x"), read("x", 1))],
    ),
    "a value twice": (
        Kind.DUPLICATE,
        [did("a", append("x", 1)), did("b", read("x", 1, 1))],
    ),
    "two orders of one list": (
        Kind.INCOMPATIBLE_ORDERS,
        [
            did("a", append("x", 1)),
            did("b", append("x", 2)),
            did("c", read("x", 1, 2)),
            did("d", read("x", 2, 1)),
        ],
    ),
}


@pytest.mark.parametrize(("kind", "history"), FLAWED.values(), ids=FLAWED)
def test_a_flaw_is_found(kind: Kind, history: History) -> None:
    assert kind in kinds(history)


def kinds(history: History) -> set[Kind]:
    """The kinds of what is wrong."""
    return {each.kind for each in find_anomalies(history)}


# Each of these is right read by read; only together they contradict each other.
CYCLES: Mapping[str, tuple[str, str, History]] = {
    "writes in two orders": (
        "G0",
        "a ww b ww a",
        [
            did("a", append("x", 1), append("y", 1)),
            did("b", append("x", 2), append("y", 2)),
            did("c", read("x", 1, 2)),
            did("d", read("y", 2, 1)),
        ],
    ),
    "each saw the other's write": (
        "G1c",
        "a wr b wr a",
        [did("a", read("y", 1), append("x", 1)), did("b", read("x", 1), append("y", 1))],
    ),
    "an effect without its cause": (
        "G-single",
        "c rw a wr b wr c",
        [
            did("a", append("x", 1)),
            did("b", read("x", 1), append("y", 1)),
            did("c", read("y", 1), read("x")),
        ],
    ),
    "write skew": (
        "G2",
        "a rw b rw a",
        [
            did("a", read("x"), read("y"), append("x", 1)),
            did("b", read("x"), read("y"), append("y", 1)),
        ],
    ),
    "two readers of two additions, each without the other": (
        "G2",
        "c rw b wr d rw a wr c",
        [
            did("a", append(BAG, 1)),
            did("b", append(BAG, 2)),
            did("c", read_bag(1)),
            did("d", read_bag(2)),
        ],
    ),
    "the later write first": (
        "G0 in real time",
        "b ww a rt b",
        [
            did("a", append("x", 1), during=(0, 1)),
            did("b", append("x", 2), during=(2, 3)),
            did("c", read("x", 2, 1), during=(4, 5)),
        ],
    ),
    "a value from the future": (
        "G1c in real time",
        "b wr a rt b",
        [did("a", read("x", 1), during=(0, 1)), did("b", append("x", 1), during=(2, 3))],
    ),
    "a stale read": (
        "G-single in real time",
        "b rw a rt b",
        [
            did("a", append("x", 1), during=(0, 1)),
            did("b", read("x"), during=(2, 3)),
            did("c", read("x", 1), during=(2, 3)),
        ],
    ),
    "a stale read after several had ended": (
        "G-single in real time",
        "c rw a rt c",
        [
            did("a", append("x", 1), during=(0, 1)),
            did("b", append("y", 1), during=(0, 2)),
            did("c", read("x"), during=(3, 4)),
            did("d", read("x", 1), during=(3, 4)),
        ],
    ),
    "two reads that only the clock contradicts": (
        "G2 in real time",
        "d rw a rt c rw b wr d",
        [
            did("a", append("x", 1), during=(0, 1)),
            did("b", append("y", 1), during=(0, 9)),
            did("c", read("y"), during=(2, 3)),
            did("d", read("x"), read("y", 1), during=(0, 9)),
        ],
    ),
}


@pytest.mark.parametrize(("kind", "way", "history"), CYCLES.values(), ids=CYCLES)
def test_a_cycle_is_found_and_reported_step_by_step(kind: str, way: str, history: History) -> None:
    cycles = [each.text for each in find_anomalies(history) if each.kind is Kind.CYCLE]

    assert len(cycles) == 1
    heading, *steps = cycles[0].splitlines()
    words = [step.split(":")[0].split() for step in steps]
    assert heading == f"{kind}:"
    path = [word for source, link, _ in words for word in (source[:-2], link.strip("->"))]
    assert is_rotation(path, way.split()[:-1])


def is_rotation(path: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether two ways around are the same, wherever they begin."""
    turns = [[*path[place:], *path[:place]] for place in range(0, len(path), 2)]
    return list(expected) in turns


def test_the_smallest_cycle_of_a_component_is_reported() -> None:
    history = [
        did("a", read("x"), append("y", 1)),
        did("b", read("y"), append("z", 1)),
        did("c", read("z"), read("y"), append("x", 1)),
    ]

    (cycle,) = [each.text for each in find_anomalies(history) if each.kind is Kind.CYCLE]

    assert len(cycle.splitlines()) == 1 + 2
    assert "c#1 -rw-> a#1: did not see 1 in y, which the other appended" in cycle


def test_a_value_that_is_appended_twice_is_a_mistake_of_the_history() -> None:
    with pytest.raises(AssertionError, match="appended twice"):
        find_anomalies([did("a", append("x", 1)), did("b", append("x", 1))])


# Against the graph's own commits


def test_reads_that_the_commits_add_up_to_pass() -> None:
    history = [
        did("a", append("x", 1), append(BAG, 2), commit_id="one"),
        did("b", append("x", 3), commit_id="two"),
        did("c", read("x", 1), read_bag(2), commit_id="one"),
        did("d", read("x", 1, 3), commit_id="two"),
        did("e", append("y", 1), outcome=Outcome.FAILED),
    ]

    assert not find_contradictions(history, {"none": None, "one": "a#1", "two": "b#1"})


CONTRADICTIONS: Mapping[str, tuple[Kind, Mapping[str, str], Transaction]] = {
    "a read behind its commit": (
        Kind.WRONG_SNAPSHOT,
        {"one": "a#1"},
        did("b", read("x"), commit_id="one"),
    ),
    "a read at no commit": (
        Kind.WRONG_SNAPSHOT,
        {"one": "a#1"},
        did("b", read("x", 1), commit_id="two"),
    ),
    "a write that was acknowledged and is not a commit": (
        Kind.WRONG_HISTORY,
        {"one": "a#1"},
        did("b", append("x", 2), commit_id="two"),
    ),
    "a write that failed and is a commit": (
        Kind.WRONG_HISTORY,
        {"one": "a#1", "two": "b#1"},
        did("b", append("x", 2), outcome=Outcome.FAILED),
    ),
    "a write that is two commits": (
        Kind.WRONG_HISTORY,
        {"one": "a#1", "two": "b#1", "three": "b#1"},
        did("b", append("x", 2), outcome=Outcome.UNKNOWN),
    ),
}


@pytest.mark.parametrize(
    ("kind", "label_by_commit", "transaction"), CONTRADICTIONS.values(), ids=CONTRADICTIONS
)
def test_a_contradiction_with_the_commits_is_found(
    kind: Kind, label_by_commit: Mapping[str, str], transaction: Transaction
) -> None:
    history = [did("a", append("x", 1), commit_id="one"), transaction]

    found = {each.kind for each in find_contradictions(history, label_by_commit)}

    assert found == {kind}


# Generated histories


@given(history=serial_histories())
def test_what_happened_one_after_the_other_always_passes(history: History) -> None:
    assert not find_anomalies(history)


@given(history=serial_histories())
def test_a_flaw_is_found_whatever_came_before(history: History) -> None:
    missed = [name for name, flaw in FLAWS.items() if not find_anomalies(flaw(history))]

    assert not missed
