"""Loads: parses the arguments of a load, and runs it in this process or on Spark.

The caller provides the Spark implementation by name. In both cases a load is one commit, or changes
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Self

from omnigraph.engine.commit.idempotency import Request
from omnigraph.engine.commit.protocol import Authorship
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.context import GraphContext
from omnigraph.engine.executors import get_spark_module
from omnigraph.engine.input.batches import ReceivedRows, RowBatch, RowsDigest, gather
from omnigraph.engine.input.files import split_suffix
from omnigraph.engine.input.sources import is_spark_frame, read_given
from omnigraph.engine.input.splits import is_named, plan_splits
from omnigraph.engine.ops.embeddings import (
    EmbedMode,
    VectorPolicy,
    WriteVectors,
    choose_policy,
    parse_embed,
)
from omnigraph.engine.ops.load import (
    InlineLoad,
    LoadMode,
    Progress,
    create_and_load,
    run_load,
)
from omnigraph.engine.ops.recorded_responses import LOAD_CODEC, make_request
from omnigraph.engine.ops.retry import find_recorded
from omnigraph.engine.results import LoadResult
from omnigraph.engine.row_security.writes import complete
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import get_type, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, UnavailableError
from omnigraph.model.limits import INLINE_BYTES_MAX
from omnigraph.model.names import MAIN, BranchName, parse_branch_name, parse_key, parse_word
from omnigraph.model.ports import Action

# The approximate expansion of compressed NDJSON.
_UNPACKED_PER_BYTE = 8


class OnError(StrEnum):
    """The treatment of rows that cannot be loaded."""

    RAISE = "raise"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Input:
    """Rows to load: rows of one type, or records that name their types."""

    type_name: str | None
    source: object


@dataclass(frozen=True, slots=True)
class LoadCall:
    """The options and the target branch of a load.

    Rejected rows are written to `quarantine`. With `base`, a missing branch is created from that
    one. `expected_head` is the commit that the branch, or the base of a new branch, must be at, if
    the caller requires one. `key` is the caller's idempotency key, and `request` the request that
    it identifies. `embed` determines when empty vectors are filled; None is the default of the
    graph.
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
    embed: EmbedMode | None


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
    expected_head: str | None,
    idempotency_key: str | None,
    embed: str | None,
) -> LoadCall:
    """Parse and check the arguments of a load."""
    try:
        rejecting = OnError(on_error)
    except ValueError as error:
        raise InvalidValueError(
            subject="on_error",
            expected="raise or quarantine",
            value=on_error,
            problem=f"{on_error!r} is neither raise nor quarantine",
        ) from error
    if quarantine is not None and rejecting is OnError.RAISE:
        raise InvalidValueError(
            subject="quarantine",
            expected="a place for rejected rows",
            value=quarantine,
            problem='nothing is rejected unless on_error="quarantine"',
        )
    return LoadCall(
        mode=parse_word(LoadMode, mode, subject="mode"),
        target=parse_branch_name(branch),
        base=None if base is None else parse_branch_name(base),
        actor=actor,
        progress=progress or (lambda *_: None),
        spark=spark,
        on_error=rejecting,
        quarantine=None if quarantine is None else os.fspath(quarantine),
        expected_head=expected_head,
        key=parse_key(idempotency_key),
        request=None,
        embed=parse_embed(embed),
    )


def load(given: object, call: LoadCall, *, engine: str, opened: GraphContext) -> LoadResult:
    """Load rows as one commit, or change nothing, with the engine that the caller names."""
    with opened.redacted_errors(None, target=_start_of(call, opened)):
        if _needs_spark(engine, given, call, opened):
            return _load_on_spark(given, call, opened)
        return _load_inline(given, call, opened)


def author_of(call: LoadCall, opened: GraphContext) -> Authorship:
    """The author of a load, its expected head and its request."""
    author = opened.author(call.actor, WriterKind.LOAD, expected_head=call.expected_head)
    return author.with_request(call.request)


def policy_of(call: LoadCall, opened: GraphContext) -> VectorPolicy:
    """The policy of a load for empty vectors."""
    settings = opened.settings
    return choose_policy(
        call.embed, embedder=settings.embedder, embeds_on_write=settings.embeds_on_write
    )


def require_appending(call: LoadCall, opened: GraphContext) -> None:
    """Raise if a load requires that the caller sees all rows of the branch, and it does not.

    Modes other than append may replace rows that the caller does not see. A quarantine file records
    which existing rows caused a rejection.
    """
    if opened.settings.gate is None:
        return
    if call.on_error is OnError.QUARANTINE:
        opened.require_full_view("load with a quarantine", branch=_start_of(call, opened))
    if call.mode is not LoadMode.APPEND:
        opened.require_full_view(f'load with mode "{call.mode}"', branch=_start_of(call, opened))


def _start_of(call: LoadCall, opened: GraphContext) -> BranchName:
    """The branch whose rows a load reads: the target, or the base if the target is created."""
    if call.base is None or call.target in opened.branch_states.branches():
        return call.target
    return call.base


