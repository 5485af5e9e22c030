"""What a write should do to a graph, worked out on dictionaries: slow, short and obvious.

A state has the shape of `contents`: rows by type and id, values as `export` writes them. Rows whose
id the engine makes up have a made-up id here too, until `adopt` learns the real one. The model
knows the rules of a schema and nothing of storage, locks or versions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from omnigraph.model.catalog import Catalog, Check, EdgeType, NodeType, Range, Unique
from tests.support.graphs import Contents, Record, Row
from tests.support.writes import Mode

MADE_UP = "?"
"""How ids start that the model made up."""


# What can be asked


@dataclass(frozen=True, slots=True)
class Compare:
    """A property against a value."""

    property: str
    operator: str
    value: object


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a property has no value."""

    property: str
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Both:
    """Two conditions at once."""

    left: Where
    right: Where


@dataclass(frozen=True, slots=True)
class Either:
    """One of two conditions."""

    left: Where
    right: Where


Where = Compare | IsNull | Both | Either


@dataclass(frozen=True, slots=True)
class Insert:
    """One new row, or the replacement of the one with its key."""

    type: str
    values: Row


@dataclass(frozen=True, slots=True)
class Update:
    """New values for the rows that a condition holds for."""

    type: str
    values: Row
    where: Where


@dataclass(frozen=True, slots=True)
class Delete:
    """The end of the rows that a condition holds for, and of the edges of such nodes."""

    type: str
    where: Where


Statement = Insert | Update | Delete


# What comes of it


@dataclass(frozen=True, slots=True)
class Accepted:
    """The write lands: the state after it, the rows it counts, and the types that it moves."""

    state: Contents
    nodes: Counter[str]
    edges: Counter[str]
    moved: frozenset[str]

    @property
    def is_commit(self) -> bool:
        """Whether history gets an entry."""
        return bool(self.moved)


@dataclass(frozen=True, slots=True)
class Refused:
    """The write is refused: the rules it breaks by type, and the ids that are taken."""

    broken: frozenset[tuple[str, str]]
    taken: frozenset[tuple[str, str]]


@dataclass(slots=True)
class _Draft:
    """A state being worked on, with what was put and what was there before."""

    catalog: Catalog
    before: Contents
    rows: dict[str, dict[str, Row]]
    put: set[tuple[str, str]] = field(default_factory=set)
    nodes: Counter[str] = field(default_factory=Counter)
    edges: Counter[str] = field(default_factory=Counter)
    names: Iterator[int] = field(default_factory=count)

    @classmethod
    def of(cls, catalog: Catalog, state: Contents) -> _Draft:
        types = [*catalog.nodes, *catalog.edges]
        rows = {name: dict(state.get(name, {})) for name in types}
        return cls(catalog, {name: dict(by_id) for name, by_id in rows.items()}, rows)

    def declared(self, type_name: str) -> NodeType | EdgeType:
        return self.catalog.nodes.get(type_name) or self.catalog.edges[type_name]

    def add(self, type_name: str, id: str, values: Row) -> None:
        declared = self.declared(type_name)
        row = {name: values.get(name) for name in declared.properties}
        if isinstance(declared, EdgeType):
            row |= {"from": values["from"], "to": values["to"]}
        self.rows[type_name][id] = row
        self.put.add((type_name, id))

    def count(self, type_name: str, number: int) -> None:
        counted = self.nodes if type_name in self.catalog.nodes else self.edges
        counted[type_name] += number

    def make_up_id(self) -> str:
        return f"{MADE_UP}{next(self.names)}"

    def finish(self) -> Accepted | Refused:
        broken = frozenset(_broken_rules(self))
        if broken:
            return Refused(broken, frozenset())
        state = {name: by_id for name, by_id in self.rows.items() if by_id}
        changed = {name for name in self.rows if self.rows[name] != self.before[name]}
        moved = changed | {name for name, _ in self.put}
        return Accepted(state, self.nodes, self.edges, frozenset(moved))


