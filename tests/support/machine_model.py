"""What a graph with branches should be: dictionaries of rows, and a history of them.

Remembers every commit that was ever made with the rows it made true, also those whose branch is
gone. Merges three states row by row and names every conflict, rules included. Knows nothing of
storage; which commit two branches are measured from is worked out from parents alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations

from omnigraph.model.catalog import EdgeType
from tests.support.committed_rows import Write, find_type
from tests.support.graphs import Contents, Row
from tests.support.integrity_oracle import Fault, find_faults
from tests.support.schemas import compile_text
from tests.support.three_way import Rows, merge_rows

SCHEMA = """
node Person { name: String @key  age: I32?  email: String?  @unique(email)  @range(age, 0..150) }
node Place { floor: I32  room: String  note: String?  @key(floor, room) }
edge Knows: Person -> Person { kind: enum(work, home)? }
edge Sits: Person -> Place @card(0..1)
"""

CATALOG = compile_text(SCHEMA)
TYPES = (*sorted(CATALOG.nodes), *sorted(CATALOG.edges))

Entity = tuple[str, str]
"""A type and an id."""

ConflictCounts = Counter[tuple[str, str, str]]
"""Conflicts: type, id and kind."""

_KINDS = {
    "endpoint": "orphan_edge",
    "unique": "unique_violation",
    "cardinality": "cardinality_violation",
}
_ORDERS_MAX = 24
_STORED = {"from": "src", "to": "dst"}


# History


@dataclass(frozen=True, slots=True)
class Remembered:
    """A commit: the branch it was made on, in which of that name's lives, and its rows."""

    id: str
    branch: str
    life: int
    version: int
    parents: tuple[str, ...]
    state: Contents


@dataclass(frozen=True, slots=True)
class Base:
    """The merge base of two branches, and whether one of them is unchanged since."""

    state: Contents
    is_at_target: bool