class BulkJob:
    """Rows of multiple types that are loaded as one commit when the block ends without an error."""

    def __init__(self, call: LoadCall, opened: GraphContext) -> None:
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
            with self._opened.redacted_errors(None, target=_start_of(self._call, self._opened)):
                self._result = _run_spark_job(self._inputs, self._call, self._opened)

    @property
    def result(self) -> LoadResult:
        """The result of the job; raises `UnavailableError` until its block has succeeded."""
        if self._result is None:
            raise UnavailableError(
                action="return the result of the job", reason="its block has not succeeded"
            )
        return self._result

    def nodes(self, type: str, rows: object) -> None:
        """Add rows of a node type: a Spark DataFrame, Arrow data, or paths of files."""
        self._add(type, rows, NodeType)

    def edges(self, type: str, rows: object) -> None:
        """Add rows of an edge type, with endpoint columns `from` and `to`, or `src` and `dst`."""
        self._add(type, rows, EdgeType)

    def records(self, source: object) -> None:
        """Add files whose records, or whose names, specify their types."""
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


def _needs_spark(engine: str, given: object, call: LoadCall, opened: GraphContext) -> bool:
    match engine:
        case "spark":
            return True
        case "inline":
            if call.spark is None and call.on_error is OnError.RAISE:
                return False
            problem = (
                'an inline load does not accept a session or quarantine rows; use engine="spark"'
            )
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


def _measure(given: object, opened: GraphContext) -> int:
    """The approximate size in bytes of the files that a load reads; 0 for data in memory."""
    sources = given.values() if isinstance(given, Mapping) else [given]
    if not all(map(is_named, sources)):
        return 0
    splits = plan_splits(given, context=opened.read_context(opened.pin(MAIN)), split_bytes=None)
    return sum(
        each.size * (1 if split_suffix(each.path)[1] is None else _UNPACKED_PER_BYTE)
        for each in splits
    )


def _load_on_spark(given: object, call: LoadCall, opened: GraphContext) -> LoadResult:
    _require_all_properties(call, opened)
    # Spark inputs are large, so the request is identified by the paths of its files, not their
    # rows.
    names = None if call.key is None else _name_inputs(given)
    request = _make_request(call, names)
    call = replace(call, request=request)
    if request is not None and opened.branch_states.has_branch(call.target):
        recorded = find_recorded(
            call.target,
            codec=LOAD_CODEC,
            authorship=author_of(call, opened),
            path=opened.writes,
        )
        if recorded is not None:
            return recorded
    return _run_spark_job([Input(None, given)], call, opened)


def _run_spark_job(inputs: Sequence[Input], call: LoadCall, opened: GraphContext) -> LoadResult:
    part = get_spark_module("load.load", settings=opened.settings, action="load")
    loaded: LoadResult = part.load(inputs, call, opened)
    return loaded


def _require_all_properties(call: LoadCall, opened: GraphContext) -> None:
    """Raise if properties are hidden from the caller, because Spark would read them anyway."""
    start = _start_of(call, opened)
    present = opened.pin(start)
    visible = opened.visible_to_writer(present, branch=start)
    if visible.accepted_schema is not present.accepted_schema:
        opened.require_unrestricted(visible, "load on Spark")


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
            problem="rows without a name cannot be identified before Spark has read them; "
            "nothing was written; pass paths, or load without a key",
        )
    return str(given)


def _load_inline(given: object, call: LoadCall, opened: GraphContext) -> LoadResult:
    target, source = call.target, call.base
    is_missing = source is not None and target not in opened.branch_states.branches()
    if is_missing:
        opened.require_allowed(Action.BRANCH_CREATE, branch=source, target=target, actor=None)
    start = opened.branch_states.capture(source if is_missing and source else target)
    received, digest = _receive(given, call, start, opened)
    call = replace(call, request=_make_request(call, digest))
    inline = InlineLoad(
        received=received,
        mode=call.mode,
        target=target,
        base=source,
        is_new_branch=False,
        vectors=WriteVectors(policy_of(call, opened)),
        progress=call.progress,
    )
    call.progress("read", inline.row_count, inline.row_count)
    authorship = author_of(call, opened)
    if is_missing and source is not None:
        return create_and_load(
            inline, base=source, start=start, authorship=authorship, path=opened.writes
        )
    return run_load(inline, authorship=authorship, path=opened.writes)


def _make_request(call: LoadCall, rows: object) -> Request | None:
    """The request of a load with an idempotency key; None without a key."""
    # A request without `embed` is encoded as it was before the option existed, so that it matches
    # responses that were recorded then.
    embed = () if call.embed is None else (call.embed,)
    return make_request(call.key, "load", call.mode, call.base, rows, *embed)


def _receive(
    given: object, call: LoadCall, basis: Basis, opened: GraphContext
) -> tuple[dict[str, ReceivedRows], str]:
    """The input rows, and their digest if the request has a key."""
    noted = None if call.key is None else RowsDigest()
    visible = opened.visible_to_writer(basis, branch=_start_of(call, opened))

    def reading() -> Iterator[RowBatch]:
        row_count = 0
        for read in read_given(given, context=opened.read_context(visible), report=None):
            piece = complete(read, catalog=basis.catalog, actor=opened.actor_of(None))
            if noted is not None:
                noted.note(piece)
            row_count += piece.rows.num_rows
            call.progress("read", row_count, None)
            yield piece

    received = gather(reading(), runtime=opened.settings.runtime)
    return received, "" if noted is None else noted.digest(received)
