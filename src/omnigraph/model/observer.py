"""What happens inside a graph, told to whoever watches: counts of events, and how long phases take.

Promises that watching changes nothing: no answer depends on an observer. Knows no metrics system
and no tracing; an observer that keeps either must be fast, safe to share between threads, and must
not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Event(StrEnum):
    """Something that happens at a moment, and is counted."""

    COMMITTED = "committed"
    REPEATED = "repeated"
    CONFLICTED = "conflicted"
    RETRIED = "retried"
    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"
    ORPHAN_DISCARDED = "orphan_discarded"
    EMPTY_DISCARDED = "empty_discarded"
    COMPILED_HIT = "compiled_hit"
    COMPILED_MISS = "compiled_miss"
    WARM_HIT = "warm_hit"
    WARM_MISS = "warm_miss"


class Phase(StrEnum):
    """A part of a call that takes time, in the order in which a write and then a read has them."""

    HEAL = "heal"
    CAPTURE = "capture"
    PREPARE = "prepare"
    STAGE = "stage"
    LOCK = "lock"
    ARM = "arm"
    APPLY = "apply"
    PUBLISH = "publish"
    DISARM = "disarm"
    PIN = "pin"
    COMPILE = "compile"
    RUN = "run"


class Observer(Protocol):
    """Is told what happens; called from the thread of the call that it happens in."""

    def count(self, event: Event) -> None:
        """Something has happened once."""

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """Surrounds a phase, which may end by an error."""


class Watched(Protocol):
    """Something whose work is told to an observer."""

    @property
    def observer(self) -> Observer:
        """Whoever watches it."""


W = TypeVar("W", bound=Watched)


def during(
    phase: Phase,
) -> Callable[[Callable[Concatenate[W, P], T]], Callable[Concatenate[W, P], T]]:
    """Makes each call of a method of something that is watched a phase."""

    def decorate(method: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], T]:
        @wraps(method)
        def run(watched: W, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with watched.observer.phase(phase):
                return method(watched, *args, **kwargs)

        return run

    return decorate


class NoObserver:
    """Nobody watches."""

    def __init__(self) -> None:
        self._nothing = nullcontext()

    def count(self, event: Event) -> None:
        pass

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        del phase
        return self._nothing
