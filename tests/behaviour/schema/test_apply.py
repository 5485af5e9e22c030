"""Changing a schema: one commit in which every row keeps its values, or nothing changes."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    CompileError,
    ForbiddenError,
    IntegrityError,
    InvalidValueError,
    RecoveryRequiredError,
    StillNeededError,
    UnsupportedChangeError,
)
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    Record,
    build_graph,
    contents,
    edge,
    footprint,
    manifest,
    manifest_rows,
    ndjson,
    node,
    open_with,
    pins,
    row_counts,
    rows,
    table_paths,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.schema_changes import (
    CHANGES,
    OFFICE,
    PEOPLE,
    RENAMED_BACK,
    WORKS_AT,
    SchemaChange,
    bytes_untouched,
    office,
    require_files,
)
from tests.support.sweeps import require_sound, state_of

THING = "node Thing { key: String @key  size: I32? }"


def things(path: Path, *records: Record, schema: str = THING) -> Graph:
    """A graph of things."""
    return build_graph(path, schema, *(records or (node("Thing", key="a", size=1),)))


# One commit, or none


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_schema_change_is_one_commit_and_leaves_a_healthy_graph(
    tmp_path: Path, change: SchemaChange
) -> None:
    graph = office(tmp_path)
    before = [each.id for each in graph.commits()]

    done = graph.apply_schema(change.schema, allow_data_loss=change.is_final, actor="ann")

    assert done.applied
    assert [each.id for each in graph.commits()] == [*before, done.commit_id]
    assert graph.commits()[-1].actor == "ann"
    assert graph.schema_source == change.schema
    require_sound(graph, state_of(graph))
    require_files(graph)
    assert contents(omnigraph.open(tmp_path)) == contents(graph)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_plan_lists_the_steps_that_applying_takes_and_changes_nothing(
    tmp_path: Path, change: SchemaChange
) -> None:
    graph = office(tmp_path)

    with bytes_untouched(tmp_path):
        plan = graph.plan_schema(change.schema, allow_data_loss=change.is_final)

    assert plan.supported
    assert plan.steps == graph.apply_schema(change.schema, allow_data_loss=change.is_final).steps


@pytest.mark.parametrize("schema", [OFFICE, f"// as before\n{OFFICE}"], ids=["same", "comment"])
def test_h01_the_same_schema_makes_no_commit(tmp_path: Path, schema: str) -> None:
    graph = office(tmp_path)

    with unchanged(graph):
        done = graph.apply_schema(schema)

    assert (done.applied, done.steps, done.commit_id) == (False, (), None)
    assert graph.schema_source == OFFICE


# Rows


def test_a_new_type_exists_without_rows_and_accepts_some(tmp_path: Path) -> None:
    graph = office(tmp_path)

    graph.apply_schema(f"{OFFICE}\nnode Pet {{ name: String @key }}\nedge Owns: Person -> Pet")
    assert row_counts(graph)["node:Pet"] == 0
    graph.load(ndjson(node("Pet", name="Rex"), edge("Owns", "Alice", "Rex")), mode="append")

    found = graph.query(query("match { $p: Person  $p owns $x } return { $p.name, $x.name }"))
    assert found.rows == [{"p.name": "Alice", "x.name": "Rex"}]


def test_a_new_property_is_null_in_existing_rows(tmp_path: Path) -> None:
    graph = office(tmp_path)

    CHANGES["a new property"].apply(graph)
    graph.mutate(query('update Company set { web: "acme.example" } where name = "Acme"'))

    assert values(graph, "Company", "web") == {"Acme": "acme.example", "Globex": None}
    assert values(graph, "Company", "city") == {"Acme": "Bern", "Globex": None}


PROPERTY_TYPES: Mapping[str, tuple[str, object]] = {
    "Bool?": ("Bool?", True),
    "F64?": ("F64?", 0.5),
    "U64?": ("U64?", 2**64 - 1),
    "Date?": ("Date?", "2024-02-29"),
    "DateTime?": ("DateTime?", "2024-02-29T12:00:00Z"),
    "list": ("[String]?", ["x", "y"]),
    "vector": ("Vector(2)?", [0.25, -1.0]),
    "enum": ("enum(hot, cold)?", "hot"),
    "blob": ("Blob?", "base64:AAEC"),
}


@pytest.mark.parametrize(("type", "value"), PROPERTY_TYPES.values(), ids=PROPERTY_TYPES.keys())
def test_a_property_of_any_type_can_be_added_written_and_renamed(
    tmp_path: Path, type: str, value: object
) -> None:
    graph = things(tmp_path)

    graph.apply_schema(THING.replace("size: I32?", f"size: I32?  extra: {type}"))
    graph.load(ndjson(node("Thing", key="b", extra=value)), mode="append")
    written = dict(rows(graph, "Thing")["b"])
    renamed = f'size: I32?  other: {type} @rename_from("extra")'
    graph.apply_schema(THING.replace("size: I32?", renamed))

    assert written.pop("extra") is not None
    assert rows(graph, "Thing")["a"] == {"key": "a", "size": 1, "other": None}
    assert values(graph, "Thing", "other")["b"] is not None
    assert {**rows(graph, "Thing")["b"], "other": None} == {**written, "other": None}


def test_h04_what_is_renamed_keeps_its_rows_and_values_and_place(tmp_path: Path) -> None:
    graph = office(tmp_path)
    before, places = contents(graph), table_paths(tmp_path)

    CHANGES["all at once"].apply(graph)

    found = contents(graph)
    assert found["Firm"] == {
        "Acme": {"name": "Acme", "town": "Bern", "web": None},
        "Globex": {"name": "Globex", "town": None, "web": None},
    }
    assert found["Serves"] == before["WorksAt"]
    assert found["Person"] == before["Person"]
    assert table_paths(tmp_path)["node:Firm"] == places["node:Company"]
    assert table_paths(tmp_path)["edge:Serves"] == places["edge:WorksAt"]


def test_h05_a_dropped_property_is_absent_and_empty_when_declared_again(tmp_path: Path) -> None:
    graph = office(tmp_path)

    for _ in range(2):
        CHANGES["a dropped property"].apply(graph)
        with pytest.raises(CompileError):
            graph.query(query("match { $c: Company } return { $c.city }"))
        graph.apply_schema(OFFICE)
        assert values(graph, "Company", "city") == {"Acme": None, "Globex": None}
        graph.mutate(query('update Company set { city: "Rome" } where name = "Acme"'))

    assert values(graph, "Company", "size") == {"Acme": 7, "Globex": 9}


@pytest.mark.parametrize("is_final", [False, True], ids=["soft", "hard"])
def test_h07_h20_a_type_that_is_dropped_and_declared_again_is_empty(
    tmp_path: Path, *, is_final: bool
) -> None:
    graph = office(tmp_path)
    without = "\n".join([PEOPLE, "node Note { title: String @key }"])

    for number in range(2):
        graph.apply_schema(without, allow_data_loss=is_final)
        assert {"Company", "WorksAt"}.isdisjoint(contents(graph))
        assert "node:Company" not in pins(graph)
        graph.apply_schema(OFFICE)
        assert (row_counts(graph)["node:Company"], rows(graph, "Company")) == (0, {})
        graph.load(ndjson(node("Company", name=f"c{number}")), mode="append")

    assert list(rows(graph, "Company")) == ["c1"]
    require_sound(graph, state_of(graph))


def test_a_name_that_a_type_gave_up_can_be_given_to_another(tmp_path: Path) -> None:
    graph = things(tmp_path)
    other = 'node Other @rename_from("Thing") { key: String @key  size: I32? }'

    graph.apply_schema(other)
    graph.apply_schema(f"{other}\n{THING}")
    graph.load(ndjson(node("Thing", key="z")), mode="append")

    assert contents(graph) == {
        "Other": {"a": {"key": "a", "size": 1}},
        "Thing": {"z": {"key": "z", "size": None}},
    }
    assert len(set(table_paths(tmp_path).values())) == 2


def test_a_type_gets_back_a_name_that_another_has_had_since(tmp_path: Path) -> None:
    graph = things(tmp_path)
    other = 'node Other @rename_from("Thing") { key: String @key  size: I32? }'
    graph.apply_schema(other)
    graph.apply_schema(f"{other}\n{THING}")
    for number in range(3):
        graph.load(ndjson(node("Thing", key=f"z{number}")), mode="append")
    between = graph.head()
    graph.apply_schema(other)

    graph.apply_schema('node Thing @rename_from("Other") { key: String @key  size: I32? }')
    graph.load(ndjson(node("Thing", key="b")), mode="append")
    graph.apply_schema('node Else @rename_from("Thing") { key: String @key  size: I32? }')
    graph.apply_schema(f"{other.replace('Thing', 'Else')}\n{THING}")

    assert contents(graph) == {
        "Other": {"a": {"key": "a", "size": 1}, "b": {"key": "b", "size": None}}
    }
    assert graph.entity("Thing", "z2", commit=between) == {"id": "z2", "key": "z2", "size": None}
    assert graph.entity("Other", "a", commit=between) == {"id": "a", "key": "a", "size": 1}
    require_sound(graph, state_of(graph))


def test_types_that_shared_a_table_one_after_the_other_get_one_each(tmp_path: Path) -> None:
    keep = "node Keep { key: String @key }"
    graph = build_graph(tmp_path, f"{keep}\n{THING}", node("Thing", key="old"))
    other = 'node Other @rename_from("Thing") { key: String @key  size: I32? }'
    graph.apply_schema(f"{keep}\n{other}")
    graph.apply_schema(keep)

    graph.apply_schema(f"{keep}\n{THING}\n{THING.replace('Thing', 'Other')}")
    graph.load(ndjson(node("Thing", key="t"), node("Other", key="o")), mode="append")

    assert {name: list(by_id) for name, by_id in contents(graph).items()} == {
        "Other": ["o"],
        "Thing": ["t"],
    }


@pytest.mark.parametrize("turns", [1, 3])
def test_a_type_can_be_renamed_back_and_forth(tmp_path: Path, turns: int) -> None:
    graph = office(tmp_path)
    before = contents(graph)

    for _ in range(turns):
        CHANGES["a renamed type"].apply(graph)
        RENAMED_BACK.apply(graph)

    assert contents(graph) == before
    assert graph.schema_source == RENAMED_BACK.schema
    graph.load(ndjson(node("Company", name="New")), mode="append")
    require_sound(graph, state_of(graph))


# Rules, indexes and descriptions


def test_a_wider_enum_accepts_its_new_values_and_no_others(tmp_path: Path) -> None:
    schema = "node Thing { key: String @key  kind: enum(hot, cold)? }"
    graph = things(tmp_path, node("Thing", key="a", kind="hot"), schema=schema)

    graph.apply_schema(schema.replace("hot, cold", "hot, cold, warm"))
    graph.load(ndjson(node("Thing", key="b", kind="warm")), mode="append")

    assert values(graph, "Thing", "kind") == {"a": "hot", "b": "warm"}
    with pytest.raises(IntegrityError):
        graph.load(ndjson(node("Thing", key="c", kind="mild")), mode="append")


def test_rules_apply_under_the_new_names_of_their_properties(tmp_path: Path) -> None:
    schema = (
        "node Thing { key: String @key  mail: String? @unique  size: I32?  @range(size, 0..9) }"
    )
    graph = things(tmp_path, node("Thing", key="a", mail="x", size=1), schema=schema)

    graph.apply_schema(
        'node Item @rename_from("Thing") { code: String @key @rename_from("key")'
        '  post: String? @unique @rename_from("mail")'
        '  count: I32? @rename_from("size")  @range(count, 0..9) }'
    )

    for bad in (node("Item", code="b", post="x"), node("Item", code="c", count=10)):
        with pytest.raises(IntegrityError):
            graph.load(ndjson(bad), mode="append")
    assert rows(graph, "Item") == {"a": {"code": "a", "post": "x", "count": 1}}


def test_indexes_follow_their_columns_through_renames(tmp_path: Path) -> None:
    schema = "node Thing { key: String @key  text: String? @index  size: I32? @index }"
    records = [node("Thing", key=f"k{n}", text=f"word{n}", size=n) for n in range(20)]
    graph = things(tmp_path, *records, schema=schema)
    graph.ensure_indices()

    graph.apply_schema(
        'node Item @rename_from("Thing") { key: String @key'
        '  words: String? @index @rename_from("text")  many: I32? @index @rename_from("size") }'
    )

    assert [each for each in graph.ensure_indices() if each.is_built] == []
    match = 'match { $i: Item  $i.many = 7  search($i.words, "word7") } return { $i.key }'
    assert graph.query(query(match)).rows == [{"i.key": "k7"}]


def test_an_index_that_is_added_is_built_when_indexes_are(tmp_path: Path) -> None:
    graph = things(tmp_path)

    graph.apply_schema(THING.replace("size: I32?", "size: I32? @index"))

    built = {(each.type, each.column) for each in graph.ensure_indices() if each.is_built}
    assert ("Thing", "size") in built


def test_descriptions_change_without_a_version_of_any_type(tmp_path: Path) -> None:
    graph = office(tmp_path)
    before = pins(graph)

    CHANGES["a description"].apply(graph)

    assert pins(graph) == before
    assert '@description("Who pays")' in graph.schema_source


def test_an_interface_and_what_it_gives_its_types_can_be_added(tmp_path: Path) -> None:
    schema = "interface Named { name: String }\nnode Dog implements Named { name: String @key }"
    graph = build_graph(tmp_path, schema, node("Dog", name="Rex"))

    graph.apply_schema(
        "interface Named { name: String  nick: String? }\ninterface Old { age: I32? }\n"
        "node Dog implements Named { name: String @key  nick: String? }"
    )
    graph.load(ndjson(node("Dog", name="Ada", nick="A")), mode="append")

    assert values(graph, "Dog", "nick") == {"Rex": None, "Ada": "A"}


# Refusals


UNSUPPORTED = {
    "a required property": (
        OFFICE.replace("size: I32?", "size: I32?  web: String"),
        "OG-MF-103",
    ),
    "a narrower type": (OFFICE.replace("size: I32?", "size: I32"), "OG-MF-106"),
    "a new unique rule": (OFFICE.replace("city: String?", "city: String? @unique"), None),
    "another cardinality": (OFFICE.replace("-> Company", "-> Company @card(0..1)"), None),
    "other ends": (OFFICE.replace("Person -> Company", "Company -> Person"), None),
}


@pytest.mark.parametrize(("schema", "code"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_h08_an_unsupported_change_is_refused_before_anything_moves(
    tmp_path: Path, schema: str, code: str | None
) -> None:
    graph = office(tmp_path)
    wider = f"{schema}\nnode Pet {{ name: String @key }}"

    with bytes_untouched(tmp_path), pytest.raises(UnsupportedChangeError) as refused:
        graph.apply_schema(wider)

    (step,) = refused.value.steps
    assert (step["kind"], step.get("code")) == ("unsupported_change", code)
    assert f"{step['entity']}: {step['reason']}" in str(refused.value)
    assert str(refused.value).endswith("; the schema is unchanged")
    plan = graph.plan_schema(wider)
    assert not plan.supported
    assert step in plan.steps


def test_a_text_that_does_not_compile_is_refused_before_anything_moves(tmp_path: Path) -> None:
    graph = office(tmp_path)
    texts = (
        "node {",
        "\n".join([PEOPLE, WORKS_AT]),
        OFFICE.replace("node Note {", 'node Note2 @rename_from("Nothing") {'),
    )

    for text in texts:
        with bytes_untouched(tmp_path):
            for call in (graph.apply_schema, graph.plan_schema):
                with pytest.raises(CompileError):
                    call(text)


def test_a_schema_that_is_not_text_is_refused(tmp_path: Path) -> None:
    graph = office(tmp_path)

    for call in (graph.apply_schema, graph.plan_schema):
        with pytest.raises(InvalidValueError):
            call(b"node Person { name: String @key }")  # type: ignore[arg-type]  # the point


def test_a_read_only_graph_plans_a_schema_and_refuses_to_apply_it(tmp_path: Path) -> None:
    office(tmp_path)
    reader = omnigraph.open(tmp_path, read_only=True)
    schema = CHANGES["a new type"].schema

    with bytes_untouched(tmp_path):
        assert reader.plan_schema(schema).supported
        with pytest.raises(ForbiddenError):
            reader.apply_schema(schema)


def test_h02_n17_a_change_that_is_not_additive_names_the_blocking_branches(
    tmp_path: Path,
) -> None:
    graph = office(tmp_path)
    graph.create_branch("dev")
    graph.create_branch("feature/x")

    with unchanged(graph), pytest.raises(StillNeededError) as refused:
        CHANGES["a renamed type"].apply(graph)

    for part in ("only main", "'dev'", "'feature/x'", "rename node type Company to Firm"):
        assert part in str(refused.value)
    for branch in ("dev", "feature/x"):
        graph.delete_branch(branch)
    CHANGES["a renamed type"].apply(graph)
    assert len(rows(graph, "Firm")) == 2


def test_a_change_that_is_not_additive_waits_for_transactions_to_end(tmp_path: Path) -> None:
    graph = office(tmp_path)

    with graph.transaction() as tx:
        tx.mutate(query('insert Person { name: "Eve" }'))
        with pytest.raises(StillNeededError) as refused:
            CHANGES["a renamed type"].apply(graph)

    assert "a transaction" in str(refused.value)
    assert "__tx__" not in str(refused.value)
    CHANGES["a renamed type"].apply(graph)
    assert "Eve" in rows(graph, "Person")


# Other open handles


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_open_handles_continue_with_the_new_schema(tmp_path: Path, change: SchemaChange) -> None:
    graph = office(tmp_path)
    reader, writer = omnigraph.open(tmp_path, read_only=True), omnigraph.open(tmp_path)
    assert contents(reader) == contents(writer) == contents(graph)

    change.apply(graph)

    assert reader.schema_source == writer.schema_source == change.schema
    assert contents(reader) == contents(writer) == contents(graph)
    writer.mutate(query('insert Person { name: "Eve" }'))
    assert "Eve" in rows(reader, "Person")
    require_sound(graph, state_of(graph))


def test_a_query_with_names_of_an_earlier_schema_is_refused_with_that_reason(
    tmp_path: Path,
) -> None:
    graph = office(tmp_path)
    writer = omnigraph.open(tmp_path)
    insert = query('insert Company { name: "Eve" }')
    writer.mutate(insert)

    CHANGES["a renamed type"].apply(graph)

    with unchanged(graph), pytest.raises(CompileError):
        writer.mutate(insert)


# Stopped half-way


@contextmanager
def dying_at(point: Failpoint, root: Path) -> Iterator[Graph]:
    """A handle whose write stops half-way in the block."""
    failpoints = Failpoints()
    graph = open_with(root, failpoints)
    with failpoints.activate(point, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        yield graph


def test_h10_a_schema_whose_text_was_staged_is_accepted_by_the_next_open(tmp_path: Path) -> None:
    office(tmp_path)
    with dying_at(Failpoint.SCHEMA_APPLY_AFTER_STAGING_WRITE, tmp_path) as dying:
        CHANGES["a new type"].apply(dying)

    graph = omnigraph.open(tmp_path)

    assert graph.schema_source == CHANGES["a new type"].schema
    assert row_counts(graph)["node:Pet"] == 0
    require_files(graph)
    assert [each.kind for each in graph.recoveries()] == ["RolledForward"]


@pytest.mark.parametrize("name", ["a new property", "a property dropped for good", "all at once"])
def test_h11_a_schema_whose_text_was_not_staged_is_undone_by_the_next_open(
    tmp_path: Path, name: str
) -> None:
    before = contents(office(tmp_path))
    with dying_at(Failpoint.SCHEMA_APPLY_BEFORE_STAGING_WRITE, tmp_path) as dying:
        CHANGES[name].apply(dying)

    graph = omnigraph.open(tmp_path)

    assert graph.schema_source == OFFICE
    assert contents(graph) == before
    require_files(graph)
    require_sound(graph, state_of(graph))


def test_h13_files_that_were_half_promoted_are_completed(tmp_path: Path) -> None:
    new = office(tmp_path / "new")
    CHANGES["a new property"].apply(new)
    office(tmp_path / "old")

    root = tmp_path / "new"
    (root / "_schema.pg.staging").write_bytes((root / "_schema.pg").read_bytes())
    for name in ("_schema.ir.json", "__schema_state.json"):
        shutil.copyfile(tmp_path / "old" / name, root / name)
    reader = omnigraph.open(root, read_only=True)
    assert reader.schema_source == CHANGES["a new property"].schema

    require_files(omnigraph.open(root))


@pytest.mark.parametrize("is_accepted", [False, True], ids=["before", "after"])
def test_h14_history_decides_about_a_staged_text_without_a_record(
    tmp_path: Path, *, is_accepted: bool
) -> None:
    graph = office(tmp_path)
    change = CHANGES["a new property"]
    if is_accepted:
        change.apply(graph)
    (tmp_path / "_schema.pg.staging").write_text(change.schema)

    graph = omnigraph.open(tmp_path)

    assert graph.schema_source == (change.schema if is_accepted else OFFICE)
    require_files(graph)
    graph.load(ndjson(node("Person", name="Eve")), mode="append")


def test_a_write_that_died_is_recovered_before_its_type_changes_its_name(tmp_path: Path) -> None:
    graph = office(tmp_path)
    with dying_at(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, tmp_path) as dying:
        dying.mutate(query('insert Company { name: "Late" }'))

    CHANGES["a renamed type"].apply(graph)

    assert sorted(rows(graph, "Firm")) == ["Acme", "Globex", "Late"]
    require_sound(graph, state_of(graph))


def test_the_text_at_the_root_is_the_one_that_was_applied_last(tmp_path: Path) -> None:
    graph = office(tmp_path)
    CHANGES["a new property"].apply(graph)
    text = f"// as in the beginning\n{OFFICE}"

    graph.apply_schema(text)

    assert graph.schema_source == omnigraph.open(tmp_path).schema_source == text
    require_files(graph)


def test_every_accepted_schema_is_stored_once(tmp_path: Path) -> None:
    graph = office(tmp_path)

    for _ in range(2):
        CHANGES["a new property"].apply(graph)
        graph.apply_schema(OFFICE)

    stored = sorted(path.read_text() for path in (tmp_path / "__schemas").iterdir())
    assert stored == sorted([OFFICE, CHANGES["a new property"].schema])


def test_history_records_the_schema_of_each_commit(tmp_path: Path) -> None:
    graph = office(tmp_path)
    CHANGES["a description"].apply(graph)
    graph.mutate(query('insert Person { name: "Eve" }'))

    hashes = [each.schema_hash for each in graph.commits()]

    assert hashes == [hashes[0], hashes[0], hashes[2], hashes[2]]
    assert hashes[0] != hashes[2]
    assert manifest(tmp_path).count_rows() == len(manifest_rows(tmp_path))
    assert footprint(graph).sidecars == []
