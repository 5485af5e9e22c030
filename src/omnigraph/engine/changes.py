"""The results of diffs and change feeds: changes of nodes and edges with both row versions.

A `ChangeSet` is immutable and ordered: nodes before edges, then by type name, then by id. It holds
Arrow columns; `Change` values with JSON rows are created from them on demand.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.rows.json_rows import encode_column
from omnigraph.engine.state.history import Commit, make_note, make_table
from omnigraph.model.catalog import EdgeType, NodeType, TypeKind
from omnigraph.model.errors import InvalidValueError, LimitExceededError, NotFoundError, plural
from omnigraph.model.limits import CHANGES_PER_PAGE, CHANGES_PER_PAGE_MAX, NOTEBOOK_ROWS_MAX
from omnigraph.model.names import require_text
from omnigraph.model.types import STRING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STREAM = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("kind", "type", "id", "op")]
    + [pa.field(name, pa.string()) for name in ("before", "after")]
)


class ChangeOp(StrEnum):
    """The kind of change of a node or an edge between two states."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """One node or edge that differs between two states.

    `before` and `after` contain its id, the ids of an edge's endpoints as `src` and `dst`, and all
    properties. They are None in a state in which it does not exist.
    """

    kind: str
    type: str
    id: str
    op: str
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class ChangeStats:
    """The number of changes, and the names of the types that have changes."""

    inserts: int
    updates: int
    deletes: int
    types_affected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The changes of one type by id; a row version that does not exist is a row of nulls."""

    declared: NodeType | EdgeType
    ops: pa.Array
    before: pa.Table
    after: pa.Table

    @property
    def ids(self) -> pa.ChunkedArray:
        """The id of each change."""
        return pc.coalesce(self.after["id"], self.before["id"])

    @property
    def place(self) -> tuple[bool, str]:
        """The sort key of the type: nodes before edges, then by name."""
        return self.declared.kind is TypeKind.EDGE, self.declared.name

    def slice(self, start: int, length: int) -> ChangedRows:
        """A contiguous range of changes."""
        parts = (each.slice(start, length) for each in (self.ops, self.before, self.after))
        return ChangedRows(self.declared, *parts)

    def count_up_to(self, id: str) -> int:
        """The number of changes with ids up to and including an id."""
        return int(pc.sum(pc.less_equal(self.ids, id)).as_py() or 0)

    def count(self, op: ChangeOp) -> int:
        """The number of changes of one kind."""
        return int(pc.sum(pc.equal(self.ops, op.value)).as_py() or 0)

    def row_versions(self) -> Iterator[tuple[dict[str, object] | None, dict[str, object] | None]]:
        """The row versions before and after each change, as JSON rows."""
        return zip(
            _as_json(self.declared, self.before), _as_json(self.declared, self.after), strict=True
        )


class DeferredChanges(Protocol):
    """Changes that are computed elsewhere when they are first used."""

    def count(self) -> ChangeStats:
        """The number of changes, counted where they are computed."""

    def collect(self) -> Sequence[ChangedRows]:
        """All changes by type, in the order of a change set."""

    def to_frame(self, type: str | None, session: object) -> DataFrame:
        """The changes as a DataFrame, which is computed when it is used."""


