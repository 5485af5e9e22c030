"""What led from one version of a table to the next, as Lance has it on record.

pylance 14 has no words for some of Lance's operations: a reservation of fragments looks like any
other of these, and a compaction that moved an index cannot be read at all. So the record itself is
looked at, as far as it says which operation it is of. Knows nothing of what an operation did.
"""

from __future__ import annotations

from copy import copy

from omnigraph.storage.lance_errors import lance_errors
from omnigraph.storage.lance_handles import LanceHandles, folder_of
from omnigraph.storage.ports import ObjectStore, TableRef

# The parts of Lance's record of a transaction that say what it does; one of them is there.
_NAME_BY_FIELD = {
    100: "Append",
    101: "Delete",
    102: "Overwrite",
    103: "CreateIndex",
    104: "Rewrite",
    105: "Merge",
    106: "Restore",
    107: "ReserveFragments",
    108: "Update",
    109: "Project",
    110: "UpdateConfig",
    111: "DataReplacement",
}


def find_operations(
    handles: LanceHandles, files: ObjectStore, ref: TableRef, *, after: int
) -> tuple[str | None, ...]:
    """The operation behind each version after one, up to the newest; None if it is not known."""
    newest = handles.get_newest(ref)
    if newest.version <= after:
        return ()
    with lance_errors(table=ref.path, action=f"read how '{folder_of(ref)}' came about"):
        tracked = copy(newest).tracked_files(min_version=after + 1).read_all().to_pylist()
    record_by_version = {
        each["version"]: each["path"] for each in tracked if each["type"] == "transaction file"
    }
    paths = [record_by_version.get(each) for each in range(after + 1, newest.version + 1)]
    found = [None if path is None else files.find(f"{folder_of(ref)}/{path}") for path in paths]
    return tuple(None if each is None else read_operation(each.content) for each in found)


def read_operation(record: bytes) -> str | None:
    """Which operation the record of a transaction is of; None if it does not say."""
    place = 0
    try:
        while place < len(record):
            key, place = _read_varint(record, place)
            if key >> 3 in _NAME_BY_FIELD:
                return _NAME_BY_FIELD[key >> 3]
            place = _skip(record, place, kind=key & 7)
    except (IndexError, ValueError):
        # It was cut off, or is no record.
        return None
    return None


def _skip(record: bytes, place: int, *, kind: int) -> int:
    match kind:
        case 0:
            return _read_varint(record, place)[1]
        case 1:
            return place + 8
        case 2:
            length, place = _read_varint(record, place)
            return place + length
        case 5:
            return place + 4
        case _:
            raise ValueError(f"there is no part of kind {kind}")


def _read_varint(record: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = record[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
