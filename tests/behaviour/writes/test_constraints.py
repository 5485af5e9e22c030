"""Section H of the language: rows that violate a rule of their type are refused by every write.

The rules apply to the result of a write, not to its intermediate states.
"""

from pathlib import Path

import pytest

from omnigraph.errors import IntegrityError
from omnigraph.model.limits import VIOLATIONS_MAX, VIOLATIONS_SHOWN_MAX
from tests.support.graphs import (
    HUB,
    Record,
    hub_graph,
    ndjson,
    node,
    unchanged,
    values,
)
from tests.support.writes import (
    Case,
    Refusal,
    load,
    mutate,
    name_of,
    require_accepted,
    require_refused,
)

PAIRS = "node P { k: String @key  a: String?  b: I32?  @unique(a, b) }"


def place(constraint: str) -> str:
    return f"node T {{ name: String @key  t: F64?  u: String?  {constraint} }}"


def user(name: str, **properties: object) -> Record:
    return node("User", **{"name": name, "role": "guest", **properties})


def pair(key: str, a: str | None, b: int | None) -> Record:
    return node("P", k=key, a=a, b=b)


ANN = user("ann", role="admin", email="ann@x")
BOB = user("bob", email="bob@x")

ROLE = Refusal("invalid enum value 'root' for User.role (expected: admin, guest)", "User", "role")
BADGE = Refusal("@check violation on User.badge: value 'ab1' does not match", "User", "badge")
SCORE = Refusal("@range violation on User.score: value 101 > max 100", "User", "score")
EMAIL = Refusal("@unique violation on User.email", "User", "email")
PAIR = Refusal("@unique violation on P.(a, b)", "P", None)
INSERT = 'insert User { name: "zoe", role: "guest"'
UPDATE_ANN = 'where name = "ann"'

REFUSED = [
    (Case("H01 D11 load", HUB, (ANN,), load(user("zoe", role="root"))), ROLE),
    (
        Case("H01 D11 insert", HUB, (), mutate('insert User { name: "z", role: $r }', r="root")),
        ROLE,
    ),
    (
        Case(
            "H01 D11 update",
            HUB,
            (ANN,),
            mutate("update User set { role: $r } " + UPDATE_ANN, r="root"),
        ),
        ROLE,
    ),
    (Case("H04 load", HUB, (ANN,), load(user("zoe", badge="ab1"))), BADGE),
    (Case("H04 insert", HUB, (), mutate(INSERT + ', badge: "ab1" }')), BADGE),
    (
        Case("H04 update", HUB, (ANN,), mutate('update User set { badge: "ab1" } ' + UPDATE_ANN)),
        BADGE,
    ),
    (Case("range load", HUB, (ANN,), load(user("zoe", score=101))), SCORE),
    (Case("range insert", HUB, (), mutate(INSERT + ", score: 101 }")), SCORE),
    (
        Case("range update", HUB, (ANN,), mutate("update User set { score: 101 } " + UPDATE_ANN)),
        SCORE,
    ),
    (
        Case("H19", place("@range(t, -40.0..60.0)"), (), load(node("T", name="a", t=-50))),
        Refusal("@range violation on T.t: value -50", "T", "t"),
    ),
    (
        Case("H20", place("@range(t, ..100)"), (), load(node("T", name="a", t=150))),
        Refusal("@range violation on T.t: value 150", "T", "t"),
    ),
    (Case("H08 load", HUB, (ANN,), load(user("carol", email="ann@x"))), EMAIL),
    (Case("H08 merge", HUB, (ANN,), load(user("carol", email="ann@x"), mode="merge")), EMAIL),
    (Case("H08 D16 insert", HUB, (ANN,), mutate(INSERT + ', email: "ann@x" }')), EMAIL),
    (
        Case(
            "H08 update",
            HUB,
            (ANN, BOB),
            mutate('update User set { email: "bob@x" } ' + UPDATE_ANN),
        ),
        EMAIL,
    ),
    (Case("H08 twice in a load", HUB, (), load(user("x", email="e"), user("y", email="e"))), EMAIL),
    (
        Case(
            "H08 two rows set to one value",
            HUB,
            (ANN, BOB),
            mutate('update User set { email: "same" } where name != "x"'),
        ),
        EMAIL,
    ),
    (
        Case(
            "H08 overwrite",
            HUB,
            (ANN,),
            load(user("x", email="e"), user("y", email="e"), mode="overwrite"),
        ),
        EMAIL,
    ),
    (Case("H11 D14 load", PAIRS, (), load(pair("x", "w", 1), pair("y", "w", 1))), PAIR),
    (
        Case(
            "H11 insert", PAIRS, (pair("x", "w", 1),), mutate('insert P { k: "y", a: "w", b: 1 }')
        ),
        PAIR,
    ),
]

