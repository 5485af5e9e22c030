"""Examining a graph: everything that is stored, against everything it should agree with.

Read-only: writes nothing, takes no lock and heals nothing, so it may run beside writers and on a
graph that was opened for reading. What it cannot look at becomes a finding, and the rest is looked
at all the same. A branch that others write to meanwhile is looked at again, so that what they do is
not taken for damage.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.engine.ops.doctor.leftovers import examine_leftovers
from omnigraph.engine.ops.doctor.records import examine_records
from omnigraph.engine.ops.doctor.report import DoctorReport, Severity, Trouble, sort_findings
from omnigraph.engine.ops.doctor.schema_files import examine_kept_schemas, examine_schema
from omnigraph.engine.ops.doctor.scope import FROM_A_COPY, Findings, Scope, say_branch
from omnigraph.engine.ops.doctor.stored_types import NOTHING_SEEN, Seen, examine_types
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import MANIFEST_PATH, ManifestState, manifest_ref
from omnigraph.model.catalog import Catalog
from omnigraph.model.limits import EXAMINATIONS_MAX
from omnigraph.model.names import MAIN, BranchName, is_internal_branch
from omnigraph.storage.ports import TableVersion


def examine(scope: Scope) -> DoctorReport:
    """Look at a graph and tell what is wrong, errors first."""
    findings = Findings()
    names = _list_branches(scope, findings)
    placed = [name for name in names if not _has_moved(scope, findings, name)]
    states = {name: state for name in placed if (state := _read_state(scope, findings, name))}
    catalog = examine_schema(scope, findings, main=states.get(MAIN))
    commits = _read_commits(scope, findings, states)
    hashes = {each.schema_hash for each in commits if each.schema_hash is not None}
    head = states[MAIN].head.schema_hash if MAIN in states else None
    examine_kept_schemas(scope, findings, hashes=hashes - {head})
    seen = NOTHING_SEEN
    for name, state in states.items():
        if not is_internal_branch(name):
            seen = _examine_branch(
                scope, findings, state, catalog=catalog, seen=seen, looks=EXAMINATIONS_MAX
            )
    examine_records(scope, findings)
    is_told = all(each.code is not Trouble.TYPE_NOT_IN_HISTORY for each in findings.made())
    examine_leftovers(
        scope, findings, states=states, is_complete=is_told and len(states) == len(names)
    )
    return DoctorReport(scope.uri, scope.is_deep, sort_findings(findings.made()))


def _list_branches(scope: Scope, findings: Findings) -> tuple[BranchName, ...]:
    with findings.noting(Trouble.HISTORY_DAMAGED, "the list of branches", advice=FROM_A_COPY):
        return (MAIN, *scope.authority.others())
    return (MAIN,)


def _has_moved(scope: Scope, findings: Findings, name: BranchName) -> bool:
    """Whether a branch looks for its files where its graph is no more, or another one is."""
    # What cannot be opened is told of when it is read.
    with Findings().noting(Trouble.BRANCH_MOVED, name, advice=""):
        newest = None if name == MAIN else scope.stores.tables.find_head(manifest_ref(name))
        if newest is None:
            return False
        at = TableVersion(manifest_ref(name), newest)
        places = sorted(scope.stores.tables.find_outside(at))
        if places:
            findings.add(
                Trouble.BRANCH_MOVED,
                say_branch(name),
                f"it looks for its files below {places[0].removesuffix(f'/{MANIFEST_PATH}')}, "
                "where it was made: the graph was moved or copied since",
                advice="bring the graph back to that place, or put a symbolic link there; "
                "before a graph is moved, merge or export its branches and delete them",
            )
        return bool(places)
    return False


def _read_state(scope: Scope, findings: Findings, name: BranchName) -> ManifestState | None:
    with findings.noting(Trouble.HISTORY_DAMAGED, say_branch(name), advice=FROM_A_COPY):
        if scope.authority.has_branch(name):
            return scope.authority.state(name)
    return None


def _read_commits(
    scope: Scope, findings: Findings, states: Mapping[BranchName, ManifestState]
) -> list[Commit]:
    commits: list[Commit] = []
    for name, state in states.items():
        with findings.noting(Trouble.HISTORY_DAMAGED, say_branch(name), advice=FROM_A_COPY):
            commits += scope.authority.commits_at(state, since=0)
    return commits


def _examine_branch(
    scope: Scope,
    findings: Findings,
    state: ManifestState,
    *,
    catalog: Catalog | None,
    seen: Seen,
    looks: int,
) -> Seen:
    """Look at the types of a branch, again if somebody wrote there while something was found."""
    part, again = Findings(), Findings()
    after = examine_types(scope, part, state, catalog=catalog, seen=seen)
    if any(each.severity is not Severity.NOTE for each in part.made()):
        now = _read_state(scope, again, state.branch)
        if now is None and not again.made():
            # It was deleted meanwhile, and so was what it named.
            return seen
        if now is not None and now.at != state.at and looks > 1:
            return _examine_branch(
                scope, findings, now, catalog=catalog, seen=seen, looks=looks - 1
            )
    findings.extend(part.made())
    return after
