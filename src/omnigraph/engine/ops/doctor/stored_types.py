"""The types of a branch: what history names against what is stored, and the columns of each.

A version that several branches share is looked at once. Knows nothing of rules about rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.engine.ops.doctor.endpoints import Ends, examine_endpoints, list_ends
from omnigraph.engine.ops.doctor.index_answers import examine_answers
from omnigraph.engine.ops.doctor.layout import examine_layout
from omnigraph.engine.ops.doctor.records import is_explained
from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.rows import examine_rows
from omnigraph.engine.ops.doctor.scope import (
    Findings,
    Scope,
    StoredType,
    say_branch,
)
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.snapshot import Entry, line_of, table_key_of, type_name_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.names import MAIN
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.ports import TableVersion


@dataclass(frozen=True, slots=True)
class Seen:
    """What was looked at already: versions of types with their counts, and edges with the nodes
    that they should end at."""

    types: frozenset[tuple[TableVersion, int]]
    ends: frozenset[Ends]


NOTHING_SEEN = Seen(frozenset(), frozenset())


def examine_types(
    scope: Scope, findings: Findings, state: ManifestState, *, catalog: Catalog | None, seen: Seen
) -> Seen:
    """Look at every type that a branch names, and return what has been looked at by now."""
    declared = {} if catalog is None else {table_key_of(e): e for e in catalog.stored_types()}
    if catalog is not None:
        _compare_names(findings, state, frozenset(declared))
    stored: dict[str, StoredType] = {}
    for entry in state.snapshot:
        opened = _examine_type(
            scope, findings, state, entry, declared=declared.get(entry.table_key)
        )
        if opened is not None:
            stored[entry.table_key] = opened
    for each in stored.values():
        if (each.entry.at, each.entry.row_count) not in seen.types:
            examine_layout(scope, findings, each, state)
            if scope.is_deep and each.entry.row_count and examine_rows(scope, findings, each):
                examine_answers(scope, findings, each)
    ends = frozenset(list_ends(stored)) if scope.is_deep else frozenset()
    examine_endpoints(scope, findings, ends - seen.ends, stored)
    types = {(entry.at, entry.row_count) for entry in state.snapshot}
    return Seen(seen.types | types, seen.ends | ends)


def _compare_names(findings: Findings, state: ManifestState, declared: frozenset[str]) -> None:
    branch = say_branch(state.branch)
    named = frozenset(state.snapshot.entries)
    if state.branch == MAIN:
        # Another branch has no rows of types that came after it.
        for key in sorted(declared - named):
            findings.add(
                Trouble.TYPE_NOT_IN_HISTORY,
                f"{type_name_of(key)} on {branch}",
                "the schema declares it, but history does not say where its rows are",
                advice="restore `__manifest` and the schema's files from one copy of the graph",
            )
    for key in sorted(named - declared):
        findings.add(
            Trouble.TYPE_NOT_IN_SCHEMA,
            f"{type_name_of(key)} on {branch}",
            "history names its rows, but the schema does not declare it",
            advice="restore `__manifest` and the schema's files from one copy of the graph",
        )


def _examine_type(
    scope: Scope,
    findings: Findings,
    state: ManifestState,
    entry: Entry,
    *,
    declared: NodeType | EdgeType | None,
) -> StoredType | None:
    """Look at what is stored of a type; None if nothing more can be said about it."""
    subject = f"{type_name_of(entry.table_key)} on {say_branch(state.branch)}"
    advice = f"restore {entry.path} from a copy of the graph"
    with findings.noting(Trouble.TYPE_DAMAGED, subject, advice=advice):
        newest = scope.stores.tables.find_head(entry.at.ref)
        if newest is None or newest < entry.version:
            end = "nothing is there" if newest is None else f"it ends at {newest}"
            message = f"history names its version {entry.version}, but {end}"
            findings.add(Trouble.TYPE_BEHIND, subject, message, advice=advice)
            return None
        if newest > entry.version:
            _examine_advance(scope, findings, state, entry, newest=newest)
        schema = scope.stores.tables.schema(entry.at)
        _compare_count(scope, findings, entry, subject)
        if declared is None or not _compare_columns(findings, schema, declared, subject):
            return None
        return StoredType(declared, entry, subject, frozenset(schema.names))
    return None


def _examine_advance(
    scope: Scope, findings: Findings, state: ManifestState, entry: Entry, *, newest: int
) -> None:
    own = line_of(state.branch)
    # Another branch's line may well be ahead of where this one left it.
    if entry.branch == own and not is_explained(entry, scope):
        if scope.authority.state(state.branch).version_of(entry.table_key) != entry.version:
            # Its record went away because it became true.
            return
        advice = (
            "`graph.repair()` shows what it was; with `confirm=True` it adopts what only laid the "
            "type out anew, with `force=True` as well whatever it is"
        )
        if own is not None:
            advice = "export the branch, delete it, and load the rows into a new one"
        findings.add(
            Trouble.DRIFT,
            f"{type_name_of(entry.table_key)} on {say_branch(state.branch)}",
            f"something outside of OmniGraph moved it to version {newest}, while history names "
            f"{entry.version}: it is read as history says, and not written to",
            advice=advice,
        )


def _compare_count(scope: Scope, findings: Findings, entry: Entry, subject: str) -> None:
    count = scope.stores.tables.count(entry.at, predicate=None)
    if count != entry.row_count:
        findings.add(
            Trouble.ROW_COUNT_WRONG,
            subject,
            f"history says {entry.row_count} rows, but there are {count}",
            advice=f"restore `__manifest` and {entry.path} from one copy of the graph, or export "
            "the rows and load them into a new graph",
        )


def _compare_columns(
    findings: Findings, schema: pa.Schema, declared: NodeType | EdgeType, subject: str
) -> bool:
    """Whether what is stored has the columns of its type; a nullable one may yet come."""
    problems = []
    for field in table_schema(declared):
        if field.name not in schema.names:
            problems += [] if field.nullable else [f"{field.name} is missing"]
        elif not _is_stored_as(schema.field(field.name).type, field.type):
            problems.append(f"{field.name} is {schema.field(field.name).type}, not {field.type}")
    if problems:
        findings.add(
            Trouble.COLUMNS_WRONG,
            subject,
            f"its columns are not those of the schema: {'; '.join(problems)}",
            advice="restore the schema's files and the type from one copy of the graph",
        )
    return not problems


def _is_stored_as(stored: pa.DataType, declared: pa.DataType) -> bool:
    # How a blob lies is the store's business.
    return bool(stored == declared or declared == pa.large_binary())
