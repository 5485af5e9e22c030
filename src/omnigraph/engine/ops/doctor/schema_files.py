"""The schema's files against each other, against what is kept of earlier ones, and history.

Promises the schema that rows are to be judged by, also where the files at the root are damaged:
history names it, and every schema that was ever accepted is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.scope import FROM_A_COPY, Findings, Scope
from omnigraph.engine.state.contract import (
    ARCHIVE_PREFIX,
    FILES,
    SCHEMA_LOCK,
    SOURCE_FILE,
    STAGED_FILE,
    Contract,
    find_archived,
    is_bare,
    is_staged,
    read_contract,
)
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import GraphError

_SUBJECT = "the schema"


def examine_schema(
    scope: Scope, findings: Findings, *, main: ManifestState | None
) -> Catalog | None:
    """Look at the schema's files, and return the schema that history accepts, if any is left."""
    accepted = None if main is None else main.head.schema_hash
    kept = _find_kept(scope, findings, accepted)
    # A schema that is being accepted is half at the root; then what history names is what counts.
    is_moving = _examine_staged(scope, findings)
    contract = None if is_moving and kept is not None else _read_files(scope, findings, accepted)
    if contract is not None and accepted not in (None, contract.schema_hash):
        findings.add(
            Trouble.SCHEMA_NOT_ACCEPTED,
            _SUBJECT,
            "its files agree with each other, but it is not the schema that history names",
            advice=_bring_back(accepted, is_kept=kept is not None),
        )
    chosen = kept or contract
    return None if chosen is None else chosen.catalog


def examine_kept_schemas(scope: Scope, findings: Findings, *, hashes: Iterable[str]) -> None:
    """Look for the schema of each commit, by which that commit is read."""
    for each in sorted(set(hashes)):
        _find_kept(scope, findings, each)


def _find_kept(scope: Scope, findings: Findings, schema_hash: str | None) -> Contract | None:
    if schema_hash is None:
        return None
    subject = f"the kept schema {schema_hash}"
    with findings.noting(Trouble.SCHEMA_DAMAGED, subject, advice=FROM_A_COPY):
        kept = find_archived(schema_hash, objects=scope.stores.objects)
        if kept is None:
            findings.add(
                Trouble.SCHEMA_LOST,
                subject,
                f"it is not in {ARCHIVE_PREFIX}, so commits that were made under it are read with "
                "the present schema",
                advice=FROM_A_COPY,
            )
        return kept
    return None


def _read_files(scope: Scope, findings: Findings, accepted: str | None) -> Contract | None:
    objects = scope.stores.objects
    try:
        if is_bare(objects):
            findings.add(
                Trouble.SCHEMA_INCOMPLETE,
                _SUBJECT,
                f"only {SOURCE_FILE} is there, without the two files that are made from it",
                advice="`graph.refresh()`, or open the graph for writing",
            )
            return None
        return read_contract(objects, uri=scope.uri)
    except GraphError as error:
        is_kept = accepted is not None and f"{accepted.removeprefix('sha256:')}.pg" in (
            objects.list(ARCHIVE_PREFIX).token_by_name
        )
        advice = _bring_back(accepted, is_kept=is_kept)
        findings.add(Trouble.SCHEMA_DAMAGED, _SUBJECT, str(error), advice=advice)
        return None


def _bring_back(accepted: str | None, *, is_kept: bool) -> str:
    if not is_kept or accepted is None:
        return f"restore {', '.join(FILES)} from a copy of the graph"
    kept = f"{ARCHIVE_PREFIX}/{accepted.removeprefix('sha256:')}.pg"
    return (
        f"copy {kept} over {SOURCE_FILE}, delete {' and '.join(FILES[1:])}, "
        "then open the graph for writing"
    )


def _examine_staged(scope: Scope, findings: Findings) -> bool:
    """Whether a schema is on its way to the root."""
    if not is_staged(scope.stores.objects.list("")):
        return False
    holder = scope.locks.find_holder([SCHEMA_LOCK])
    if holder is None:
        if not is_staged(scope.stores.objects.list("")):
            # It arrived between the look at the root and the one at the lock.
            return False
        findings.add(
            Trouble.SCHEMA_LEFT,
            _SUBJECT,
            f"{STAGED_FILE} is there: whoever was applying a schema is gone",
            advice="`graph.refresh()` finishes or forgets it",
        )
    else:
        findings.add(
            Trouble.SCHEMA_UNDER_WAY,
            _SUBJECT,
            f"{holder} is applying another one",
            advice="wait for it",
        )
    return True
