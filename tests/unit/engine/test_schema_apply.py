"""What a migration does to tables, worked out without touching any."""

import pytest

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.migration import plan_migration
from omnigraph.engine.schema_apply import TablePlan, is_additive, plan_tables
from omnigraph.engine.state.manifest import Change, Register, Tombstone
from omnigraph.model.source import Source
from tests.support.manifests import make_state, make_update

BEFORE = """
node Person { name: String @key  age: I32? }
node Note { title: String @key }
edge Knows: Person -> Person
"""
TABLES = (
    make_update("node:Person", 4, row_count=2),
    make_update("node:Note", 7, row_count=1),
    make_update("edge:Knows", 2),
)


def plan(after: str, *changes: Change, is_final: bool = False, before: str = BEFORE) -> TablePlan:
    """What becomes of the tables if the schema becomes another."""
    source = Source("<schema>", after)
    accepted, desired = compile_schema(Source("<schema>", before)), compile_schema(source)
    steps = plan_migration(accepted, desired, source=source, allow_data_loss=is_final)
    assert steps.supported
    return plan_tables(
        steps, accepted=accepted, desired=desired, state=make_state(*TABLES, *changes)
    )


def test_a_change_without_columns_changes_no_table() -> None:
    described = BEFORE.replace("node Note", 'node Note @description("n")')

    assert plan(described) == TablePlan((), (), (), (), (), ())


def test_a_new_type_is_added_and_an_interface_has_no_table() -> None:
    found = plan(f"interface Named {{ name: String }}\nnode Pet {{ key: String @key }}\n{BEFORE}")

    assert [each.name for each in found.added] == ["Pet"]
    assert not found.changed
    assert not found.dropped


def test_an_added_or_dropped_property_changes_the_columns_of_its_table() -> None:
    (change,) = plan(BEFORE.replace("age: I32?", "nick: String?")).changed

    assert change.entry.table_key == change.published_key == "node:Person"
    assert (change.renames, change.is_final, change.version_bumps) == ({}, False, 0)


def test_a_permanent_drop_rewrites_the_table() -> None:
    (change,) = plan(BEFORE.replace("age: I32?", ""), is_final=True).changed

    assert change.is_final


def test_a_renamed_type_keeps_its_table_under_another_key() -> None:
    found = plan(BEFORE.replace("node Note", 'node Memo @rename_from("Note")'))

    assert found.changed == ()
    assert found.registered == (Register("node:Memo", "at/node:Note"),)
    assert [(each.table_key, each.version) for each in found.adopted] == [("node:Memo", 7)]
    assert found.tombstones == (Tombstone("node:Note", 8),)


def test_a_renamed_type_with_other_columns_is_a_version_under_another_key() -> None:
    renamed = 'node Memo @rename_from("Note") { text: String @key @rename_from("title") }'

    found = plan(BEFORE.replace("node Note { title: String @key }", renamed))

    (change,) = found.changed
    assert (change.entry.table_key, change.published_key) == ("node:Note", "node:Memo")
    assert change.renames == {"title": "text"}
    assert found.adopted == ()
    assert found.tombstones == (Tombstone("node:Note", 8),)


@pytest.mark.parametrize(("hidden", "bumps"), [(6, 0), (7, 1), (9, 3)])
def test_a_name_that_was_another_types_takes_the_table_above_what_that_one_had(
    hidden: int, bumps: int
) -> None:
    deleted = (make_update("node:Memo", hidden - 1), Tombstone("node:Memo", hidden))

    found = plan(BEFORE.replace("node Note", 'node Memo @rename_from("Note")'), *deleted)

    assert [each.version_bumps for each in found.changed] == ([bumps] if bumps else [])
    assert len(found.adopted) == (0 if bumps else 1)


def test_a_version_that_a_change_of_columns_makes_counts_as_one_of_those() -> None:
    deleted = (make_update("node:Memo", 8), Tombstone("node:Memo", 9))
    renamed = 'node Memo @rename_from("Note") { title: String @key  more: String? }'

    (change,) = plan(BEFORE.replace("node Note { title: String @key }", renamed), *deleted).changed

    # From 7 to 8 by its columns, then above 9.
    assert change.version_bumps == 2


@pytest.mark.parametrize(("is_final", "version"), [(False, 8), (True, 9)])
def test_a_dropped_type_is_hidden_above_its_last_version(*, is_final: bool, version: int) -> None:
    without = BEFORE.replace("node Note { title: String @key }", "")

    found = plan(without, is_final=is_final)

    (drop,) = found.dropped
    assert (drop.entry.table_key, drop.is_final) == ("node:Note", is_final)
    assert found.tombstones == (Tombstone("node:Note", version),)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (f"{BEFORE}\nnode Pet {{ key: String @key }}", True),
        (BEFORE.replace("age: I32?", "age: I32?  nick: String? @index"), True),
        (BEFORE.replace("node Note", 'node Note @description("n")'), True),
        (BEFORE.replace("age: I32?", ""), False),
        (BEFORE.replace("node Note { title: String @key }", ""), False),
        (BEFORE.replace("node Note", 'node Memo @rename_from("Note")'), False),
        (BEFORE.replace("age: I32?", 'years: I32? @rename_from("age")'), False),
    ],
)
def test_only_what_rows_of_all_branches_can_live_with_is_additive(
    after: str, *, expected: bool
) -> None:
    source = Source("<schema>", after)
    accepted = compile_schema(Source("<schema>", BEFORE))
    steps = plan_migration(accepted, compile_schema(source), source=source, allow_data_loss=False)

    assert all(is_additive(step) for step in steps.steps) is expected
