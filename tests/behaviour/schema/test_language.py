"""The schema language: which texts it accepts, what they mean, how it refuses others."""

import pytest

from omnigraph.errors import CompileError
from omnigraph.model.catalog import Cardinality, Key, Unique
from tests.support.schemas import compile_text


def test_j01_a_key_behind_a_property_is_the_key_in_the_body() -> None:
    behind = compile_text("node Pilot { handle: String @key }")
    in_body = compile_text("node Pilot { handle: String  @key(handle) }")

    assert behind.nodes["Pilot"].constraints == in_body.nodes["Pilot"].constraints
    assert behind.nodes["Pilot"].key == ("handle",)


def test_j02_a_node_type_inherits_the_properties_of_its_interfaces() -> None:
    catalog = compile_text(
        "interface Slugged { slug: String @key }  node Post implements Slugged { n: I32? }"
    )

    post = catalog.nodes["Post"]
    assert list(post.properties) == ["n", "slug"]
    assert post.constraints == (Key(("slug",)),)


def test_j05_an_enum_is_a_sorted_set_of_values() -> None:
    catalog = compile_text("node Task { state: enum(open, closed, blocked) }")

    assert catalog.nodes["Task"].properties["state"].type.enum_values == (
        "blocked",
        "closed",
        "open",
    )


def test_j10_an_edge_type_can_have_unique_properties_and_ends() -> None:
    catalog = compile_text(
        "node Pilot {}  edge Mentors: Pilot -> Pilot { badge: String @unique  @unique(src, dst) }"
    )

    assert catalog.edges["Mentors"].constraints == (Unique(("badge",)), Unique(("dst", "src")))


def test_j16_escapes_are_decoded() -> None:
    catalog = compile_text(r'node Pilot @description("a\n\"b\"\\") {}')

    (description,) = catalog.nodes["Pilot"].annotations
    assert description.value == 'a\n"b"\\'


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", Cardinality(0, None)),
        ("@card(0..1)", Cardinality(0, 1)),
        ("@card(1..)", Cardinality(1, None)),
    ],
)
def test_j17_a_cardinality_has_a_minimum_and_perhaps_a_maximum(
    written: str, expected: Cardinality
) -> None:
    catalog = compile_text(f"node Pilot {{}}  edge Mentors: Pilot -> Pilot {written}")

    assert catalog.edges["Mentors"].cardinality == expected


def test_j22_only_the_built_in_names_are_reserved() -> None:
    catalog = compile_text("node Pilot { _row_id: I64 }")

    assert list(catalog.nodes["Pilot"].properties) == ["_row_id"]


REFUSED = {
    "j04 another type than the interface's": (
        "interface I { a: String }  node X implements I { a: I32 }",
        ["I32", "String", "interface `I`"],
    ),
    "j04 unknown interface": ("node X implements Nope {}", ["unknown interface"]),
    "j07 two keys": ("node X { a: String @key  b: String @key }", ["multiple @key"]),
    "j08 nullable key": ("node X { a: String? @key }", ["cannot be nullable"]),
    "j08 list key": ("node X { a: [String] @key }", ["not supported on list property"]),
    "j08 vector key": ("node X { a: Vector(2) @key }", ["not supported on vector property"]),
    "j08 blob key": ("node X { a: Blob @key }", ["not supported on blob property"]),
    "j11 range on text": ("node X { a: String  @range(a, 0..1) }", ["requires a numeric type"]),
    "j11 check on a number": ('node X { a: I32  @check(a, "x") }', ["requires String type"]),
    "j13 vector of dimension zero": ("node X { v: Vector(0) }", ["Vector dimension"]),
    "j13 vector too large": ("node X { v: Vector(2147483648) }", ["exceeds maximum"]),
    "j14 embed without a source": ("node X { v: Vector(2) @embed }", ["@embed needs"]),
    "j14 embed into text": ("node X { t: String  v: String @embed(t) }", ["@embed fills a Vector"]),
    "j14 embed of nothing": ("node X { v: Vector(2) @embed(t) }", ["unknown property `t`"]),
    "j14 embed of a number": (
        "node X { t: I32  v: Vector(2) @embed(t) }",
        ["@embed reads a String"],
    ),
    "j14 embed with a provider": (
        'node X { t: String  v: Vector(2) @embed(t, provider="x") }',
        ["only 'model' is supported"],
    ),
    "j16 unknown escape": (r'node X @description("\q") {}', ["unsupported escape"]),
    "j17 cardinality with a star": ("node X {}  edge E: X -> X @card(0..*)", ["parse error"]),
    "j17 cardinality without a minimum": ("node X {}  edge E: X -> X @card(..1)", ["parse error"]),
    "j17 cardinality upside down": ("node X {}  edge E: X -> X @card(2..1)", ["exceeds"]),
    "j19 two node types of one name": (
        "node X {}  node X {}",
        ["catalog error", "duplicate node type"],
    ),
    "j19 unknown end": (
        "node X {}  edge E: X -> Y",
        ["catalog error", "references unknown target type"],
    ),
    "j19 edges that differ in case": (
        "node X {}  edge Knows: X -> X  edge KNOWS: X -> X",
        ["catalog error", "case folding"],
    ),
    "j20 commas": ("node X { a: String, b: String }", ["parse error", "no comma"]),
    "j20 hash comment": ("# people\nnode X {}", ["parse error", "comments start with //"]),
    "j20 enum by itself": ("enum Color { red }", ["parse error", "where it is used"]),
    "j22 reserved name": ("node X { _rowid: I64 }", ["built-in column"]),
    "j23 property called id": ("node X { id: String }", ["catalog error", "`id`"]),
    "j25 list of blobs": ("node X { a: [Blob] }", ["list of Blob"]),
}


