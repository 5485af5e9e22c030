"""What nobody needs any more, and names that lead nowhere.

Only what no branch, no tag and no write under way refers to is called a remainder; where any of
these cannot be read, nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.engine.commit.sidecar import list_sidecars
from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.scope import FROM_A_COPY, Findings, Scope
from omnigraph.engine.ops.tags import TAGS_PREFIX, find_tag
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.model.catalog import TypeKind
from omnigraph.model.errors import CorruptError, GraphError
from omnigraph.model.names import BranchName, TagName
from omnigraph.storage.ports import TableRef

_CLEAN = "`graph.cleanup(keep=10)` removes it"


def examine_leftovers(
    scope: Scope,
    findings: Findings,
    *,
    states: Mapping[BranchName, ManifestState],
    is_complete: bool,
) -> None:
    """Look at tags, and for what nothing refers to; `is_complete` if all of history was read."""
    _examine_tags(scope, findings)
    try:
        sidecars = list_sidecars(scope.stores.objects)
    except GraphError:
        # It is a finding of its own, and whatever it refers to is unknown.
        return
    if not is_complete or any(each.schema is not None for each in sidecars):
        return
    pending = {TableRef(pin.table_path, pin.table_branch) for s in sidecars for pin in s.pins}
    _find_lines(scope, findings, states, pending)
    _find_folders(scope, findings, states)


def _examine_tags(scope: Scope, findings: Findings) -> None:
    for file in sorted(scope.stores.objects.list(TAGS_PREFIX).token_by_name):
        name = TagName(file.removesuffix(".json").replace("~", "/"))
        advice = f"`graph.delete_tag({str(name)!r})`, unless a copy of the graph has its commit"
        with findings.noting(Trouble.TAG_DAMAGED, f"tag '{name}'", advice=advice):
            try:
                tag = find_tag(name, scope.stores.objects)
            except CorruptError as error:
                findings.add(
                    Trouble.TAG_DAMAGED,
                    f"tag '{name}'",
                    str(error),
                    advice=f"delete {TAGS_PREFIX}/{file} and tag the commit again",
                )
                continue
            if tag is not None:
                scope.authority.state_of(
                    tag.commit_id, branch=tag.branch, version=tag.manifest_version
                )


def _find_lines(
    scope: Scope,
    findings: Findings,
    states: Mapping[BranchName, ManifestState],
    pending: set[TableRef],
) -> None:
    named = {entry.at.ref for state in states.values() for entry in state.latest.values()}
    named_by_path = {
        path: key for state in states.values() for key, path in state.path_by_table.items()
    }
    for path, key in sorted(named_by_path.items()):
        # What cannot be opened was told of before.
        with Findings().noting(Trouble.TYPE_DAMAGED, path, advice=FROM_A_COPY):
            lines = {TableRef(path, each) for each in scope.stores.tables.branches(path)}
            for line in sorted(lines - named - pending, key=lambda each: each.branch or ""):
                findings.add(
                    Trouble.BRANCH_REMAINS,
                    f"{key.partition(':')[2]} of branch '{line.branch}'",
                    "nothing refers to these rows: their branch was deleted, or a write on it "
                    "stopped before it began",
                    advice=_CLEAN,
                )


def _find_folders(
    scope: Scope, findings: Findings, states: Mapping[BranchName, ManifestState]
) -> None:
    named = {path for state in states.values() for path in state.path_by_table.values()}
    for top in (f"{TypeKind.NODE}s", f"{TypeKind.EDGE}s"):
        for name in sorted(scope.stores.objects.list(top).prefixes):
            if f"{top}/{name}" not in named:
                findings.add(
                    Trouble.TYPE_REMAINS,
                    f"{top}/{name}",
                    "no type was ever there, as far as history says",
                    advice="move the folder out of the graph if nobody is changing the schema",
                )