class ChangeSet:
    """The net changes from one commit to another; changes that were undone in between are omitted.

    Iteration yields `Change` values. As an Arrow stream it has the same columns, with the row
    versions encoded as JSON. Changes that Spark finds are transferred to this process when they are
    first used, except for `stats` and `to_spark`.
    """

    def __init__(
        self,
        parts: Sequence[ChangedRows] | DeferredChanges,
        *,
        old_commit_id: str | None,
        new_commit_id: str,
    ) -> None:
        self._found = parts
        self._old_commit_id, self._new_commit_id = old_commit_id, new_commit_id

    @cached_property
    def _parts(self) -> tuple[ChangedRows, ...]:
        found = self._found
        return tuple(found if isinstance(found, Sequence) else found.collect())

    @cached_property
    def _counts(self) -> ChangeStats:
        found = self._found
        if not isinstance(found, Sequence) and "_parts" not in vars(self):
            return found.count()
        counted = {op: sum(part.count(op) for part in self._parts) for op in ChangeOp}
        return ChangeStats(
            inserts=counted[ChangeOp.INSERT],
            updates=counted[ChangeOp.UPDATE],
            deletes=counted[ChangeOp.DELETE],
            types_affected=tuple(
                sorted({part.declared.name for part in self._parts if len(part.ops)})
            ),
        )

    @property
    def parts(self) -> tuple[ChangedRows, ...]:
        """The changes of each compared type, in order."""
        return self._parts

    @property
    def old_commit_id(self) -> str | None:
        """The older commit of the comparison; None before the first commit."""
        return self._old_commit_id

    @property
    def new_commit_id(self) -> str:
        """The newer commit of the comparison, whose rows are the `after` versions."""
        return self._new_commit_id

    @property
    def stats(self) -> ChangeStats:
        """The number of changes of each kind, and the types affected."""
        return self._counts

    def __len__(self) -> int:
        return self._counts.inserts + self._counts.updates + self._counts.deletes

    def __iter__(self) -> Iterator[Change]:
        for part in self._parts:
            kind, type = str(part.declared.kind), part.declared.name
            rows = zip(part.ids.to_pylist(), part.ops.to_pylist(), part.row_versions(), strict=True)
            for id, op, (before, after) in rows:
                yield Change(kind, type, id, op, before, after)

    def to_arrow(self, type: str | None = None) -> pa.Table:
        """All changes with row versions as JSON texts, or the changes of one type with typed rows.

        Typed rows are structs of the type's columns. A name that is both a node and an edge type is
        written `node:Name` or `edge:Name`.
        """
        if type is None:
            return pa.concat_tables([_STREAM.empty_table(), *map(as_stream, self._parts)])
        part = self._get_part(type)
        return pa.table(
            {
                "id": part.ids,
                "op": part.ops,
                "before": _as_structs(part.before),
                "after": _as_structs(part.after),
            }
        )

    def to_spark(self, type: str | None = None, session: object = None) -> DataFrame:
        """The changes as a DataFrame of the given Spark session, the active session, or a new one.

        It has the columns of `to_arrow`, for all changes or for those of one type. Changes that
        Spark finds are not transferred to this process.
        """
        if not isinstance(self._found, Sequence):
            return self._found.to_frame(type, session)
        part = None if type is None else self._get_part(type)
        parts = self._parts if part is None else (part,)
        try:
            frames = import_module("omnigraph.spark.ops.diff")
        except ModuleNotFoundError as error:
            advice = "install it, or use `to_arrow`"
            raise NotFoundError(kind="package", name=str(error.name), advice=advice) from error
        frame: DataFrame = frames.make_frame(parts, is_typed=part is not None, session=session)
        return frame

    def page(self, token: str | None = None, *, limit: int = CHANGES_PER_PAGE) -> ChangePage:
        """The first page of changes, or the page that follows the one that returned a token.

        A token is valid for every diff between the same two commits, regardless of the types and
        kinds of changes that it selects.
        """
        if not isinstance(limit, int) or limit < 1:
            raise InvalidValueError(
                subject="limit",
                expected="a positive number",
                value=limit,
                problem="a page holds a whole number of changes, at least one",
            )
        if limit > CHANGES_PER_PAGE_MAX:
            raise LimitExceededError(
                resource="the number of changes in a page", limit=CHANGES_PER_PAGE_MAX, found=limit
            )
        if token is not None:
            require_text(token, subject="token")
        pending = list(self._parts if token is None else self._behind(token))
        taken, left = [], limit
        for part in pending:
            taken.append(part.slice(0, left))
            left -= len(taken[-1].ops)
        page = ChangeSet(
            taken, old_commit_id=self._old_commit_id, new_commit_id=self._new_commit_id
        )
        is_last = sum(len(part.ops) for part in pending) <= limit
        return ChangePage(page, None if is_last else self._token_behind(taken))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The changes, for any library that reads Arrow streams."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        commits = f"<ChangeSet from {self._old_commit_id} to {self._new_commit_id}"
        # Printing changes must not compute them.
        if not isinstance(self._found, Sequence) and not {"_parts", "_counts"} & vars(self).keys():
            return f"{commits}>"
        stats = self._counts
        return (
            f"{commits}: {stats.inserts} inserts, {stats.updates} updates, {stats.deletes} deletes>"
        )

    def _repr_html_(self) -> str:
        title = make_note(repr(self).strip("<>"))
        # Displaying changes must not make Spark compute them.
        if not isinstance(self._found, Sequence) and "_parts" not in vars(self):
            return title
        shown = self.page(limit=NOTEBOOK_ROWS_MAX).changes
        rows = ([each.op, each.kind, each.type, each.id, *_describe_change(each)] for each in shown)
        hidden = len(self) - len(shown)
        more = make_note(f"and {hidden:,} more {plural(hidden, 'change')}") if hidden else ""
        return title + make_table(("op", "kind", "type", "id", "before", "after"), rows) + more

    def _token_behind(self, parts: Sequence[ChangedRows]) -> str:
        last = [part for part in parts if len(part.ops)][-1]
        place = [*last.place, last.ids[-1].as_py()]
        fields = [self._old_commit_id, self._new_commit_id, *place]
        return urlsafe_b64encode(orjson.dumps(fields)).decode()

    def _behind(self, token: str) -> Iterator[ChangedRows]:
        is_edge, name, id = self._read_token(token)
        for part in self._parts:
            start = part.count_up_to(id) if part.place == (is_edge, name) else 0
            if part.place >= (is_edge, name):
                yield part.slice(start, len(part.ops))

    def _read_token(self, token: str) -> tuple[bool, str, str]:
        commits = [self._old_commit_id, self._new_commit_id]
        with suppress(ValueError):
            match orjson.loads(urlsafe_b64decode(token.encode())):
                case [old, new, bool(is_edge), str(name), str(id)] if [old, new] == commits:
                    return is_edge, name, id
                case _:
                    pass
        raise InvalidValueError(
            subject="token",
            expected="a page token of this diff",
            value=token,
            problem="this is not a page token between these two commits; start without one",
        )

    def _get_part(self, name: str) -> ChangedRows:
        declared = [part.declared for part in self._parts]
        return self._parts[find_type_index(name, declared)]


