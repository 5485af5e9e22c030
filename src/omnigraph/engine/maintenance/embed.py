"""Embedding: computes the missing vectors of `@embed` properties, as one commit.

An existing vector is left unchanged unless the caller requests all vectors, because no record
shows whether its text has changed. Rows are processed in parts, in this process or by workers, and
are never held completely in memory. Files of a failed call belong to no version. The embedding
model is behind a port.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.staging import discard_files
from omnigraph.engine.ops.embeddings import EmbedCall, EmbeddedPart, embed_part, list_targets
from omnigraph.engine.ops.refs import create_table_branches
from omnigraph.engine.ops.retry import Prepared, is_refused, run_write
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Entry, get_stored_type, table_branch_of, table_key_of
from omnigraph.model.catalog import Catalog, NodeType
from omnigraph.model.errors import EmbeddingError, GraphError, InvalidValueError, NotFoundError
from omnigraph.model.limits import SPARK_PART_ROWS_MAX
from omnigraph.model.names import MAIN, BranchName, find_near_name
from omnigraph.model.ports import Embedder
from omnigraph.storage.ports import NewFile, TableReader, TableRef, TableVersion, Workers
from omnigraph.storage.predicates import And, IsNull, Operator, Or, Predicate, compare
from omnigraph.storage.row_files import table_schema


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """The number of rows that got a vector, by property; no commit id if no row did."""

    type: str
    branch: str
    rows_by_property: Mapping[str, int]
    commit_id: str | None
    engine: str


def parse_call(
    type_name: str,
    property_name: str | None,
    *,
    catalog: Catalog,
    embedder: Embedder | None,
    is_only_missing: bool,
) -> EmbedCall:
    """Parse a caller's arguments against the schema and the configured provider.

    Raises `EmbeddingError` if no provider is configured.
    """
    declared = get_stored_type(type_name, catalog)
    if not isinstance(declared, NodeType):
        raise _refuse(declared.name, "an edge type has no embedded properties; name a node type")
    if property_name is not None and property_name not in declared.properties:
        near = find_near_name(property_name, declared.properties)
        advice = "" if near is None else f"did you mean '{near}'?"
        name = f"{declared.name}.{property_name}"
        raise NotFoundError(kind="property", name=name, advice=advice)
    named = [each for each in list_targets(declared) if property_name in (None, each[0].name)]
    if not named and property_name is None:
        problem = 'no property says what it is made of; declare a vector with @embed("text")'
        raise _refuse(declared.name, problem)
    if not named:
        problem = 'it does not say what it is made of; declare it as a vector with @embed("text")'
        raise _refuse(f"{declared.name}.{property_name}", problem)
    if embedder is None:
        raise EmbeddingError(
            action=f"embed {declared.name}, so the graph is unchanged",
            reason="no embedding provider is configured; set OMNIGRAPH_EMBEDDINGS_MOCK=1 for the "
            "built-in one",
        )
    for known, _ in named:
        model = None if known.embedding is None else known.embedding.model
        if model is not None and model != embedder.model:
            raise _refuse(
                f"{declared.name}.{known.name}",
                f"its vectors are computed by model '{model}', and texts are embedded by "
                f"'{embedder.model}'; configure '{model}'",
            )
    return EmbedCall(declared, tuple(target for _, target in named), embedder, is_only_missing)


def count_embedded(call: EmbedCall, basis: Basis, *, tables: TableReader) -> int:
    """The number of rows of a state that would get a vector."""
    entry = basis.snapshot.entries.get(table_key_of(call.declared))
    predicate = None if entry is None else _find_rows(call, entry, tables)
    if entry is None or predicate is None:
        return 0
    return tables.count(entry.at, predicate=predicate)


def embed(
    call: EmbedCall,
    branch: BranchName,
    *,
    workers: Workers | None,
    authorship: Authorship,
    path: WritePath,
) -> EmbedResult:
    """Compute the missing vectors of a type; without workers, in this process."""
    if workers is not None:
        require_portable(call.embedder)
    if branch != MAIN and count_embedded(
        call, path.branch_states.pin(branch), tables=path.stores.tables
    ):
        # Deletion marks of replaced rows must be stored where the branch reads them.
        create_table_branches([table_key_of(call.declared)], branch=branch, path=path)
    return _Embedding(call, branch, workers, path).run(authorship)


class _Embedding:
    """One call in progress."""

    def __init__(
        self, call: EmbedCall, branch: BranchName, workers: Workers | None, path: WritePath
    ) -> None:
        self._call, self._branch, self._workers, self._path = call, branch, workers, path
        self._written: tuple[NewFile, ...] = ()
        self._table_branch: TableRef | None = None

    def run(self, authorship: Authorship) -> EmbedResult:
        try:
            done = run_write(
                self._branch,
                prepare=self._prepare,
                codec=None,
                inputs=None,
                authorship=authorship,
                path=self._path,
            )
        except GraphError as error:
            if is_refused(error):
                self._discard()
            raise
        return EmbedResult(
            type=self._call.declared.name,
            branch=self._branch,
            rows_by_property=done.result,
            commit_id=done.commit_id,
            engine="local" if self._workers is None else "spark",
        )

    def _prepare(self, basis: Basis, committed: SnapshotRows) -> Prepared[Mapping[str, int]]:
        del committed  # rows are read part by part
        # Files written for an earlier state are not valid for this one.
        self._discard()
        call, tables = self._call, self._path.stores.tables
        key = table_key_of(call.declared)
        entry = basis.snapshot.get(key)
        predicate = _find_rows(call, entry, tables) if entry.row_count else None
        parts: Sequence[EmbeddedPart] = ()
        if predicate is not None and tables.count(entry.at, predicate=predicate):
            self._table_branch = TableRef(entry.path, table_branch_of(basis.branch))
            parts = self._work(predicate, entry, self._table_branch)
            self._written = tuple(file for part in parts for file in part.rows.files)
        changes: dict[str, TableChange] = {}
        if self._written:
            nothing = table_schema(call.declared).empty_table()
            changes[key] = TableChange(
                type=call.declared,
                put=nothing,
                removed=nothing["id"].combine_chunks(),
                is_overwrite=False,
                files=self._written,
                deletions=tuple(each for part in parts for each in part.rows.deletions),
            )
        return Prepared(
            PreparedWrite(
                changes=changes,
                placement=dict.fromkeys(changes, StagingMode.FILES),
                read_set=frozenset(),
                # Strict like an update: the vectors belong to the texts that were read.
                is_strict=True,
            ),
            {
                target.column: sum(part.row_counts[number] for part in parts)
                for number, target in enumerate(call.targets)
            },
        )

    def _work(
        self, predicate: Predicate, entry: Entry, table_branch: TableRef
    ) -> Sequence[EmbeddedPart]:
        workers = self._workers
        share = SPARK_PART_ROWS_MAX if workers is None else workers.share(entry.row_count)
        at = TableVersion(table_branch, entry.version)
        parts = self._path.stores.tables.parts(at, rows_max=share)
        work = partial(embed_part, self._call, predicate)
        if workers is None:
            return [work(part) for part in parts]
        return workers.run(work, parts, stage="embed")

    def _discard(self) -> None:
        """Delete the written files, which no version names."""
        if self._table_branch is not None:
            discard_files(self._table_branch, self._written, tables=self._path.stores.tables)
        self._written = ()


def require_portable(embedder: Embedder) -> None:
    """Raise `InvalidValueError` unless the provider can be sent to executors."""
    try:
        pickle.dumps(embedder)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        problem = f'it cannot be sent to executors ({error}); use engine="local"'
        raise _refuse("the embedding provider", problem) from error


def _refuse(subject: str, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=subject, expected="what can be embedded", value=subject, problem=problem
    )


def _find_rows(call: EmbedCall, entry: Entry, tables: TableReader) -> Predicate | None:
    """A predicate for the rows that get a vector; None if there cannot be any."""
    stored = frozenset(tables.schema(entry.at).names)
    parts: list[Predicate] = []
    for each in call.targets:
        if each.source in stored:
            # A null text does not satisfy `!=` either.
            has_text = compare(each.source, Operator.NE, "")
            is_partial = call.is_only_missing and each.column in stored
            parts.append(And((has_text, IsNull(each.column))) if is_partial else has_text)
    return Or(tuple(parts)) if parts else None
