"""External sort of rows by id, in bounded memory.

Rows within the bound are sorted in memory. Larger inputs are sorted in runs, which are written to
files of a temporary folder and then merged. Ids must be distinct. The module does not depend on
Lance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.errors import storage_errors


def sort_by_id(
    batches: Iterable[pa.RecordBatch], *, bytes_max: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows of some batches in id order, in batches of at most about `batch_bytes` bytes.

    Uses about twice `bytes_max` of memory, plus a small batch of each run. The temporary folder is
    removed when the last row was read or the iterator is dropped.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    parts: list[Iterator[pa.RecordBatch]] = []
    with ExitStack() as stack:
        folder = None
        for batch in batches:
            held.append(batch)
            held_bytes += batch.nbytes
            if held_bytes < bytes_max:
                continue
            with storage_errors("sort rows in the temporary folder"):
                if folder is None:
                    made = TemporaryDirectory(prefix="omnigraph-sorting-")
                    folder = Path(stack.enter_context(made))
                path = folder / f"{len(parts)}.arrow"
                _put_aside(_sort(held), path, batch_bytes // _BATCHES_OF_A_BATCH)
            parts.append(_read_again(path))
            held, held_bytes = [], 0
        rest = _sort(held) if held else None
        held = []
        if rest is not None:
            parts.append(_cut(rest, batch_bytes))
        yield from parts[0] if len(parts) == 1 else _merge(parts, batch_bytes)


# Many runs are read at once, so each is read in small batches.
_BATCHES_OF_A_BATCH = 16


def _sort(rows: Sequence[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(rows)
    return table.take(pc.sort_indices(table["id"]))


def _cut(rows: pa.Table, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    average = max(1, rows.nbytes // max(1, rows.num_rows))
    yield from rows.combine_chunks().to_batches(max_chunksize=max(1, batch_bytes // average))


def _put_aside(rows: pa.Table, path: Path, batch_bytes: int) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
        for batch in _cut(rows, batch_bytes):
            writer.write_batch(batch)


def _read_again(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
        yield from reader


def _merge(parts: Sequence[Iterator[pa.RecordBatch]], batch_bytes: int) -> Iterator[pa.RecordBatch]:
    heads = [(batch, part) for part in parts if (batch := next(part, None))]
    while heads:
        # The unread rows of a run come after the last id of its head.
        limit = min(batch["id"][-1].as_py() for batch, _ in heads)
        ready, rest = [], []
        for batch, part in heads:
            end = pc.search_sorted(batch["id"], limit, side="right").as_py()
            ready.append(batch.slice(0, end))
            left = batch.slice(end) if end < batch.num_rows else next(part, None)
            if left is not None:
                rest.append((left, part))
        yield from _cut(_sort(ready), batch_bytes)
        heads = rest
