"""Keys of requests as callers give them, and digests of what the requests ask for.

Two requests have one digest exactly if they ask for the same, as far as their arguments show it: a
file that is named is known by its name, rows that are given by their values.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Set

import numpy as np
import pyarrow as pa

from omnigraph.engine.commit.requests import Request
from omnigraph.engine.ops.reading.pieces import Piece
from omnigraph.engine.ops.reading.received import ReceivedRows
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.arguments import parse_key

__all__ = ["RowsDigest", "make_request", "parse_key"]


def make_request(key: str | None, *asked: object) -> Request | None:
    """The request of a caller who gave it a key: which operation, with which arguments."""
    parsed = parse_key(key)
    if parsed is None:
        return None
    spelled = json.dumps([_spell(each) for each in asked])
    return Request(parsed, hashlib.sha256(spelled.encode()).hexdigest())


class RowsDigest:
    """Takes note of the rows of a load as they are read, so as to tell them from others.

    Ids that are made for the load are new each time it is asked for, and have no part in it.
    """

    def __init__(self) -> None:
        self._ids_by_key: dict[str, list[pa.ChunkedArray]] = defaultdict(list)

    def note(self, piece: Piece) -> None:
        """Remember which ids were given."""
        self._ids_by_key[table_key_of(piece.declared)].append(piece.rows["id"])

    def digest(self, received: Mapping[str, ReceivedRows]) -> str:
        """The digest of all rows that were noted, once they are together."""
        whole = hashlib.sha256()
        for key, each in received.items():
            parts = [chunk for part in self._ids_by_key[key] for chunk in part.chunks]
            ids = pa.chunked_array(parts, pa.string())
            whole.update(key.encode())
            whole.update(_digest_rows(each.rows.set_column(0, "id", ids)))
        return whole.hexdigest()


def _digest_rows(rows: pa.Table) -> bytes:
    # A property that the schema has got since then is in no row of the same request.
    given = [name for name in rows.schema.names if rows[name].null_count < rows.num_rows]
    sink = _HashingSink()
    with pa.PythonFile(sink, mode="w") as file:
        whole = rows.select(given).replace_schema_metadata(None).combine_chunks()
        with pa.ipc.new_stream(file, whole.schema) as stream:
            stream.write_table(whole)
    return sink.digest()


class _HashingSink:
    """A file that keeps nothing of what is written to it but a digest."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.closed = False

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        return len(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def digest(self) -> bytes:
        return self._hash.digest()


def _spell(asked: object) -> object:
    """A value as JSON that differs where values differ."""
    match asked:
        case None | bool() | int() | float() | str():
            return asked
        case Mapping():
            entries = [[_spell(name), _spell(value)] for name, value in asked.items()]
            return {"entries": sorted(entries, key=json.dumps)}
        case Set():
            return {"members": sorted(map(_spell, asked), key=json.dumps)}
        case list() | tuple():
            return [_spell(each) for each in asked]
        case np.ndarray():
            return asked.tolist()
        case pa.Array() | pa.ChunkedArray():
            return _spell(asked.to_pylist())
        case _:
            return {"written": repr(asked)}
