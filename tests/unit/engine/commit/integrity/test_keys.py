"""`@unique`, `@key` and ids: who may hold which values once a write has landed."""

from datetime import date

import pytest

from omnigraph.engine.commit.integrity.check import find_violations
from omnigraph.model.errors import Violation
from tests.support.committed_rows import (
    Row,
    Write,
    change_set,
    committed_tables,
    messages_of,
    violations_of,
)
from tests.support.schemas import compile_text

USERS = compile_text("node User { name: String @key  email: String? @unique }")
PAIRS = compile_text("node Pair { a: String?  b: I32?  @unique(a, b) }")


def user(name: str, email: str | None) -> Row:
    return {"id": name, "name": name, "email": email}


def pair(id: str, a: str | None, b: int | None) -> Row:
    return {"id": id, "a": a, "b": b}


def test_two_rows_of_a_write_cannot_share_a_value() -> None:
    found = violations_of(USERS, {"User": Write([user("ann", "e"), user("bob", "e")])})

    message = "@unique violation on User.email: 'ann' and 'bob' both have 'e'"
    assert found == (Violation("User", "bob", "unique", "email", "e", message),)


def test_every_row_after_the_first_is_reported() -> None:
    rows = [user(name, "e") for name in ("ann", "bob", "cyd")]

    found = violations_of(USERS, {"User": Write(rows)})

    assert [each.id for each in found] == ["bob", "cyd"]


def test_a_committed_row_keeps_its_value() -> None:
    assert messages_of(
        USERS,
        {"User": Write([user("bob", "e"), user("cyd", "e")])},
        committed={"User": [user("ann", "e")]},
    ) == [
        "@unique violation on User.email: 'ann' and 'bob' both have 'e'",
        "@unique violation on User.email: 'ann' and 'cyd' both have 'e'",
    ]


def test_committed_rows_that_already_share_a_value_are_not_reported_again() -> None:
    committed = {"User": [user("cyd", "e"), user("ann", "e"), user("bob", "e")]}

    assert messages_of(USERS, {"User": Write([user("dan", "e")])}, committed=committed) == [
        "@unique violation on User.email: 'ann' and 'dan' both have 'e'"
    ]


def test_nulls_may_repeat() -> None:
    rows = [user("ann", None), user("bob", None)]

    assert messages_of(USERS, {"User": Write(rows)}, committed={"User": [user("cyd", None)]}) == []


def test_a_row_does_not_conflict_with_what_it_replaces() -> None:
    ann = user("ann", "e")

    assert messages_of(USERS, {"User": Write([ann])}, committed={"User": [ann]}) == []


@pytest.mark.parametrize(
    "write",
    [
        Write([user("ann", "f"), user("bob", "e")]),
        Write([user("ann", None), user("bob", "e")]),
        Write([user("bob", "e")], removed=["ann"]),
        Write([user("bob", "e")], is_overwrite=True),
    ],
)
def test_a_value_that_the_write_releases_may_be_taken(write: Write) -> None:
    assert messages_of(USERS, {"User": write}, committed={"User": [user("ann", "e")]}) == []


def test_two_rows_may_swap_their_values() -> None:
    committed = {"User": [user("ann", "e"), user("bob", "f")]}

    swapped = Write([user("ann", "f"), user("bob", "e")])

    assert messages_of(USERS, {"User": swapped}, committed=committed) == []


def test_several_columns_are_unique_together() -> None:
    clean = Write([pair("p1", "w", 1), pair("p2", "w", 2), pair("p3", "v", 1)])
    broken = Write([pair("p1", "w", 1), pair("p2", "w", 1)])

    assert messages_of(PAIRS, {"Pair": clean}) == []
    (found,) = violations_of(PAIRS, {"Pair": broken})
    assert found.message == "@unique violation on Pair.(a, b): 'p1' and 'p2' both have ('w', 1)"
    assert (found.property, found.value) == (None, ["w", 1])


def test_a_null_in_one_column_exempts_the_tuple() -> None:
    rows = [pair("p1", "w", None), pair("p2", "w", None), pair("p3", None, 1), pair("p4", None, 1)]

    assert messages_of(PAIRS, {"Pair": Write(rows)}) == []


def test_tuples_meet_only_if_each_value_does() -> None:
    catalog = compile_text("node Pair { a: String  b: String  @unique(a, b) }")
    rows = [{"id": "p1", "a": "x,", "b": "y"}, {"id": "p2", "a": "x", "b": ",y"}]

    assert messages_of(catalog, {"Pair": Write(rows)}) == []


