"""A client and a real server: memory, threads, tokens, long inputs, stored queries."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import RemoteGraph
from omnigraph.client.remote import ServedGraph, list_graphs
from omnigraph.engine.results import MutationResult, Result
from omnigraph.errors import (
    ForbiddenError,
    GraphError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
    PolicyDeniedError,
    RequestError,
)
from tests.support.both_graphs import ADD_THING, FIND_THING, NAMES, Both, both_graphs, fresh_branch
from tests.support.connections import count_connections
from tests.support.graphs import build_graph
from tests.support.policed_servers import ALLOWED_TOKEN, READER_TOKEN, policed_server
from tests.support.servers import serving

WIDE = "node Wide { n: I64  text: String }"
MANY = "query many() { match { $w: Wide } return { $w.n, $w.text } }"
ROW_COUNT = 200_000


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with both_graphs(tmp_path_factory.mktemp("both")) as opened:
        yield opened


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteGraph]:
    """A graph whose rows take about 40 MB."""
    folder = tmp_path_factory.mktemp("wide")
    with build_graph(folder / "graph", WIDE) as graph:
        text = ["x" * 180] * ROW_COUNT
        graph.load({"Wide": pa.table({"n": range(ROW_COUNT), "text": text})}, mode="append")
    with (
        serving(folder, "--store", str(folder / "graph"), "--unauthenticated") as server,
        omnigraph.connect(server.url) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def guarded_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that requires tokens: Ann may do everything, Rob may read."""
    with policed_server(tmp_path_factory.mktemp("guarded")) as server:
        yield server.url


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_long_result_is_held_once(wide: RemoteGraph) -> None:
    pa.default_memory_pool().release_unused()
    before = _resident_bytes()

    result = wide.query(MANY)

    grown = _resident_bytes() - before
    size = result.to_arrow().nbytes
    assert len(result) == ROW_COUNT
    assert size > 30_000_000
    assert grown < 1.6 * size


def test_a_long_result_leaves_its_connection_for_the_next_call(wide: RemoteGraph) -> None:
    wide.head()

    with count_connections() as opened:
        wide.query(MANY)
        wide.head()

    assert opened == []


def test_an_export_is_read_as_a_stream(wide: RemoteGraph) -> None:
    exported = wide.export()
    before = _resident_bytes()

    first = list(islice(exported, 10))

    assert len(first) == 10
    assert _resident_bytes() - before < 10_000_000


def test_threads_share_a_client(both: Both) -> None:
    graph = omnigraph.connect(both.server.url)
    branch = fresh_branch(graph)

    with ThreadPoolExecutor(8) as threads, count_connections() as opened:
        added = list(
            threads.map(
                lambda number: graph.mutate(ADD_THING, {"name": f"t{number}"}, branch=branch),
                range(8),
            )
        )
        found = list(
            threads.map(
                lambda number: graph.query(FIND_THING, {"name": f"t{number}"}, branch=branch).rows,
                range(8),
            )
        )

    assert len({each.commit_id for each in added}) == 8
    assert [rows[0]["t.name"] for rows in found] == [f"t{number}" for number in range(8)]
    assert len(opened) <= 8


def test_a_forked_process_uses_its_own_connections(both: Both) -> None:
    graph = omnigraph.connect(both.server.url)
    expected = graph.query(NAMES).rows
    script = f"""
import os, sys, omnigraph
graph = omnigraph.connect({both.server.url!r})
graph.head()
child = os.fork()
found = [len(graph.query({NAMES!r})) for _ in range(20)]
if not child:
    os._exit(0 if set(found) == {{{len(expected)}}} else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or set(found) != {{{len(expected)}}})
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


def test_a_client_that_only_reads_imports_no_storage(both: Both) -> None:
    script = f"""
import sys, omnigraph
with omnigraph.connect({both.server.url!r}) as graph:
    graph.branches(), graph.commits(), graph.query({NAMES!r}).rows
sys.exit(bool({{"lance", "pandas", "obstore"}} & set(sys.modules)))
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


def test_more_rows_than_a_server_takes_are_refused_before_they_are_sent(both: Both) -> None:
    rows = io.BytesIO(b'{"type":"Note","data":{"text":"' + b"x" * 1000 + b'"}}\n')
    many = io.BytesIO(rows.getvalue() * 40_000)

    with pytest.raises(LimitExceededError, match="split the load") as caught:
        both.remote.load(many, mode="append")

    assert caught.value.limit == 32 * 1024 * 1024


def test_a_number_without_a_json_form_cannot_be_sent(both: Both) -> None:
    rows = pa.table({"name": ["x"], "full": [float("nan")]})

    with pytest.raises(InvalidValueError, match="cannot be written as JSON"):
        both.remote.load({"Thing": rows}, mode="append")


