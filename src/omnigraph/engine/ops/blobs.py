"""One blob, or a part of it, as a snapshot has it. Reads no other bytes of the type's blobs."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.ops.reading.type_names import get_stored_type
from omnigraph.engine.results import Blob
from omnigraph.engine.state.snapshot import Snapshot, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.types import Scalar
from omnigraph.storage.ports import RowReader, StoredBlob

_ETAG_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class BlobRange:
    """The bytes that are asked for: so many from `start` on, or all from there if None."""

    start: int
    length: int | None


def parse_range(start: object, length: object) -> BlobRange:
    """The bytes that a caller asks for."""
    from_byte = _parse_bytes(start, "start")
    return BlobRange(from_byte, None if length is None else _parse_bytes(length, "length"))


def read_blob(
    type_name: str,
    id: str,
    property_name: str,
    *,
    asked: BlobRange,
    snapshot: Snapshot,
    catalog: Catalog,
    tables: RowReader,
) -> Blob:
    """The bytes, the size of the whole and its tag.

    `NotFoundError` if there is no such type, property, node or edge, or no blob in it. A range may
    end behind the blob, and begin at its end, but not behind it.
    """
    declared = get_stored_type(type_name, catalog)
    _require_blob(declared, property_name)
    name = f"{declared.name} '{id}'"
    stored = _find(declared, id, property_name, asked, snapshot, tables)
    if stored is None:
        raise NotFoundError(kind=declared.name, name=id, advice="")
    if stored.size is None:
        advice = "the property is null"
        raise NotFoundError(
            kind="blob", name=f"{declared.name} {id}.{property_name}", advice=advice
        )
    if asked.start > stored.size:
        raise InvalidValueError(
            subject="start",
            expected=f"0 to {stored.size}",
            value=asked.start,
            problem=f"{asked.start} lies behind the end of '{property_name}' of {name}, "
            f"which has {stored.size} bytes",
        )
    etag = sha256(stored.place.encode()).hexdigest()[:_ETAG_CHARACTERS]
    return Blob(stored.content, stored.size, etag)


def _parse_bytes(given: object, subject: str) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    raise InvalidValueError(
        subject=subject,
        expected="a number of bytes",
        value=given,
        problem=f"a number of bytes is needed, 0 or more, not {given!r}",
    )


def _require_blob(declared: NodeType | EdgeType, name: str) -> None:
    found = declared.properties.get(name)
    if found is None:
        advice = advise_name(name, set(declared.properties)) or ""
        raise NotFoundError(kind=f"property of {declared.name}", name=name, advice=advice)
    if found.type.element is not Scalar.BLOB:
        raise InvalidValueError(
            subject=f"{declared.name}.{name}",
            expected="Blob",
            value=str(found.type),
            problem=f"it is no blob but {found.type}; `entity` reads it",
        )


def _find(
    declared: NodeType | EdgeType,
    id: str,
    name: str,
    asked: BlobRange,
    snapshot: Snapshot,
    tables: RowReader,
) -> StoredBlob | None:
    entry = snapshot.entries.get(table_key_of(declared))
    if entry is None:
        return None
    if name not in tables.schema(entry.at).names:
        # The property was added after the version: no row of it has a blob.
        is_there = tables.find_rows(entry.at, ids=pa.array([id]), columns=["id"]).num_rows
        return StoredBlob(b"", None, "") if is_there else None
    return tables.read_blob(entry.at, id=id, column=name, start=asked.start, length=asked.length)