def test_committed_tuples_are_compared_whole() -> None:
    committed = {"Pair": [pair("p1", "w", 1), pair("p2", "v", 2), pair("p3", "w", None)]}

    found = violations_of(
        PAIRS, {"Pair": Write([pair("q1", "w", 2), pair("q2", "v", 2)])}, committed=committed
    )

    assert [each.id for each in found] == ["q2"]


def test_an_edge_type_can_allow_one_edge_for_each_pair_of_nodes() -> None:
    catalog = compile_text("node N {} edge E: N -> N { @unique(src, dst) }")
    committed: dict[str, list[Row]] = {
        "N": [{"id": "n1"}, {"id": "n2"}],
        "E": [{"id": "e1", "src": "n1", "dst": "n2"}],
    }

    put: list[Row] = [
        {"id": "e2", "src": "n2", "dst": "n1"},
        {"id": "e3", "src": "n1", "dst": "n2"},
    ]
    assert messages_of(catalog, {"E": Write(put)}, committed=committed) == [
        "@unique violation on E.(dst, src): 'e1' and 'e3' both have ('n2', 'n1')"
    ]


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (-0.0, 0.0), (float("nan"), float("nan"))])
def test_zeros_are_one_value_and_so_is_nan(one: float, other: float) -> None:
    catalog = compile_text("node T { f: F64 @unique }")
    first, second = {"id": "a", "f": one}, {"id": "b", "f": other}

    within = violations_of(catalog, {"T": Write([first, second])})
    against = violations_of(catalog, {"T": Write([second])}, committed={"T": [first]})

    assert [each.id for each in (*within, *against)] == ["b", "b"]


def test_values_of_every_scalar_type_can_be_unique() -> None:
    catalog = compile_text("node T { b: Bool  d: Date  u: U64  @unique(b, d, u) }")
    row = {"b": True, "d": date(2024, 6, 1), "u": 2**64 - 1}

    found = messages_of(
        catalog,
        {"T": Write([{"id": "b", **row}, {"id": "c", **row, "b": False}])},
        committed={"T": [{"id": "a", **row}]},
    )

    assert found == [
        "@unique violation on T.(b, d, u): 'a' and 'b' both have "
        "(true, 2024-06-01, 18446744073709551615)"
    ]


def test_a_key_that_occurs_twice_in_a_write_is_refused() -> None:
    rows = [user("ann", "e"), user("ann", "f"), user("ann", "e")]

    found = violations_of(USERS, {"User": Write(rows)})

    message = "@key violation on User.name: 'ann' occurs more than once in this write"
    assert found == (Violation("User", "ann", "key", "name", "ann", message),) * 2


def test_a_composite_key_names_its_columns() -> None:
    catalog = compile_text("node T { a: String  b: I32  @key(a, b) }")
    row = {"id": '["x","1"]', "a": "x", "b": 1}

    (found,) = violations_of(catalog, {"T": Write([row, row])})

    assert found.message.startswith("@key violation on T.(a, b): ('x', 1) occurs")
    assert (found.property, found.value) == (None, ["x", 1])


def test_an_id_that_occurs_twice_in_a_write_is_refused() -> None:
    catalog = compile_text("node T {}")

    found = violations_of(catalog, {"T": Write([{"id": "t1"}, {"id": "t1"}])})

    message = "T 't1' occurs more than once in this write"
    assert found == (Violation("T", "t1", "id", None, "t1", message),)


def test_a_type_without_committed_rows_is_not_searched() -> None:
    committed = committed_tables(USERS, {"User": []})

    find_violations(
        change_set(USERS, {"User": Write([user("ann", "e")])}), catalog=USERS, committed=committed
    )

    assert committed.requested == []


def test_an_overwrite_is_compared_with_nothing_committed() -> None:
    committed = committed_tables(USERS, {"User": [user("ann", "e")]})
    write = {"User": Write([user("bob", "e")], is_overwrite=True)}

    find_violations(change_set(USERS, write), catalog=USERS, committed=committed)

    assert committed.requested == []


def test_a_group_reads_committed_rows_once() -> None:
    committed = committed_tables(PAIRS, {"Pair": [pair("p1", "w", 1)]})
    rows = [pair(f"q{number}", "w", number) for number in range(2, 9)]

    find_violations(change_set(PAIRS, {"Pair": Write(rows)}), catalog=PAIRS, committed=committed)

    assert committed.requested == [("find_rows", "node:Pair")]
