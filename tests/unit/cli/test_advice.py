"""Next command after an error; doctor fixes."""

import re

import pytest

from omnigraph.cli.advice import (
    find_fix_command,
    format_fix,
    next_command,
    write_command,
    write_options,
)
from omnigraph.cli.targets import ServedTarget, StoreTarget, Target
from omnigraph.http.problems import RefusedRequest, rebuild_error
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
from tests.support.source_tree import product_modules

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
def test_an_unauthenticated_caller_is_advised_to_send_a_token(
    servers: list[str], expected: str
) -> None:
    nothing_sent = RefusedRequest(text=None, is_write=False)
    unknown = rebuild_error({"error": "missing bearer token"}, status=401, request=nothing_sent)

    assert next_command(unknown, target=SERVED, servers=servers) == expected


def test_a_denied_caller_gets_no_advice_about_tokens() -> None:
    nothing_sent = RefusedRequest(text=None, is_write=False)
    closed = rebuild_error({"error": "no policy allows it"}, status=403, request=nothing_sent)
    own = ForbiddenError(actor=None, action="use this graph", reason="it was closed")
    denied = PolicyDeniedError(actor="ann", action="read", branch=None, target=None, reason="")

    for error in (closed, own, denied):
        assert isinstance(error, ForbiddenError)
        assert next_command(error, target=SERVED, servers=["prod"]) is None


TARGET = StoreTarget("my graph")


@pytest.mark.parametrize(
    ("advice", "command"),
    [
        ("`graph.refresh()` finishes it", "omnigraph repair --store 'my graph'"),
        ("`graph.optimize()`", "omnigraph optimize --store 'my graph'"),
        ("`graph.ensure_indices()`", "omnigraph optimize --store 'my graph'"),
        (
            "`graph.optimize(branch='a b')`",
            "omnigraph optimize --branch 'a b' --store 'my graph'",
        ),
        (
            "`graph.cleanup(keep=10)` removes it",
            "omnigraph cleanup --keep 10 --confirm --store 'my graph'",
        ),
        ("`graph.delete_tag('v1')`, unless", "omnigraph tag delete v1 --store 'my graph'"),
        ("wait for it", None),
        ("restore `__manifest` from a copy", None),
        ("`graph.algorithms()`", None),
    ],
)
def test_the_call_that_repairs_something_is_a_command(advice: str, command: str | None) -> None:
    assert find_fix_command(advice, TARGET) == command


def test_every_call_that_a_doctor_names_is_a_command() -> None:
    texts = [
        module.text
        for module in product_modules()
        if module.name.startswith("omnigraph.engine.maintenance.doctor")
    ]
    named = {call for text in texts for call in re.findall(r"`graph\.(\w+)", text)}

    assert len(named) > 5
    assert [
        call for call in sorted(named) if find_fix_command(f"`graph.{call}`", TARGET) is None
    ] == []


def test_advice_names_commands_and_flags_of_the_command_line() -> None:
    advice = "`graph.repair()` shows it; with `confirm=True` and `force=True` it adopts it"

    assert format_fix(advice, StoreTarget("g")) == (
        "`omnigraph repair --store g` shows it; with `--confirm` and `--force` it adopts it"
    )


def test_advice_without_a_call_stays_as_it_is() -> None:
    assert format_fix("wait for it", TARGET) == "wait for it"
    assert format_fix("`graph.algorithms()`", TARGET) == "`graph.algorithms()`"


def test_a_command_names_its_graph_and_survives_a_shell() -> None:
    store, served = StoreTarget("/a b"), ServedTarget("http://h", "g", "secret")

    assert write_command("merge", "it's", target=store) == (
        "omnigraph merge 'it'\"'\"'s' --store '/a b'"
    )
    assert write_command("merge", "x", target=served) == (
        "omnigraph merge x --server http://h --graph g"
    )
    assert write_command("log", target=ServedTarget("http://h", None, None)) == (
        "omnigraph log --server http://h"
    )
    assert write_command("version", target=None) == "omnigraph version"


def test_options_without_a_value_are_left_out() -> None:
    assert write_options([("--a", "1"), ("--b", None)]) == ["--a", "1"]
