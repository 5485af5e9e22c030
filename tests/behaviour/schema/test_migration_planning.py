"""Planning a schema change: which steps it takes, or why it is unsupported."""

import pytest

from omnigraph.compiler.migration import MigrationPlan, plan_migration
from omnigraph.compiler.migration_steps import describe_step, encode_step
from omnigraph.errors import CompileError
from omnigraph.model.source import Source
from tests.support.schemas import FLEET, compile_text


def test_n01_a_nullable_property_and_an_index_can_be_added() -> None:
    plan = _plan(FLEET, FLEET.replace("hours: I32?", "hours: I32? @index  nick: String?"))

    assert plan.supported
    assert [encode_step(step) for step in plan.steps] == [
        {
            "kind": "add_property",
            "type_kind": "node",
            "type_name": "Pilot",
            "property_name": "nick",
            "property_type": {
                "scalar": "String",
                "nullable": True,
                "list": False,
                "enum_values": None,
            },
        },
        {
            "kind": "add_constraint",
            "type_kind": "node",
            "type_name": "Pilot",
            "constraint": {"Index": ["hours"]},
        },
    ]


def test_n02_a_required_property_cannot_be_added() -> None:
    plan = _plan(FLEET, FLEET.replace("hours: I32?", "hours: I32?  nick: String"))

    (step,) = [encode_step(step) for step in plan.steps]
    assert not plan.supported
    assert step["kind"] == "unsupported_change"
    assert step["entity"] == "node:Pilot.nick"
    assert step["code"] == "OG-MF-103"


@pytest.mark.parametrize(("allow_data_loss", "mode"), [(False, "soft"), (True, "hard")])
def test_n04_a_dropped_property_stays_in_history_unless_data_loss_is_allowed(
    *, allow_data_loss: bool, mode: str
) -> None:
    plan = _plan(FLEET, FLEET.replace("hours: I32?", ""), allow_data_loss=allow_data_loss)

    assert plan.supported
    assert [encode_step(step) for step in plan.steps] == [
        {
            "kind": "drop_property",
            "type_kind": "node",
            "type_name": "Pilot",
            "property_name": "hours",
            "mode": mode,
        }
    ]


def test_n05_an_indexed_property_cannot_be_dropped() -> None:
    plan = _plan(FLEET.replace("I32?", "I32? @index"), FLEET.replace("hours: I32?", ""))

    assert not plan.supported
    assert [encode_step(step)["kind"] for step in plan.steps] == [
        "drop_property",
        "unsupported_change",
    ]
    assert "removing constraints" in describe_step(plan.steps[1])


def test_n07_a_node_type_that_an_edge_needs_cannot_be_dropped() -> None:
    without_ships = "\n".join(line for line in FLEET.splitlines() if "node Ship" not in line)

    with pytest.raises(CompileError, match="references unknown target type `Ship`"):
        _plan(FLEET, without_ships)


def test_n08_a_renamed_type_keeps_its_rows_key_and_edges() -> None:
    desired = (
        FLEET.replace("node Pilot", 'node Flyer @rename_from("Pilot")')
        .replace("handle: String @key", 'callsign: String @key @rename_from("handle")')
        .replace("Pilot -> Pilot", "Flyer -> Flyer")
        .replace("Pilot -> Ship", "Flyer -> Ship")
    )

    plan = _plan(FLEET, desired)

    assert plan.supported
    assert [encode_step(step) for step in plan.steps] == [
        {"kind": "rename_type", "type_kind": "node", "from": "Pilot", "to": "Flyer"},
        {
            "kind": "rename_property",
            "type_kind": "node",
            "type_name": "Flyer",
            "from": "handle",
            "to": "callsign",
        },
    ]


INDEXED = FLEET.replace("tons: F64?", "tons: F64? @index")

