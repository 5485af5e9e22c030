"""What became of a write: the truth table of classes and decisions."""

from dataclasses import replace

import pytest

from omnigraph.engine.commit.recover import Decision, Facts, PinClass, classify, decide
from omnigraph.engine.commit.sidecar import Pin

PIN = Pin(
    table_key="node:Person",
    table_path="nodes/a",
    table_branch=None,
    expected_version=4,
    post_commit_version=5,
    transaction_uuid="ours",
    row_count=1,
)


@pytest.mark.parametrize(
    ("newest", "named", "has_landed", "expected"),
    [
        (3, 4, False, PinClass.INVARIANT_VIOLATION),
        (4, 4, False, PinClass.NO_MOVEMENT),
        (5, 5, True, PinClass.NO_MOVEMENT),
        (5, 4, True, PinClass.ROLLED_PAST_EXPECTED),
        (5, 4, False, PinClass.UNEXPECTED_AT_P1),
        (6, 5, True, PinClass.UNEXPECTED_AT_P1),
        (6, 4, True, PinClass.UNEXPECTED_MULTISTEP),
        (6, 4, False, PinClass.UNEXPECTED_MULTISTEP),
    ],
)
def test_a_table_is_classified_by_where_it_is_and_who_moved_it(
    newest: int, named: int, *, has_landed: bool, expected: PinClass
) -> None:
    facts = make_facts(newest=newest, named=named, landed=1 if has_landed else 0, planned=1)

    assert classify(PIN, facts) is expected


@pytest.mark.parametrize(
    ("newest", "landed", "expected"),
    [
        (4, 0, PinClass.NO_MOVEMENT),
        (5, 1, PinClass.INCOMPLETE_PHASE_B),
        (6, 2, PinClass.INCOMPLETE_PHASE_B),
        (5, 0, PinClass.UNEXPECTED_AT_P1),
        (6, 0, PinClass.UNEXPECTED_MULTISTEP),
        (7, 3, PinClass.ROLLED_PAST_EXPECTED),
        (7, 2, PinClass.UNEXPECTED_MULTISTEP),
        (8, 3, PinClass.UNEXPECTED_MULTISTEP),
    ],
)
def test_a_table_of_several_steps_is_finished_once_it_has_taken_the_last_one(
    newest: int, landed: int, expected: PinClass
) -> None:
    pin = replace(PIN, post_commit_version=7, earlier_uuids=("first", "second"))

    assert classify(pin, make_facts(newest=newest, named=4, landed=landed, planned=3)) is expected


def make_facts(*, newest: int, named: int, landed: int, planned: int) -> Facts:
    """What is seen of a table that has taken some of its planned steps."""
    return Facts(
        newest=newest,
        named=named,
        has_landed=landed > 0,
        is_complete=landed == planned,
        is_undone=False,
    )


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([], Decision.DISCARD),
        (["NoMovement"], Decision.DISCARD),
        (["NoMovement", "NoMovement"], Decision.DISCARD),
        (["RolledPastExpected"], Decision.ROLL_FORWARD),
        (["RolledPastExpected", "RolledPastExpected"], Decision.ROLL_FORWARD),
        (["RolledPastExpected", "NoMovement"], Decision.ROLL_BACK),
        (["RolledPastExpected", "UnexpectedAtP1"], Decision.ROLL_BACK),
        (["UnexpectedMultistep"], Decision.ROLL_BACK),
        (["IncompletePhaseB", "RolledPastExpected"], Decision.ROLL_BACK),
        (["RolledPastExpected", "InvariantViolation"], Decision.ABORT),
        (["NoMovement", "InvariantViolation"], Decision.ABORT),
    ],
)
def test_all_tables_are_finished_or_none_is(classes: list[str], expected: Decision) -> None:
    assert decide(map(PinClass, classes), is_writer_dead=True) is expected


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([], Decision.DISCARD),
        (["NoMovement"], Decision.ROLL_BACK),
        (["NoMovement", "NoMovement"], Decision.ROLL_BACK),
        (["RolledPastExpected"], Decision.ROLL_FORWARD),
        (["RolledPastExpected", "NoMovement"], Decision.ROLL_BACK),
        (["UnexpectedMultistep"], Decision.ROLL_BACK),
        (["NoMovement", "InvariantViolation"], Decision.ABORT),
    ],
)
def test_what_a_paused_writer_could_still_do_is_undone_in_advance(
    classes: list[str], expected: Decision
) -> None:
    assert decide(map(PinClass, classes), is_writer_dead=False) is expected
