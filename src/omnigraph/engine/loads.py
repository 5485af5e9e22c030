"""Loads: what callers ask of them, and where they run: in this process, or on Spark.

The engine for what this process should not hold is given from above, by name. Either way a load is
one commit, or nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from omnigraph.engine.commit.protocol import Authorship
from omnigraph.engine.commit.requests import Request
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import find_part
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import find_told, write_once
from omnigraph.engine.ops.branch import ensure_branch
from omnigraph.engine.ops.limited_callers import complete
from omnigraph.engine.ops.load import (
    LoadMode,
    PreparedLoad,
    parse_mode,
    prepare_load,
    tell_load,
)
from omnigraph.engine.ops.reading.packing import split_suffix
from omnigraph.engine.ops.reading.pieces import Piece
from omnigraph.engine.ops.reading.received import ReceivedRows, gather
from omnigraph.engine.ops.reading.sources import is_spark_frame, read_given
from omnigraph.engine.ops.reading.splits import Split, is_named, plan_splits
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.engine.ops.requests import RowsDigest, make_request
from omnigraph.engine.ops.told import load_result
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import LoadResult
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, UnavailableError
from omnigraph.model.limits import INLINE_BYTES_MAX
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.model.policy import Action

Progress = Callable[[str, int, int | None], None]
"""Takes the name of a stage, how much of it is done, and of how much if that is known.

What it raises ends the load, and nothing was written.
"""

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
    that one. `expected_head` is the commit that the branch, or the base of a new one, must be at,
    if the rows hang on it. `key` is the caller's for the request, and `request` what it was for.
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
    key: str | None
    request: Request | None


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
        key=None,
        request=None,
    )


def load(given: object, call: LoadCall, *, engine: str, opened: OpenGraph) -> LoadResult:
    """Load rows as one commit, or change nothing, by the engine that a caller names."""
    with opened.telling_no_rows(_start_of(call, opened)):
        if _needs_spark(engine, given, call, opened):
            return _load_on_spark(given, call, opened)
        return _load_inline(given, call, opened)


def author_of(call: LoadCall, opened: OpenGraph) -> Authorship:
    """Who a load is by, and on which terms."""
    author = opened.author(call.actor, WriterKind.LOAD, expected_head=call.expected_head)
    return author.answering(call.request)


def require_appending(call: LoadCall, opened: OpenGraph) -> None:
    """Raise if a load may replace rows of a branch that the caller does not see all of, or writes
    down which of them reject others."""
    if opened.settings.gate is None:
        return
    if call.on_error is OnError.QUARANTINE:
        opened.require_whole("load with a quarantine", branch=_start_of(call, opened))
    if call.mode is not LoadMode.APPEND:
        opened.require_whole(f'load with mode "{call.mode}"', branch=_start_of(call, opened))


def _start_of(call: LoadCall, opened: OpenGraph) -> BranchName:
    """The branch whose rows a load meets: the one that it starts from, if it makes its own."""
    if call.base is None or call.target in opened.authority.branches():
        return call.target
    return call.base


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
            _require_all_properties(self._call, self._opened)
            load_all = _find_loader(self._opened)
            with self._opened.telling_no_rows(_start_of(self._call, self._opened)):
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


def _load_on_spark(given: object, call: LoadCall, opened: OpenGraph) -> LoadResult:
    _require_all_properties(call, opened)
    # Rows that Spark reads are many, so the request is known by where they are.
    names = None if call.key is None else _name_inputs(given)
    request = make_request(call.key, "load", call.mode, call.base, names)
    call = replace(call, request=request)
    if request is not None and opened.authority.has_branch(call.target):
        told = find_told(call.target, authorship=author_of(call, opened), path=opened.writes)
        if told is not None:
            return load_result(told, branch=call.target)
    return _find_loader(opened)([Input(None, given)], call, opened)


def _require_all_properties(call: LoadCall, opened: OpenGraph) -> None:
    """Raise if properties are hidden from the caller, which Spark would read all the same."""
    start = _start_of(call, opened)
    present = opened.pin(start)
    seen = opened.seen_by_writer(present, branch=start)
    if seen.contract is not present.contract:
        opened.require_seen_whole(seen, "load on Spark")


def _name_inputs(given: object) -> object:
    if isinstance(given, Mapping):
        return {str(name): _name_inputs(source) for name, source in given.items()}
    if isinstance(given, list | tuple):
        return [_name_inputs(each) for each in given]
    if not is_named(given):
        raise InvalidValueError(
            subject="idempotency_key",
            expected="a key of a load of files",
            value=type(given).__name__,
            problem="rows without a name cannot be told from others before Spark has read them; "
            "nothing was written; give paths, or load without a key",
        )
    return str(given)


def _load_inline(given: object, call: LoadCall, opened: OpenGraph) -> LoadResult:
    target, source = call.target, call.base
    is_missing = source is not None and target not in opened.authority.branches()
    if is_missing:
        opened.require_allowed(Action.BRANCH_CREATE, branch=source, target=target, actor=None)
    start = opened.authority.capture(source if is_missing and source else target)
    received, digest = _receive(given, call, start, opened)
    call = replace(call, request=make_request(call.key, "load", call.mode, source, digest))
    row_count = sum(each.rows.num_rows for each in received.values())
    call.progress("read", row_count, row_count)
    is_new = False
    if is_missing and source is not None:
        # What is refused on the base would be refused on the branch: better before it exists.
        committed = opened.rows_of(start)
        prepare_load(received, mode=call.mode, catalog=start.catalog, committed=committed)
        call.progress("commit", 0, row_count)
        is_new = ensure_branch(target, base=source, if_head=call.expected_head, path=opened.writes)

    def prepare(basis: Basis, committed: SnapshotRows) -> PreparedLoad:
        done = prepare_load(received, mode=call.mode, catalog=basis.catalog, committed=committed)
        if not is_new:
            # For the last time, because from here on something is written.
            call.progress("commit", 0, row_count)
        return done

    told = write_once(
        target,
        prepare=prepare,
        tell=lambda done: tell_load(
            done, base=source, is_new_branch=is_new, engine="inline", rejected_count=0
        ),
        authorship=author_of(call, opened),
        path=opened.writes,
    )
    return load_result(told, branch=target)


def _receive(
    given: object, call: LoadCall, basis: Basis, opened: OpenGraph
) -> tuple[dict[str, ReceivedRows], str]:
    """The rows that were given, and their digest if the request has a key."""
    noted = None if call.key is None else RowsDigest()
    seen = opened.seen_by_writer(basis, branch=_start_of(call, opened))

    def reading() -> Iterator[Piece]:
        row_count = 0
        for read in read_given(given, means=opened.means_of(seen), report=None):
            piece = complete(read, catalog=basis.catalog, actor=opened.actor_of(None))
            if noted is not None:
                noted.note(piece)
            row_count += piece.rows.num_rows
            call.progress("read", row_count, None)
            yield piece

    received = gather(reading(), runtime=opened.settings.runtime)
    return received, "" if noted is None else noted.digest(received)


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