@dataclass(slots=True)
class ModelHistory:
    """Every commit there ever was, and what is there now."""

    commits: dict[str, Remembered] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    births: int = 0

    def land(
        self, branch: str, id: str, *, version: int, parents: tuple[str, ...], state: Contents
    ) -> None:
        """Remember a commit as the head of its branch."""
        assert id not in self.commits, f"commit {id} is made twice"
        made = Remembered(id, branch, self.lives.setdefault(branch, 0), version, parents, state)
        self.commits[id] = made
        self.heads[branch] = id

    def start(self, name: str, base: str) -> None:
        """Start a branch."""
        self.births += 1
        self.lives[name] = self.births
        self.bases[name] = base
        self.heads[name] = self.heads[base]

    def end(self, name: str) -> None:
        """Delete a branch; its commits are remembered and cannot be read any more."""
        for of_branch in (self.lives, self.bases, self.heads):
            del of_branch[name]

    @property
    def branches(self) -> list[str]:
        """As a graph lists them."""
        return ["main", *sorted(set(self.heads) - {"main"})]

    def head(self, branch: str) -> Remembered:
        """The commit that a branch is at."""
        return self.commits[self.heads[branch]]

    def state(self, branch: str) -> Contents:
        """The rows of a branch."""
        return self.head(branch).state

    def is_readable(self, commit: Remembered) -> bool:
        """Whether the branch that a commit was made on is still there."""
        return self.lives.get(commit.branch) == commit.life

    def chain(self, branch: str) -> list[str]:
        """The commits of a branch by first parents, oldest first."""
        found = [self.heads[branch]]
        while parents := self.commits[found[-1]].parents:
            found.append(parents[0])
        return found[::-1]

    def what_needs(self, branch: str) -> str | None:
        """Why a branch cannot be deleted; None if it can be."""
        for name, commit_id in sorted(self.tags.items()):
            commit = self.commits[commit_id]
            if commit.branch == branch and self.is_readable(commit):
                return f"tag '{name}'"
        children = sorted(name for name, base in self.bases.items() if base == branch)
        return f"branch '{children[0]}'" if children else None

    def past(self, id: str) -> dict[str, int]:
        """How many steps back each ancestor of a commit is, itself included."""
        steps, waiting = {id: 0}, deque([id])
        while waiting:
            at = waiting.popleft()
            for parent in self.commits[at].parents:
                if parent not in steps:
                    steps[parent] = steps[at] + 1
                    waiting.append(parent)
        return steps

    def find_base(self, source: str, target: str) -> Base | None:
        """What a merge is measured from; None if the target has all of the source."""
        source_id, target_id = self.heads[source], self.heads[target]
        if source_id in self.past(target_id):
            return None
        last, earlier = self._shared(source_id, target_id)
        is_at_target = target_id in {each.id for each in last}
        opened = [each for each in last if self.is_readable(each)]
        if not opened:
            nearest = next(each for each in earlier if self.is_readable(each))
            return Base(nearest.state, is_at_target)
        state = {name: dict(opened[0].state.get(name, {})) for name in TYPES}
        for name in TYPES:
            for id, row in self._taken(opened, name).items():
                state[name].pop(id, None)
                if row is not None:
                    state[name][id] = row
        return Base({name: rows for name, rows in state.items() if rows}, is_at_target)

    def _shared(self, source_id: str, target_id: str) -> tuple[list[Remembered], list[Remembered]]:
        """The common ancestors that come before no other, and the rest, the nearest first."""
        to_source, to_target = self.past(source_id), self.past(target_id)
        common = [self.commits[each] for each in to_source.keys() & to_target.keys()]
        surpassed = {parent for each in common for parent in each.parents}
        common.sort(
            key=lambda each: (to_source[each.id] + to_target[each.id], -each.version, each.id)
        )
        last = [each for each in common if each.id not in surpassed]
        return last, [each for each in common if each.id in surpassed]

    def _taken(self, opened: Sequence[Remembered], name: str) -> dict[str, Row | None]:
        """What the first of several bases lacks of the others; of two that say so, the earlier."""
        first, taken = stored_rows(opened[0].state, name), dict[str, Row | None]()
        for each in opened[1:]:
            last, earlier = self._shared(opened[0].id, each.id)
            merge_base = next(known for known in (*last, *earlier) if self.is_readable(known))
            merged = merge_rows(
                stored_rows(merge_base.state, name),
                stored_rows(each.state, name),
                first,
                by_property=True,
            ).rows
            for id in first.keys() | merged.keys():
                if first.get(id) != merged.get(id):
                    row = merged.get(id)
                    taken.setdefault(id, None if row is None else _canonical_row(row))
        return taken


# Merging


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge makes of its target, and every way in which its conflicts may be reported.

    There are several only where rows break a rule together and nothing says which of them is last.
    """

    state: Contents
    conflicts: tuple[ConflictCounts, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to decide."""
        return not self.conflicts[0]


@dataclass(frozen=True, slots=True)
class Sides:
    """The three states of a merge, and what its caller decided: an image, None for no row."""

    base: Contents
    source: Contents
    target: Contents
    is_by_property: bool = False
    decided: Mapping[Entity, Row | None] = field(default_factory=dict)
    adopted: frozenset[Entity] = frozenset()
    """The decisions that say "source": they are reported before rows that the caller provides."""

    def changed(self) -> list[Entity]:
        """The entities that either side changed."""
        return [
            (name, id)
            for name in TYPES
            for id in sorted(
                _ids(self.base, name) | _ids(self.source, name) | _ids(self.target, name)
            )
            if len({_items_of(each, name, id) for each in (self.base, self.source, self.target)})
            > 1
        ]


def merge(sides: Sides) -> Merged:
    """Put two sides together, row by row; rows in conflict stay as the target has them."""
    state: dict[str, Rows] = {}
    undecided: ConflictCounts = Counter()
    for name in TYPES:
        merged = merge_rows(
            *(stored_rows(each, name) for each in (sides.base, sides.source, sides.target)),
            by_property=sides.is_by_property,
        )
        rows = dict(merged.rows)
        decided = {id: row for (other, id), row in sides.decided.items() if other == name}
        for id, row in decided.items():
            rows.pop(id, None)
            if row is not None:
                rows[id] = stored_row(row)
        undecided.update(
            (name, id, kind) for id, kind in merged.conflicts.items() if id not in decided
        )
        state[name] = rows
    counts = {
        frozenset((undecided + broken).items()): undecided + broken
        for broken in _broken(sides, state, undecided)
    }
    plain = {
        name: {id: _canonical_row(row) for id, row in rows.items()}
        for name, rows in state.items()
        if rows
    }
    return Merged(plain, tuple(counts.values()))