@pytest.mark.parametrize(("text", "fragments"), REFUSED.values(), ids=REFUSED)
def test_a_text_that_breaks_a_rule_is_refused_with_the_reason(
    text: str, fragments: list[str]
) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_text(text)

    message = str(refusal.value)
    assert [fragment for fragment in fragments if fragment not in message] == []


def test_every_fault_of_a_text_is_reported_at_once() -> None:
    with pytest.raises(CompileError) as refusal:
        compile_text("node X { a: Strng  b: [Blob]  id: String }")

    assert [fault.code for fault in refusal.value.diagnostics] == ["S1", "S2", "C5"]


# Positions where a constraint or an annotation is refused, and the message.
MISPLACED = {
    "node X @key {}": "only supported on node properties or as body constraint",
    "node X @unique {}": "only supported on node properties or as body constraint",
    "node X @index {}": "only supported on node properties or as body constraint",
    "node X @embed {}": "only supported on node properties or as body constraint",
    "node X {}  edge E: X -> X @key": "is not supported on edges",
    "node X {}  edge E: X -> X @unique": "is not supported on edges",
    "node X {}  edge E: X -> X @index": "is not supported on edges",
    "node X {}  edge E: X -> X @embed": "is not supported on edges",
    "node X {}  edge E: X -> X { a: String @key }": "is not supported on edge properties",
    'node X {}  edge E: X -> X { a: Vector(2) @embed("b") }': "is not supported on edge properties",
    "node X {}  edge E: X -> X { a: String  @key(a) }": "constraint is not supported on edges",
    "node X {}  edge E: X -> X { a: I32  @range(a, 0..1) }": "constraint is not supported on edges",
    'node X {}  edge E: X -> X { a: String @check(a, "") }': "constraint is not supported on edges",
    "node X { a: [String] @unique }": "not supported on list property",
    "node X { a: [String] @index }": "not supported on list property",
    'node X { a: [String] @embed("b") }': "not supported on list property",
    "node X { a: Vector(2) @unique }": "not supported on vector property",
    "node X { a: Blob @unique }": "not supported on blob property",
    "node X { a: Blob @index }": "not supported on blob property",
    'node X { a: Blob @embed("b") }': "not supported on blob property",
    "node X { a: Blob  @unique(a) }": "not supported on blob property",
    "node X { a: String @unique @unique }": "declares @unique multiple times",
    "node X { a: String  @unique(b) }": "references unknown property",
    'node X { a: String @instruction("b") }': "only supported on node and edge types",
    "node X @card(5) {}": "@card may appear once, on the first line of an edge",
    "node X { a: I32  @range(a, 5) }": "expected range bounds",
    'node X { a: String @unique("a") }': "expected property name in constraint",
    "node X { a: enum(b, c, b) }": "duplicate values",
    "interface A { a: String }  interface B { a: I32 }  node X implements A, B {}": (
        "incompatible property semantics"
    ),
}


@pytest.mark.parametrize(("text", "fragment"), MISPLACED.items(), ids=MISPLACED)
def test_a_constraint_in_the_wrong_place_says_where_it_belongs(text: str, fragment: str) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_text(text)

    assert fragment in str(refusal.value)
