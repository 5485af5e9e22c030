"""Read limits: the view of somebody, applied to a state.

What comes out is the same state as if only the permitted rows and properties had ever been loaded.
A limit that cannot be applied to a state is an error, never a reason to show it whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256

from omnigraph.compiler.ir import Condition
from omnigraph.compiler.schema.written import write_schema
from omnigraph.engine.read.conditions import ALWAYS, NEVER, BoundCondition, Every, Some, bind
from omnigraph.engine.read.memory import ReadMemory
from omnigraph.engine.read.permitted import Limit, PermittedEntries, PermittedTables
from omnigraph.engine.read.reduced import reduce_catalog
from omnigraph.engine.read.row_conditions import compile_row_condition, settle
from omnigraph.engine.read.warm import Warm
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.contract import Contract
from omnigraph.engine.state.limited import Limited
from omnigraph.engine.state.snapshot import Entry, Snapshot, make_table_key, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType, TypeKind
from omnigraph.model.errors import CompileError, ForbiddenError, InvalidValueError
from omnigraph.model.limits import COMPILED_QUERIES_MAX
from omnigraph.model.policy import TypeView, View
from omnigraph.storage.ports import TableStore, TableVersion

_Compiled = tuple[str, str, str]
"""The hash of a schema, the key of a type, and the text of a condition."""

_PARAMETERS = "$actor: String?"


class Views:
    """Applies views; one for each open graph, safe to share between threads."""

    def __init__(self, tables: TableStore, memory: ReadMemory) -> None:
        self._tables = tables
        self._memory = memory
        self._conditions: Warm[_Compiled, Condition] = Warm(
            bytes_max=COMPILED_QUERIES_MAX, size_of=lambda _: 1
        )
        self._contracts: Warm[str, Contract] = Warm(
            bytes_max=COMPILED_QUERIES_MAX, size_of=lambda _: 1
        )
        self._applied: Warm[_Applied, Basis] = Warm(
            bytes_max=COMPILED_QUERIES_MAX, size_of=lambda _: 1
        )

    def limit(self, basis: Basis, view: View, *, present: Basis, now: datetime) -> Basis:
        """The part of a state that somebody sees.

        `present` is a state under the accepted schema. A type has the limits of every name that it
        ever had: to rename one, or to drop it, does not show its rows.
        """
        make = partial(self._limit, basis, view, present, now)
        if _depends_on_time(view):
            return make()
        key = _Applied(
            actor=view.actor,
            types=tuple(sorted(view.types.items())),
            heads=(basis.head.id, present.head.id),
            states=(basis.state.at, present.state.at),
            schemas=(basis.contract.schema_hash, present.contract.schema_hash),
            generation=self._tables.generation(),
        )
        return self._applied.get(key, make)

    def _limit(self, basis: Basis, view: View, present: Basis, now: datetime) -> Basis:
        limiting = _Limiting(basis, view, present, _types_by_path(present), now)
        limiting.require_known()
        hidden = {key: each for key, each in limiting.hidden(self._tables) if each}
        limits = self._limits(limiting, hidden)
        if not limits and not hidden:
            return basis
        seen_by_key = {key: limit.seen_as() for key, limit in limits.items()}
        tables = PermittedTables(
            self._tables,
            self._memory.of(self._tables.generation()),
            {seen_by_key[key]: limit for key, limit in limits.items()},
        )
        entries = PermittedEntries(
            basis.state.snapshot.entries, seen_by_key=seen_by_key, tables=tables
        )
        snapshot = Snapshot(basis.branch, basis.state.at.version, entries)
        contract = self._reduce(basis.contract, hidden) if hidden else basis.contract
        return Basis(basis.state, contract, Limited(snapshot, tables))

    def _reduce(self, contract: Contract, hidden: Mapping[str, frozenset[str]]) -> Contract:
        """A schema as it is seen, under a hash of its own: queries are kept by it."""
        digest = sha256(repr(sorted((key, sorted(hidden[key])) for key in hidden)).encode())
        schema_hash = f"{contract.schema_hash}~{digest.hexdigest()}"

        def reduce() -> Contract:
            catalog = reduce_catalog(contract.catalog, hidden)
            return Contract(write_schema(catalog), catalog, schema_hash, {})

        return self._contracts.get(schema_hash, reduce)

    def _limits(
        self, limiting: _Limiting, hidden: Mapping[str, frozenset[str]]
    ) -> dict[str, Limit]:
        """What is seen of each type that is not seen whole; nodes first, for edges hang on them."""
        catalog, limits = limiting.basis.catalog, dict[str, Limit]()
        for declared in catalog.stored_types():
            key = table_key_of(declared)
            entry = limiting.entries.get(key)
            if entry is None:
                # A type that was added after the state has no rows in it.
                continue
            limit = Limit(
                at=entry.at,
                row_count=entry.row_count,
                condition=self._condition(declared, entry, limiting),
                hidden=hidden.get(key, frozenset()),
                ends=_ends_of(declared, limits),
            )
            if limit.hidden or limit.hides_rows:
                limits[key] = limit
        return limits

    def _condition(
        self, declared: NodeType | EdgeType, entry: Entry, limiting: _Limiting
    ) -> BoundCondition:
        stored: frozenset[str] | None = None
        parts: list[BoundCondition] = []
        for each in limiting.views_of(declared):
            if each.conditions is None:
                continue
            if stored is None:
                stored = frozenset(self._tables.schema(entry.at).names)
            some = [self._bind(text, declared, limiting) for text in each.conditions]
            parts.append(settle(Some(tuple(some)), stored=stored))
        parts = [each for each in parts if each != ALWAYS]
        if NEVER in parts:
            return NEVER
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _bind(
        self, text: str, declared: NodeType | EdgeType, limiting: _Limiting
    ) -> BoundCondition:
        known, contract = limiting.declaration_of(declared)

        def compile() -> Condition:
            return compile_row_condition(
                text, known, catalog=contract.catalog, parameters=_PARAMETERS
            )

        key = (contract.schema_hash, table_key_of(known), text)
        try:
            condition = self._conditions.get(key, compile)
        except (CompileError, InvalidValueError) as error:
            raise ForbiddenError(
                actor=limiting.view.actor,
                action=f"read {declared.name}",
                reason="the policy limits its rows by a condition that the schema of this state "
                "does not allow; whoever keeps the policy has to change it",
            ) from error
        values = {"actor": limiting.view.actor}
        return bind(condition, kind=declared.kind, values=values, now=limiting.now)


@dataclass(frozen=True, slots=True)
class _Applied:
    """Everything that decides what a view leaves of a state, unless the time does."""

    actor: str | None
    types: tuple[tuple[str, TypeView], ...]
    heads: tuple[str, str]
    states: tuple[TableVersion, TableVersion]
    schemas: tuple[str, str]
    generation: int


@dataclass(frozen=True, slots=True)
class _Limiting:
    """One view on its way to one state; `types_by_path` are the types of the accepted schema, which
    `present` is a state under."""

    basis: Basis
    view: View
    present: Basis
    types_by_path: Mapping[str, NodeType | EdgeType]
    now: datetime

    @property
    def entries(self) -> Mapping[str, Entry]:
        return self.basis.state.snapshot.entries

    def present_of(self, declared: NodeType | EdgeType) -> NodeType | EdgeType | None:
        """What a type has become by now; None if it is no longer there, or has no rows here."""
        entry = self.entries.get(table_key_of(declared))
        return None if entry is None else self.types_by_path.get(entry.path)

    def declaration_of(self, declared: NodeType | EdgeType) -> tuple[NodeType | EdgeType, Contract]:
        """The declaration that the conditions on a type are read by.

        Where a type has only gained properties since, they are null in the state.
        """
        present = self.present_of(declared)
        if present is not None and all(
            name in present.properties and present.properties[name].type == each.type
            for name, each in declared.properties.items()
        ):
            return present, self.present.contract
        return declared, self.basis.contract

    def views_of(self, declared: NodeType | EdgeType) -> Iterator[TypeView]:
        """What the view says of a type, by its name in the state and by all that it ever had."""
        key = table_key_of(declared)
        entry = self.entries.get(key)
        # Names that were given up are kept, so that nothing becomes of rows by another name.
        known = self.present.state.path_by_table.items() if entry else ()
        keys = (key, *(name for name, path in known if entry and path == entry.path))
        for name in dict.fromkeys(name for each in keys for name in _names_of(each)):
            found = self.view.types.get(name)
            if found is not None:
                yield found

    def require_known(self) -> None:
        """Raise if the view names a type that the graph never had: another one was meant."""
        keys = [*self.present.state.path_by_table, *self.basis.state.path_by_table]
        for each in (self.present, self.basis):
            keys += map(table_key_of, each.catalog.stored_types())
        known = {name for key in keys for name in _names_of(key)}
        for name in sorted(self.view.types.keys() - known):
            raise self._inapplicable(name, "it limits a type that the graph never had")

    def hidden(self, tables: TableStore) -> Iterator[tuple[str, frozenset[str]]]:
        """The properties that are not seen, by the key of their type."""
        for declared in self.basis.catalog.stored_types():
            named = frozenset[str]().union(*(each.hidden for each in self.views_of(declared)))
            if not named:
                continue
            self._require_hideable(declared, named)
            present = self.present_of(declared)
            kept = frozenset[str]() if present is None else present.properties.keys()
            if present is not None and not named <= kept:
                # It may be there by another name.
                raise self._inapplicable(declared.name, "it hides a property that is not there")
            # What the schema has no longer may be a hidden property under an earlier name.
            gone = declared.properties.keys() - kept
            if present is not None:
                gone |= self._renamed_since(declared, present, named, tables)
            others = declared.properties.keys() - _key_of(declared)
            yield table_key_of(declared), (named | gone) & others

    def _renamed_since(
        self,
        declared: NodeType | EdgeType,
        present: NodeType | EdgeType,
        named: frozenset[str],
        tables: TableStore,
    ) -> set[str]:
        """The properties that are hidden ones by now, though others have their names."""
        then, now = self.entries[table_key_of(declared)].at, self._present_at(present)
        if then == now:
            return set()
        old, new = tables.column_numbers(then), tables.column_numbers(now)
        numbers = {new[name] for name in named & new.keys()}
        return {
            name for name in declared.properties if old.get(name) in numbers and name not in named
        }

    def _present_at(self, present: NodeType | EdgeType) -> TableVersion:
        return self.present.state.snapshot.get(table_key_of(present)).at

    def _require_hideable(self, declared: NodeType | EdgeType, named: frozenset[str]) -> None:
        for name in sorted(named.intersection(_key_of(declared))):
            problem = f"it hides '{name}', of which ids are made, and should hide rows instead"
            raise self._inapplicable(declared.name, problem)

    def _inapplicable(self, type_name: str, problem: str) -> ForbiddenError:
        return ForbiddenError(
            actor=self.view.actor,
            action=f"read {type_name}",
            reason=f"their policy cannot be applied: {problem}; whoever keeps it has to change it",
        )


def _depends_on_time(view: View) -> bool:
    # Every condition that asks for the time holds the word; one that only looks so costs a little.
    return any(
        "now" in text.lower() for each in view.types.values() for text in each.conditions or ()
    )


def _types_by_path(present: Basis) -> dict[str, NodeType | EdgeType]:
    entries = present.state.snapshot.entries
    types = ((entries.get(table_key_of(each)), each) for each in present.catalog.stored_types())
    return {entry.path: each for entry, each in types if entry is not None}


def _names_of(table_key: str) -> tuple[str, str]:
    return table_key.partition(":")[2], table_key


def _key_of(declared: NodeType | EdgeType) -> tuple[str, ...]:
    return declared.key if isinstance(declared, NodeType) else ()


def _ends_of(
    declared: NodeType | EdgeType, limits: Mapping[str, Limit]
) -> tuple[tuple[str, TableVersion], ...]:
    """The ends of an edge type that are not all seen."""
    if isinstance(declared, NodeType):
        return ()
    ends = (("src", declared.source), ("dst", declared.target))
    found = ((column, limits.get(make_table_key(TypeKind.NODE, name))) for column, name in ends)
    return tuple(
        (column, limit.seen_as())
        for column, limit in found
        if limit is not None and limit.hides_rows
    )
