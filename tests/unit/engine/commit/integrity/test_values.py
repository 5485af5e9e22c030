"""Rules about one value: what is refused, what passes, and what a refusal says."""

from datetime import UTC, datetime

import pytest

from omnigraph.errors import InvalidValueError
from omnigraph.model.errors import Violation
from omnigraph.model.limits import VALUE_CHARACTERS_SHOWN_MAX
from tests.support.committed_rows import Row, Write, messages_of, violations_of
from tests.support.schemas import compile_text

NAN, INFINITY = float("nan"), float("inf")


def messages(body: str, **values: object) -> list[str]:
    """What is said of one row of a node type with some properties and constraints."""
    return messages_of(compile_text(f"node T {{ {body} }}"), {"T": Write([{"id": "t1", **values}])})


def test_a_null_in_a_required_property_names_the_row() -> None:
    catalog = compile_text("node Person { name: String @key  motto: String }")

    found = violations_of(catalog, {"Person": Write([{"id": "ann", "name": "ann"}])})

    message = "missing required property Person.motto: row 'ann' has null"
    assert found == (Violation("Person", "ann", "required", "motto", None, message),)


@pytest.mark.parametrize("type", ["[I32]", "[I32]?", "Vector(2)", "Vector(2)?"])
def test_a_null_among_elements_is_refused_even_where_the_whole_may_be_null(type: str) -> None:
    assert messages(f"p: {type}", p=[1, None]) == ["T.p of row 't1' has a null among its elements"]


@pytest.mark.parametrize(
    ("type", "value"), [("[I32]?", None), ("[I32]", []), ("Vector(2)?", None), ("Blob?", None)]
)
def test_a_null_that_the_type_allows_and_an_empty_list_pass(type: str, value: object) -> None:
    assert messages(f"p: {type}", p=value) == []


def test_nulls_are_found_in_the_right_rows_of_a_column_of_lists() -> None:
    catalog = compile_text("node T { p: [I32]? }")
    lists: list[Row] = [
        {"id": "a", "p": [1]},
        {"id": "b", "p": None},
        {"id": "c", "p": []},
        {"id": "d", "p": [None, None]},
        {"id": "e", "p": [2, None]},
    ]

    found = violations_of(catalog, {"T": Write(lists)})

    assert [each.id for each in found] == ["d", "e"]


def test_a_value_outside_of_an_enum_names_those_inside() -> None:
    assert messages("role: enum(guest, admin)", role="root") == [
        "invalid enum value 'root' for T.role (expected: admin, guest) (row 't1')"
    ]
    assert messages("role: enum(guest, admin)?", role=None) == []


def test_edges_have_enums_too() -> None:
    catalog = compile_text("node N {} edge E: N -> N { kind: enum(a, b) }")
    edge = {"id": "e1", "src": "n1", "dst": "n1", "kind": "c"}

    found = violations_of(catalog, {"N": Write([{"id": "n1"}]), "E": Write([edge])})

    assert [(each.type, each.id, each.rule, each.value) for each in found] == [
        ("E", "e1", "enum", "c")
    ]


@pytest.mark.parametrize(
    ("type", "bounds", "value", "problem"),
    [
        ("I32", "0..120", 121, "121 > max 120"),
        ("I32", "0..120", -1, "-1 < min 0"),
        ("I32", "..100", 150, "150 > max 100"),
        ("I32", "1.5..", 1, "1 < min 1.5"),
        ("I32", "..1.5", 2, "2 > max 1.5"),
        ("F64", "-40.0..60.0", -50.0, "-50.0 < min -40.0"),
        ("F64", "0..1", NAN, "is NaN"),
        ("F64", "0..", -INFINITY, "-Infinity < min 0"),
        ("F64", "..1", INFINITY, "Infinity > max 1"),
        ("F32", "..0.1", 0.1, "0.10000000149011612 > max 0.1"),
        ("I64", "..9007199254740992", 2**53 + 1, f"{2**53 + 1} > max {2**53}"),
        ("I64", "9007199254740993..", 2**53, f"{2**53} < min {2**53 + 1}"),
        ("F64", "9007199254740993..", 2.0**53, f"9007199254740992.0 < min {2**53 + 1}"),
        ("F64", "..9007199254740993", 2.0**53 + 2, f"9007199254740994.0 > max {2**53 + 1}"),
        ("F64", "..9007199254740995", 2.0**53 + 4, f"9007199254740996.0 > max {2**53 + 3}"),
        ("U64", "..5", 2**64 - 1, f"{2**64 - 1} > max 5"),
        ("U64", "..-1", 0, "0 > max -1"),
        ("I32", "5000000000..", 7, "7 < min 5000000000"),
    ],
)
def test_a_number_outside_of_a_range_says_on_which_side(
    type: str, bounds: str, value: object, problem: str
) -> None:
    assert messages(f"p: {type}? @range(p, {bounds})", p=value) == [
        f"@range violation on T.p: value {problem} (row 't1')"
    ]


