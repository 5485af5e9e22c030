"""Any history of columns and rows against a model of dictionaries, on a table and on a branch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import IndexKind, IndexSpec, TableVersion
from omnigraph.storage.predicates import Operator, compare
from omnigraph.storage.row_files import ID
from tests.support.table_stores import PATH, place_on_disk

Row = Mapping[str, object]

NUMBER, TEXT, BYTES = pa.int64(), pa.string(), pa.large_binary()
VECTOR = pa.list_(pa.field("item", pa.float32()), 2)
NUMBERS = pa.list_(pa.field("item", NUMBER))

NAMES = ("a", "b", "c", "d", "e")
IDS = ("p0", "p1", "p2", "p3")
TYPES = (NUMBER, TEXT, BYTES, VECTOR, NUMBERS)


class Step(StrEnum):
    """A step of a table branch."""

    COLUMNS = "columns"
    PUT = "put"
    REMOVE = "remove"
    INDEX = "index"
    COMPACT = "compact"
    RESTORE = "restore"


STEPS = (*Step, Step.COLUMNS, Step.COLUMNS, Step.PUT, Step.PUT)


@dataclass(frozen=True, slots=True)
class Content:
    """The expected contents of a version."""

    type_by_column: Mapping[str, pa.DataType]
    row_by_id: Mapping[str, Row]

    @property
    def schema(self) -> pa.Schema:
        properties = sorted(self.type_by_column.items())
        return pa.schema([ID, *(pa.field(name, type) for name, type in properties)])

    @property
    def rows(self) -> list[Row]:
        return [{"id": id, **self.row_by_id[id]} for id in sorted(self.row_by_id)]


@dataclass(slots=True)
class Line:
    """A sequence of versions, each with its expected contents."""

    head: TableVersion
    content_by_version: dict[TableVersion, Content] = field(default_factory=dict)

    @property
    def content(self) -> Content:
        return self.content_by_version[self.head]

    def move(self, at: TableVersion, content: Content) -> None:
        self.head = at
        self.content_by_version[at] = content


@settings(max_examples=40, deadline=None)
@given(story=st.data())
def test_whatever_happened_rows_are_those_of_a_model(story: DataObject) -> None:
    with TemporaryDirectory() as folder:
        store = place_on_disk(Path(folder)).open()
        empty = Content({}, {})
        at = store.create(PATH, empty.schema.empty_table(), config={})
        lines = [Line(at, {at: empty})]
        for number in range(story.draw(st.integers(3, 14))):
            line = story.draw(st.sampled_from(lines))
            take_step(store, line, story, number=number)
            require_same(store, line.head, line.content)
            if len(lines) == 1 and story.draw(st.booleans()):
                branched = TableVersion(store.fork(line.head, branch="feature"), line.head.version)
                lines.append(Line(branched, {branched: line.content}))
        for line in lines:
            for version, content in line.content_by_version.items():
                require_same(store, version, content)


def take_step(store: LanceTables, line: Line, story: DataObject, *, number: int) -> None:
    """The next version of a line, if the step makes one."""
    step: Step = story.draw(st.sampled_from(STEPS))
    match step:
        case Step.COLUMNS:
            change_columns(store, line, story)
        case Step.PUT:
            put_rows(store, line, story, number=number)
        case Step.REMOVE:
            remove_row(store, line, story.draw(st.sampled_from(IDS)))
        case Step.INDEX:
            build_indexes(store, line)
        case Step.COMPACT:
            joined = store.compact(line.head, rows_per_fragment=100)
            assert joined is not None
            line.move(joined, line.content)
        case Step.RESTORE:
            old = story.draw(st.sampled_from(list(line.content_by_version)))
            line.move(store.restore(old, uuid=str(uuid4())), line.content_by_version[old])


def change_columns(store: LanceTables, line: Line, story: DataObject) -> None:
    """Give the head other columns, or the same."""
    changed, renames = story.draw(changes(line.content))
    staged = store.stage_columns(changed.schema, renames=renames, onto=line.head)
    assert (staged is None) is (changed == line.content and not renames)
    if staged is not None:
        line.move(store.apply(staged), changed)


def put_rows(store: LanceTables, line: Line, story: DataObject, *, number: int) -> None:
    """Replace or add some rows."""
    content = line.content
    row_by_id = story.draw(rows_to_put(content, number))
    listed = [{"id": id, **row} for id, row in row_by_id.items()]
    rows = pa.Table.from_pylist(listed, schema=content.schema)
    written = store.apply(store.stage_merge_insert(rows, onto=line.head))
    line.move(written, Content(content.type_by_column, {**content.row_by_id, **row_by_id}))


def remove_row(store: LanceTables, line: Line, deleted: str) -> None:
    """Remove a row, if it is there."""
    content = line.content
    staged = store.stage_delete(pa.array([deleted]), onto=line.head)
    assert (staged is not None) is (deleted in content.row_by_id)
    if staged is not None:
        left = {id: row for id, row in content.row_by_id.items() if id != deleted}
        line.move(store.apply(staged), Content(content.type_by_column, left))


def build_indexes(store: LanceTables, line: Line) -> None:
    """Index the ids and the numbers, as far as they are not."""
    content = line.content
    of_numbers = [name for name, type in content.type_by_column.items() if type == NUMBER]
    covered = store.indexes(line.head)
    specs = [IndexSpec(name, IndexKind.BTREE) for name in ["id", *of_numbers]]
    lacking = [spec for spec in specs if covered.get(spec, -1) < len(content.row_by_id)]
    if lacking:
        line.move(store.apply(store.stage_indexes(lacking, onto=line.head)), content)


@st.composite
def changes(draw: st.DrawFn, content: Content) -> tuple[Content, dict[str, str]]:
    """Other columns for the same rows, and the former names of those that remain."""
    stored = content.type_by_column
    retained = [name for name in stored if draw(st.integers(0, 3))]
    names = draw(st.permutations(NAMES))
    moved = {name for name in retained if not draw(st.integers(0, 2))}
    free = [name for name in names if name not in set(retained) - moved]
    # A name that is dropped is free only for a column that is renamed to it.
    new_by_old = {name: free.pop() if name in moved else name for name in retained}
    fresh = [
        name for name in free if name not in set(stored) - moved and not draw(st.integers(0, 2))
    ]
    added = {name: draw(st.sampled_from(TYPES)) for name in fresh}
    types = {new: stored[old] for old, new in new_by_old.items()}
    row_by_id = {
        id: {new: row[old] for old, new in new_by_old.items()} | dict.fromkeys(added)
        for id, row in content.row_by_id.items()
    }
    renames = {old: new for old, new in new_by_old.items() if old != new}
    return Content(types | added, row_by_id), renames


@st.composite
def rows_to_put(draw: st.DrawFn, content: Content, number: int) -> dict[str, Row]:
    """Rows with values that no earlier step wrote, or none."""
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True))
    return {
        id: {
            name: value_of(type, number) if draw(st.integers(0, 4)) else None
            for name, type in content.type_by_column.items()
        }
        for id in ids
    }


def value_of(type: pa.DataType, number: int) -> object:
    """A value that identifies the step that wrote it."""
    if type == NUMBER:
        return number
    if type == TEXT:
        return f"step {number}"
    if type == BYTES:
        return b"%d" % number
    return [float(number), 0.5] if type == VECTOR else [number, None]


def require_same(store: LanceTables, at: TableVersion, content: Content) -> None:
    """Every way of reading a version returns its expected contents."""
    names = content.schema.names
    assert store.schema(at).equals(content.schema)
    assert by_id(store.scan(at, columns=names, predicate=None)) == content.rows
    assert by_id(store.find_rows(at, ids=pa.array(IDS), columns=names)) == content.rows
    places = np.arange(len(content.rows))
    plain = [name for name in names if content.type_by_column.get(name) != BYTES]
    taken = by_id(store.take(at, positions=places, columns=plain))
    assert taken == [{name: row[name] for name in plain} for row in content.rows]
    for name, type in content.type_by_column.items():
        if type == NUMBER:
            expected = sum(row[name] is not None for row in content.rows)
            assert store.count(at, predicate=compare(name, Operator.GE, 0)) == expected


def by_id(rows: pa.Table) -> list[Row]:
    ordered: list[Row] = rows.sort_by("id").to_pylist()
    return ordered
