"""The evaluator of data rules and a naive reading of them find the same faults in any write."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.engine.commit.integrity.check import find_violations
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.limits import VIOLATIONS_MAX
from omnigraph.model.types import PropertyType, Scalar
from tests.support.choices import Choices
from tests.support.committed_rows import Row, Write, change_set, committed_tables, find_type
from tests.support.integrity_oracle import Fault, find_faults
from tests.support.schemas import compile_text

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  born: Date?
  code: String?
  email: String? @unique
  face: Vector(2)?
  level: I64?
  motto: String
  nick: String?
  points: U64?
  role: enum(admin, guest)?
  @unique(age, nick)
  @range(age, 0..120)
  @range(level, ..9007199254740993)
  @range(points, 1.5..)
  @check(code, "^A\\\\d+$")
}
node Place {
  area: F64? @unique
  marks: [I32]
  opened: DateTime? @unique
  part: F32?
  seen: Bool?
  size: F64?
  @unique(part, seen)
  @range(part, ..0.1)
  @range(size, -1..9007199254740993)
}
edge Knows: Person -> Person @card(1..2) {
  kind: enum(friend, foe)
  since: Date?
  @unique(src, dst)
}
edge Lives: Person -> Place @card(0..1)
edge Hosts: Place -> Person @card(2..) { room: String? @unique }
edge Near: Place -> Place { tags: [String]? }
"""

CATALOG = compile_text(SCHEMA)

IDS = {
    "Person": ("ann", "bob", "cyd", "dan"),
    "Place": ("01A", "01B", "01C"),
    "Knows": ("k1", "k2", "k3", "k4"),
    "Lives": ("l1", "l2", "l3"),
    "Hosts": ("h1", "h2", "h3", "h4"),
    "Near": ("n1", "n2"),
}

NAN = float("nan")
VALUES: dict[Scalar, tuple[object, ...]] = {
    Scalar.STRING: ("A1", "", "A1\n", "xA1", "A٣", "é"),
    Scalar.BOOL: (True, False),
    Scalar.I32: (0, 120, -1, 121, -(2**31), 2**31 - 1),
    Scalar.I64: (2**53 + 1, 2**53 + 2, 2**53, -(2**63), 2**63 - 1),
    Scalar.U64: (2, 1, 0, 2**64 - 1, 2**63),
    Scalar.F32: (0.0, -0.0, 0.10000000149011612, 0.0999755859375, NAN),
    Scalar.F64: (0.0, -0.0, NAN, 2.0**53, 2.0**53 + 2, float("inf"), -1.0, -1.5),
    Scalar.DATETIME: (
        datetime(2024, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
    ),
    Scalar.DATE: (date(2024, 6, 1), date(1969, 12, 31)),
}


@dataclass(frozen=True, slots=True)
class Story:
    """Committed rows by type, and a write onto them."""

    committed: Mapping[str, list[Row]]
    writes: Mapping[str, Write]
    chunk_size: int


@st.composite
def stories(draw: DrawFn) -> Story:
    """Committed rows whose edges end at committed nodes, and any write."""
    choices = Choices(draw)
    committed: dict[str, list[Row]] = {}
    for name, known in IDS.items():
        # Nodes come first, and edges only between them.
        declared = find_type(CATALOG, name)
        ids = choices.some(known, least=0, most=4)
        if isinstance(declared, EdgeType) and not (
            committed[declared.source] and committed[declared.target]
        ):
            ids = []
        committed[name] = [_row(choices, declared, id=id, committed=committed) for id in ids]
    named = choices.some(list(IDS), least=1, most=3)
    writes = {name: _write(choices, name, committed[name]) for name in named}
    return Story(committed, writes, chunk_size=1 + choices.count(4))


def _write(choices: Choices, name: str, committed: list[Row]) -> Write:
    declared = find_type(CATALOG, name)
    ids = choices.some(IDS[name], least=0, most=4)
    if ids and choices.seldom():
        ids.append(choices.one(ids))
    put = [_row(choices, declared, id=id, committed=None) for id in ids]
    if choices.seldom():
        return Write(put, is_overwrite=True)
    left = [str(row["id"]) for row in committed if row["id"] not in ids]
    return Write(put, removed=choices.some(left, least=0, most=4))


def _row(
    choices: Choices,
    declared: NodeType | EdgeType,
    *,
    id: str,
    committed: Mapping[str, list[Row]] | None,
) -> Row:
    row: dict[str, object] = {"id": id}
    if isinstance(declared, EdgeType):
        for column, node in (("src", declared.source), ("dst", declared.target)):
            known = IDS[node] if committed is None else [str(r["id"]) for r in committed[node]]
            row[column] = choices.one(known)
    for name, each in declared.properties.items():
        row[name] = id if name == "name" else _value(choices, each.type)
    return row


def _value(choices: Choices, type: PropertyType) -> object:
    if choices.seldom():
        return None
    if type.is_vector:
        return choices.one([[0.5, 1.0], [0.5, None], [NAN, 0.0]])
    if type.is_list:
        return [_value(choices, type.list_element) for _ in range(choices.count(2))]
    if type.enum_values is not None:
        return choices.one([*type.enum_values, "other"])
    assert isinstance(type.element, Scalar)
    return choices.one(VALUES[type.element])


@given(stories())
def test_the_evaluator_finds_what_a_naive_reading_of_the_rules_finds(story: Story) -> None:
    changes = change_set(CATALOG, story.writes, chunk_size=story.chunk_size)
    committed = committed_tables(CATALOG, story.committed, chunk_size=story.chunk_size)

    violations = find_violations(changes, catalog=CATALOG, committed=committed)

    expected = find_faults(CATALOG, committed=story.committed, writes=story.writes)
    found = [Fault(v.type, v.id, v.rule, v.property, v.value) for v in violations.found]
    assert found == expected[:VIOLATIONS_MAX]
    assert violations.count == len(expected)


@given(stories())
def test_the_order_of_committed_rows_changes_no_violation(story: Story) -> None:
    changes = change_set(CATALOG, story.writes, chunk_size=story.chunk_size)
    turned = {name: rows[::-1] for name, rows in story.committed.items()}

    one, other = (
        find_violations(changes, catalog=CATALOG, committed=committed_tables(CATALOG, rows))
        for rows in (story.committed, turned)
    )

    assert one == other


def with_lists_of_enums(catalog: Catalog) -> Catalog:
    """The same catalog with `Near.tags` a list of an enum, which the language cannot yet say."""
    near = catalog.edges["Near"]
    tags = near.properties["tags"]
    listed = replace(tags, type=replace(tags.type, enum_values=("A1", "é")))
    changed = replace(near, properties={**near.properties, "tags": listed})
    return replace(catalog, edges={**catalog.edges, "Near": changed})


@given(stories())
def test_elements_of_lists_are_checked_like_values(story: Story) -> None:
    catalog = with_lists_of_enums(CATALOG)
    changes = change_set(catalog, story.writes, chunk_size=story.chunk_size)
    committed = committed_tables(catalog, story.committed)

    violations = find_violations(changes, catalog=catalog, committed=committed)

    expected = find_faults(catalog, committed=story.committed, writes=story.writes)
    found = [Fault(v.type, v.id, v.rule, v.property, v.value) for v in violations.found]
    assert found == expected