def mutate(
    catalog: Catalog, state: Contents, statements: Sequence[Statement]
) -> Accepted | Refused:
    """What a mutation does: one statement after the other, then the rules."""
    draft = _Draft.of(catalog, state)
    for statement in statements:
        match statement:
            case Insert(type_name, values):
                declared = draft.declared(type_name)
                id = id_of(declared, values) or draft.make_up_id()
                draft.add(type_name, id, values)
                draft.count(type_name, 1)
            case Update(type_name, values, where):
                for id in _matching(draft, type_name, where):
                    draft.add(type_name, id, {**draft.rows[type_name][id], **values})
                    draft.count(type_name, 1)
            case Delete(type_name, where):
                _delete(draft, type_name, _matching(draft, type_name, where))
    return draft.finish()


def load(
    catalog: Catalog, state: Contents, records: Sequence[Record], mode: Mode
) -> Accepted | Refused:
    """What a load does: every record in its place, then the rules."""
    draft = _Draft.of(catalog, state)
    incoming: dict[str, list[tuple[str, Row]]] = {}
    for record in records:
        type_name, id, values = _read_record(draft, record)
        incoming.setdefault(type_name, []).append((id, values))
    broken = {
        (name, rule)
        for name, given in incoming.items()
        if (rule := _repeated(draft.declared(name), given, mode)) is not None
    }
    taken = {
        (name, id)
        for name, given in incoming.items()
        for id, _ in given
        if mode == "append" and id in draft.before[name]
    }
    for name, given in incoming.items():
        if mode == "overwrite":
            draft.rows[name] = {}
        for id, values in given:
            draft.add(name, id, values)
        draft.count(name, len({id for id, _ in given}))
    outcome = draft.finish()
    if isinstance(outcome, Refused):
        broken |= outcome.broken
    return Refused(frozenset(broken), frozenset(taken)) if broken or taken else outcome


def adopt(predicted: Contents, found: Contents) -> Contents:
    """The prediction with real ids in place of made-up ones; fails if no real row fits."""
    adopted: dict[str, Mapping[str, Row]] = {}
    for name, by_id in predicted.items():
        known = {id: row for id, row in by_id.items() if not id.startswith(MADE_UP)}
        made_up = [row for id, row in by_id.items() if id.startswith(MADE_UP)]
        fresh = {id: row for id, row in found.get(name, {}).items() if id not in known}
        expected, actual = Counter(map(_render, made_up)), Counter(map(_render, fresh.values()))
        assert actual == expected, f"new rows of {name}: {actual} instead of {expected}"
        adopted[name] = known | fresh
    return adopted


def id_of(declared: NodeType | EdgeType, values: Row) -> str | None:
    """The id that a row's key says; None if there is no key."""
    if isinstance(declared, EdgeType) or not declared.key:
        return None
    parts = [_render_key(values[name]) for name in declared.key]
    return parts[0] if len(parts) == 1 else json.dumps(parts, separators=(",", ":"))


# Which rows


def _matching(draft: _Draft, type_name: str, where: Where) -> list[str]:
    return [id for id, row in draft.rows[type_name].items() if _holds(where, row) is True]


_COMPARE: Mapping[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: _ordered(a) < _ordered(b),
    "<=": lambda a, b: _ordered(a) <= _ordered(b),
    ">": lambda a, b: _ordered(a) > _ordered(b),
    ">=": lambda a, b: _ordered(a) >= _ordered(b),
}


def _holds(where: Where, row: Row) -> bool | None:
    """Whether a condition holds; None where a null leaves it open."""
    match where:
        case Compare(name, operator, value):
            found = row[name]
            return None if found is None or value is None else _COMPARE[operator](found, value)
        case IsNull(name, is_negated):
            return (row[name] is None) is not is_negated
        case Both(left, right):
            sides = (_holds(left, row), _holds(right, row))
            return False if False in sides else None if None in sides else True
        case Either(left, right):
            sides = (_holds(left, row), _holds(right, row))
            return True if True in sides else None if None in sides else False


def _ordered(value: object) -> tuple[float, bytes]:
    return (0.0, value.encode()) if isinstance(value, str) else (float(str(value)), b"")


