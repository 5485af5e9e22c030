"""What a change of schema does to the list of types, in the manifest and in the record of a write.

Rows that a change moves are pins of the write like any other; here is what no table shows: types
that come, go, or carry on under another name. Encoding and decoding are exact inverses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.engine.state.manifest import Change, Register, Tombstone, Update
from omnigraph.engine.state.snapshot import Entry
from omnigraph.model.errors import CorruptError
from omnigraph.storage.ports import TableVersion, VersionFile


@dataclass(frozen=True, slots=True)
class SchemaDelta:
    """The schema that is replaced, by its hash, and what becomes of types.

    `registered` says where the tables of new keys are, `adopted` are tables that become a type's
    as they are, and `dropped` are types that go.
    """

    replaced_hash: str
    registered: tuple[Register, ...]
    adopted: tuple[Entry, ...]
    dropped: tuple[Tombstone, ...]

    def changes(self, describe: Callable[[TableVersion], VersionFile]) -> tuple[Change, ...]:
        """The same as changes of the manifest."""
        adopted = (Update(each, describe(each.at)) for each in self.adopted)
        return (*self.registered, *adopted, *self.dropped)


def encode_delta(delta: SchemaDelta) -> dict[str, object]:
    """A delta as fields of a JSON object."""
    return {
        "replaced_schema_hash": delta.replaced_hash,
        "registrations": [
            {"table_key": each.table_key, "table_path": each.path} for each in delta.registered
        ],
        "adoptions": [
            {
                "table_key": each.table_key,
                "table_path": each.path,
                "table_version": each.version,
                "table_branch": each.branch,
                "row_count": each.row_count,
            }
            for each in delta.adopted
        ],
        "tombstones": [
            {"table_key": each.table_key, "tombstone_version": each.version}
            for each in delta.dropped
        ],
    }


def decode_delta(document: object, *, subject: str) -> SchemaDelta:
    """The delta of such fields, or `CorruptError` that names the subject."""
    match document:
        case {
            "replaced_schema_hash": str(replaced_hash),
            "registrations": [*registrations],
            "adoptions": [*adoptions],
            "tombstones": [*tombstones],
        }:
            return SchemaDelta(
                replaced_hash,
                tuple(_decode_registration(each, subject) for each in registrations),
                tuple(_decode_adoption(each, subject) for each in adoptions),
                tuple(_decode_tombstone(each, subject) for each in tombstones),
            )
        case _:
            raise _corrupt(subject)


def _decode_registration(encoded: object, subject: str) -> Register:
    match encoded:
        case {"table_key": str(table_key), "table_path": str(path)}:
            return Register(table_key, path)
        case _:
            raise _corrupt(subject)


def _decode_adoption(encoded: object, subject: str) -> Entry:
    match encoded:
        case {
            "table_key": str(table_key),
            "table_path": str(path),
            "table_version": int(version),
            "table_branch": str() | None as branch,
            "row_count": int(row_count),
        }:
            return Entry(table_key, path, version, branch, row_count)
        case _:
            raise _corrupt(subject)


def _decode_tombstone(encoded: object, subject: str) -> Tombstone:
    match encoded:
        case {"table_key": str(table_key), "tombstone_version": int(version)}:
            return Tombstone(table_key, version)
        case _:
            raise _corrupt(subject)


def _corrupt(subject: str) -> CorruptError:
    return CorruptError(subject=subject, problem="what it says of the schema lacks a part")