def test_a_stored_query_is_invoked_by_its_name(both: Both) -> None:
    branch = fresh_branch(both.remote)

    added = both.remote.invoke("add", {"name": "stored", "small": 4}, branch=branch)
    found = both.remote.invoke("find", {"name": "stored"}, branch=branch)

    assert isinstance(added, MutationResult)
    assert added.commit_id == both.remote.head(branch)
    assert isinstance(found, Result)
    assert found.rows == [{"t.name": "stored", "t.small": 4, "t.big": None}]
    assert [each["name"] for each in both.remote.stored_queries()] == ["add", "find"]


def test_a_stored_query_of_another_kind_than_expected_is_refused(both: Both) -> None:
    with pytest.raises(RequestError, match="is a read"):
        both.remote.invoke("find", {"name": "a"}, expect_mutation=True)
    with pytest.raises(NotFoundError):
        both.remote.invoke("nothing of the kind")


def test_a_query_runs_at_a_commit_that_invoke_names(both: Both) -> None:
    found = both.remote.invoke("find", {"name": "a"}, commit=both.remote.head())

    assert isinstance(found, Result)
    assert found.commit_id == both.remote.head()


REFUSED = {
    "an actor of a mutation": lambda graph: graph.mutate(ADD_THING, {"name": "x"}, actor="ann"),
    "an actor of a load": lambda graph: graph.load(io.StringIO(), mode="merge", actor="ann"),
    "an actor of a merge": lambda graph: graph.merge("x", actor="ann"),
    "an actor of a branch": lambda graph: graph.create_branch("x", actor="ann"),
    "an actor of a transaction": lambda graph: graph.transaction(actor="ann"),
    "another actor": lambda graph: graph.for_actor("ann"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_remote_call_cannot_name_another_actor(both: Both, case: str) -> None:
    with pytest.raises(ForbiddenError, match="token"):
        REFUSED[case](both.remote)


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.query(NAMES, engine="spark", spark=object()),
        lambda graph: graph.diff("main", "main", spark=object()),
        lambda graph: graph.load(io.StringIO(), mode="merge", spark=object()),
    ],
)
def test_a_session_is_not_sent(both: Both, call: object) -> None:
    assert callable(call)

    with pytest.raises(InvalidValueError, match="a Spark session cannot be sent"):
        call(both.remote)


def test_a_remote_maintenance_call_says_where_to_run_it(both: Both) -> None:
    with pytest.raises(AttributeError, match="open the graph by its uri"):
        both.remote.optimize()  # type: ignore[attr-defined]  # that is the point
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        both.remote.nonsense()  # type: ignore[attr-defined]  # that is the point


def test_a_graph_that_the_server_does_not_have_is_not_found(both: Both) -> None:
    with pytest.raises(NotFoundError) as caught:
        omnigraph.connect(both.server.url, graph="other").head()

    assert (caught.value.kind, caught.value.name) == ("graph", "other")


def test_a_server_without_tokens_lists_its_graphs(both: Both) -> None:
    (found,) = list_graphs(both.server.url)

    assert found.graph_id == "default"


def test_a_server_lists_its_graphs_to_authorized_callers(guarded_url: str) -> None:
    (found,) = list_graphs(guarded_url, token=ALLOWED_TOKEN)

    assert isinstance(found, ServedGraph)
    assert found.graph_id == "default"


def test_a_policy_denial_names_the_actor_and_the_action(guarded_url: str) -> None:
    graph = omnigraph.connect(guarded_url, token=READER_TOKEN)

    with pytest.raises(PolicyDeniedError) as caught:
        graph.create_branch("x")

    error = caught.value
    assert (error.actor, error.action, error.branch, error.target) == (
        "rob",
        "branch_create",
        "main",
        "x",
    )
    assert graph.actor == "rob"


def test_a_client_knows_the_actor_of_its_token(guarded_url: str) -> None:
    with omnigraph.connect(guarded_url, token=ALLOWED_TOKEN) as graph:
        assert graph.actor == "ann"
        done = graph.mutate('query q() { insert Person { name: "new" } }')

        assert done.commit_id is not None
        assert graph.commit(done.commit_id).actor == "ann"


@pytest.mark.parametrize("token", [None, "another"])
def test_a_wrong_token_is_refused(guarded_url: str, token: str | None) -> None:
    graph = omnigraph.connect(guarded_url, token=token)

    with pytest.raises(ForbiddenError):
        graph.head()
    with pytest.raises(ForbiddenError):
        assert graph.actor


def test_a_token_is_sent_only_to_its_server(
    guarded_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    graph = omnigraph.connect(guarded_url, token=ALLOWED_TOKEN)

    shown = [repr(graph), str(graph), repr(graph._routes), repr(graph._routes.sender)]  # noqa: SLF001
    for call in (graph.head, lambda: graph.head("nope"), lambda: graph.query("nonsense")):
        try:
            call()
        except GraphError as error:
            shown += [str(error), repr(error), repr(vars(error)), repr(error.__context__)]
    with pytest.raises(InvalidValueError) as caught:
        omnigraph.connect(guarded_url, token=f"{ALLOWED_TOKEN}\n")
    shown += [str(caught.value), repr(vars(caught.value)), caplog.text]

    assert not any(ALLOWED_TOKEN in each for each in shown)
