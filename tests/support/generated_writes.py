"""Generated writes: records and statements over one schema that has every kind of rule.

Values come from small pools, so that keys, texts and ends meet; a few of them break a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from omnigraph.model.catalog import Catalog, EdgeType, NodeType, quote_text
from omnigraph.model.types import Scalar
from tests.support.graph_model import (
    Both,
    Compare,
    Delete,
    Either,
    Insert,
    IsNull,
    Statement,
    Update,
    Where,
)
from tests.support.graphs import Contents, Record
from tests.support.schemas import compile_text

SCHEMA = """
node Person {
  name: String @key  age: I32?  email: String?  role: enum(admin, guest)?  badge: String?
  @unique(email)  @range(age, 0..150)  @check(badge, "^[A-Z]{2}[0-9]+$")
}
node Place { floor: I32  room: String  note: String?  @key(floor, room) }
node Note { text: String  rank: F64?  day: Date?  @unique(text, rank) }
edge Knows: Person -> Person { since: Date?  kind: enum(work, home)?  @unique(src, dst) }
edge Sits: Person -> Place @card(0..1)
edge Owns: Person -> Note @card(1..)
edge Cites: Note -> Note @card(2..3)
"""

CATALOG = compile_text(SCHEMA)

# The values of each property, the last of some a rare one that breaks a rule.
POOLS: Mapping[str, Mapping[str, Sequence[object]]] = {
    "Person": {
        "name": ["a", "b", "c", "d"],
        "age": [None, 0, 40, 41, 150] * 3 + [151],
        "email": [None, None, None, None, "x", "y"],
        "role": [None, "admin", "guest"] * 5 + ["root"],
        "badge": [None, "AB1", "CD2"] * 5 + ["ab1"],
    },
    "Place": {"floor": [1, -2], "room": ["r", 's","t'], "note": [None, "", "it's"]},
    "Note": {
        "text": ["t", "u", "v"],
        "rank": [None, None, 0.5, 1.0, -2.0],
        "day": [None, "1970-01-01", "2024-06-01"],
    },
    "Knows": {
        "since": [None, "1969-12-31", "2024-06-01"],
        "kind": [None, "work", "home"] * 3 + ["play"],
    },
    "Sits": {},
    "Owns": {},
    "Cites": {},
}
FIRST: Sequence[Record] = [
    *({"type": "Person", "data": {"name": name, "age": 40}} for name in "abc"),
    {"type": "Place", "data": {"floor": 1, "room": "r"}},
    {"type": "Place", "data": {"floor": -2, "room": 's","t'}},
    *({"type": "Note", "data": {"id": f"n{number}", "text": "t"}} for number in (1, 2, 3)),
    {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "e1", "kind": "work"}},
    {"edge": "Knows", "from": "b", "to": "c", "data": {}},
    {"edge": "Sits", "from": "a", "to": '["1","r"]', "data": {"id": "e1"}},
    {"edge": "Owns", "from": "c", "to": "n1", "data": {}},
    {"edge": "Cites", "from": "n1", "to": "n2", "data": {"id": "e1"}},
    {"edge": "Cites", "from": "n1", "to": "n3", "data": {}},
]
"""Rows to start from, some of each type, so that there is something to break."""

NOTE_IDS = ["n1", "n2", "n3"]
EDGE_IDS = ["e1", "e2", "e3"]

_OFTEN = ["Person", "Person", "Person", "Note", "Knows"]
_UPDATED = ["Person", "Person", "Person", "Place", "Note"]
_KEYS = {"Person": ["name"], "Place": ["floor", "room"]}
_OPERATORS = ["=", "!=", "<", "<=", ">", ">="]


def records(state: Contents) -> SearchStrategy[list[Record]]:
    """What a load of a graph in this state brings."""
    one = st.sampled_from([*_OFTEN, *POOLS]).flatmap(lambda name: _record(name, state))
    return st.lists(one, min_size=1, max_size=6)


def changes(state: Contents) -> SearchStrategy[list[Statement]]:
    """Inserts and updates."""
    inserts = st.sampled_from([*_OFTEN, *POOLS]).flatmap(lambda name: _insert(name, state))
    updates = st.sampled_from(_UPDATED).flatmap(_update)
    return st.lists(st.one_of(inserts, inserts, updates), min_size=1, max_size=4)


def removals(state: Contents) -> SearchStrategy[list[Statement]]:
    """Deletes."""
    one = st.sampled_from(sorted(POOLS)).flatmap(
        lambda name: _where(name, state).map(lambda where: Delete(name, where))
    )
    return st.lists(one, min_size=1, max_size=3)


def write_mutation(statements: Sequence[Statement]) -> tuple[str, dict[str, object]]:
    """The text of a mutation and the parameters it needs."""
    parameters: dict[str, object] = {}
    body = " ".join(_write_statement(each, parameters) for each in statements)
    # Enum values are parameters: as literals, those that break the rule would not compile.
    declared = ", ".join(f"${name}: String?" for name in parameters)
    return f"query q({declared}) {{ {body} }}", parameters


# Drawing


def _values(type_name: str, names: Sequence[str]) -> SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({name: st.sampled_from(POOLS[type_name][name]) for name in names})


def _ends(type_name: str, state: Contents) -> SearchStrategy[dict[str, object]]:
    edge = CATALOG.edges[type_name]
    return st.fixed_dictionaries(
        {"from": _node_id(edge.source, state), "to": _node_id(edge.target, state)}
    )


def _node_id(type_name: str, state: Contents) -> SearchStrategy[object]:
    """An id that is most likely there."""
    present = sorted(state.get(type_name, {}))
    pool = {
        "Person": POOLS["Person"]["name"],
        "Place": ['["1","r"]', '["-2","s\\",\\"t"]'],
        "Note": NOTE_IDS,
    }[type_name]
    return st.sampled_from([*(present * 5), *pool])


def _record(type_name: str, state: Contents) -> SearchStrategy[Record]:
    values = _values(type_name, list(POOLS[type_name]))
    if type_name in CATALOG.nodes:
        if type_name != "Note":
            return values.map(lambda given: {"type": type_name, "data": given})
        return st.tuples(values, st.sampled_from([None, *NOTE_IDS])).map(
            lambda both: {"type": type_name, "data": _with_id(*both)}
        )
    return st.tuples(values, st.sampled_from([None, None, *EDGE_IDS]), _ends(type_name, state)).map(
        lambda all: {"edge": type_name, **all[2], "data": _with_id(all[0], all[1])}
    )


def _with_id(values: Mapping[str, object], id: str | None) -> Mapping[str, object]:
    return values if id is None else {**values, "id": id}


def _insert(type_name: str, state: Contents) -> SearchStrategy[Statement]:
    values = _values(type_name, list(POOLS[type_name]))
    if type_name in CATALOG.nodes:
        return values.map(lambda given: Insert(type_name, given))
    return st.tuples(values, _ends(type_name, state)).map(
        lambda both: Insert(type_name, {**both[1], **both[0]})
    )


def _update(type_name: str) -> SearchStrategy[Statement]:
    free = [name for name in POOLS[type_name] if name not in _KEYS.get(type_name, [])]
    chosen = st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True)
    values = chosen.flatmap(lambda names: _values(type_name, names))
    return st.builds(
        lambda given, where: Update(type_name, given, where), values, _where(type_name, {})
    )


def _where(type_name: str, state: Contents) -> SearchStrategy[Where]:
    simple = _simple_where(type_name, state)
    return st.one_of(
        simple, simple, st.builds(Both, simple, simple), st.builds(Either, simple, simple)
    )


def _simple_where(type_name: str, state: Contents) -> SearchStrategy[Where]:
    comparisons = [_compare(type_name, name) for name in POOLS[type_name]]
    if type_name in CATALOG.edges:
        edge = CATALOG.edges[type_name]
        for end, node in (("from", edge.source), ("to", edge.target)):
            ids = _node_id(node, state)
            comparisons.append(st.builds(Compare, st.just(end), st.just("="), ids))
    nullable = [name for name, pool in POOLS[type_name].items() if None in pool]
    if not nullable:
        return st.one_of(comparisons)
    null_tests = st.builds(IsNull, st.sampled_from(nullable), st.booleans())
    return st.one_of(*comparisons, null_tests)


def _compare(type_name: str, name: str) -> SearchStrategy[Where]:
    given = [value for value in POOLS[type_name][name] if value is not None]
    return st.builds(Compare, st.just(name), st.sampled_from(_OPERATORS), st.sampled_from(given))


# Writing


def _write_statement(statement: Statement, parameters: dict[str, object]) -> str:
    match statement:
        case Insert(type_name, values):
            return f"insert {type_name} {_write_values(type_name, values, parameters)}"
        case Update(type_name, values, where):
            assigned = _write_values(type_name, values, parameters)
            condition = _write_where(type_name, where, parameters)
            return f"update {type_name} set {assigned} where {condition}"
        case Delete(type_name, where):
            return f"delete {type_name} where {_write_where(type_name, where, parameters)}"


def _write_values(
    type_name: str, values: Mapping[str, object], parameters: dict[str, object]
) -> str:
    written = [
        f"{name}: {_write_value(type_name, name, value, parameters)}"
        for name, value in values.items()
    ]
    return f"{{ {', '.join(written)} }}"


def _write_where(type_name: str, where: Where, parameters: dict[str, object]) -> str:
    match where:
        case Compare(name, operator, value):
            return f"{name} {operator} {_write_value(type_name, name, value, parameters)}"
        case IsNull(name, is_negated):
            return f"{name} is {'not ' if is_negated else ''}null"
        case Both(left, right):
            sides = (_write_where(type_name, each, parameters) for each in (left, right))
            return f"({' and '.join(sides)})"
        case Either(left, right):
            sides = (_write_where(type_name, each, parameters) for each in (left, right))
            return f"({' or '.join(sides)})"


def _write_value(type_name: str, name: str, value: object, parameters: dict[str, object]) -> str:
    property = _declared(CATALOG, type_name).properties.get(name)
    if property is not None and property.type.enum_values is not None:
        parameter = f"p{len(parameters)}"
        parameters[parameter] = value
        return f"${parameter}"
    if value is None:
        return "null"
    if property is not None and property.type.element is Scalar.DATE:
        return f'date("{value}")'
    if isinstance(value, str):
        return quote_text(value)
    return repr(value)


def _declared(catalog: Catalog, type_name: str) -> NodeType | EdgeType:
    return catalog.nodes.get(type_name) or catalog.edges[type_name]