def _delete(draft: _Draft, type_name: str, ids: Iterable[str]) -> None:
    for id in ids:
        del draft.rows[type_name][id]
        draft.count(type_name, 1)
    removed = set(ids)
    for edge in draft.catalog.edges.values():
        ends = [
            end for end, node in (("from", edge.source), ("to", edge.target)) if node == type_name
        ]
        lost = [
            id
            for id, row in draft.rows[edge.name].items()
            if any(row[end] in removed for end in ends)
        ]
        if lost:
            _delete(draft, edge.name, lost)


def _read_record(draft: _Draft, record: Record) -> tuple[str, str, Row]:
    given = record["data"]
    assert isinstance(given, Mapping)
    values = dict(given)
    explicit = values.pop("id", None)
    if "edge" in record:
        values |= {"from": record["from"], "to": record["to"]}
    type_name = str(record.get("type") or record["edge"])
    id = id_of(draft.declared(type_name), values) or explicit or draft.make_up_id()
    return type_name, str(id), values


def _repeated(
    declared: NodeType | EdgeType, given: Sequence[tuple[str, Row]], mode: Mode
) -> str | None:
    """The rule that an id given twice breaks; a merge may name an id twice, but never a key."""
    if len({id for id, _ in given}) == len(given):
        return None
    if isinstance(declared, NodeType) and declared.key:
        return "key"
    return None if mode == "merge" else "id"


# Which rules


def _broken_rules(draft: _Draft) -> Iterator[tuple[str, str]]:
    for type_name, id in draft.put:
        row = draft.rows[type_name].get(id)
        if row is not None:
            yield from _broken_values(draft.declared(type_name), row)
    types = [draft.declared(name) for name in draft.rows]
    for declared in types:
        for constraint in declared.constraints:
            if isinstance(constraint, Unique) and _has_twins(draft, declared.name, constraint):
                yield declared.name, "unique"
    for edge in draft.catalog.edges.values():
        yield from _broken_ends(draft, edge)
        yield from _broken_cardinality(draft, edge)


def _broken_values(declared: NodeType | EdgeType, row: Row) -> Iterator[tuple[str, str]]:
    for property in declared.properties.values():
        allowed, value = property.type.enum_values, row[property.name]
        if allowed is not None and value is not None and value not in allowed:
            yield declared.name, "enum"
    for constraint in declared.constraints:
        match constraint:
            case Range(name, minimum, maximum):
                value = row[name]
                if value is not None and not (
                    (minimum is None or float(str(value)) >= minimum)
                    and (maximum is None or float(str(value)) <= maximum)
                ):
                    yield declared.name, "range"
            case Check(name, pattern):
                value = row[name]
                if value is not None and not re.search(pattern, str(value)):
                    yield declared.name, "check"
            case _:
                continue


def _has_twins(draft: _Draft, type_name: str, constraint: Unique) -> bool:
    columns = [{"src": "from", "dst": "to"}.get(name, name) for name in constraint.columns]
    seen = [
        _render([row[name] for name in columns])
        for row in draft.rows[type_name].values()
        if None not in [row[name] for name in columns]
    ]
    return len(seen) != len(set(seen))


def _broken_ends(draft: _Draft, edge: EdgeType) -> Iterator[tuple[str, str]]:
    for row in draft.rows[edge.name].values():
        if row["from"] not in draft.rows[edge.source] or row["to"] not in draft.rows[edge.target]:
            yield edge.name, "endpoint"


def _broken_cardinality(draft: _Draft, edge: EdgeType) -> Iterator[tuple[str, str]]:
    before, after = draft.before[edge.name], draft.rows[edge.name]
    moved = [before.get(id) for id in before if after.get(id) != before[id]]
    moved += [after[id] for id in after if after[id] != before.get(id)]
    sources = Counter(row["from"] for row in after.values())
    for source in {row["from"] for row in moved if row is not None}:
        number = sources[source]
        is_few = number < edge.cardinality.minimum
        is_many = edge.cardinality.maximum is not None and number > edge.cardinality.maximum
        if source in draft.rows[edge.source] and (is_few or is_many):
            yield edge.name, "cardinality"


def _render(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _render_key(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)