@pytest.mark.parametrize(
    ("type", "bounds", "value"),
    [
        ("I32", "0..120", 0),
        ("I32", "0..120", 120),
        ("I32", "0..120", None),
        ("I32", "-5000000000..5000000000", -(2**31)),
        ("F64", "-40.0..60.0", -20.0),
        ("F64", "0..", -0.0),
        ("F64", "..1", None),
        ("U64", "-1..", 2**64 - 1),
        ("I64", "..9007199254740993", 2**53 + 1),
        ("F64", "..9007199254740993", 2.0**53),
    ],
)
def test_bounds_are_inclusive_and_exact_and_null_passes(
    type: str, bounds: str, value: object
) -> None:
    assert messages(f"p: {type}? @range(p, {bounds})", p=value) == []


def test_a_text_without_a_match_shows_itself_and_the_pattern() -> None:
    body = r'badge: String? @check(badge, "^[A-Z]{2}\\d+$")'

    assert messages(body, badge="ab1") == [
        r"@check violation on T.badge: value 'ab1' does not match pattern '^[A-Z]{2}\d+$'"
        " (row 't1')"
    ]
    assert messages(body, badge="AB1") == []
    assert messages(body, badge=None) == []


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("[0-9]+", "a1b", True),
        ("a$", "a\n", False),
        ("^b", "a\nb", False),
        ("(?m)^b$", "a\nb\nc", True),
        ("a.b", "a\nb", False),
        ("(?s)a.b", "a\nb", True),
        (r"\\d", "٣", False),
        (r"\\w", "é", False),
        (r"\\bx", "éx", True),
        ("é", "É", False),
        ("(?i)é", "É", True),
        (r"a\\→b", "a→b", True),
        (r"[\\→]", "→", True),
        (r"\\\\→", r"\→", True),
        ("", "", True),
    ],
)
def test_a_pattern_is_searched_for_as_the_language_says(
    pattern: str, text: str, *, is_match: bool
) -> None:
    found = messages(f'p: String @check(p, "{pattern}")', p=text)

    assert (found == []) == is_match


def test_a_pattern_that_is_too_large_to_run_is_no_fault_of_the_row() -> None:
    body = f'p: String @check(p, "{".{1000}" * 100}")'

    with pytest.raises(InvalidValueError, match=r"@check on T\.p: the pattern cannot be run"):
        messages(body, p="text")


def test_every_rule_that_a_row_breaks_is_reported() -> None:
    catalog = compile_text(
        'node T { a: String  b: I32  @check(a, "x")  @check(a, "y")  @range(b, 1..) }'
    )

    found = violations_of(catalog, {"T": Write([{"id": "t1", "a": "", "b": 0}])})

    assert [each.rule for each in found] == ["range", "check", "check"]


def test_a_long_value_is_cut_in_the_message_and_whole_in_the_violation() -> None:
    catalog = compile_text('node T { p: String @check(p, "^b") }')
    text = "a" * 10 * VALUE_CHARACTERS_SHOWN_MAX

    (found,) = violations_of(catalog, {"T": Write([{"id": "t1", "p": text}])})

    assert found.value == text
    assert len(found.message) < 2 * VALUE_CHARACTERS_SHOWN_MAX


def test_dates_and_numbers_that_json_lacks_appear_as_in_results() -> None:
    timestamp = datetime(2024, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    catalog = compile_text("node T { at: DateTime  f: F64  @unique(at)  @range(f, 0..) }")
    rows = [{"id": id, "at": timestamp, "f": -INFINITY} for id in ("a", "b")]

    found = violations_of(catalog, {"T": Write(rows)})

    assert [each.value for each in found] == ["-Infinity", "-Infinity", "2024-06-01T12:00:00.250Z"]
