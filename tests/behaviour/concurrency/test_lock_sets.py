"""A write that finds a conflict under its locks is prepared again or refused with the reason."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.publish import Fence
from omnigraph.engine.commit.recover import Recoverer
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.ops.retry import Executed, Prepared, run_write
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.branch_state import Basis, BranchStates
from omnigraph.errors import ReadSetChangedError, RecoveryRequiredError
from omnigraph.model.names import MAIN
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import LockKey, open_write_locks
from omnigraph.storage.row_files import table_schema
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import open_with, require_linear, rows, sidecars, social_graph
from tests.support.queries import query

PERSON, COMPANY = "node:Person", "node:Company"
ANN = Authorship(actor="ann", kind=WriterKind.MUTATION, expected_head=None)


def open_write_path(root: Path) -> WritePath:
    """The write path of a graph, without the graph around it."""
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    branch_states = BranchStates(uri=str(root), objects=stores.objects, tables=stores.tables)
    locks = open_write_locks(
        settings.location,
        objects=stores.objects,
        locking=settings.locking,
        fence=Fence(branch_states, stores.tables),
        timeout_s=10,
    )
    recoverer = Recoverer(
        branch_states=branch_states,
        stores=stores,
        locks=locks,
        free_locks=locks,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
        observer=settings.observer,
    )
    return WritePath(
        branch_states=branch_states,
        stores=stores,
        recoverer=recoverer,
        locks=locks,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
        observer=settings.observer,
        load_concurrency=settings.load_concurrency,
    )


def add_eve(basis: Basis, *, read_set: frozenset[str], is_strict: bool = False) -> PreparedWrite:
    """A write that adds one person and relies on these types."""
    declared = basis.catalog.nodes["Person"]
    row = {"id": "Eve", "age": None, "name": "Eve"}
    put = pa.Table.from_pylist([row], schema=table_schema(declared))
    change = TableChange(declared, put, pa.array([], pa.string()), is_overwrite=False)
    return PreparedWrite(
        changes={PERSON: change},
        placement={PERSON: StagingMode.APPEND},
        read_set=read_set,
        is_strict=is_strict,
    )


def test_k04_held_locks_that_miss_a_type_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    path = open_write_path(tmp_path)
    before = graph.commits()

    with path.locks.hold([LockKey(PERSON, None)]) as held:
        basis = path.branch_states.capture(MAIN)
        write = add_eve(basis, read_set=frozenset({COMPANY}))
        with pytest.raises(ReadSetChangedError, match="also Company; nothing was written"):
            path.commit(write, basis=basis, authorship=ANN, held=held)

    assert graph.commits() == before
    assert sidecars(tmp_path) == []


def test_k04_a_write_that_lacked_a_lock_is_prepared_again_with_every_lock_it_needed(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    other = omnigraph.open(str(tmp_path), durability="relaxed")
    prepared: list[frozenset[str]] = []

    def prepare(basis: Basis, committed: SnapshotRows) -> Prepared[None]:
        del committed
        prepared.append(frozenset({COMPANY}) if prepared else frozenset())
        if len(prepared) == 1:
            other.mutate(query('insert Person { name: "Frank" }'))
        return Prepared(add_eve(basis, read_set=prepared[-1]), None)

    done = _run(prepare, tmp_path)

    # Overtaken; then with the locks of the first attempt; then with those of both.
    assert len(prepared) == 3
    assert done.commit_id == graph.head()
    assert {"Eve", "Frank"} <= rows(graph, "Person").keys()
    require_linear(graph.commits())


def test_a_strict_write_blocked_by_a_dead_writer_recovers_it_and_continues(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    failpoints = Failpoints()
    dying = open_with(tmp_path, failpoints)
    attempts: list[Basis] = []

    def prepare(basis: Basis, committed: SnapshotRows) -> Prepared[None]:
        del committed
        attempts.append(basis)
        place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
        if len(attempts) == 1:
            with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
                dying.mutate(query('insert Person { name: "Frank" }'))
        return Prepared(add_eve(basis, read_set=frozenset(), is_strict=True), None)

    _run(prepare, tmp_path)

    assert len(attempts) == 2
    assert {"Eve", "Frank"} <= rows(graph, "Person").keys()
    assert sidecars(tmp_path) == []
    require_linear(graph.commits())


def _run(prepare: Callable[[Basis, SnapshotRows], Prepared[None]], root: Path) -> Executed[None]:
    return run_write(
        MAIN,
        prepare=prepare,
        codec=None,
        inputs=None,
        authorship=ANN,
        path=open_write_path(root),
    )
