"""The layout of a table through its store: fewer files, complete indexes, the same rows."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from omnigraph.model.errors import ExpectedVersionMismatchError, UnexpectedBaseError
from omnigraph.model.limits import LAYOUT_ROWS_FREE
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import (
    IndexKind,
    IndexSpec,
    LayoutStep,
    StagedKind,
    TableVersion,
)
from omnigraph.storage.predicates import IsNull, Operator, Predicate, compare, equals
from tests.support.lance_probes import files_of, searchable_rows
from tests.support.table_stores import (
    PATH,
    Place,
    Stage,
    ages,
    append,
    create_people,
    must,
    numbered_people,
    people,
    place_on_disk,
    row_versions,
    stage_append,
    stage_delete,
    stage_merge,
)

BY_ID = IndexSpec("id", IndexKind.BTREE)
BY_AGE = IndexSpec("age", IndexKind.BTREE)
SEARCHED = (BY_ID, IndexSpec("text", IndexKind.INVERTED), IndexSpec("vector", IndexKind.VECTOR))
ALL_STEPS = (LayoutStep.RELEASE, LayoutStep.COMPACT, LayoutStep.INDEX)


def lay_out(store: LanceTables, at: TableVersion, wanted: Sequence[IndexSpec]) -> TableVersion:
    """Take every step of the plan."""
    for number, step in enumerate(store.plan_layout(at, wanted=wanted).steps):
        at = store.apply(store.stage_layout(step, wanted=wanted, onto=at, uuid=f"step-{number}"))
    return at


def create_searchable(store: LanceTables, *letters: str) -> TableVersion:
    """A table with a text and a vector, one fragment a letter."""
    first, *others = letters
    at = store.create(PATH, searchable_rows(first), config={})
    for letter in others:
        at = store.apply(store.stage_append(searchable_rows(letter), onto=at))
    return at


def rows_covered(store: LanceTables, at: TableVersion) -> dict[str, int]:
    return {spec.column: rows for spec, rows in store.indexes(at).items()}


def segments(place: Place, at: TableVersion, column: str) -> list[int]:
    """How many fragments each segment of a column's index knows."""
    present = {each.fragment_id for each in place.open_table(at).get_fragments()}
    return [
        len(present & set(segment.fragment_ids))
        for index in place.open_table(at).describe_indices()
        if index.field_names == [column]
        for segment in index.segments
    ]


def found(store: LanceTables, at: TableVersion, predicate: Predicate) -> list[str]:
    return sorted(store.scan(at, columns=["id"], predicate=predicate)["id"].to_pylist())


def search(place: Place, at: TableVersion, *, near: str) -> tuple[list[str], list[str]]:
    """What Lance finds by a word that every row has, and nearest first, through indexes only."""
    table = place.open_table(at)
    words = table.scanner(columns=["id", "_score"], full_text_query="word", fast_search=True)
    nearest = {"column": "vector", "q": [float(ord(near))] * 2, "k": 3}
    by_distance = table.scanner(columns=["id", "_distance"], nearest=nearest, fast_search=True)
    return sorted(words.to_table()["id"].to_pylist()), by_distance.to_table()["id"].to_pylist()


def test_small_files_become_one_and_every_row_stays_what_it_was(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1, bob=2), cyd=3)
    at = store.apply(store.stage_merge_insert(people(ann=10, eve=5), onto=at))
    at = store.apply(must(store.stage_delete(pa.array(["bob"]), onto=at)))
    before = ages(store, at), row_versions(place, at)

    laid_out = lay_out(store, at, [])

    assert laid_out.version == at.version + 1
    assert store.fragment_row_counts(laid_out) == (3,)
    assert (ages(store, laid_out), row_versions(place, laid_out)) == before


def test_a_plan_says_what_is_to_do_and_a_second_one_nothing(place: Place) -> None:
    store = place.open()
    at = create_searchable(store, "a", "b")
    at = store.apply(store.stage_indexes(SEARCHED, onto=at))
    at = store.apply(store.stage_append(searchable_rows("c"), onto=at))

    plan = store.plan_layout(at, wanted=SEARCHED)
    laid_out = lay_out(store, at, SEARCHED)

    assert plan.steps == ALL_STEPS
    assert (plan.fragments, plan.fragments_removed, plan.uncovered) == (3, 3, SEARCHED)
    assert laid_out.version == at.version + 3
    after = store.plan_layout(laid_out, wanted=SEARCHED)
    assert (after.steps, after.fragments, after.uncovered) == ((), 1, ())


@pytest.mark.parametrize(
    ("wanted", "steps"),
    [
        ([], (LayoutStep.COMPACT,)),
        ([BY_ID], (LayoutStep.COMPACT, LayoutStep.INDEX)),
        (SEARCHED, ALL_STEPS),
    ],
)
def test_only_the_steps_that_are_needed_are_planned(
    place: Place, wanted: Sequence[IndexSpec], steps: tuple[LayoutStep, ...]
) -> None:
    store = place.open()
    at = create_searchable(store, "a", "b")
    if wanted:
        at = store.apply(store.stage_indexes(wanted, onto=at))

    assert store.plan_layout(at, wanted=wanted).steps == steps


