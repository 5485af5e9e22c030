"""The ports that packages outside the engine implement: policy gate, embedder, and observer.

The same gate decides for a remote caller and for a program that opens the graph directly. An
embedder returns comparable vectors only for one model. An observer must be fast, thread-safe and
must not raise; no result depends on it. No policy language, model provider or metrics system is
known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

UNTOLD_BRANCH = "not on the branch that this is about"
"""The reason for a denial when the caller may not know which branch is concerned."""


class Action(StrEnum):
    """The actions that a policy controls; `graph_list` applies to the server, others to a graph."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    ADMIN = "admin"
    INVOKE_QUERY = "invoke_query"
    GRAPH_LIST = "graph_list"


@dataclass(frozen=True, slots=True)
class Access:
    """A requested action, on a branch and with another branch as its target."""

    actor: str | None
    action: Action
    branch: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class TypeView:
    """The visible part of one type: rows that match any condition, without hidden properties.

    A condition is a filter of the query language on the properties of the type, and may use
    `$actor`. If `conditions` is empty, no row is visible; if it is `None`, every row is.
    """

    conditions: tuple[str, ...] | None
    hidden: frozenset[str]


@dataclass(frozen=True, slots=True)
class View:
    """The visible part of a graph; types that are not named are fully visible."""

    actor: str | None
    types: Mapping[str, TypeView]


class WriteConditions(TypedDict, total=False):
    """The conditions of a write, as arguments of the calls of a graph.

    `if_commit` is the commit that the branch must be at; `idempotency_key` makes retries safe.
    """

    if_commit: str | None
    idempotency_key: str | None


class Gate(Protocol):
    """Decides which actions a caller may perform."""

    def require(self, access: Access) -> None:
        """Raise `ForbiddenError` unless the access is allowed."""

    def view(self, access: Access) -> View | None:
        """The visible part of the graph for a read or an export; None if everything is visible."""


class Embedder(Protocol):
    """Converts texts to vectors of length 1, in the same way for one model.

    Raises `EmbeddingError` if it cannot, temporarily or as configured.
    """

    @property
    def model(self) -> str:
        """The name of the model, as `@embed` records it; empty if it has none."""

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The vector of a search text, as single-precision numbers."""

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The vectors of search texts, one row each."""


P = ParamSpec("P")
T = TypeVar("T")


class Event(StrEnum):
    """An event that is counted."""

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
    CACHE_HIT = "warm_hit"
    CACHE_MISS = "warm_miss"


class Phase(StrEnum):
    """A timed phase of a call, in the order of a write and then of a read."""

    RECOVER = "heal"
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
    """Receives events and phases, in the thread of the call that they occur in."""

    def count(self, event: Event) -> None:
        """Record one occurrence of an event."""

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """A context manager around a phase, which may end with an error."""


class Observed(Protocol):
    """An object that reports its work to an observer."""

    @property
    def observer(self) -> Observer:
        """The observer of this object."""


W = TypeVar("W", bound=Observed)


def timed(
    phase: Phase,
) -> Callable[[Callable[Concatenate[W, P], T]], Callable[Concatenate[W, P], T]]:
    """Decorate a method of an observed object so that each call is a phase."""

    def decorate(method: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], T]:
        @wraps(method)
        def run(watched: W, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with watched.observer.phase(phase):
                return method(watched, *args, **kwargs)

        return run

    return decorate


class NoObserver:
    """An observer that ignores everything."""

    def __init__(self) -> None:
        self._nothing = nullcontext()

    def count(self, event: Event) -> None:
        pass

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        del phase
        return self._nothing