UNSUPPORTED = {
    "n10 new unique": (FLEET, FLEET.replace("I32?", "I32? @unique"), "adding @unique(hours)"),
    "n10 new range": (
        FLEET,
        FLEET.replace("I32?", "I32? @range(hours, 0..9)"),
        "adding @range(hours, 0..9)",
    ),
    "n10 removed index": (INDEXED, FLEET, "removing constraints"),
    "n11 new cardinality": (FLEET, FLEET.replace("-> Ship", "-> Ship @card(0..1)"), "@card"),
    "n11 swapped ends": (
        FLEET,
        FLEET.replace("Pilot -> Ship", "Ship -> Pilot"),
        "ends of the edge",
    ),
    "n14 narrowed enum": ("node T { s: enum(a, b) }", "node T { s: enum(a) }", "OG-MF-106"),
    "n14 widened and nullable enum": (
        "node T { s: enum(a, b) }",
        "node T { s: enum(a, b, c)? }",
        "OG-MF-106",
    ),
    "another property type": (FLEET, FLEET.replace("I32?", "I64?"), "changing property type"),
    "removed interface": ("interface I {}  node T {}", "node T {}", "removing an interface"),
}


@pytest.mark.parametrize(("accepted", "desired", "fragment"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_a_change_that_rows_might_not_survive_is_unsupported(
    accepted: str, desired: str, fragment: str
) -> None:
    plan = _plan(accepted, desired)

    (line,) = map(describe_step, plan.steps)
    assert not plan.supported
    assert line.startswith("unsupported change on ")
    assert fragment in line


def test_n13_an_enum_can_gain_values() -> None:
    plan = _plan("node T { s: enum(a, b) }", "node T { s: enum(a, b, c) }")

    assert plan.supported
    assert [encode_step(step) for step in plan.steps] == [
        {
            "kind": "extend_enum",
            "type_kind": "node",
            "type_name": "T",
            "property_name": "s",
            "added_values": ["c"],
        }
    ]


UNCHANGED = {
    "n14 reordered enum": ("node T { s: enum(a, b) }", "node T { s: enum(b, a) }"),
    "n16 identical": (FLEET, FLEET),
    "n16 comments": (FLEET, f"// Our fleet.\n{FLEET}"),
}


@pytest.mark.parametrize(("accepted", "desired"), UNCHANGED.values(), ids=UNCHANGED)
def test_an_equivalent_schema_needs_no_steps(accepted: str, desired: str) -> None:
    plan = _plan(accepted, desired)

    assert plan == MigrationPlan(steps=())
    assert plan.supported


UNMATCHED_HINTS = {
    "nothing of that name": (
        FLEET.replace(
            "edge Flies: Pilot -> Ship", 'edge Steers: Pilot -> Ship @rename_from("Flie")'
        ),
        "did you mean `Flies`?",
    ),
    "another kind": (f'{FLEET} node Trip @rename_from("Flies") {{}}', "cannot become one"),
    "a type that stays": (f'{FLEET} node Trip @rename_from("Ship") {{}}', "still declared"),
    "another type's property": (
        FLEET.replace("hours: I32?", 'hours: I32?  tail: String? @rename_from("reg")'),
        "values do not move between types",
    ),
    "a new type's property": (f'{FLEET} node Dock {{ n: I32 @rename_from("x") }}', "`Dock` is new"),
    "a name claimed before": (
        FLEET.replace(
            "hours: I32?", 'a: I32? @rename_from("hours")  b: I32? @rename_from("hours")'
        ),
        "renamed from `hours` already",
    ),
}


@pytest.mark.parametrize(("desired", "fragment"), UNMATCHED_HINTS.values(), ids=UNMATCHED_HINTS)
def test_a_rename_hint_that_fits_nothing_is_refused(desired: str, fragment: str) -> None:
    with pytest.raises(CompileError) as refusal:
        _plan(FLEET, desired)

    assert {fault.code for fault in refusal.value.diagnostics} == {"M1"}
    assert fragment in str(refusal.value)


def _plan(accepted: str, desired: str, *, allow_data_loss: bool = False) -> MigrationPlan:
    return plan_migration(
        compile_text(accepted),
        compile_text(desired),
        source=Source("desired.pg", desired),
        allow_data_loss=allow_data_loss,
    )
