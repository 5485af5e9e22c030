"""The calls of a graph about its upkeep: recovery, indexes, layout."""

from __future__ import annotations

from omnigraph.engine.commit.audit import Recovery, list_recoveries
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.indexes import ensure_indexes
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.results import IndexReport
from omnigraph.engine.state.contract import is_bare, write_derived_files
from omnigraph.model.errors import SchemaChangedError
from omnigraph.model.names import MAIN, parse_branch_name


class GraphUpkeep:
    """What keeps a graph whole and fast."""

    _open: OpenGraph

    def refresh(self) -> None:
        """Finish or undo what dead writers left, and look at the graph anew."""
        self._open.require_writable("refresh")
        if is_bare(self._open.stores.objects):
            self._restore_derived_files()
        root = self._open.writes.heal()
        sweep_transactions(root, path=self._open.writes)
        self._open.pin(MAIN)

    def ensure_indices(
        self, *, branch: str = "main", actor: str | None = None
    ) -> list[IndexReport]:
        """Build the indexes that types should have and lack, as one commit, and report on all."""
        self._open.require_writable("build indexes")
        reports = ensure_indexes(
            parse_branch_name(branch),
            authorship=self._open.author(actor, WriterKind.ENSURE_INDICES, expected_head=None),
            path=self._open.writes,
        )
        return list(reports)

    def recoveries(self) -> list[Recovery]:
        """What was found half-way done and how it was ended, oldest first."""
        self._open.require_open()
        return list(list_recoveries(self._open.stores.tables))

    def _restore_derived_files(self) -> None:
        if len(self._open.authority.branches()) > 1:
            raise SchemaChangedError(
                reason="the generated schema files are missing and there are branches besides "
                "main; restore the files from a copy"
            )
        accepted = self._open.authority.state(MAIN).head.schema_hash
        write_derived_files(self._open.stores.objects, accepted=accepted)
