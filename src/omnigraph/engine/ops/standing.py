"""States that stand: proof that rows were those of the branch that they were meant to be of.

Rows are found by the name of a branch and a version. A branch that is deleted and made anew has
others under the same name, so whoever reads several states looks again when it has read them: a
commit that is still where it was has been there all the time. Nobody deletes main.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from omnigraph.engine.state.authority import Authority
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.model.errors import CorruptError, GraphError, NotFoundError
from omnigraph.model.names import MAIN


@contextmanager
def standing(*, authority: Authority, otherwise: str) -> Iterator[list[ManifestState]]:
    """A block that notes the states whose rows it reads; they still stand where it ends.

    `NotFoundError` of kind `branch` means that a branch was deleted or made anew meanwhile, and
    takes the place of whatever its missing files led to. `otherwise` says what became of the call.
    """
    noted: list[ManifestState] = []
    try:
        yield noted
    except GraphError as error:
        _require_standing(noted, authority, otherwise, cause=error)
        raise
    _require_standing(noted, authority, otherwise, cause=None)


@contextmanager
def telling_gone(state: ManifestState, *, authority: Authority) -> Iterator[None]:
    """A block that reads a state; if its branch is deleted meanwhile, that is what is told.

    Its files go one after the other, so to a reader it looks damaged.
    """
    try:
        yield
    except CorruptError as error:
        _require_standing([state], authority, "look what is there now", cause=error)
        raise


def _require_standing(
    states: Iterable[ManifestState],
    authority: Authority,
    otherwise: str,
    *,
    cause: GraphError | None,
) -> None:
    for state in states:
        if state.branch != MAIN and not _stands(state, authority):
            raise NotFoundError(
                kind="branch",
                name=state.branch,
                advice=f"it was deleted or made anew meanwhile; {otherwise}",
            ) from cause


def _stands(state: ManifestState, authority: Authority) -> bool:
    try:
        # Asking for the newest version is what tells a branch from another of its name.
        newest = authority.state(state.branch)
        if newest.head.id != state.head.id:
            authority.state_of(state.head.id, branch=state.branch, version=state.at.version)
    except NotFoundError:
        return False
    return True