def stored_rows(state: Contents, name: str) -> Rows:
    """The rows of a type with the ends of edges as they are stored."""
    return {id: stored_row(row) for id, row in state.get(name, {}).items()}


def stored_row(row: Row) -> Row:
    """A row with the ends of an edge as they are stored."""
    return {_STORED.get(name, name): value for name, value in row.items()}


def row_of(state: Contents, entity: Entity) -> Row | None:
    """An entity as conflicts and changes show it."""
    row = state.get(entity[0], {}).get(entity[1])
    return None if row is None else {"id": entity[1], **stored_row(row)}


def require_rules(state: Contents) -> None:
    """Fail unless a state keeps every rule of the schema, whatever way it came about."""
    everything = {name: Write(put=_listed(stored_rows(state, name))) for name in TYPES}
    assert find_faults(CATALOG, committed={}, writes=everything) == []


def _broken(
    sides: Sides, state: Mapping[str, Rows], undecided: ConflictCounts
) -> Iterator[ConflictCounts]:
    """The rules that the result would break, once for each order in which its rows may stand."""
    committed = {name: _listed(stored_rows(sides.target, name)) for name in TYPES}
    in_doubt = {(name, id) for name, id, _ in undecided}
    mixed = [(name, _mixed_ids(sides, name)) for name in TYPES]
    name, ids = max(mixed, key=lambda each: len(each[1]))
    for order in islice(permutations(ids), _ORDERS_MAX):
        writes = {
            each: _write_of(sides, state, each, order if each == name else ()) for each in TYPES
        }
        faults = find_faults(CATALOG, committed=committed, writes=writes)
        yield Counter(
            (each.type, each.id, _KINDS.get(each.rule, "value_constraint_violation"))
            for each in faults
            if in_doubt.isdisjoint(_concerned(each))
        )


def _write_of(sides: Sides, state: Mapping[str, Rows], name: str, order: Sequence[str]) -> Write:
    after, before = state[name], stored_rows(sides.target, name)
    own = {id for (other, id), row in sides.decided.items() if other == name and row is not None}
    own -= {id for other, id in sides.adopted if other == name}
    mixed, adopted = _mixed_ids(sides, name), {id for other, id in sides.adopted if other == name}

    def place(id: str) -> tuple[int, int, str]:
        group = 3 if id in own else 2 if id in adopted else 1 if id in mixed else 0
        return group, order.index(id) if id in order else 0, id

    put = sorted(
        ({id for id in after if after[id] != before.get(id)} | own) & after.keys(), key=place
    )
    return Write(
        put=[{"id": id, **after[id]} for id in put], removed=sorted(before.keys() - after.keys())
    )


def _mixed_ids(sides: Sides, name: str) -> list[str]:
    """The rows that both sides changed, of which no side alone says what they become."""
    return [
        id
        for id in sorted(
            _ids(sides.base, name) & _ids(sides.source, name) & _ids(sides.target, name)
        )
        if (name, id) not in sides.decided
        and len({_items_of(each, name, id) for each in (sides.base, sides.source, sides.target)})
        == 3
    ]


def _concerned(fault: Fault) -> set[Entity]:
    found = {(fault.type, fault.id)}
    declared = find_type(CATALOG, fault.type)
    if fault.rule == "endpoint" and isinstance(declared, EdgeType):
        found.add(
            (declared.source if fault.property == "src" else declared.target, str(fault.value))
        )
    return found


def _listed(rows: Rows) -> list[Row]:
    return [{"id": id, **rows[id]} for id in sorted(rows)]


def _canonical_row(row: Row) -> Row:
    counts = {stored: name for name, stored in _STORED.items()}
    return {counts.get(name, name): value for name, value in row.items()}


def _ids(state: Contents, name: str) -> set[str]:
    return set(state.get(name, {}))


def _items_of(state: Contents, name: str, id: str) -> frozenset[tuple[str, object]] | None:
    row = state.get(name, {}).get(id)
    return None if row is None else frozenset(row.items())