def find_type_index(name: str, declared: Sequence[NodeType | EdgeType]) -> int:
    """The index of the compared type that a name refers to.

    Raises `NotFoundError` if there is none, and `InvalidValueError` if the name is ambiguous.
    """
    found = [
        index
        for index, each in enumerate(declared)
        if name in (each.name, f"{each.kind}:{each.name}")
    ]
    if not found:
        raise NotFoundError(kind="type", name=name, advice="it was not compared")
    if len(found) > 1:
        raise InvalidValueError(
            subject="to_arrow",
            expected="type name",
            value=name,
            problem=f"'{name}' is a node type and an edge type; write 'node:{name}' or "
            f"'edge:{name}'",
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page of the changes of a diff, and the token of the next page; None on the last page."""

    changes: ChangeSet
    next_token: str | None


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """One commit of a change feed, and its changes relative to its first parent."""

    commit: Commit
    changes: ChangeSet

    @property
    def cursor(self) -> str:
        """The cursor from which a feed continues after this commit."""
        return f"after:{self.commit.id}"


def _describe_change(change: Change) -> tuple[object, object]:
    """Both row versions of a change; for an update, only the properties that differ."""
    before, after = change.before, change.after
    if before is None or after is None:
        return before or "", after or ""
    names = [name for name in after if name not in before or before[name] != after[name]]
    return {name: before.get(name) for name in names}, {name: after[name] for name in names}


def _as_json(declared: NodeType | EdgeType, rows: pa.Table) -> list[dict[str, object] | None]:
    types = {name: each.type for name, each in declared.properties.items()}
    names = rows.schema.names
    columns = [encode_column(rows[name], types.get(name, STRING)) for name in names]
    return [
        None if cells[0] is None else dict(zip(names, cells, strict=True))
        for cells in zip(*columns, strict=True)
    ]


def as_stream(part: ChangedRows) -> pa.Table:
    """The changes of a type with their row versions as JSON texts."""
    texts = [
        [None if row is None else orjson.dumps(row).decode() for row in row_versions]
        for row_versions in part.row_versions()
    ]
    return pa.table(
        [
            pa.repeat(str(part.declared.kind), len(part.ops)),
            pa.repeat(part.declared.name, len(part.ops)),
            part.ids,
            part.ops,
            pa.array([before for before, _ in texts], pa.string()),
            pa.array([after for _, after in texts], pa.string()),
        ],
        schema=_STREAM,
    )


def _as_structs(rows: pa.Table) -> pa.Array:
    columns = [column.combine_chunks() for column in rows.columns]
    fields = [field.with_nullable(field.name != "id") for field in rows.schema]
    return pa.StructArray.from_arrays(
        columns, fields=fields, mask=rows["id"].combine_chunks().is_null()
    )
