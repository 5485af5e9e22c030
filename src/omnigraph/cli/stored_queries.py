"""Stored queries of a server, run by their names: one that reads, or one that changes the graph.

The server refuses a query of the other kind. Imported when one runs, because the engine is.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.client.remote import RemoteGraph
from omnigraph.engine.results import MutationResult, Result


def run_read(
    remote: RemoteGraph,
    name: str,
    params: Mapping[str, object] | None,
    *,
    branch: str | None,
    commit: str | None,
) -> Result:
    """The rows that a stored read finds."""
    found = remote.invoke(name, params, branch=branch, commit=commit, expect_mutation=False)
    assert isinstance(found, Result), "the server answers a read with rows"
    return found


def run_mutation(
    remote: RemoteGraph,
    name: str,
    params: Mapping[str, object] | None,
    *,
    branch: str,
    if_commit: str | None,
    idempotency_key: str | None,
) -> MutationResult:
    """What a stored mutation touched."""
    done = remote.invoke(
        name,
        params,
        branch=branch,
        expect_mutation=True,
        if_commit=if_commit,
        idempotency_key=idempotency_key,
    )
    assert isinstance(done, MutationResult), "the server answers a mutation with counts"
    return done
