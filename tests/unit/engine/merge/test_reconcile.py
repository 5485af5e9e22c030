"""Putting two sides together: the table of cases, and any rows against a merge of dictionaries."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import InvalidValueError
from omnigraph.model.errors import Conflict
from tests.support.three_way import (
    NOTHING,
    Decided,
    Rows,
    apply,
    changes_of,
    compile_catalog,
    merge_rows,
    reconcile_rows,
)

CATALOG = compile_catalog(
    """
    node Person { name: String  age: I32?  note: String?  tags: [String]?  score: F64? }
    edge Knows: Person -> Person { since: I32?  note: String? }
    """
)

Versions = tuple[str | None, str | None, str | None]


def person(
    name: str,
    age: int | None = None,
    note: str | None = None,
    tags: list[str] | None = None,
    score: float | None = None,
) -> Mapping[str, object]:
    return {"age": age, "name": name, "note": note, "score": score, "tags": tags}


def knows(
    src: str, dst: str, since: int | None = None, note: str | None = None
) -> Mapping[str, object]:
    return {"src": src, "dst": dst, "note": note, "since": since}


VERSIONS = {
    "Person": {"one": person("Ann", 1), "two": person("Ann", 2), "three": person("Ann", 3)},
    "Knows": {"one": knows("a", "b", 1), "two": knows("a", "b", 2), "three": knows("a", "c", 1)},
}


# The table of cases

# What base, source and target have: the target's image afterwards, or the kind of conflict.
TRUTH: Mapping[Versions, str | None] = {
    (None, None, None): None,
    (None, None, "one"): "one",
    (None, "one", None): "one",
    (None, "one", "one"): "one",
    (None, "one", "two"): "divergent_insert",
    ("one", "one", "one"): "one",
    ("one", "one", "two"): "two",
    ("one", "one", None): None,
    ("one", "two", "one"): "two",
    ("one", "two", "two"): "two",
    ("one", "two", "three"): "divergent_update",
    ("one", "two", None): "delete_vs_update",
    ("one", None, "one"): None,
    ("one", None, "two"): "delete_vs_update",
    ("one", None, None): None,
}


def shape_of(versions: Versions) -> Versions:
    """The case of the table that three images are: which of them are the same."""
    names: dict[str | None, str | None] = {None: None}
    for version in versions:
        names.setdefault(version, ("one", "two", "three")[len(names) - 1])
    base, source, target = (names[version] for version in versions)
    return base, source, target


@pytest.mark.parametrize("name", ["Person", "Knows"])
@pytest.mark.parametrize("case", [*product([None, "one", "two", "three"], repeat=3)])
def test_every_case_of_three_row_versions_gives_the_result_of_the_table(
    name: str, case: Versions
) -> None:
    base, source, target = ({} if each is None else {"x": VERSIONS[name][each]} for each in case)

    found = reconcile_rows(CATALOG, name, base=base, source=source, target=target)

    expected = TRUTH[shape_of(case)]
    kinds = [each.kind for each in found.conflicts]
    if expected is None or expected in ("one", "two", "three"):
        names = dict(zip(shape_of(case), case, strict=True))
        version = names[expected]
        assert kinds == []
        assert apply(found, target) == ({} if version is None else {"x": VERSIONS[name][version]})
    else:
        assert kinds == [expected]
        assert apply(found, target) == target


def test_a_conflict_shows_the_three_row_versions_and_their_differences() -> None:
    found = reconcile_rows(
        CATALOG,
        "Knows",
        base={"x": knows("a", "b", 1)},
        source={"x": knows("a", "b", 2)},
        target={"x": knows("a", "b", 3)},
    )

    assert found.conflicts == (
        Conflict(
            type="Knows",
            id="x",
            kind="divergent_update",
            message="Knows 'x': both sides changed it, with different since",
            base={"id": "x", "src": "a", "dst": "b", "since": 1, "note": None},
            source={"id": "x", "src": "a", "dst": "b", "since": 2, "note": None},
            target={"id": "x", "src": "a", "dst": "b", "since": 3, "note": None},
        ),
    )


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ({}, {"x": person("Ann", 2)}, "the source removed it, the target changed it"),
        ({"x": person("Ann", 2)}, {}, "the source changed it, the target removed it"),
    ],
)
def test_a_conflict_says_which_side_removed_the_row(source: Rows, target: Rows, words: str) -> None:
    found = reconcile_rows(
        CATALOG, "Person", base={"x": person("Ann", 1)}, source=source, target=target
    )

    assert [each.message for each in found.conflicts] == [f"Person 'x': {words}"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (person("a", note=None), person("a", note="")),
        (person("a", tags=None), person("a", tags=[])),
        (person("a", tags=[]), person("a", tags=[""])),
        (person("a", tags=["a", "b"]), person("a", tags=["a\x1fb"])),
        (person("a", score=0.0), person("a", score=-0.0)),
    ],
)
def test_values_that_print_alike_and_differ_conflict(
    one: Mapping[str, object], other: Mapping[str, object]
) -> None:
    found = reconcile_rows(CATALOG, "Person", base={}, source={"x": one}, target={"x": other})

    assert [each.kind for each in found.conflicts] == ["divergent_insert"]


def test_nan_is_equal_on_both_sides() -> None:
    unordered = {"x": person("a", score=float("nan"))}

    found = reconcile_rows(CATALOG, "Person", base={}, source=unordered, target=unordered)

    assert found.conflicts == ()
    assert not found.put.num_rows


def test_rows_that_only_come_are_added_without_a_look_at_those_that_are_there() -> None:
    found = reconcile_rows(
        CATALOG,
        "Person",
        base={"a": person("Ann")},
        source={"a": person("Ann"), "b": person("Bob")},
        target={"a": person("Ann", 9)},
    )

    assert found.is_adding
    assert found.put["id"].to_pylist() == ["b"]


# By property


def test_changes_to_different_properties_of_a_row_merge_if_the_caller_wants_it() -> None:
    base = {"x": person("Ann", 1, "old", ["a"])}
    source = {"x": person("Ann", 2, "old", ["b"])}
    target = {"x": person("Ann", 1, "new", ["a"])}

    found = reconcile_rows(
        CATALOG, "Person", base=base, source=source, target=target, granularity="property"
    )

    assert found.conflicts == ()
    assert apply(found, target) == {"x": person("Ann", 2, "new", ["b"])}


def test_one_property_that_both_sides_changed_differently_is_a_conflict_at_any_granularity() -> (
    None
):
    found = reconcile_rows(
        CATALOG,
        "Person",
        base={"x": person("Ann", 1, "old")},
        source={"x": person("Ann", 2, "old")},
        target={"x": person("Ann", 3, "new")},
        granularity="property",
    )

    assert [each.kind for each in found.conflicts] == ["divergent_update"]


def test_the_two_ends_of_an_edge_are_one_fact() -> None:
    found = reconcile_rows(
        CATALOG,
        "Knows",
        base={"x": knows("a", "b")},
        source={"x": knows("c", "b")},
        target={"x": knows("a", "d")},
        granularity="property",
    )

    assert [each.kind for each in found.conflicts] == ["divergent_update"]


# Decisions

BASE = {"x": person("Ann", 1)}
SOURCE = {"x": person("Ann", 2)}
TARGET = {"x": person("Ann", 3)}


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        (Decided(source=("x",)), SOURCE),
        (Decided(target=("x",)), TARGET),
        (Decided(rows={"x": person("Ann", 4)}), {"x": person("Ann", 4)}),
    ],
)
def test_a_conflict_that_was_decided_is_none(decided: Decided, expected: Rows) -> None:
    found = reconcile_rows(
        CATALOG, "Person", base=BASE, source=SOURCE, target=TARGET, decided=decided
    )

    assert found.conflicts == ()
    assert apply(found, TARGET) == expected


@pytest.mark.parametrize(
    ("source", "target", "decided", "expected"),
    [
        ({}, TARGET, Decided(source=("x",)), {}),
        ({}, TARGET, Decided(target=("x",)), TARGET),
        (SOURCE, {}, Decided(source=("x",)), SOURCE),
        (SOURCE, {}, Decided(target=("x",)), {}),
        ({}, TARGET, Decided(rows=SOURCE), SOURCE),
        (SOURCE, {}, Decided(rows=TARGET), TARGET),
        (BASE, TARGET, Decided(source=("x",)), BASE),
        (BASE, {}, Decided(source=("x",)), BASE),
        (SOURCE, BASE, Decided(target=("x",)), BASE),
        (SOURCE, SOURCE, Decided(source=("x",)), SOURCE),
        ({}, {}, Decided(rows=SOURCE), SOURCE),
    ],
)
def test_a_decision_holds_whatever_the_sides_did(
    source: Rows, target: Rows, decided: Decided, expected: Rows
) -> None:
    found = reconcile_rows(
        CATALOG, "Person", base=BASE, source=source, target=target, decided=decided
    )

    assert found.conflicts == ()
    assert apply(found, target) == expected


def test_a_decision_for_the_source_takes_away_what_only_the_target_added() -> None:
    found = reconcile_rows(
        CATALOG, "Person", base={}, source={}, target=TARGET, decided=Decided(source=("x",))
    )

    assert apply(found, TARGET) == NOTHING


@pytest.mark.parametrize(
    "decided", [Decided(source=("y",)), Decided(target=("y",)), Decided(rows={"y": BASE["x"]})]
)
def test_a_decision_about_an_unchanged_row_is_refused(decided: Decided) -> None:
    with pytest.raises(InvalidValueError, match="neither side changed Person 'y'"):
        reconcile_rows(CATALOG, "Person", base=BASE, source=SOURCE, target=TARGET, decided=decided)


# Any rows

IDS = st.sampled_from(["a", "b", "c", "d"])
PEOPLE = st.dictionaries(
    IDS,
    st.builds(
        person,
        st.just("Ann"),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, "", "n"]),
        st.sampled_from([None, [], ["t"]]),
    ),
)
EDGES = st.dictionaries(
    IDS,
    st.builds(
        knows,
        st.sampled_from(["p", "q"]),
        st.sampled_from(["p", "q"]),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, "n"]),
    ),
)
THREE_SIDES = st.one_of(
    st.tuples(st.just("Person"), PEOPLE, PEOPLE, PEOPLE),
    st.tuples(st.just("Knows"), EDGES, EDGES, EDGES),
)
GRANULARITIES = st.sampled_from(["row", "property"])


@given(THREE_SIDES, GRANULARITIES)
def test_any_rows_merge_as_dictionaries_do(
    sides: tuple[str, Rows, Rows, Rows], granularity: str
) -> None:
    name, base, source, target = sides

    found = reconcile_rows(
        CATALOG, name, base=base, source=source, target=target, granularity=granularity
    )

    expected = merge_rows(base, source, target, by_property=granularity == "property")
    assert {each.id: each.kind for each in found.conflicts} == expected.conflicts
    assert apply(found, target) == expected.rows


@given(THREE_SIDES, GRANULARITIES)
def test_both_directions_agree_where_nothing_is_in_conflict(
    sides: tuple[str, Rows, Rows, Rows], granularity: str
) -> None:
    name, base, source, target = sides

    there = reconcile_rows(
        CATALOG, name, base=base, source=source, target=target, granularity=granularity
    )
    back = reconcile_rows(
        CATALOG, name, base=base, source=target, target=source, granularity=granularity
    )

    disputed = {each.id for each in there.conflicts}
    assert disputed == {each.id for each in back.conflicts}
    assert without(apply(there, target), disputed) == without(apply(back, source), disputed)


@given(THREE_SIDES, GRANULARITIES)
def test_what_was_merged_is_not_merged_again(
    sides: tuple[str, Rows, Rows, Rows], granularity: str
) -> None:
    name, base, source, target = sides
    merged = apply(
        reconcile_rows(
            CATALOG,
            name,
            base=base,
            source=source,
            target=target,
            granularity=granularity,
            decided=Decided(source=tuple(sorted(changed_ids(name, base, source)))),
        ),
        target,
    )

    again = reconcile_rows(CATALOG, name, base=source, source=source, target=merged)

    assert again.conflicts == ()
    assert apply(again, merged) == merged
    assert not again.put.num_rows
    assert not len(again.removed)


@given(THREE_SIDES)
def test_only_what_differs_from_the_target_is_written(
    sides: tuple[str, Rows, Rows, Rows],
) -> None:
    name, base, source, target = sides

    found = reconcile_rows(CATALOG, name, base=base, source=source, target=target)

    put = {row["id"] for row in found.put.to_pylist()}
    assert all(source[id] != target.get(id) for id in put)


@given(THREE_SIDES)
def test_no_row_that_the_target_removed_comes_back_unless_the_source_changed_it(
    sides: tuple[str, Rows, Rows, Rows],
) -> None:
    name, base, source, target = sides
    removed = {id for id in base.keys() - target.keys() if source.get(id) == base[id]}

    found = reconcile_rows(CATALOG, name, base=base, source=source, target=target)

    assert not removed & apply(found, target).keys()


def without(rows: Rows, ids: set[str]) -> Rows:
    """The other rows."""
    return {id: row for id, row in rows.items() if id not in ids}


def changed_ids(name: str, old: Rows, new: Rows) -> set[str]:
    """The ids that differ."""
    changes = changes_of(CATALOG, name, old, new)
    parts = (changes.inserted, changes.after, changes.deleted)
    return {id for part in parts for id in part["id"].to_pylist()}