def test_an_empty_type_needs_nothing(place: Place) -> None:
    store = place.open()
    at = store.create(PATH, people(), config={})

    assert store.plan_layout(at, wanted=[]).steps == ()


def test_every_index_covers_every_row_afterwards_and_is_correct(place: Place) -> None:
    store = place.open()
    at = create_searchable(store, "a", "b", "c")
    at = store.apply(store.stage_indexes(SEARCHED, onto=at))
    at = store.apply(store.stage_append(searchable_rows("d"), onto=at))
    at = store.apply(must(store.stage_delete(pa.array(["b"]), onto=at)))

    at = lay_out(store, at, SEARCHED)

    assert rows_covered(store, at) == {"id": 3, "text": 3, "vector": 3}
    assert [segments(place, at, spec.column) for spec in SEARCHED] == [[1], [1], [1]]
    assert search(place, at, near="d") == (["a", "c", "d"], ["d", "c", "a"])
    assert [found(store, at, equals("id", each)) for each in "abcd"] == [["a"], [], ["c"], ["d"]]


def test_the_transaction_of_a_step_has_the_uuid_that_was_given(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)

    staged = store.stage_layout(LayoutStep.COMPACT, wanted=[], onto=at, uuid="known-before")
    landed = store.apply(staged)

    made_by = store.find_transaction(landed)
    assert made_by is not None
    assert (made_by.uuid, made_by.operation) == ("known-before", "Rewrite")
    assert (staged.kind, staged.rows_added, staged.rows_removed) == (StagedKind.COMPACTION, 0, 0)


