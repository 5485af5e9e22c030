"""What became of a write that left a sidecar: pure decisions, from facts about its tables.

A table that moved is this write's doing only if the version after the expected one was made by the
transaction that the sidecar planned; the mere number of a version proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.engine.commit.sidecar import Pin


class PinClass(StrEnum):
    """What one table says."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


class Decision(StrEnum):
    """What to do with the whole write: all of it or nothing."""

    ABORT = "Abort"
    DISCARD = "Discard"
    ROLL_BACK = "RollBack"
    ROLL_FORWARD = "RollForward"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a look at one table found: its newest version, the version that the branch names, and
    whether any of the write's own transactions, the last of them, and its undoing, are among the
    versions between them."""

    newest: int
    named: int
    has_landed: bool
    is_complete: bool
    is_undone: bool


def classify(pin: Pin, facts: Facts) -> PinClass:
    """The class of one table."""
    if facts.newest < facts.named:
        return PinClass.INVARIANT_VIOLATION
    if facts.newest == facts.named:
        return PinClass.NO_MOVEMENT
    is_planned = (pin.expected_version, pin.post_commit_version) == (facts.named, facts.newest)
    if is_planned and facts.is_complete:
        return PinClass.ROLLED_PAST_EXPECTED
    if facts.newest > facts.named + 1:
        return PinClass.UNEXPECTED_MULTISTEP
    return PinClass.UNEXPECTED_AT_P1


def decide(classes: Iterable[PinClass], *, is_writer_gone: bool) -> Decision:
    """What the classes of all tables together mean.

    A writer that may only be paused could still move what it has not moved yet, so its write is
    undone, which moves every table out of its reach, and not merely forgotten.
    """
    found = set(classes)
    if PinClass.INVARIANT_VIOLATION in found:
        return Decision.ABORT
    if not found or (found == {PinClass.NO_MOVEMENT} and is_writer_gone):
        return Decision.DISCARD
    if found == {PinClass.ROLLED_PAST_EXPECTED}:
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK
