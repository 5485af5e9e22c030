"""Looking up ids through a store that caches their addresses, on any version and branch."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.model.errors import CorruptError
from omnigraph.storage.lance import id_lookup
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import TableVersion
from tests.support.table_stores import (
    PATH,
    Place,
    ages,
    append,
    create_people,
    must,
    numbered_people,
    people,
    people_of,
    place_on_disk,
)

IDS = [f"p{number}" for number in range(8)]


def look_up(store: LanceTables, at: TableVersion, *ids: str) -> dict[str, int]:
    """The ages of the existing ones of some people."""
    rows = store.find_rows(at, ids=pa.array(ids, pa.string()), columns=["id", "age"])
    found = dict(zip(rows["id"].to_pylist(), rows["age"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows, "a row is found twice"
    present = store.find_ids(at, ids=pa.array(ids, pa.string())).to_pylist()
    assert sorted(present) == sorted(found)
    return found


def look_up_twice(store: LanceTables, at: TableVersion) -> None:
    """One lookup is not enough for a store to cache a table."""
    for _ in range(2):
        look_up(store, at, "absent")


def test_rows_are_found_at_first_and_again(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1, bob=2)

    results = [look_up(store, at, "ann", "zoe") for _ in range(3)]

    assert results == [{"ann": 1}] * 3


def test_a_row_that_was_replaced_is_found_where_it_is_in_each_version(place: Place) -> None:
    store = place.open()
    first = create_people(store, ann=1, bob=2)
    look_up_twice(store, first)

    second = store.apply(store.stage_merge_insert(people(ann=9), onto=first))

    assert look_up(store, second, "ann", "bob") == {"ann": 9, "bob": 2}
    assert look_up(store, first, "ann", "bob") == {"ann": 1, "bob": 2}
    assert look_up(store, second, "ann") == {"ann": 9}


def test_a_row_deleted_before_its_first_lookup_is_found_in_an_older_version(
    place: Place,
) -> None:
    store = place.open()
    first = create_people(store, ann=1, bob=2)
    second = store.apply(must(store.stage_delete(pa.array(["ann"]), onto=first)))
    look_up_twice(store, second)

    assert look_up(store, second, "ann") == {}
    assert look_up(store, first, "ann") == {"ann": 1}


def test_rows_of_one_branch_are_not_found_on_another(place: Place) -> None:
    store = place.open()
    base = create_people(store, ann=1)
    branch = TableVersion(store.fork(base, branch="feature"), base.version)
    look_up_twice(store, base)

    changed = append(store, branch, bob=2)
    moved = append(store, base, cyd=3)

    assert look_up(store, changed, "ann", "bob", "cyd") == {"ann": 1, "bob": 2}
    assert look_up(store, moved, "ann", "bob", "cyd") == {"ann": 1, "cyd": 3}


def test_a_table_that_is_too_large_to_remember_is_searched_beyond_what_is(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_lookup, "KNOWN_IDS_MAX", 5)
    store = place.open()
    at = append(store, store.create(PATH, numbered_people(20), config={}), ann=1, bob=2)
    look_up_twice(store, at)

    assert look_up(store, at, "ann", "p3", "absent") == {"ann": 1, "p3": 3}
    assert look_up(store, at, *IDS) == {id: int(id[1:]) for id in IDS}


def test_a_duplicate_id_is_detected_when_it_is_replaced(place: Place) -> None:
    store = place.open()
    at = append(store, create_people(store, ann=1), ann=2)
    look_up_twice(store, at)

    with pytest.raises(CorruptError, match="more than once"):
        store.stage_merge_insert(people(ann=3), onto=at)


def test_after_a_compaction_rows_are_found_at_their_new_addresses(place: Place) -> None:
    store = place.open()
    at = create_people(store, ann=1)
    for number in range(4):
        at = append(store, at, **{f"p{number}": number})
    look_up_twice(store, at)

    joined = store.compact(at, rows_per_fragment=100)

    assert joined is not None
    assert len(store.fragment_row_counts(joined)) == 1
    assert look_up(store, joined, "ann", "p3", "p9") == {"ann": 1, "p3": 3}
    assert look_up(store, at, "ann", "p3", "p9") == {"ann": 1, "p3": 3}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "overwrite", "fork", "restore", "look"]),
        st.sampled_from(["main", "a", "b"]),
        st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True),
    ),
    min_size=3,
    max_size=14,
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, known_max=st.sampled_from([0, 3, 1_000]))
def test_look_ups_agree_with_scans_whatever_happened(
    steps: list[tuple[str, str, list[str]]], known_max: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_lookup, "KNOWN_IDS_MAX", known_max)
        store = place_on_disk(Path(folder)).open()
        head = {"main": store.create(PATH, people(p0=0, p1=1), config={})}
        seen = [head["main"]]
        for number, (step, line, ids) in enumerate(steps):
            if line not in head:
                head[line] = TableVersion(
                    store.fork(head["main"], branch=line), head["main"].version
                )
            before = [each for each in seen if each.ref == head[line].ref]
            head[line] = _take_step(store, step, head[line], ids, age=number, before=before)
            seen.append(head[line])
            every = ages(store, head[line])
            for id in ids:
                assert look_up(store, head[line], id) == {k: v for k, v in every.items() if k == id}
        for at in seen:
            assert look_up(store, at, *IDS) == ages(store, at)


def _take_step(
    store: LanceTables,
    step: str,
    at: TableVersion,
    ids: list[str],
    *,
    age: int,
    before: list[TableVersion],
) -> TableVersion:
    match step:
        case "put":
            return store.apply(store.stage_merge_insert(people_of(ids, [age] * len(ids)), onto=at))
        case "overwrite":
            return store.apply(store.stage_overwrite(people_of(ids, [age] * len(ids)), onto=at))
        case "remove":
            staged = store.stage_delete(pa.array(ids), onto=at)
            return at if staged is None else store.apply(staged)
        case "restore" if before:
            return store.restore(before[0], uuid=f"00000000-0000-4000-8000-{age:012}")
        case _:
            look_up(store, at, *ids)
            return at