ACCEPTED = [
    Case("H04 D13 badge that fits", HUB, (), load(user("a", badge="AB1"))),
    Case("H04 D13 no badge", HUB, (), load(user("a", badge=None))),
    Case("H05", place('@check(u, "[0-9]+")'), (), load(node("T", name="a", u="a1b"))),
    Case("H07", HUB, (), load(user("a", email=None), user("b", email=None))),
    Case("H07 D14 a null in a pair", PAIRS, (), load(pair("x", "1", None), pair("y", "1", None))),
    Case(
        "H10",
        HUB,
        (user("alice", email="a@x"),),
        mutate(
            'update User set { email: "temp" } where name = "alice"'
            ' update User set { email: "final" } where name = "alice"'
            ' insert User { name: "carol", role: "guest", email: "temp" }'
        ),
    ),
    Case(
        "H10 a value that another row frees",
        HUB,
        (ANN,),
        mutate(
            "update User set { email: null } " + UPDATE_ANN + " " + INSERT + ', email: "ann@x" }'
        ),
    ),
    Case(
        "H10 two rows that swap",
        HUB,
        (user("a", email="1"), user("b", email="2")),
        load(user("a", email="2"), user("b", email="1"), mode="merge"),
    ),
    Case("H10 its own value", HUB, (ANN,), load(user("ann", email="ann@x"), mode="merge")),
    Case("H10 a row that goes", HUB, (ANN,), load(user("c", email="ann@x"), mode="overwrite")),
    Case("H11 D14", PAIRS, (), load(pair("x", "w", 1), pair("y", "w", 2))),
    Case("H19", place("@range(t, -40.0..60.0)"), (), load(node("T", name="a", t=-20))),
    Case(
        "H19 the bounds belong to the range",
        place("@range(t, -40.0..60.0)"),
        (),
        load(node("T", name="a", t=-40), node("T", name="b", t=60), node("T", name="c")),
    ),
    Case("H20", place("@range(t, ..100)"), (), load(node("T", name="a", t=50))),
    Case(
        "broken on the way and kept at the end",
        HUB,
        (),
        mutate(INSERT + ', score: 500 } update User set { score: 5 } where name = "zoe"'),
    ),
]


@pytest.mark.parametrize(("case", "refusal"), REFUSED, ids=name_of)
def test_a_write_that_breaks_a_rule_is_refused_and_changes_nothing(
    tmp_path: Path, case: Case, refusal: Refusal
) -> None:
    require_refused(tmp_path, case, refusal)


@pytest.mark.parametrize("case", ACCEPTED, ids=name_of)
def test_a_write_that_keeps_the_rules_lands(tmp_path: Path, case: Case) -> None:
    require_accepted(tmp_path, case)


def test_every_row_that_breaks_a_rule_is_named(tmp_path: Path) -> None:
    graph = hub_graph(tmp_path)
    records = [user("a", role="root"), user("b", score=500), user("c", badge="?"), user("d")]

    with unchanged(graph), pytest.raises(IntegrityError) as refused:
        graph.load(ndjson(*records), mode="append")

    found = {(each.id, each.property, each.value) for each in refused.value.violations}
    assert found == {("a", "role", "root"), ("b", "score", 500), ("c", "badge", "?")}
    assert refused.value.count == 3


def test_the_violations_of_a_write_are_bounded_and_counted(tmp_path: Path) -> None:
    graph = hub_graph(tmp_path)
    records = [user(f"u{number}", score=101) for number in range(VIOLATIONS_MAX + 50)]

    with pytest.raises(IntegrityError) as refused:
        graph.load(ndjson(*records), mode="append")

    assert len(refused.value.violations) == VIOLATIONS_MAX
    assert refused.value.count == VIOLATIONS_MAX + 50
    assert f"and {refused.value.count - VIOLATIONS_SHOWN_MAX} more" in str(refused.value)


def test_a_unique_violation_names_both_rows(tmp_path: Path) -> None:
    graph = hub_graph(tmp_path, ANN)

    with pytest.raises(IntegrityError) as refused:
        load(user("carol", email="ann@x"))(graph)

    assert "'ann'" in str(refused.value)
    assert "'carol'" in str(refused.value)


@pytest.mark.parametrize("text", ["", "ß", "İ", "a\x00b", "'"])
def test_uniqueness_compares_texts_exactly(tmp_path: Path, text: str) -> None:
    graph = hub_graph(tmp_path, user("a", email=text))

    load(user("b", email=text + " "), user("c", email=text.upper() + "!"))(graph)
    with pytest.raises(IntegrityError, match="@unique violation"):
        load(user("d", email=text))(graph)

    assert values(graph, "User", "email")["a"] == text


UNIQUE_COLUMNS = {
    "Bool": (True, False),
    "I32": (-1, 1),
    "I64": (2**53, 2**53 + 1),
    "U64": (2**64 - 1, 2**64 - 2),
    "F64": (0.1, 0.2),
    "F32": (0.5, 0.25),
    "Date": ("2024-01-01", "2024-01-02"),
    "DateTime": ("2024-01-01T00:00:00.001Z", "2024-01-01T00:00:00.002Z"),
    "enum(a, b)": ("a", "b"),
}


@pytest.mark.parametrize(("type_name", "pair"), UNIQUE_COLUMNS.items(), ids=UNIQUE_COLUMNS)
def test_a_value_of_any_scalar_type_can_be_unique(
    tmp_path: Path, type_name: str, pair: tuple[object, object]
) -> None:
    schema = f"node T {{ name: String @key  v: {type_name}?  @unique(v) }}"
    first, second = pair

    require_accepted(
        tmp_path / "different",
        Case("", schema, (node("T", name="a", v=first),), load(node("T", name="b", v=second))),
    )
    require_refused(
        tmp_path / "same",
        Case("", schema, (node("T", name="a", v=first),), load(node("T", name="b", v=first))),
        Refusal("@unique violation on T.v", "T", "v"),
    )
