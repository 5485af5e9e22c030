"""Loads by files that are written before the write begins, without a cluster: one file a type.

What a bulk load does between its staging and its commit, done in this process by the parts of the
product that do it there, and with none of its checks. Between two stages `progress` is called, so
that something else can happen meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import Graph
from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.context import GraphContext
from omnigraph.engine.graph_load import Input, LoadCall
from omnigraph.engine.input.batches import ReceivedRows
from omnigraph.engine.input.sources import read_input
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.ops.refs import create_table_branches
from omnigraph.engine.ops.retry import Prepared, run_write
from omnigraph.engine.results import LoadResult
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_branch_of
from omnigraph.model.catalog import NodeType
from omnigraph.model.names import MAIN
from omnigraph.storage.ports import (
    FragmentDeletions,
    NewFile,
    TableBranchFolder,
    TablePart,
    TableRef,
)
from omnigraph.storage.tables import scan_part, write_deletions, write_files
from tests.support.crashing import Fault, crashing
from tests.support.failpoints import Failpoints
from tests.support.graphs import Record, ndjson
from tests.support.writes import Mode

STAGED, REPLACED = "read", "replace"
"""The stages after which `progress` is called."""


def open_files(root: Path, fault: Fault | None = None) -> Graph:
    """The graph of a directory whose bulk loads are those of this module."""
    return open_bulk(root, package="tests.support.staged_engine", fault=fault)


def open_bulk(
    root: Path,
    *,
    package: str = "omnigraph.spark",
    fault: Fault | None = None,
    failpoints: Failpoints | None = None,
) -> Graph:
    """The graph of a directory whose bulk loads run in a package, with the faults of a test."""
    plain = make_settings(str(root), storage_options=None, durability="relaxed")
    settings = replace(plain, spark_package=package, failpoints=failpoints or Failpoints())
    stores = open_stores(settings)
    return Graph(
        settings,
        stores if fault is None else crashing(stores, fault),
        actor=None,
        is_read_only=False,
    )


def load_while(
    graph: Graph,
    *records: Record,
    mode: Mode,
    meanwhile: Callable[[str], object],
    branch: str = "main",
) -> None:
    """Load records by the bulk loader of a graph, while something happens at each stage."""

    def progress(stage: str, done: int, total: int | None) -> None:  # noqa: ARG001
        meanwhile(stage)

    graph.load(ndjson(*records), mode=mode, engine="spark", branch=branch, progress=progress)


def once(stage: str, action: Callable[[], object]) -> Callable[[str], object]:
    """Do something at a stage, the first time only."""
    actions = [action]

    def act(reached: str) -> None:
        if reached == stage and actions:
            actions.pop()()

    return act


def load(inputs: Sequence[Input], call: LoadCall, opened: GraphContext) -> LoadResult:
    """Load rows of any number of types as one commit, by files that are there before it begins."""
    basis = opened.branch_states.capture(call.target)
    runtime = opened.settings.runtime
    (given,) = inputs
    received = read_input(given.source, context=opened.read_context(basis), runtime=runtime)
    files = {
        key: write_files(_folder(key, basis, opened), rows.rows) for key, rows in received.items()
    }
    call.progress(STAGED, 1, 1)
    if call.mode is LoadMode.MERGE and call.target != MAIN:
        create_table_branches(sorted(received), branch=call.target, path=opened.writes)

    def prepare(basis: Basis, committed: SnapshotRows) -> Prepared[LoadResult]:  # noqa: ARG001
        deletions = {
            key: _write_deletions(key, rows.rows["id"].combine_chunks(), basis, call.mode, opened)
            for key, rows in received.items()
        }
        call.progress(REPLACED, 1, 1)
        return _prepare(received, files, deletions, mode=call.mode)

    done = run_write(
        call.target,
        prepare=prepare,
        codec=None,
        inputs=None,
        authorship=opened.author(call.actor, WriterKind.LOAD, expected_head=None),
        path=opened.writes,
    )
    return replace(done.result, branch=call.target, commit_id=done.commit_id)


def _prepare(
    received: Mapping[str, ReceivedRows],
    files: Mapping[str, tuple[NewFile, ...]],
    deletions: Mapping[str, tuple[FragmentDeletions, ...]],
    *,
    mode: LoadMode,
) -> Prepared[LoadResult]:
    changes = {
        key: TableChange(
            type=each.type,
            put=each.rows.slice(0, 0),
            removed=pa.array([], pa.string()),
            is_overwrite=mode is LoadMode.OVERWRITE,
            files=files[key],
            deletions=deletions[key],
        )
        for key, each in received.items()
    }
    write = PreparedWrite(
        changes=changes,
        placement=dict.fromkeys(changes, StagingMode.FILES),
        read_set=frozenset(changes),
        is_strict=mode is LoadMode.OVERWRITE,
    )
    nodes: dict[str, int] = {}
    edges: dict[str, int] = {}
    for each in received.values():
        counts = nodes if isinstance(each.type, NodeType) else edges
        counts[each.type.name] = each.rows.num_rows
    result = LoadResult(
        nodes_loaded=nodes,
        edges_loaded=edges,
        commit_id=None,
        branch=MAIN,
        base_branch=None,
        branch_created=False,
        engine="spark",
    )
    return Prepared(write, result)


def _write_deletions(
    key: str, ids: pa.Array, basis: Basis, mode: LoadMode, opened: GraphContext
) -> tuple[FragmentDeletions, ...]:
    """Delete the committed rows that a merge replaces, fragment by fragment."""
    if mode is not LoadMode.MERGE:
        return ()
    entry = basis.snapshot.get(key)
    parts = opened.stores.tables.parts(entry.at, rows_max=1)
    offsets = [_find_offsets(part, ids) for part in parts]
    own = _folder(key, basis, opened)
    return tuple(
        write_deletions(replace(part, folder=own), found)
        for part, found in zip(parts, offsets, strict=True)
        if found
    )


def _find_offsets(part: TablePart, ids: pa.Array) -> list[int]:
    batches = scan_part(part, columns=["id"], predicate=None, with_address=True)
    rows = pa.Table.from_batches(batches)
    met = rows.filter(pc.is_in(rows["id"], ids))["_rowaddr"]
    return [address & 0xFFFFFFFF for address in met.to_pylist()]


def _folder(key: str, basis: Basis, opened: GraphContext) -> TableBranchFolder:
    ref = TableRef(basis.snapshot.get(key).path, table_branch_of(basis.branch))
    return opened.stores.tables.folder(ref)
