"""The planner's promises over any two schemas, and the parts of steps that plans do not show."""

import json

import pytest
from hypothesis import given

from omnigraph.compiler.migration import MigrationPlan, plan_migration
from omnigraph.compiler.migration_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCode,
    ChangeLanguage,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    describe_step,
    encode_step,
)
from omnigraph.compiler.schema.canonical import hash_schema, without_hints
from omnigraph.model.catalog import Annotation, Catalog, Index, TypeKind
from omnigraph.model.source import Source
from omnigraph.model.types import PropertyType, Scalar, TextLanguage
from tests.support.generated_schemas import schema_texts
from tests.support.schemas import FLEET, compile_text

EMPTY = compile_text("")


@given(schema_texts(), schema_texts())
def test_a_plan_is_empty_exactly_when_the_hashes_are_equal(one: str, other: str) -> None:
    accepted, desired = _without_hints(one), _without_hints(other)

    assert _plan(accepted, accepted).steps == ()
    assert (_plan(accepted, desired).steps == ()) == (hash_schema(accepted) == hash_schema(desired))


@given(schema_texts())
def test_everything_can_be_added_to_nothing_and_taken_away_but_interfaces(text: str) -> None:
    catalog = _without_hints(text)

    growth, decline = _plan(EMPTY, catalog), _plan(catalog, EMPTY)

    assert {type(step) for step in growth.steps} <= {AddType}
    assert decline.supported == (not catalog.interfaces)


@pytest.mark.parametrize(("first", "then"), [("0..100", "0.0..100.0"), ("0..", "0.0..")])
def test_a_bound_that_becomes_a_float_is_another_bound(first: str, then: str) -> None:
    accepted = compile_text(f"node A {{ a: I32  @range(a, {first}) }}")
    desired = compile_text(f"node A {{ a: I32  @range(a, {then}) }}")

    assert not _plan(accepted, desired).supported


def test_an_annotation_that_is_repeated_once_more_is_a_change() -> None:
    accepted = compile_text('node A @tag("x") {}')
    desired = compile_text('node A @tag("x") @tag("x") {}')

    assert not _plan(accepted, desired).supported


def test_data_loss_that_is_allowed_makes_every_drop_final() -> None:
    plan = plan_migration(
        compile_text(FLEET),
        compile_text("node Pilot { handle: String @key }"),
        source=Source("", ""),
        allow_data_loss=True,
    )

    assert [(type(step), step.mode) for step in plan.steps if hasattr(step, "mode")] == [
        (DropProperty, DropMode.HARD),
        (DropType, DropMode.HARD),
        (DropType, DropMode.HARD),
        (DropType, DropMode.HARD),
    ]


NODE = TypeKind.NODE
DESCRIPTION = (Annotation("description", 'say "hi"', ()),)

STEPS: list[tuple[Step, str, dict[str, object]]] = [
    (
        AddType(TypeKind.INTERFACE, "I"),
        "add interface I",
        {"kind": "add_type", "type_kind": "interface", "name": "I"},
    ),
    (
        RenameType(TypeKind.EDGE, "E", "F"),
        "rename edge type E to F",
        {"kind": "rename_type", "type_kind": "edge", "from": "E", "to": "F"},
    ),
    (
        AddProperty(NODE, "A", "p", PropertyType(Scalar.DATE, is_nullable=True)),
        "add property A.p: Date?",
        {
            "kind": "add_property",
            "type_kind": "node",
            "type_name": "A",
            "property_name": "p",
            "property_type": {
                "scalar": "Date",
                "nullable": True,
                "list": False,
                "enum_values": None,
            },
        },
    ),
    (
        RenameProperty(NODE, "A", "p", "q"),
        "rename property A.p to q",
        {"kind": "rename_property", "type_kind": "node", "type_name": "A", "from": "p", "to": "q"},
    ),
    (
        AddConstraint(NODE, "A", Index(("p", "q"))),
        "add @index(p, q) to A",
        {
            "kind": "add_constraint",
            "type_kind": "node",
            "type_name": "A",
            "constraint": {"Index": ["p", "q"]},
        },
    ),
    (
        ExtendEnum(NODE, "A", "p", ("x", "y")),
        "extend the enum A.p by x, y",
        {
            "kind": "extend_enum",
            "type_kind": "node",
            "type_name": "A",
            "property_name": "p",
            "added_values": ["x", "y"],
        },
    ),
    (
        UpdateTypeMetadata(NODE, "A", DESCRIPTION),
        r'describe A by @description("say \"hi\"")',
        {
            "kind": "update_type_metadata",
            "type_kind": "node",
            "name": "A",
            "annotations": [{"name": "description", "value": 'say "hi"'}],
        },
    ),
    (
        UpdatePropertyMetadata(NODE, "A", "p", ()),
        "remove the description of A.p",
        {
            "kind": "update_property_metadata",
            "type_kind": "node",
            "type_name": "A",
            "property_name": "p",
            "annotations": [],
        },
    ),
    (
        ChangeLanguage(NODE, "A", "p", TextLanguage.GERMAN),
        "change the language of A.p to german",
        {
            "kind": "change_language",
            "type_kind": "node",
            "type_name": "A",
            "property_name": "p",
            "language": "german",
        },
    ),
    (
        DropType(NODE, "A", DropMode.SOFT),
        "drop node type A (soft: earlier commits keep its rows)",
        {"kind": "drop_type", "type_kind": "node", "name": "A", "mode": "soft"},
    ),
    (
        DropProperty(NODE, "A", "p", DropMode.HARD),
        "drop property A.p (hard: its values are gone for good)",
        {
            "kind": "drop_property",
            "type_kind": "node",
            "type_name": "A",
            "property_name": "p",
            "mode": "hard",
        },
    ),
    (
        UnsupportedChange("node:A", "removing constraints (@index(p))", None),
        "unsupported change on node:A: removing constraints (@index(p))",
        {
            "kind": "unsupported_change",
            "entity": "node:A",
            "reason": "removing constraints (@index(p))",
        },
    ),
    (
        UnsupportedChange("node:A.p", "because", ChangeCode.PROPERTY_TYPE),
        "unsupported change on node:A.p [OG-MF-106, destructive]: because",
        {
            "kind": "unsupported_change",
            "entity": "node:A.p",
            "reason": "because",
            "code": "OG-MF-106",
        },
    ),
]


@pytest.mark.parametrize(("step", "line", "encoded"), STEPS, ids=[line for _, line, _ in STEPS])
def test_a_step_has_a_line_for_people_and_a_mapping_for_programs(
    step: Step, line: str, encoded: dict[str, object]
) -> None:
    assert describe_step(step) == line
    assert encode_step(step) == encoded
    assert json.loads(json.dumps(encode_step(step))) == encoded


def _without_hints(text: str) -> Catalog:
    return without_hints(compile_text(text))


def _plan(accepted: Catalog, desired: Catalog) -> MigrationPlan:
    return plan_migration(accepted, desired, source=Source("", ""), allow_data_loss=False)