def test_a_compaction_names_every_file_it_wrote(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    before = files_of(f"{place.root}/{PATH}")

    staged = store.stage_layout(LayoutStep.COMPACT, wanted=[], onto=at, uuid="u")

    assert files_of(f"{place.root}/{PATH}") - before == set(staged.files)
    assert store.find_head(at.ref) == at.version


def test_compacting_a_branch_does_not_change_its_base(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    branch = TableVersion(store.fork(at, branch="feature"), at.version)
    branch = append(store, branch, cyd=3)

    laid_out = lay_out(store, branch, [BY_ID])

    assert store.fragment_row_counts(laid_out) == (3,)
    assert ages(store, laid_out) == {"ann": 1, "bob": 2, "cyd": 3}
    assert store.fragment_row_counts(at) == (1, 1)
    assert store.find_head(at.ref) == at.version


@pytest.mark.parametrize("stage", [stage_merge, stage_delete])
def test_an_overtaken_compaction_changes_no_version(place: Place, stage: Stage) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    staged = store.stage_layout(LayoutStep.COMPACT, wanted=[], onto=at, uuid="u")
    moved = store.apply(stage(store, at))
    before = ages(store, moved)

    with pytest.raises(ExpectedVersionMismatchError):
        store.apply(staged)

    assert store.find_head(at.ref) == moved.version
    assert ages(store, moved) == before


def test_a_compaction_overtaken_by_an_append_is_reported_at_an_unexpected_version(
    place: Place,
) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    staged = store.stage_layout(LayoutStep.COMPACT, wanted=[], onto=at, uuid="u")
    moved = store.apply(stage_append(store, at))

    with pytest.raises(UnexpectedBaseError):
        store.apply(staged)

    assert ages(store, TableVersion(at.ref, moved.version + 1)) == ages(store, moved)


def test_a_write_that_a_compaction_overtook_is_refused(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    staged = stage_delete(store, at)
    laid_out = lay_out(store, at, [])

    with pytest.raises(ExpectedVersionMismatchError):
        store.apply(staged)

    assert ages(store, laid_out) == {"ann": 1, "bob": 2}


def test_an_index_of_many_rows_grows_by_what_came_later(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = store.create(PATH, numbered_people(LAYOUT_ROWS_FREE + 1), config={})
    at = store.apply(store.stage_indexes([BY_AGE], onto=at))
    (large,) = segment_ids(place, at)
    for name in ("late", "later"):
        at = append(store, at, **{name: -1})

    at = lay_out(store, at, [BY_AGE])

    assert store.fragment_row_counts(at) == (LAYOUT_ROWS_FREE + 1, 2)
    assert large in segment_ids(place, at)
    assert segments(place, at, "age") == [1, 1]
    assert rows_covered(store, at) == {"age": LAYOUT_ROWS_FREE + 3}
    assert found(store, at, compare("age", Operator.LT, 0)) == ["late", "later"]
    assert found(store, at, equals("age", 70)) == ["p70"]


def test_an_index_has_one_large_part_and_one_small_however_often_it_grows(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = store.create(PATH, numbered_people(LAYOUT_ROWS_FREE + 1), config={})
    at = store.apply(store.stage_indexes([BY_AGE], onto=at))

    for number in range(4):
        at = append(store, at, **{f"late{number}": -1 - number})
        at = lay_out(store, at, [BY_AGE])

    assert segments(place, at, "age") == [1, 1]
    assert found(store, at, compare("age", Operator.LT, 0)) == ["late0", "late1", "late2", "late3"]


def test_an_index_is_complete_although_new_rows_have_no_vectors(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    count = LAYOUT_ROWS_FREE + 1
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.5] * count * 2, pa.float32()), 2)
    ids = [f"p{number}" for number in range(count)]
    at = store.create(PATH, pa.table({"id": ids, "vector": vectors}), config={})
    wanted = [IndexSpec("vector", IndexKind.VECTOR)]
    at = store.apply(store.stage_indexes(wanted, onto=at))
    without = pa.table({"id": ["late"], "vector": pa.nulls(1, vectors.type)})
    at = store.apply(store.stage_append(without, onto=at))

    at = lay_out(store, at, wanted)

    assert rows_covered(store, at) == {"vector": count + 1}


def test_a_column_has_one_index_of_each_kind(place: Place) -> None:
    store = place.open()
    wanted = [IndexSpec("text", IndexKind.BTREE), IndexSpec("text", IndexKind.INVERTED)]
    at = create_searchable(store, "a", "b")
    at = store.apply(store.stage_indexes(wanted[1:], onto=at))
    at = store.apply(store.stage_indexes(wanted, onto=at))
    at = store.apply(store.stage_append(searchable_rows("c"), onto=at))

    at = lay_out(store, at, wanted)

    assert store.indexes(at) == dict.fromkeys(wanted, 3)


def test_an_index_of_an_unknown_kind_is_replaced(place: Place) -> None:
    store = place.open()
    at = create_searchable(store, "a", "b")
    outside = place.open_table(at)
    outside.create_scalar_index("text", "BITMAP")
    at = replace(at, version=outside.version)

    at = store.apply(store.stage_indexes([IndexSpec("text", IndexKind.BTREE)], onto=at))

    kinds = [index.index_type for index in place.open_table(at).describe_indices()]
    assert kinds == ["BTree"]


def test_a_column_under_the_old_name_of_another_has_an_index_of_its_own(place: Place) -> None:
    store = place.open()
    at = store.create(PATH, pa.table({"id": ["a"], "old": [1]}), config={})
    at = store.apply(store.stage_indexes([IndexSpec("old", IndexKind.BTREE)], onto=at))
    columns = pa.schema({"id": pa.string(), "new": pa.int64(), "old": pa.int64()})
    at = store.apply(must(store.stage_columns(columns, renames={"old": "new"}, onto=at)))
    wanted = [IndexSpec("new", IndexKind.BTREE), IndexSpec("old", IndexKind.BTREE)]

    at = lay_out(store, at, wanted)

    assert rows_covered(store, at) == {"new": 1, "old": 1}
    assert found(store, at, equals("new", 1)) == found(store, at, IsNull("old")) == ["a"]


@pytest.mark.parametrize("seed", range(4))
def test_layout_never_changes_a_result(tmp_path: Path, seed: int) -> None:
    place = place_on_disk(tmp_path)
    store, random = place.open(), Random(seed)
    letters = [chr(number) for number in range(ord("a"), ord("z"))]
    at = create_searchable(store, *letters[:3])
    present = set(letters[:3])

    for _ in range(16):
        action = random.choice(["put", "put", "delete", "index", "lay out"])
        some = random.sample(letters, random.randint(1, 4))
        if action == "put":
            at = store.apply(store.stage_merge_insert(searchable_rows(*some), onto=at))
            present |= set(some)
        elif action == "delete" and present - set(some):
            staged = store.stage_delete(pa.array(some), onto=at)
            at = at if staged is None else store.apply(staged)
            present -= set(some)
        elif action == "index" and store.plan_layout(at, wanted=SEARCHED).uncovered:
            at = store.apply(store.stage_indexes(SEARCHED, onto=at))
        elif action == "lay out":
            before = row_versions_of_searchable(place, at)
            at = lay_out(store, at, SEARCHED)
            assert row_versions_of_searchable(place, at) == before
            assert store.plan_layout(at, wanted=SEARCHED).steps == ()
            assert search(place, at, near="z")[0] == sorted(present)
        assert found(store, at, compare("id", Operator.GT, "")) == sorted(present)
        assert [each for each in some if found(store, at, equals("id", each))] == [
            each for each in some if each in present
        ]


def row_versions_of_searchable(place: Place, at: TableVersion) -> list[dict[str, object]]:
    columns = ["id", "text", "vector", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = place.open_table(at).scanner(columns=columns, with_row_id=True).to_table()
    return sorted(rows.to_pylist(), key=lambda row: str(row["id"]))


def segment_ids(place: Place, at: TableVersion) -> list[str]:
    indexes = place.open_table(at).describe_indices()
    return [str(segment.uuid) for index in indexes for segment in index.segments]
