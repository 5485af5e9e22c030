"""Indexes of a table through its store: staged like any write, used by scans, never wrong."""

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import (
    IndexKind,
    IndexSpec,
    StagedKind,
    StagedWrite,
    TableRef,
    TableVersion,
)
from omnigraph.storage.predicates import OneOf, Operator, Predicate, compare, equals
from tests.support.lance_probes import files_of, searchable_rows
from tests.support.table_stores import (
    PATH,
    Place,
    ages,
    append,
    create_people,
    must,
    numbered_people,
    people,
    place_on_disk,
)

Stage = Callable[[LanceTables, TableVersion], StagedWrite]


def stage_btree(store: LanceTables, at: TableVersion) -> StagedWrite:
    return store.stage_indexes([IndexSpec("id", IndexKind.BTREE)], onto=at)


def stage_inverted(store: LanceTables, at: TableVersion) -> StagedWrite:
    return store.stage_indexes([IndexSpec("text", IndexKind.INVERTED)], onto=at)


def stage_vector(store: LanceTables, at: TableVersion) -> StagedWrite:
    return store.stage_indexes([IndexSpec("vector", IndexKind.VECTOR)], onto=at)


EVERY_INDEX = pytest.mark.parametrize("stage", [stage_btree, stage_inverted, stage_vector])


def create_searchable(store: LanceTables) -> TableVersion:
    """A table of two fragments with a text and a vector."""
    at = store.create(PATH, searchable_rows("a", "b"), config={})
    return store.apply(store.stage_append(searchable_rows("c", "d"), onto=at))


def segments(place: Place, at: TableVersion) -> list[tuple[str, int]]:
    """The name of every segment of an index, with how many fragments it knows."""
    return [
        (index.name, len(list(segment.fragment_ids)))
        for index in place.open_table(at).describe_indices()
        for segment in index.segments
    ]


def uses_index(place: Place, at: TableVersion, predicate: str) -> bool:
    plan = place.open_table(at).scanner(filter=predicate).explain_plan()
    return "ScalarIndexQuery" in plan


@EVERY_INDEX
def test_an_index_is_one_staged_write(place: Place, stage: Stage) -> None:
    store = place.open()
    at = create_searchable(store)

    staged = stage(store, at)
    assert store.find_head(at.ref) == 2
    landed = store.apply(staged)

    assert (staged.kind, staged.rows_added, staged.rows_removed) == (StagedKind.INDEX, 0, 0)
    assert landed.version == 3
    ((_, fragments),) = segments(place, landed)
    assert fragments == 2


@EVERY_INDEX
def test_an_index_names_every_file_it_wrote(tmp_path: Path, stage: Stage) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = create_searchable(store)
    before = files_of(f"{place.root}/{PATH}")

    staged = stage(store, at)

    assert files_of(f"{place.root}/{PATH}") - before == set(staged.files)
    assert staged.files


@EVERY_INDEX
def test_an_index_replaces_the_one_before(place: Place, stage: Stage) -> None:
    store = place.open()
    at = store.apply(stage(store, create_searchable(store)))
    at = store.apply(store.stage_append(searchable_rows("e"), onto=at))

    at = store.apply(stage(store, at))

    ((_, fragments),) = segments(place, at)
    assert fragments == 3


def test_columns_have_indexes_of_their_own(place: Place) -> None:
    store = place.open()
    at = create_searchable(store)

    for stage in (stage_btree, stage_inverted, stage_vector):
        at = store.apply(stage(store, at))

    assert sorted(segments(place, at)) == [("id_idx", 2), ("text_idx", 2), ("vector_idx", 2)]


def test_an_index_is_built_on_a_branch_and_stays_there(place: Place) -> None:
    store = place.open()
    at = create_searchable(store)
    branch = TableVersion(store.fork(at, branch="feature"), at.version)

    branch = store.apply(stage_btree(store, branch))

    assert segments(place, branch) == [("id_idx", 2)]
    assert segments(place, at) == []
    assert branch.ref == TableRef(PATH, "feature")


def test_index_lookups_return_the_matching_rows(place: Place) -> None:
    store = place.open()
    at = create_searchable(store)
    for stage in (stage_btree, stage_inverted, stage_vector):
        at = store.apply(stage(store, at))

    table = place.open_table(at)
    by_word = table.scanner(columns=["id", "_score"], full_text_query="word").to_table()
    nearest = {"column": "vector", "q": [float(ord("c"))] * 2, "k": 1}
    by_distance = table.scanner(columns=["id", "_distance"], nearest=nearest).to_table()

    assert sorted(by_word["id"].to_pylist()) == ["a", "b", "c", "d"]
    assert by_distance["id"].to_pylist() == ["c"]
    assert uses_index(place, at, "id = 'c'")
    assert store.scan(at, columns=["id"], predicate=equals("id", "c")).num_rows == 1


@pytest.mark.parametrize("column", ["id", "age"])
def test_an_index_is_correct_after_every_kind_of_write(place: Place, column: str) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)
    at = store.apply(store.stage_indexes([IndexSpec(column, IndexKind.BTREE)], onto=at))

    at = store.apply(store.stage_merge_insert(people(bob=20), onto=at))
    at = store.apply(store.stage_merge_insert(people(ann=10, zoe=26), onto=at))
    at = append(store, at, eve=5)
    at = store.apply(must(store.stage_delete(pa.array(["cyd"]), onto=at)))

    expected = {"ann": 10, "bob": 20, "zoe": 26, "eve": 5}
    assert ages(store, at) == expected
    for name, age in expected.items():
        assert found(store, at, equals("id", name)) == [name]
        assert found(store, at, equals("age", age)) == [name]
    assert found(store, at, compare("age", Operator.LT, 5)) == []
    assert found(store, at, equals("id", "cyd")) == []


def test_a_merge_finds_rows_that_its_index_knows_and_rows_that_it_does_not(place: Place) -> None:
    store = place.open()
    at = store.create(PATH, numbered_people(500), config={})
    at = store.apply(store.stage_indexes([IndexSpec("id", IndexKind.BTREE)], onto=at))
    at = append(store, at, late=1)

    staged = store.stage_merge_insert(people(late=2, p7=-7, new=3), onto=at)
    at = store.apply(staged)

    assert staged.rows_added == 1
    assert store.count(at, predicate=None) == 502
    assert found(store, at, compare("age", Operator.LT, 0)) == ["p7"]
    assert found(store, at, OneOf("id", pa.array(["late", "new"]))) == ["late", "new"]


def test_compaction_never_makes_an_index_wrong(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)
    at = store.apply(store.stage_indexes([IndexSpec("age", IndexKind.BTREE)], onto=at))

    compacted = store.compact(at, rows_per_fragment=1_024)

    assert compacted is not None
    assert found(store, compacted, equals("age", 3)) == ["cyd"]
    assert found(store, compacted, compare("age", Operator.LT, 3)) == ["ann", "bob"]


def test_lances_own_compaction_of_an_indexed_table_has_no_transaction(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    at = store.apply(store.stage_indexes([IndexSpec("id", IndexKind.BTREE)], onto=at))

    lance.dataset(f"{place.root}/{PATH}").optimize.compact_files()

    head = store.find_head(at.ref)
    assert head == 5
    assert store.find_transaction(TableVersion(at.ref, 4)) is not None
    assert store.find_transaction(TableVersion(at.ref, 5)) is None


def found(store: LanceTables, at: TableVersion, predicate: Predicate) -> list[str]:
    rows = store.scan(at, columns=["id"], predicate=predicate)
    return sorted(rows["id"].to_pylist())
