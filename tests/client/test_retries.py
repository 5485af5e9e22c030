"""Which requests a client retries, and which it never does: against a scripted server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import RemoteGraph
from omnigraph.client.remote import list_graphs
from omnigraph.client.requests import GraphEndpoint, RequestSender, parse_policy
from omnigraph.engine.results import MutationResult, Result, ResultColumn
from omnigraph.errors import (
    BusyError,
    ExpectedVersionMismatchError,
    GraphError,
    KeyConflictError,
    PreconditionFailedError,
    RecoveryRequiredError,
    UnavailableError,
    UncertainError,
)
from omnigraph.http.arrow import encode_table, noted_table
from omnigraph.http.transport import ConnectionPool, parse_address, token_header
from omnigraph.model.runtime import SystemClock
from omnigraph.model.types import I64
from tests.support.both_graphs import ADD_THING, NAMES, lines
from tests.support.scripted_servers import (
    Hangs,
    HangsUp,
    Responds,
    ScriptedServer,
    Turn,
    closed_port,
    responds,
    scripted_server,
)

HEAD = {"branch": "main", "commit_id": "01A"}
CHANGED = {"affected_nodes": 1, "affected_edges": 0, "commit_id": "01A"}
MOVED = responds(
    {
        "error": "stale",
        "code": "conflict",
        "error_type": "ExpectedVersionMismatchError",
        "details": {"table_key": "node:P", "expected": 1, "actual": 2},
    },
    status=409,
)
BUSY = responds({"error": "later", "code": "too_many_requests"}, status=429, retry_after="60")
DONE = MutationResult(1, 0, "01A")


def connect(url: str, *, waits: list[float], timeout_s: float = 30.0) -> RemoteGraph:
    """A client that records the waits of its retries instead of waiting."""
    pool = ConnectionPool(parse_address(url), headers=token_header("secret"))
    policy = replace(parse_policy(timeout_s), jitter=0)
    return RemoteGraph(GraphEndpoint(RequestSender(pool, policy, RecordingClock(waits)), "default"))


class RecordingClock(SystemClock):
    """The clock of the machine, except that it records waits instead of waiting."""

    def __init__(self, waits: list[float]) -> None:
        self._waits = waits

    def sleep(self, seconds: float) -> None:
        self._waits.append(seconds)


class Closing(list[float]):
    """Waits during which the server stops."""

    def __init__(self, server: ScriptedServer) -> None:
        super().__init__()
        self._server = server

    def append(self, seconds: float) -> None:
        super().append(seconds)
        self._server.close()


def mutate(graph: RemoteGraph) -> MutationResult:
    return graph.mutate(ADD_THING, {"name": "x"})


def arrow_stream(row_count: int) -> bytes:
    table = pa.table({"n": pa.array(range(row_count), pa.int64())})
    result = Result(
        table,
        columns=[ResultColumn("n", I64, is_aggregate=False)],
        query_name="q",
        branch="main",
        commit_id="01A",
    )
    return encode_table(noted_table(result))


ROWS = arrow_stream(3)


@pytest.mark.parametrize(
    "failure",
    [
        HangsUp(),
        HangsUp(b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{"),
        Responds(502, b"<html>"),
    ],
    ids=["no answer", "half an answer", "a proxy's answer"],
)
def test_a_read_is_retried_when_its_connection_fails(failure: Turn) -> None:
    waits: list[float] = []
    with scripted_server(failure, failure, responds(HEAD)) as server:
        assert connect(server.url, waits=waits).head() == "01A"

    assert len(server.received) == 3
    assert waits == [0.1, 0.4]


def test_the_retries_of_a_read_are_bounded() -> None:
    with (
        scripted_server(*[HangsUp()] * 9) as server,
        pytest.raises(UnavailableError, match="find the head") as caught,
    ):
        connect(server.url, waits=[]).head()

    assert len(server.received) == 4
    assert caught.value.outcome == "unchanged"


def test_a_truncated_result_is_retried() -> None:
    arrow = {"content-type": "application/vnd.apache.arrow.stream"}
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(ROWS)}\r\n\r\n".encode()
    with scripted_server(HangsUp(head + ROWS[:-20]), Responds(200, ROWS, arrow)) as server:
        result = connect(server.url, waits=[]).query(NAMES)

    assert result.rows == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len(server.received) == 2


def test_a_result_without_its_end_marker_is_not_accepted() -> None:
    # All batches have arrived, yet the response was truncated: fewer bytes than its content length.
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    piece = f"{len(ROWS):x}\r\n".encode() + ROWS + b"\r\n"
    with (
        scripted_server(*[HangsUp(head + piece)] * 4) as server,
        pytest.raises(UnavailableError),
    ):
        connect(server.url, waits=[]).query(NAMES)

    assert len(server.received) == 4


def test_a_write_whose_response_was_lost_is_retried_with_its_key() -> None:
    with scripted_server(HangsUp(), responds(CHANGED)) as server:
        assert mutate(connect(server.url, waits=[])) == DONE

    first, second = server.received
    assert (first.body, first.target) == (second.body, second.target)
    assert server.keys[0] is not None
    assert server.keys[0] == server.keys[1]


def test_two_writes_have_two_keys() -> None:
    with scripted_server(responds(CHANGED), responds(CHANGED)) as server:
        graph = connect(server.url, waits=[])
        mutate(graph)
        mutate(graph)

    assert server.keys[0] != server.keys[1]


def test_a_write_keeps_the_key_that_its_caller_gave_it() -> None:
    with scripted_server(responds(CHANGED)) as server:
        connect(server.url, waits=[]).mutate(ADD_THING, {"name": "x"}, idempotency_key="mine")

    assert server.keys == ["mine"]


def test_a_write_without_any_response_says_how_to_check_its_outcome() -> None:
    with scripted_server(*[HangsUp()] * 4) as server, pytest.raises(UncertainError) as caught:
        mutate(connect(server.url, waits=[]))

    assert f"idempotency_key={server.keys[0]!r}" in str(caught.value)
    assert caught.value.outcome == "uncertain"


@pytest.mark.parametrize(
    "later",
    [
        BUSY,
        responds({"error": "who?", "code": "unauthorized"}, status=401),
        responds({"error": "no graph", "code": "not_found"}, status=404),
        responds({"error": "disk", "code": "unavailable"}, status=500),
        Responds(503, b"starting"),
    ],
    ids=["busy", "who", "no graph", "no disk", "a proxy"],
)
def test_a_lost_write_stays_uncertain_until_its_key_is_looked_up(later: Turn) -> None:
    with (
        scripted_server(HangsUp(), later, later, later) as server,
        pytest.raises(UncertainError, match="idempotency_key"),
    ):
        mutate(connect(server.url, waits=[]))


def test_a_lost_write_without_a_reachable_server_is_uncertain() -> None:
    with scripted_server(HangsUp()) as server:
        # The next attempt finds the port closed.
        waits = Closing(server)
        with pytest.raises(UncertainError, match="idempotency_key"):
            mutate(connect(server.url, waits=waits))


def test_a_lost_write_that_is_then_refused_was_not_applied() -> None:
    refused = responds({"error": "no", "code": "key_conflict"}, status=409)
    with scripted_server(HangsUp(), refused) as server, pytest.raises(KeyConflictError):
        mutate(connect(server.url, waits=[]))


WITHOUT_KEYS: dict[str, Callable[[RemoteGraph], object]] = {
    "create_branch": lambda graph: graph.create_branch("x"),
    "delete_branch": lambda graph: graph.delete_branch("x"),
    "tag": lambda graph: graph.tag("x", "01A"),
    "delete_tag": lambda graph: graph.delete_tag("x"),
}


@pytest.mark.parametrize("call", WITHOUT_KEYS)
def test_a_request_without_a_key_is_never_retried(call: str) -> None:
    with (
        scripted_server(HangsUp(), responds({})) as server,
        pytest.raises(UncertainError, match="check whether it was applied"),
    ):
        WITHOUT_KEYS[call](connect(server.url, waits=[]))

    assert len(server.received) == 1


@pytest.mark.parametrize("refusal", [MOVED, BUSY], ids=["moved", "busy"])
def test_a_write_with_outcome_moved_is_retried(refusal: Turn) -> None:
    with scripted_server(refusal, responds(CHANGED)) as server:
        assert mutate(connect(server.url, waits=[])) == DONE

    assert len(server.received) == 2


def test_the_retry_delay_of_a_server_is_honoured_up_to_a_bound() -> None:
    waits: list[float] = []
    with scripted_server(BUSY, responds(CHANGED)) as server:
        mutate(connect(server.url, waits=waits))

    assert waits == [10.0]


def test_retries_stop_at_the_timeout_of_the_caller() -> None:
    waits: list[float] = []
    with scripted_server(BUSY, responds(CHANGED)) as server, pytest.raises(BusyError):
        mutate(connect(server.url, waits=waits, timeout_s=5.0))

    assert waits == []


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [(MOVED, ExpectedVersionMismatchError), (BUSY, BusyError)],
    ids=["moved", "busy"],
)
def test_a_conditional_write_is_not_retried(refusal: Turn, kind: type[GraphError]) -> None:
    with scripted_server(refusal, responds(CHANGED)) as server, pytest.raises(kind):
        connect(server.url, waits=[]).mutate(ADD_THING, {"name": "x"}, if_commit="01A")

    assert len(server.received) == 1
    assert server.received[0].headers["omnigraph-if-graph-commit"] == "01A"


FINAL = {
    "an unmet condition": (
        412,
        {"error": "no", "code": "precondition_failed", "error_type": "PreconditionFailedError"},
        PreconditionFailedError,
    ),
    "a write that stopped": (
        503,
        {
            "error": "look",
            "code": "recovery_required",
            "error_type": "RecoveryRequiredError",
            "details": {"operation_id": "01C"},
        },
        RecoveryRequiredError,
    ),
    "storage that fails": (500, {"error": "disk", "code": "unavailable"}, UnavailableError),
    "a surprise": (500, {"error": "oh", "code": "internal"}, UncertainError),
}


@pytest.mark.parametrize("case", FINAL)
def test_other_refusals_are_not_retried(case: str) -> None:
    status, body, kind = FINAL[case]
    with (
        scripted_server(responds(body, status=status), responds(CHANGED)) as server,
        pytest.raises(kind),
    ):
        mutate(connect(server.url, waits=[]))

    assert len(server.received) == 1


def test_an_unreachable_server_is_named() -> None:
    waits: list[float] = []
    with closed_port() as url, pytest.raises(UnavailableError, match="nothing was sent") as caught:
        mutate(connect(url, waits=waits))

    assert url in str(caught.value)
    assert waits == [0.1, 0.4, 1.6]


def test_a_read_that_takes_too_long_is_abandoned() -> None:
    with scripted_server(Hangs(2.0)) as server:
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="no response within"):
            connect(server.url, waits=[], timeout_s=0.2).head()

    assert time.monotonic() - began < 1.5
    assert len(server.received) == 1


def test_a_write_that_takes_too_long_is_uncertain() -> None:
    with scripted_server(Hangs(2.0)) as server, pytest.raises(UncertainError, match="key"):
        mutate(connect(server.url, waits=[], timeout_s=0.2))


def test_an_export_that_is_cut_says_so_and_is_not_started_again() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    with scripted_server(HangsUp(head + b"8\r\n{}\n{}\n{}\r\n"), responds({})) as server:
        exported = connect(server.url, waits=[]).export()
        found = [next(exported), next(exported)]
        with pytest.raises(UnavailableError, match="closed before the end"):
            next(exported)

    assert found == ["{}", "{}"]
    assert len(server.received) == 1


def test_a_response_that_is_not_json_is_refused() -> None:
    with (
        scripted_server(Responds(200, b"<html>")) as server,
        pytest.raises(UnavailableError, match="OmniGraph server"),
    ):
        connect(server.url, waits=[]).head()


FOREIGN = {
    "a page": Responds(200, b"<html>"),
    "half of an answer": Responds(200, b'{"affected_nodes": 1'),
    "a list": Responds(200, b"[]"),
    "another object": responds({}),
    "a number that is none": responds({**CHANGED, "affected_nodes": "many"}),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_write_with_an_unreadable_response_is_uncertain(case: str) -> None:
    with scripted_server(FOREIGN[case], responds(CHANGED)) as server:
        graph = connect(server.url, waits=[])
        with pytest.raises(UncertainError, match="idempotency_key"):
            mutate(graph)

    assert len(server.received) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.head(),
        lambda graph: graph.branches(),
        lambda graph: graph.schema_source,
        lambda graph: graph.entity("Thing", "a"),
        lambda graph: graph.commits(),
        lambda graph: graph.tables(),
        lambda graph: graph.tags(),
        lambda graph: graph.explain(NAMES),
        lambda graph: graph.changes("now"),
        lambda graph: graph.diff("a", "b"),
        lambda graph: graph.query(NAMES),
        lambda graph: graph.stored_queries(),
        lambda graph: graph.read_blob("Thing", "a", "picture"),
        lambda graph: graph.retrieve("a"),
        lambda graph: list_graphs(graph.uri.partition("/graphs")[0]),
    ],
)
def test_a_read_with_an_incomplete_response_is_refused(
    call: Callable[[RemoteGraph], object],
) -> None:
    with scripted_server(*[responds({})] * 4) as server:
        graph = connect(server.url, waits=[])
        with pytest.raises(UnavailableError):
            call(graph)


def test_headers_that_are_not_numbers_are_ignored() -> None:
    odd = responds({"error": "later", "code": "too_many_requests"}, status=429, retry_after="\xb2")
    with scripted_server(odd, responds(CHANGED)) as server:
        assert mutate(connect(server.url, waits=[])) == DONE

    assert len(server.received) == 2


def test_rows_without_a_content_type_are_refused() -> None:
    table = pa.table({"n": [1]})
    with (
        scripted_server(Responds(200, encode_table(table))) as server,
        pytest.raises(UnavailableError, match="another version"),
    ):
        connect(server.url, waits=[]).query(NAMES)


def test_a_redirect_is_not_followed() -> None:
    moved = Responds(307, b"", {"location": "http://elsewhere.example/"})
    with (
        scripted_server(moved) as server,
        pytest.raises(UnavailableError, match=r"redirects to http://elsewhere\.example/"),
    ):
        connect(server.url, waits=[]).head()

    assert len(server.received) == 1


def test_calls_share_a_connection() -> None:
    refused = responds({"error": "no", "code": "not_found"}, status=404)
    with scripted_server(*[responds(HEAD)] * 20, refused, responds(HEAD)) as server:
        graph = connect(server.url, waits=[])
        for _ in range(20):
            graph.head()
        with pytest.raises(omnigraph.errors.NotFoundError):
            graph.head()
        graph.head()

    assert server.connections == 1


def test_a_load_whose_job_the_server_lost_is_retried() -> None:
    job = {"job_id": "j", "status": "running", "stage": "read", "done": 1, "total": None}
    forgotten = responds({"error": "job 'j' not found", "code": "not_found"}, status=404)
    loaded = {
        "tables": [{"table_key": "node:P", "rows_loaded": 1}],
        "commit_id": "01A",
        "branch": "main",
        "base_branch": None,
        "branch_created": False,
        "engine": "inline",
    }
    reports: list[tuple[str, int, int | None]] = []
    # The job is polled and cancelled, and the load is sent again without a job.
    turns = (responds(job, status=202), forgotten, forgotten, responds(loaded))
    with scripted_server(*turns) as server:
        done = connect(server.url, waits=[]).load(
            lines("{}"), mode="merge", progress=lambda *report: reports.append(report)
        )

    assert done.nodes_loaded == {"P": 1}
    assert reports == [("read", 1, None)]
    assert server.keys[0] == server.keys[-1]


def test_a_load_is_cancelled_by_an_exception_of_its_progress_callback() -> None:
    job = {"job_id": "j", "status": "running", "stage": "read", "done": 1, "total": None}

    def watch(stage: str, done: int, total: int | None) -> None:
        raise KeyError(stage, done, total)

    with (
        scripted_server(responds(job, status=202), responds(job)) as server,
        pytest.raises(KeyError),
    ):
        connect(server.url, waits=[]).load(lines("{}"), mode="merge", progress=watch)

    assert [each.method for each in server.received] == ["POST", "DELETE"]
