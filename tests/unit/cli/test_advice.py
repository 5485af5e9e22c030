"""After an error: the next command to type, complete with the graph that is meant."""

import pytest

from omnigraph.cli.advice import next_command
from omnigraph.cli.targets import ServedTarget, StoreTarget, Target
from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    DriftError,
    ForbiddenError,
    GraphError,
    NotFoundError,
    PolicyDeniedError,
    PreconditionFailedError,
    RecoveryRequiredError,
    UncertainError,
)
from omnigraph.wire.problems import Asked, rebuild_error

STORE = StoreTarget("my graph")
SERVED = ServedTarget(base_url="http://h:1", graph_id="a b", token="secret")
BARE = ServedTarget(base_url="http://h:1", graph_id=None, token=None)


def _missing(kind: str) -> NotFoundError:
    return NotFoundError(kind=kind, name="x", advice="")


@pytest.mark.parametrize(
    ("error", "target", "expected"),
    [
        (_missing("graph"), STORE, "omnigraph init 'my graph' --schema FILE"),
        (_missing("graph"), SERVED, "omnigraph graphs list --server http://h:1"),
        (_missing("branch"), STORE, "omnigraph branch list --store 'my graph'"),
        (_missing("branch"), SERVED, "omnigraph branch list --server http://h:1 --graph 'a b'"),
        (_missing("tag"), BARE, "omnigraph tag list --server http://h:1"),
        (_missing("commit"), STORE, "omnigraph log --store 'my graph'"),
        (_missing("file"), STORE, None),
        (
            AlreadyExistsError(kind="graph", name="x", advice=""),
            STORE,
            "omnigraph schema show --store 'my graph'",
        ),
        (
            AlreadyExistsError(kind="branch", name="x", advice=""),
            STORE,
            "omnigraph branch list --store 'my graph'",
        ),
        (
            AlreadyExistsError(kind="tag", name="x", advice=""),
            SERVED,
            "omnigraph tag list --server http://h:1 --graph 'a b'",
        ),
        (AlreadyExistsError(kind="path", name="x", advice=""), STORE, None),
        (
            PreconditionFailedError(expected="x", actual="y"),
            STORE,
            "omnigraph log --store 'my graph'",
        ),
        (_missing("branch"), None, None),
        (
            DriftError(type="Person", expected=1, actual=2, advice=""),
            STORE,
            "omnigraph repair --store 'my graph'",
        ),
        (CorruptError(subject="x", problem="y"), STORE, "omnigraph doctor --store 'my graph'"),
        (CorruptError(subject="x", problem="y"), SERVED, None),
        (
            RecoveryRequiredError(operation_id="x"),
            STORE,
            "omnigraph recoveries --store 'my graph'",
        ),
        (UncertainError("lost"), SERVED, "omnigraph log --server http://h:1 --graph 'a b'"),
    ],
)
def test_an_error_leads_to_the_next_command(
    error: GraphError, target: Target | None, expected: str | None
) -> None:
    assert next_command(error, target=target, servers=[]) == expected


@pytest.mark.parametrize(
    ("servers", "expected"),
    [(["prod"], "omnigraph login prod"), ([], "export OMNIGRAPH_BEARER_TOKEN=TOKEN")],
)
def test_who_is_not_known_to_a_server_shows_a_token(servers: list[str], expected: str) -> None:
    nothing_sent = Asked(text=None, is_write=False)
    unknown = rebuild_error({"error": "missing bearer token"}, status=401, asked=nothing_sent)

    assert next_command(unknown, target=SERVED, servers=servers) == expected


def test_who_is_known_and_denied_is_not_told_to_show_a_token() -> None:
    nothing_sent = Asked(text=None, is_write=False)
    closed = rebuild_error({"error": "no policy allows it"}, status=403, asked=nothing_sent)
    own = ForbiddenError(actor=None, action="use this graph", reason="it was closed")
    denied = PolicyDeniedError(actor="ann", action="read", branch=None, target=None, reason="")

    for error in (closed, own, denied):
        assert isinstance(error, ForbiddenError)
        assert next_command(error, target=SERVED, servers=["prod"]) is None
