"""Row-level security: applies the view of a caller to a state and to its catalog.

The result equals a state into which only the permitted rows and properties were ever loaded. A
hidden property disappears from the catalog together with the constraints that name it. A view that
cannot be applied raises an error and never exposes the complete state. Views are safe to share
between threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import TypeVar

from omnigraph.compiler.ir import Condition
from omnigraph.compiler.schema.canonical import format_schema
from omnigraph.engine.read.budget import CacheMemory, LruCache
from omnigraph.engine.read.cache import ReadCache
from omnigraph.engine.row_security.tables import SecuredEntries, SecuredTables, VisibleRows
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import (
    NEVER,
    And,
    BoundCondition,
    Or,
    bind,
    compile_row_condition,
    fold_missing_columns,
    join_conditions,
)
from omnigraph.engine.state.branch_state import Basis, VisibleState
from omnigraph.engine.state.manifest import Entry, Snapshot, make_table_key, table_key_of
from omnigraph.engine.state.schema_files import AcceptedSchema
from omnigraph.model.catalog import (
    Catalog,
    EdgeType,
    Interface,
    NodeType,
    TypeKind,
    columns_of,
)
from omnigraph.model.errors import CompileError, ForbiddenError, InvalidValueError
from omnigraph.model.limits import COMPILED_QUERIES_MAX
from omnigraph.model.names import fold_edge_name
from omnigraph.model.ports import TypeView, View
from omnigraph.storage.ports import TableReader, TableVersion

D = TypeVar("D", NodeType, EdgeType)


def hide_properties(catalog: Catalog, hidden: Mapping[str, frozenset[str]]) -> Catalog:
    """The catalog without the given properties, by the table keys of their types."""
    nodes = {name: _reduce(each, hidden) for name, each in catalog.nodes.items()}
    edges = {name: _reduce(each, hidden) for name, each in catalog.edges.items()}
    return Catalog(
        interfaces={
            name: _reduce_interface(each, [nodes[type] for type in catalog.implementers(name)])
            for name, each in catalog.interfaces.items()
        },
        nodes=nodes,
        edges=edges,
        edge_by_folded_name={fold_edge_name(name): each for name, each in edges.items()},
    )


def _reduce(declared: D, hidden: Mapping[str, frozenset[str]]) -> D:
    names = hidden.get(table_key_of(declared), frozenset())
    if not names:
        return declared
    properties = {
        name: replace(
            each,
            # Without those that name a hidden source text of an embedding.
            annotations=tuple(
                note for note in each.annotations if note.name != "embed" or note.value not in names
            ),
        )
        for name, each in declared.properties.items()
        if name not in names
    }
    constraints = tuple(each for each in declared.constraints if names.isdisjoint(columns_of(each)))
    return replace(declared, properties=properties, constraints=constraints)


def _reduce_interface(interface: Interface, implementers: Collection[NodeType]) -> Interface:
    seen = {
        name: each
        for name, each in interface.properties.items()
        if all(name in type.properties for type in implementers)
    }
    return replace(interface, properties=seen)


_Compiled = tuple[str, str, str]
"""The hash of a schema, the key of a type, and the text of a condition."""

_PARAMETERS = "$actor: String?"


class RowSecurity:
    """Applies views; one instance for each open graph, safe to share between threads."""

    def __init__(self, tables: TableReader, cache: ReadCache) -> None:
        self._tables = tables
        self._cache = cache
        # Bounded by number: one byte stands for one value.
        memory = CacheMemory(2 * COMPILED_QUERIES_MAX, None)
        self._conditions: LruCache[_Compiled, Condition] = LruCache(
            memory, name="conditions", size_of=lambda _: 1
        )
        self._reduced_schemas: LruCache[str, AcceptedSchema] = LruCache(
            memory, name="schemas", size_of=lambda _: 1
        )
        self._applied: LruCache[_Applied, Basis] = LruCache(
            memory, name="states", size_of=lambda _: 1
        )

    def limit(self, basis: Basis, view: View, *, present: Basis, now: datetime) -> Basis:
        """The part of a state that a caller may see.

        `present` is a state under the accepted schema. A type has the limits of every name that it
        ever had: renaming or dropping it does not expose its rows.
        """
        make = partial(self._limit, basis, view, present, now)
        if _depends_on_time(view):
            return make()
        key = _Applied(
            actor=view.actor,
            types=tuple(sorted(view.types.items())),
            heads=(basis.head.id, present.head.id),
            states=(basis.state.at, present.state.at),
            schemas=(basis.accepted_schema.schema_hash, present.accepted_schema.schema_hash),
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
        tables = SecuredTables(
            self._tables,
            self._cache.of(self._tables.generation()),
            {seen_by_key[key]: limit for key, limit in limits.items()},
        )
        entries = SecuredEntries(
            basis.state.snapshot.entries, seen_by_key=seen_by_key, tables=tables
        )
        snapshot = Snapshot(basis.branch, basis.state.at.version, entries)
        accepted_schema = (
            self._reduce(basis.accepted_schema, hidden) if hidden else basis.accepted_schema
        )
        unseen = _find_unseen(basis, limits)
        return Basis(basis.state, accepted_schema, VisibleState(snapshot, tables, unseen))

    def _reduce(
        self, accepted_schema: AcceptedSchema, hidden: Mapping[str, frozenset[str]]
    ) -> AcceptedSchema:
        """The visible part of a schema, under a separate hash, because queries are cached by it."""
        digest = sha256(repr(sorted((key, sorted(hidden[key])) for key in hidden)).encode())
        schema_hash = f"{accepted_schema.schema_hash}~{digest.hexdigest()}"

        def reduce() -> AcceptedSchema:
            catalog = hide_properties(accepted_schema.catalog, hidden)
            return AcceptedSchema(format_schema(catalog), catalog, schema_hash, {})

        return self._reduced_schemas.get(schema_hash, reduce)

    def _limits(
        self, limiting: _Limiting, hidden: Mapping[str, frozenset[str]]
    ) -> dict[str, VisibleRows]:
        """The visible part of each restricted type; nodes first, because edges depend on them."""
        catalog, limits = limiting.basis.catalog, dict[str, VisibleRows]()
        for declared in catalog.stored_types():
            key = table_key_of(declared)
            entry = limiting.entries.get(key)
            if entry is None:
                # A type that was added after the state has no rows in it.
                continue
            limit = VisibleRows(
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
            parts.append(fold_missing_columns(Or(tuple(some)), stored=stored))
        return join_conditions(And, parts)

    def _bind(
        self, text: str, declared: NodeType | EdgeType, limiting: _Limiting
    ) -> BoundCondition:
        known, accepted_schema = limiting.declaration_of(declared)

        def compile() -> Condition:
            return compile_row_condition(
                text, known, catalog=accepted_schema.catalog, parameters=_PARAMETERS
            )

        key = (accepted_schema.schema_hash, table_key_of(known), text)
        try:
            condition = self._conditions.get(key, compile)
        except (CompileError, InvalidValueError) as error:
            raise ForbiddenError(
                actor=limiting.view.actor,
                action=f"read {declared.name}",
                reason="the policy restricts its rows with a condition that the schema of this "
                "state does not allow; the administrator of the policy has to change it",
            ) from error
        values = {"actor": limiting.view.actor}
        return bind(condition, kind=declared.kind, inputs=Inputs(values, limiting.now))


@dataclass(frozen=True, slots=True)
class _Applied:
    """Everything that determines the result of applying a view to a state, except the time."""

    actor: str | None
    types: tuple[tuple[str, TypeView], ...]
    heads: tuple[str, str]
    states: tuple[TableVersion, TableVersion]
    schemas: tuple[str, str]
    generation: int


@dataclass(frozen=True, slots=True)
class _Limiting:
    """One application of a view to a state.

    `present` is a state under the accepted schema, and `types_by_path` are the types of that
    schema.
    """

    basis: Basis
    view: View
    present: Basis
    types_by_path: Mapping[str, NodeType | EdgeType]
    now: datetime

    @property
    def entries(self) -> Mapping[str, Entry]:
        return self.basis.state.snapshot.entries

    def present_of(self, declared: NodeType | EdgeType) -> NodeType | EdgeType | None:
        """The current declaration of a type; None if the type was dropped or has no table here."""
        entry = self.entries.get(table_key_of(declared))
        return None if entry is None else self.types_by_path.get(entry.path)

    def declaration_of(
        self, declared: NodeType | EdgeType
    ) -> tuple[NodeType | EdgeType, AcceptedSchema]:
        """The declaration by which the conditions on a type are compiled.

        If the type has only gained properties since, it is the current one: the new properties are
        null in the state.
        """
        present = self.present_of(declared)
        if present is not None and all(
            name in present.properties and present.properties[name].type == each.type
            for name, each in declared.properties.items()
        ):
            return present, self.present.accepted_schema
        return declared, self.basis.accepted_schema

    def views_of(self, declared: NodeType | EdgeType) -> Iterator[TypeView]:
        """The views that apply to a type, by its name in the state and by all names it ever had."""
        key = table_key_of(declared)
        entry = self.entries.get(key)
        # The manifest retains former names, so that renaming a type does not expose its rows.
        known = self.present.state.path_by_table.items() if entry else ()
        keys = (key, *(name for name, path in known if entry and path == entry.path))
        for name in dict.fromkeys(name for each in keys for name in _names_of(each)):
            found = self.view.types.get(name)
            if found is not None:
                yield found

    def require_known(self) -> None:
        """Raise `ForbiddenError` if the view names a type that the graph never had.

        Such a name is a mistake: another type was meant.
        """
        keys = [*self.present.state.path_by_table, *self.basis.state.path_by_table]
        for each in (self.present, self.basis):
            keys += map(table_key_of, each.catalog.stored_types())
        known = {name for key in keys for name in _names_of(key)}
        for name in sorted(self.view.types.keys() - known):
            raise self._inapplicable(name, "it restricts a type that the graph never had")

    def hidden(self, tables: TableReader) -> Iterator[tuple[str, frozenset[str]]]:
        """The hidden properties, by the table key of their type."""
        for declared in self.basis.catalog.stored_types():
            named = frozenset[str]().union(*(each.hidden for each in self.views_of(declared)))
            if not named:
                continue
            for name in sorted(named.intersection(_key_of(declared))):
                problem = f"it hides '{name}', which ids are derived from; hide rows instead"
                raise self._inapplicable(declared.name, problem)
            present = self.present_of(declared)
            present_names = frozenset[str]() if present is None else present.properties.keys()
            if present is not None and not named <= present_names:
                # The property may exist under another name.
                raise self._inapplicable(declared.name, "it hides a property that does not exist")
            # A property that the current schema lacks may be a hidden property under an earlier
            # name.
            missing = declared.properties.keys() - present_names
            if present is not None:
                missing |= self._renamed_since(declared, present, named, tables)
            others = declared.properties.keys() - _key_of(declared)
            yield table_key_of(declared), (named | missing) & others

    def _renamed_since(
        self,
        declared: NodeType | EdgeType,
        present: NodeType | EdgeType,
        named: frozenset[str],
        tables: TableReader,
    ) -> set[str]:
        """The properties that are hidden under a later name, while others now have their names."""
        then = self.entries[table_key_of(declared)].at
        now = self.present.state.snapshot.get(table_key_of(present)).at
        if then == now:
            return set()
        old, new = tables.column_numbers(then), tables.column_numbers(now)
        numbers = {new[name] for name in named & new.keys()}
        return {
            name for name in declared.properties if old.get(name) in numbers and name not in named
        }

    def _inapplicable(self, type_name: str, problem: str) -> ForbiddenError:
        return ForbiddenError(
            actor=self.view.actor,
            action=f"read {type_name}",
            reason=f"their policy cannot be applied: {problem}; its administrator has to change it",
        )


def _depends_on_time(view: View) -> bool:
    # Every condition that uses the time contains the word; a false match only costs a little time.
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


def _find_unseen(basis: Basis, limits: Mapping[str, VisibleRows]) -> frozenset[str]:
    """The tables of which no row is ever visible, by their own limit or by that of an end."""
    unseen = {key for key, limit in limits.items() if limit.condition == NEVER}
    for declared in basis.catalog.edges.values():
        if any(make_table_key(TypeKind.NODE, name) in unseen for name in declared.ends.values()):
            unseen.add(table_key_of(declared))
    return frozenset(unseen)


def _ends_of(
    declared: NodeType | EdgeType, limits: Mapping[str, VisibleRows]
) -> tuple[tuple[str, TableVersion], ...]:
    """The ends of an edge type whose nodes are not all visible."""
    ends = declared.ends.items()
    found = ((column, limits.get(make_table_key(TypeKind.NODE, name))) for column, name in ends)
    return tuple(
        (column, limit.seen_as())
        for column, limit in found
        if limit is not None and limit.hides_rows
    )
