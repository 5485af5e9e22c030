"""Columns of a table changed through its store: by a version that writes no row."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from omnigraph.model.errors import ExpectedVersionMismatchError, UnexpectedBaseError
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import IndexKind, IndexSpec, StagedKind, TableVersion
from omnigraph.storage.predicates import IsNull, IsPresent, equals
from omnigraph.storage.row_files import ID, TIMESTAMP
from tests.support.lance_probes import files_of
from tests.support.s3_server import S3Server
from tests.support.table_stores import (
    PATH,
    PEOPLE,
    Place,
    ages,
    append,
    create_people,
    must,
    numbered_people,
    people,
    place_on_disk,
    place_on_s3,
    row_versions,
)

Row = Mapping[str, object]
Write = Callable[[LanceTables, TableVersion], TableVersion]

TEXT, NUMBER, BYTES = pa.string(), pa.int64(), pa.large_binary()


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", element))


VECTOR = pa.list_(pa.field("item", pa.float32()), 2)

# Every type that a property can have, with a value of it.
VALUE_BY_TYPE: Mapping[pa.DataType, object] = {
    TEXT: "word",
    BYTES: b"bytes" * 20_000,
    pa.bool_(): True,
    pa.int32(): -1,
    NUMBER: -(2**60),
    pa.uint32(): 1,
    pa.uint64(): 2**63,
    pa.float32(): 0.5,
    pa.float64(): 0.1,
    TIMESTAMP: datetime(2020, 2, 29, 12, 30, 0, 500000, tzinfo=UTC),
    pa.date32(): date(2020, 2, 29),
    list_of(TEXT): ["a", None],
    list_of(pa.bool_()): [True, None],
    list_of(NUMBER): [1, None],
    list_of(pa.float64()): [],
    list_of(pa.date32()): [date(2020, 2, 29), None],
    list_of(TIMESTAMP): [datetime(2020, 2, 29, 12, tzinfo=UTC), None],
    VECTOR: [1.0, 2.0],
}


def columns(**type_by_name: pa.DataType) -> pa.Schema:
    """An id and some columns that may be null."""
    return pa.schema([ID, *(pa.field(name, type) for name, type in type_by_name.items())])


def change(store: LanceTables, at: TableVersion, schema: pa.Schema, **renames: str) -> TableVersion:
    """The next version, with the columns of a schema."""
    return store.apply(must(store.stage_columns(schema, renames=renames, onto=at)))


def rows_of(store: LanceTables, at: TableVersion) -> list[Row]:
    """Every row with every column, by id."""
    found = store.scan(at, columns=store.schema(at).names, predicate=None)
    rows: list[Row] = found.sort_by("id").to_pylist()
    return rows


def put(store: LanceTables, at: TableVersion, *rows: Row) -> TableVersion:
    """The next version, with some rows replaced or added."""
    table = pa.Table.from_pylist(list(rows), schema=store.schema(at))
    return store.apply(store.stage_merge_insert(table, onto=at))


def fork(store: LanceTables, at: TableVersion) -> TableVersion:
    """The first version of a branch."""
    return TableVersion(store.fork(at, branch="feature"), at.version)


# Effects of one change


def test_columns_are_added_dropped_renamed_and_put_in_order_by_one_version(place: Place) -> None:
    store = place.open()
    first = columns(b=NUMBER, c=TEXT, d=NUMBER)
    at = store.create(
        PATH, pa.table({"id": ["x"], "b": [1], "c": ["y"], "d": [2]}, first), config={}
    )
    wanted = columns(a=NUMBER, b=TEXT, e=list_of(NUMBER))

    changed = change(store, at, wanted, d="a", c="b")

    assert changed.version == at.version + 1
    assert store.schema(changed).equals(wanted)
    assert rows_of(place.open(), changed) == [{"id": "x", "a": 2, "b": "y", "e": None}]


def test_columns_change_names_with_each_other(place: Place) -> None:
    store = place.open()
    rows = pa.table({"id": ["x"], "a": [1], "b": [2]}, columns(a=NUMBER, b=NUMBER))
    at = store.create(PATH, rows, config={})

    changed = change(store, at, columns(a=NUMBER, b=NUMBER), a="b", b="a")

    assert rows_of(store, changed) == [{"id": "x", "a": 2, "b": 1}]


@pytest.mark.parametrize("type", VALUE_BY_TYPE, ids=str)
def test_a_new_column_of_any_type_is_null_until_it_is_written(
    tmp_path: Path, type: pa.DataType
) -> None:
    store = place_on_disk(tmp_path).open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)
    value = VALUE_BY_TYPE[type]

    added = change(store, at, columns(age=NUMBER, fresh=type))
    written = put(store, added, {"id": "bob", "age": 9, "fresh": value})
    joined = store.compact(written, rows_per_fragment=100)

    assert [row["fresh"] for row in rows_of(store, added)] == [None] * 3
    assert store.count(added, predicate=IsNull("fresh")) == 3
    assert joined is not None
    assert store.fragment_row_counts(joined) == (3,)
    for version in (written, joined):
        assert [row["fresh"] for row in rows_of(store, version)] == [None, value, None]
        found = store.find_rows(version, ids=pa.array(["bob", "cyd"]), columns=["fresh"])
        assert sorted(found["fresh"].to_pylist(), key=str) == sorted([value, None], key=str)


def test_a_table_that_has_the_columns_is_not_changed(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)

    assert store.stage_columns(PEOPLE, renames={}, onto=at) is None


def test_a_staged_change_creates_no_version_and_no_file(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = create_people(store, ann=1)
    before = files_of(place.root)

    staged = must(store.stage_columns(columns(years=NUMBER), renames={"age": "years"}, onto=at))

    assert (staged.base, staged.kind, staged.files) == (at, StagedKind.COLUMNS, ())
    assert (staged.rows_added, staged.rows_removed) == (0, 0)
    assert files_of(place.root) == before
    store.apply(staged)
    written = {path.split("/")[2] for path in files_of(place.root) - before}
    assert written == {"_versions", "_transactions"}


def test_a_version_is_identified_by_the_uuid_of_its_transaction(place: Place) -> None:
    store = place.open()
    staged = must(store.stage_columns(columns(), renames={}, onto=create_people(store, ann=1)))

    found = place.open().find_transaction(store.apply(staged))

    assert found is not None
    assert found.uuid == staged.uuid


def test_a_table_without_rows_gets_columns_too(place: Place) -> None:
    store = place.open()
    at = create_people(store)

    changed = change(store, at, columns(photo=BYTES, years=NUMBER), age="years")

    written = put(store, changed, {"id": "ann", "photo": b"x", "years": 1})
    assert rows_of(store, written) == [{"id": "ann", "photo": b"x", "years": 1}]


@pytest.mark.parametrize(
    ("schema", "renames"),
    [
        (columns(age=TEXT), {}),
        (columns(years=TEXT), {"age": "years"}),
        (pa.schema([ID, pa.field("age", NUMBER, nullable=False)]), {}),
        (PEOPLE.append(pa.field("must", TEXT, nullable=False)), {}),
        (PEOPLE, {"size": "age"}),
        (PEOPLE, {"age": "size"}),
        (columns(both=NUMBER), {"age": "both", "id": "both"}),
    ],
    ids=["type", "renamed-type", "nullability", "new-and-not-null", "from", "to", "two-to-one"],
)
def test_a_change_that_rows_would_have_to_be_written_for_is_our_mistake(
    tmp_path: Path, schema: pa.Schema, renames: dict[str, str]
) -> None:
    store = place_on_disk(tmp_path).open()
    at = create_people(store, ann=1)

    with pytest.raises(AssertionError):
        store.stage_columns(schema, renames=renames, onto=at)


# Earlier versions


def test_older_versions_keep_their_columns(place: Place) -> None:
    store = place.open()
    old = create_people(store, ann=1)

    change(store, change(store, old, columns(years=NUMBER), age="years"), columns(age=TEXT))

    for opened in (store, place.open()):
        assert opened.schema(old).equals(PEOPLE)
        assert ages(opened, old) == {"ann": 1}


def dropped_at_once(store: LanceTables, at: TableVersion) -> TableVersion:
    return change(store, at, columns())


def dropped_after_a_write(store: LanceTables, at: TableVersion) -> TableVersion:
    return change(store, put(store, at, {"id": "ann", "age": 5}), columns())


def dropped_after_a_return(store: LanceTables, at: TableVersion) -> TableVersion:
    returned = change(store, dropped_at_once(store, at), PEOPLE)
    return change(store, put(store, returned, {"id": "bob", "age": 5}), columns())


def dropped_and_compacted(store: LanceTables, at: TableVersion) -> TableVersion:
    joined = store.compact(dropped_at_once(store, append(store, at, eve=5)), rows_per_fragment=9)
    assert joined is not None
    return joined


def dropped_and_forked(store: LanceTables, at: TableVersion) -> TableVersion:
    return fork(store, dropped_at_once(store, at))


def dropped_on_a_branch(store: LanceTables, at: TableVersion) -> TableVersion:
    return dropped_at_once(store, put(store, fork(store, at), {"id": "ann", "age": 5}))


def dropped_and_restored(store: LanceTables, at: TableVersion) -> TableVersion:
    dropped = dropped_at_once(store, at)
    append(store, change(store, dropped, PEOPLE), eve=5)
    return store.restore(dropped, uuid=str(uuid4()))


@pytest.mark.parametrize(
    "drop",
    [
        dropped_at_once,
        dropped_after_a_write,
        dropped_after_a_return,
        dropped_and_compacted,
        dropped_and_forked,
        dropped_on_a_branch,
        dropped_and_restored,
    ],
)
@pytest.mark.parametrize("type", [NUMBER, TEXT, BYTES, VECTOR], ids=str)
def test_a_dropped_column_does_not_reappear_under_its_name(
    tmp_path: Path, drop: Write, type: pa.DataType
) -> None:
    store = place_on_disk(tmp_path).open()
    at = drop(store, create_people(store, ann=1, bob=2))

    returned = change(store, at, columns(age=type))

    assert {row["age"] for row in rows_of(store, returned)} == {None}
    assert store.count(returned, predicate=IsPresent("age")) == 0


def test_rows_keep_their_numbers_and_their_age(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = put(store, append(store, create_people(store, ann=1, bob=2), cyd=3), {"id": "bob"})

    changed = change(store, at, columns(fresh=TEXT, years=NUMBER), age="years")

    assert row_versions(place, changed) == row_versions(place, at)


def test_versions_with_the_same_rows_have_no_delta_whatever_their_columns(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    changed = change(store, at, columns(age=NUMBER, fresh=TEXT))
    later = put(store, changed, {"id": "bob", "age": 2, "fresh": "x"})

    unmoved = store.find_delta(at, changed, columns=["id", "age", "fresh"])
    moved = store.find_delta(at, later, columns=["id", "age", "fresh"])

    assert (unmoved.deleted.num_rows, unmoved.added.num_rows) == (0, 0)
    assert (unmoved.deleted.schema.names, unmoved.added.schema.names) == (
        ["id", "age"],
        ["id", "age", "fresh"],
    )
    assert moved.added.to_pylist() == [{"id": "bob", "age": 2, "fresh": "x"}]


# Branches


def test_a_branch_and_its_base_change_their_columns_apart(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    branched = fork(store, at)

    ours = change(store, branched, columns(ours=TEXT, years=NUMBER), age="years")
    theirs = change(store, at, columns(age=NUMBER, theirs=NUMBER))
    ours = put(store, ours, {"id": "ann", "ours": "x", "years": 9})
    theirs = put(store, theirs, {"id": "bob", "age": 2, "theirs": 3})

    assert rows_of(store, ours) == [{"id": "ann", "ours": "x", "years": 9}]
    assert rows_of(place.open(), theirs) == [
        {"id": "ann", "age": 1, "theirs": None},
        {"id": "bob", "age": 2, "theirs": 3},
    ]
    assert ages(store, branched) == ages(store, at) == {"ann": 1}


# Indexes


def test_an_index_follows_a_renamed_column_and_goes_with_a_dropped_one(place: Place) -> None:
    store = place.open()
    schema = columns(age=NUMBER, size=NUMBER, vector=VECTOR, word=TEXT)
    first = {"id": "ann", "age": 1, "size": 5, "vector": [1.0, 2.0], "word": "one two"}
    at = store.create(PATH, pa.Table.from_pylist([first], schema=schema), config={})
    specs = [
        IndexSpec("age", IndexKind.BTREE),
        IndexSpec("size", IndexKind.BTREE),
        IndexSpec("vector", IndexKind.VECTOR),
        IndexSpec("word", IndexKind.INVERTED),
    ]
    at = store.apply(store.stage_indexes(specs, onto=at))

    wanted = columns(place=VECTOR, text=TEXT, years=NUMBER)
    changed = change(store, at, wanted, age="years", vector="place", word="text")

    assert store.indexes(changed) == {
        IndexSpec("place", IndexKind.VECTOR): 1,
        IndexSpec("text", IndexKind.INVERTED): 1,
        IndexSpec("years", IndexKind.BTREE): 1,
    }
    found = place.open_table(changed).scanner(
        columns=["id"], full_text_query="two", filter="years = 1"
    )
    assert found.to_table()["id"].to_pylist() == ["ann"]


@pytest.mark.parametrize("is_old_rebuilt", [True, False])
def test_a_name_that_a_renamed_column_had_can_be_indexed_again(
    tmp_path: Path, *, is_old_rebuilt: bool
) -> None:
    store = place_on_disk(tmp_path).open()
    at = create_people(store, ann=1, bob=2)
    at = store.apply(store.stage_indexes([IndexSpec("age", IndexKind.BTREE)], onto=at))
    at = change(store, at, columns(age=NUMBER, years=NUMBER), age="years")
    at = put(store, at, {"id": "bob", "age": 7, "years": 8})

    built = ["age", "years"] if is_old_rebuilt else ["age"]
    specs = [IndexSpec(column, IndexKind.BTREE) for column in built]
    indexed = store.apply(store.stage_indexes(specs, onto=at))

    known = {spec.column: rows for spec, rows in store.indexes(indexed).items()}
    assert known == {"age": 2, "years": 2 if is_old_rebuilt else 1}
    assert len(store.indexes(indexed)) == 2
    for column, value, expected in (("age", 7, 1), ("years", 8, 1), ("age", 1, 0)):
        assert store.count(indexed, predicate=equals(column, value)) == expected


@pytest.mark.parametrize(
    ("column", "type", "kind"),
    [
        ("number", NUMBER, IndexKind.BTREE),
        ("text", TEXT, IndexKind.INVERTED),
        ("vector", VECTOR, IndexKind.VECTOR),
    ],
)
def test_a_column_that_some_files_lack_can_be_indexed(
    tmp_path: Path, column: str, type: pa.DataType, kind: IndexKind
) -> None:
    store = place_on_disk(tmp_path).open()
    at = change(store, create_people(store, ann=1, bob=2), columns(age=NUMBER, **{column: type}))
    at = put(store, at, {"id": "cyd", "age": 3, column: VALUE_BY_TYPE[type]})

    indexed = store.apply(store.stage_indexes([IndexSpec(column, kind)], onto=at))

    assert store.indexes(indexed) == {IndexSpec(column, kind): 3}
    assert store.count(indexed, predicate=IsNull(column)) == 2


# Concurrent writers


def test_of_a_change_of_columns_and_a_write_the_second_is_refused(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    narrowing = must(store.stage_columns(columns(), renames={}, onto=at))
    branched = fork(store, at)
    adding = store.stage_append(people(bob=2), onto=branched)
    append(place.open(), at, bob=2)
    change(place.open(), branched, columns())

    for staged in (narrowing, adding):
        with pytest.raises(ExpectedVersionMismatchError):
            store.apply(staged)

    assert ages(store, TableVersion(at.ref, 2)) == {"ann": 1, "bob": 2}
    assert rows_of(store, TableVersion(branched.ref, 2)) == [{"id": "ann"}]


def test_a_change_of_columns_that_lands_behind_a_removal_is_noticed(place: Place) -> None:
    store, rival = place.open(), place.open()
    at = create_people(store, ann=1, bob=2)
    staged = must(store.stage_columns(columns(), renames={}, onto=at))
    rival.apply(must(rival.stage_delete(pa.array(["ann"]), onto=at)))

    with pytest.raises(UnexpectedBaseError):
        store.apply(staged)


# Cost


@pytest.mark.parametrize("fragments", [1, 12])
def test_a_change_of_columns_reads_no_file_of_rows(server: S3Server, fragments: int) -> None:
    store = place_on_s3(server).open()
    at = store.create(PATH, numbered_people(5_000), config={})
    for number in range(fragments - 1):
        at = append(store, at, **{f"q{number}": number})

    with server.recording() as requests:
        change(store, at, columns(age=NUMBER, fresh=TEXT))

    assert not [each for each in requests if "/data/" in str(each)]
    assert len(requests) <= 9
