"""How a type lies: indexes that are missing or lag behind, and rows spread over many files.

None of it changes an answer, only what it costs. Only the lines of the branch itself are looked at:
those of others are theirs to lay out.
"""

from __future__ import annotations

from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.scope import Findings, Scope, StoredType, branch_argument
from omnigraph.engine.ops.indexes import find_buildable
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.snapshot import line_of


def examine_layout(
    scope: Scope, findings: Findings, stored: StoredType, state: ManifestState
) -> None:
    """Look at the indexes and files of a type that the branch itself has written."""
    entry, tables = stored.entry, scope.stores.tables
    if entry.branch != line_of(state.branch) or not entry.row_count:
        return
    argument = branch_argument(state.branch)
    optimize = f"`graph.optimize({argument})`"
    with findings.noting(Trouble.TYPE_DAMAGED, stored.subject, advice=f"{optimize} may renew it"):
        rows_by_spec = {each.spec: each.rows_covered for each in tables.indexes(entry.at)}
        layout = tables.plan_layout(entry.at, wanted=find_buildable(stored.declared, entry, tables))
        missing = [spec.column for spec in layout.uncovered if spec not in rows_by_spec]
        if missing:
            message = f"no index of {', '.join(missing)}; look-ups there read every row"
            advice = f"`graph.ensure_indices({argument})`"
            findings.add(Trouble.INDEX_MISSING, stored.subject, message, advice=advice)
        for spec in layout.uncovered:
            if spec in rows_by_spec:
                message = (
                    f"the index of {spec.column} knows {rows_by_spec[spec]:,} of "
                    f"{entry.row_count:,} rows; the others are read"
                )
                findings.add(Trouble.INDEX_BEHIND, stored.subject, message, advice=optimize)
        if layout.fragments_removed:
            message = (
                f"{layout.fragments_removed} of its {layout.fragments} files are small or hold "
                "many deleted rows"
            )
            findings.add(Trouble.MANY_FILES, stored.subject, message, advice=optimize)
