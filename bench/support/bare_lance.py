"""The baseline of the write path: the same rows written with bare pylance.

No checks, locks, sidecar, fsync or recovery: a lower bound for writing the same rows and the same
kind of manifest entry.
"""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset
from lance.fragment import write_fragments

from omnigraph.engine.state.manifest import MANIFEST_SCHEMA


class BareGraph:
    """One table and one manifest, written with plain pylance calls."""

    def __init__(self, root: Path, rows: pa.Table) -> None:
        self._table = _create(rows, root / "table")
        self._manifest_uri = str(root / "manifest")
        self._depth = 0
        _create(_manifest_rows(0), root / "manifest")

    def commit(self, rows: pa.Table) -> None:
        """One append and one merge-insert of three rows into the manifest."""
        staged = write_fragments(rows, self._table, mode="append", return_transaction=True)
        self._table = LanceDataset.commit(self._table, staged, max_retries=0)
        self._depth += 1
        (
            lance.dataset(self._manifest_uri)
            .merge_insert("object_id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .conflict_retries(0)
            .use_index(use_index=False)
            .execute(_manifest_rows(self._depth))
        )

    def compact_manifest(self) -> None:
        """Compact the manifest's fragments; the benchmark does not measure this."""
        lance.dataset(self._manifest_uri).optimize.compact_files()


def write_and_sort(rows: pa.Table, path: Path) -> None:
    """Write a table once and sort its keys once."""
    _create(rows, path)
    pc.sort_indices(rows["id"])


def _create(rows: pa.Table, path: Path) -> LanceDataset:
    return lance.write_dataset(
        rows,
        str(path),
        mode="create",
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )


def _manifest_rows(depth: int) -> pa.Table:
    rows = [
        {
            "object_id": f"node:Person${depth:020}",
            "object_type": "table_version",
            "metadata": '{"manifest_path":"_versions/18446744073709551614.manifest"}',
            "table_key": "node:Person",
            "table_version": depth,
            "row_count": depth,
        },
        {
            "object_id": f"{depth:026}",
            "object_type": "graph_commit",
            "metadata": '{"parent_commit_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","created_at":1}',
            "table_key": "",
            "table_version": depth,
        },
        {
            "object_id": "graph_head:main",
            "object_type": "graph_head",
            "metadata": '{"head_commit_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}',
            "table_key": "",
        },
    ]
    return pa.Table.from_pylist(rows, schema=MANIFEST_SCHEMA)
