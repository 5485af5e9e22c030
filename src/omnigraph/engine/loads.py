"""Loads: what callers ask of them, and where they run: in this process, or on Spark.

The engine for what this process should not hold is given from above, by name. Either way a load is
one commit, or nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import find_part
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.ops.branch import ensure_branch
from omnigraph.engine.ops.load import LoadMode, PreparedLoad, parse_mode, prepare_load
from omnigraph.engine.ops.reading.packing import split_suffix
from omnigraph.engine.ops.reading.sources import is_spark_frame, receive
from omnigraph.engine.ops.reading.splits import Split, is_named, plan_splits
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import LoadResult
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, UnavailableError
from omnigraph.model.limits import INLINE_BYTES_MAX
from omnigraph.model.names import MAIN, BranchName, parse_branch_name

Progress = Callable[[str, int, int | None], None]
"""Takes the name of a stage, how much of it is done, and of how much if that is known."""

# Compressed NDJSON grows about so much.
_UNPACKED_PER_BYTE = 8


class OnError(StrEnum):
    """What becomes of rows that cannot be loaded."""

    RAISE = "raise"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Input:
    """Rows to load: those of one type, or such as name their types themselves."""

    type_name: str | None
    source: object


@dataclass(frozen=True, slots=True)
class LoadCall:
    """How rows are to be loaded, and where to.

    Rejected rows are written to `quarantine`. With `base` a branch that is missing is started from
    that one. `expected_head` is the commit that the branch must be at, if the rows hang on it.
    """

    mode: LoadMode
    target: BranchName
    base: BranchName | None
    actor: str | None
    progress: Progress
    spark: object
    on_error: OnError
    quarantine: str | None
    expected_head: str | None


class BulkLoader(Protocol):
    """Loads rows of any number as one commit."""

    def __call__(
        self, inputs: Sequence[Input], call: LoadCall, opened: OpenGraph
    ) -> LoadResult: ...


def parse_call(
    *,
    mode: str,
    branch: str,
    base: str | None,
    actor: str | None,
    progress: Progress | None,
    spark: object,
    on_error: str,
    quarantine: str | os.PathLike[str] | None,
) -> LoadCall:
    """The arguments of a caller, checked."""
    rejecting = _parse_on_error(on_error)
    if quarantine is not None and rejecting is OnError.RAISE:
        raise InvalidValueError(
            subject="quarantine",
            expected="a place for rejected rows",
            value=quarantine,
            problem='nothing is rejected unless on_error="quarantine"',
        )
    return LoadCall(
        mode=parse_mode(mode),
        target=parse_branch_name(branch),
        base=None if base is None else parse_branch_name(base),
        actor=actor,
        progress=progress or _say_nothing,
        spark=spark,
        on_error=rejecting,
        quarantine=None if quarantine is None else os.fspath(quarantine),
        expected_head=None,
    )


def load(given: object, call: LoadCall, *, engine: str, opened: OpenGraph) -> LoadResult:
    """Load rows as one commit, or change nothing, by the engine that a caller names."""
    if _needs_spark(engine, given, call, opened):
        return _find_loader(opened)([Input(None, given)], call, opened)
    return _load_inline(given, call, opened)


class BulkJob:
    """Rows of many types on their way into a graph: one commit when the block ends well."""

    def __init__(self, call: LoadCall, opened: OpenGraph) -> None:
        self._call, self._opened = call, opened
        self._inputs: list[Input] = []
        self._result: LoadResult | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            load_all = _find_loader(self._opened)
            self._result = load_all(self._inputs, self._call, self._opened)

    @property
    def result(self) -> LoadResult:
        """What the job did; there is one once its block has ended."""
        if self._result is None:
            raise UnavailableError(
                action="tell what the job did", reason="its block has not ended well"
            )
        return self._result

    def nodes(self, type: str, rows: object) -> None:
        """Add rows of a node type: a Spark frame, Arrow rows, or paths of files."""
        self._add(type, rows, NodeType)

    def edges(self, type: str, rows: object) -> None:
        """Add rows of an edge type, with the columns `src` and `dst`."""
        self._add(type, rows, EdgeType)

    def records(self, source: object) -> None:
        """Add files whose records, or names, say of which types they are."""
        self._inputs.append(Input(None, source))

    def _add(self, name: str, rows: object, kind: type[NodeType] | type[EdgeType]) -> None:
        declared = get_type(name, self._opened.pin(MAIN).catalog)
        if not isinstance(declared, kind):
            own, other = ("an edge", "edges") if kind is NodeType else ("a node", "nodes")
            raise InvalidValueError(
                subject=name,
                expected="the type of such rows",
                value=name,
                problem=f"{declared.name} is {own} type; use `{other}`",
            )
        self._inputs.append(Input(table_key_of(declared), rows))


def _needs_spark(engine: str, given: object, call: LoadCall, opened: OpenGraph) -> bool:
    match engine:
        case "spark":
            return True
        case "inline":
            if call.spark is None and call.on_error is OnError.RAISE:
                return False
            problem = 'a load in process takes no session and rejects no rows; use engine="spark"'
        case "auto":
            if call.spark is not None or call.on_error is OnError.QUARANTINE:
                return True
            return _holds_frame(given) or _measure(given, opened) > INLINE_BYTES_MAX
        case _:
            problem = f"{engine!r} is none of auto, inline and spark"
    raise InvalidValueError(
        subject="engine", expected="auto, inline or spark", value=engine, problem=problem
    )


def _holds_frame(given: object) -> bool:
    sources = given.values() if isinstance(given, Mapping) else ()
    return any(
        any(map(is_spark_frame, each)) if isinstance(each, list | tuple) else is_spark_frame(each)
        for each in sources
    )


def _measure(given: object, opened: OpenGraph) -> int:
    """About how many bytes of files a load would read; what is no file is in memory already."""
    sources = given.values() if isinstance(given, Mapping) else [given]
    if not all(map(is_named, sources)):
        return 0
    splits = plan_splits(given, means=opened.means_of(opened.pin(MAIN)), split_bytes=None)
    return sum(split.size * _expansion(split) for split in splits)


def _expansion(split: Split) -> int:
    return _UNPACKED_PER_BYTE if split_suffix(split.path)[1] is not None else 1


def _load_inline(given: object, call: LoadCall, opened: OpenGraph) -> LoadResult:
    target, source = call.target, call.base
    is_missing = source is not None and target not in opened.authority.branches()
    start = opened.authority.capture(source if is_missing and source else target)
    received = receive(given, means=opened.means_of(start), runtime=opened.settings.runtime)
    row_count = sum(each.rows.num_rows for each in received.values())
    call.progress("read", row_count, row_count)
    is_new = False
    if is_missing and source is not None:
        # What is refused on the base would be refused on the branch: better before it exists.
        committed = opened.rows_of(start)
        prepare_load(received, mode=call.mode, catalog=start.catalog, committed=committed)
        is_new = ensure_branch(target, base=source, path=opened.writes)

    def prepare(basis: Basis, committed: SnapshotRows) -> PreparedLoad:
        return prepare_load(received, mode=call.mode, catalog=basis.catalog, committed=committed)

    done, commit = write_on(
        target,
        prepare=prepare,
        authorship=opened.author(call.actor, WriterKind.LOAD, expected_head=call.expected_head),
        path=opened.writes,
    )
    call.progress("commit", row_count, row_count)
    return LoadResult(
        nodes_loaded=done.nodes_loaded,
        edges_loaded=done.edges_loaded,
        commit_id=commit.id if commit else None,
        branch=target,
        base_branch=source,
        branch_created=is_new,
        engine="inline",
    )


def _find_loader(opened: OpenGraph) -> BulkLoader:
    """The engine for bulk loads that the graph was opened with."""
    part = find_part("loading.load", settings=opened.settings, action="load")
    found: BulkLoader = part.load
    return found


def _parse_on_error(text: str) -> OnError:
    try:
        return OnError(text)
    except ValueError as error:
        raise InvalidValueError(
            subject="on_error",
            expected="raise or quarantine",
            value=text,
            problem=f"{text!r} is neither raise nor quarantine",
        ) from error


def _say_nothing(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""
