"""The evaluator as a whole: order, bounds, and the error that a broken write becomes."""

import pytest

from omnigraph.engine.commit.integrity.check import find_violations, require_integrity
from omnigraph.engine.commit.integrity.violations import Violations
from omnigraph.errors import IntegrityError
from omnigraph.model.limits import VIOLATIONS_MAX
from tests.support.committed_rows import Row, Write, change_set, committed_tables, violations_of
from tests.support.schemas import compile_text

CATALOG = compile_text(
    """
    node User {
      name: String @key
      age: I32?
      badge: String?
      email: String? @unique
      role: enum(admin, guest)
      @range(age, 0..120)
      @check(badge, "^[A-Z]+$")
    }
    edge Follows: User -> User @card(0..1)
    """
)


def user(name: str, **values: object) -> Row:
    return {"id": name, "name": name, "role": "guest", **values}


def test_a_write_that_keeps_every_rule_passes() -> None:
    writes = {
        "User": Write([user("ann", age=1, badge="A", email="e"), user("bob")]),
        "Follows": Write([{"id": "f1", "src": "ann", "dst": "bob"}]),
    }
    committed = committed_tables(CATALOG, {})

    require_integrity(change_set(CATALOG, writes), catalog=CATALOG, committed=committed)

    nothing = find_violations(change_set(CATALOG, writes), catalog=CATALOG, committed=committed)
    assert nothing == Violations((), 0)


def test_violations_come_by_type_then_by_rule_then_by_row() -> None:
    writes = {
        "User": Write(
            [
                user("bob", badge="x", age=200, email="e", role="root"),
                user("ann", badge="y", age=-1, email="e", role=None),
                user("ann"),
            ]
        ),
        "Follows": Write(
            [
                {"id": "f2", "src": "ann", "dst": "cyd"},
                {"id": "f1", "src": "ann", "dst": "bob"},
                {"id": "f1", "src": "dan", "dst": "bob"},
            ]
        ),
    }

    found = violations_of(CATALOG, writes)

    assert [(each.type, each.rule, each.id) for each in found] == [
        ("Follows", "id", "f1"),
        ("Follows", "endpoint", "f1"),
        ("Follows", "endpoint", "f2"),
        ("Follows", "cardinality", "ann"),
        ("User", "required", "ann"),
        ("User", "enum", "bob"),
        ("User", "range", "bob"),
        ("User", "range", "ann"),
        ("User", "check", "bob"),
        ("User", "check", "ann"),
        ("User", "unique", "ann"),
        ("User", "key", "ann"),
    ]


def test_a_refused_write_carries_some_violations_and_the_number_of_all() -> None:
    rows = [user(f"u{number}", age=-1, badge="x") for number in range(VIOLATIONS_MAX)]

    with pytest.raises(IntegrityError) as refused:
        require_integrity(
            change_set(CATALOG, {"User": Write(rows)}),
            catalog=CATALOG,
            committed=committed_tables(CATALOG, {}),
        )

    assert len(refused.value.violations) == VIOLATIONS_MAX
    assert {each.rule for each in refused.value.violations} == {"range"}
    assert refused.value.count == 2 * VIOLATIONS_MAX
    assert "@range violation on User.age: value -1 < min 0 (row 'u0'); " in str(refused.value)
    assert str(refused.value).endswith("and 195 more; the graph is unchanged")


def test_a_write_that_changes_nothing_breaks_nothing() -> None:
    assert violations_of(CATALOG, {}) == ()
    assert violations_of(CATALOG, {"User": Write(), "Follows": Write()}) == ()
