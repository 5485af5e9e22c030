"""Which rows differ between two versions of a table: planned in one process, read by many.

A plan looks at the descriptions of versions only. Fragments that both versions have are passed
over, as in `lance_deltas`; whoever reads a part finds out which rows of a fragment one version has
and the other has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset, LanceFragment

from omnigraph.model.errors import UnavailableError
from omnigraph.model.limits import BLOB_BATCH_ROWS_MAX, PROBED_VALUES_MAX
from omnigraph.storage.delta_parts import DeltaPart, DeltaParts, VersionPlace
from omnigraph.storage.lance_blobs import as_bytes, blobs_among
from omnigraph.storage.lance_errors import lance_errors
from omnigraph.storage.lance_scans import among_addresses, identify, name_files
from omnigraph.storage.table_parts import TablePart

ADDRESS = "_rowaddr"
"""The column that tells where a row lies in its version."""

Addresses = npt.NDArray[np.uint64]

# As long as reading one row takes finding out about so many whether they are deleted.
_LOOKS_PER_ROW = 32


def plan_delta(old: VersionPlace, new: VersionPlace, *, rows_max: int) -> DeltaParts:
    """The rows that only one of two versions of a table has at their place, in parts."""
    before, after = _open(old), _open(new)
    own = {identify(each): each for each in before.get_fragments()}
    others = {identify(each): each for each in after.get_fragments()}
    left = {name_files(own[each]): own[each] for each in own.keys() - others.keys()}
    right = {name_files(others[each]): others[each] for each in others.keys() - own.keys()}
    shared = sorted(left.keys() & right.keys(), key=lambda each: left[each].fragment_id)
    pairs = [(left[name], right[name]) for name in shared]
    # Nothing is gone by a version that has deleted nothing.
    lost = [_lost(one, other) for one, other in pairs if other.num_deletions]
    regained = [_lost(other, one) for one, other in pairs if one.num_deletions]
    return DeltaParts(
        gone=(
            *_group(old, _alone(left, right), None, rows_max),
            *_group(old, lost, new, rows_max),
        ),
        come=(
            *_group(new, _alone(right, left), None, rows_max),
            *_group(new, regained, old, rows_max),
        ),
    )


def find_shared(one: VersionPlace, other: VersionPlace) -> frozenset[int]:
    """The numbers of the fragments that two versions have both, whatever rows were deleted.

    A row of such a fragment that is there in both has the same address in both.
    """
    known = {name_files(each) for each in _open(other).get_fragments()}
    fragments = _open(one).get_fragments()
    return frozenset(each.fragment_id for each in fragments if name_files(each) in known)


def scan_delta(part: DeltaPart, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part with their `_rowaddr`, a fragment at a time; blobs come as bytes.

    Of the columns those are read that the version has.
    """
    uri = part.part.folder.uri
    with lance_errors(table=uri, action=f"read '{uri}'"):
        table = _open(VersionPlace(part.part.folder, part.part.version))
        other = None if part.deleted_in is None else _open(part.deleted_in)
        known = [name for name in columns if name in table.schema.names]
        for number in part.part.fragments:
            fragment = _get(table, number)
            if other is None:
                yield from _scan(table, fragment, known, None)
                continue
            wanted = np.setdiff1d(
                _live(table, fragment), _live(other, _get(other, number)), assume_unique=True
            )
            if len(wanted):
                yield from _scan(table, fragment, known, wanted)


@dataclass(frozen=True, slots=True)
class _Share:
    """A fragment to be read for some rows; the effort is counted in rows as well."""

    number: int
    row_count: int
    effort: int


def _alone(own: dict[str, LanceFragment], others: dict[str, LanceFragment]) -> list[_Share]:
    """The fragments that the other side has not."""
    found = [own[name] for name in own.keys() - others.keys()]
    rows = sorted((each.fragment_id, each.metadata.num_rows) for each in found)
    return [_Share(number, count, count) for number, count in rows]


def _lost(one: LanceFragment, other: LanceFragment) -> _Share:
    """A fragment of both sides, with about as many rows as only the one has."""
    count = max(other.num_deletions - one.num_deletions, 0)
    # To find out which rows are deleted takes a look at where every row is.
    return _Share(one.fragment_id, count, count + one.physical_rows // _LOOKS_PER_ROW)


def _group(
    at: VersionPlace, shares: Iterable[_Share], deleted_in: VersionPlace | None, rows_max: int
) -> Iterator[DeltaPart]:
    held: list[_Share] = []
    for share in shares:
        if held and sum(each.effort for each in held) + share.effort > rows_max:
            yield _make_part(at, held, deleted_in)
            held = []
        held.append(share)
    if held:
        yield _make_part(at, held, deleted_in)


def _make_part(
    at: VersionPlace, shares: Sequence[_Share], deleted_in: VersionPlace | None
) -> DeltaPart:
    numbers = tuple(each.number for each in shares)
    row_count = sum(each.row_count for each in shares)
    return DeltaPart(TablePart(at.folder, at.version, numbers, row_count), deleted_in)


def _scan(
    table: LanceDataset,
    fragment: LanceFragment,
    columns: Sequence[str],
    wanted: Addresses | None,
) -> Iterator[pa.RecordBatch]:
    blobs = blobs_among(columns, table.schema)
    is_few = wanted is not None and len(wanted) <= PROBED_VALUES_MAX
    scanner = table.scanner(
        columns=list(columns),
        filter=among_addresses(wanted) if wanted is not None and is_few else None,
        fragments=[fragment],
        batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
        blob_handling="all_binary" if blobs else None,
        with_row_address=True,
        scan_in_order=True,
    )
    for batch in scanner.to_batches():
        rows = pa.record_batch(batch.columns, schema=as_bytes(batch.schema, blobs))
        if wanted is not None and not is_few:
            rows = rows.filter(pa.array(np.isin(rows[ADDRESS].to_numpy(), wanted)))
        if rows.num_rows:
            yield rows


def _live(table: LanceDataset, fragment: LanceFragment) -> Addresses:
    found = table.scanner(columns=[], fragments=[fragment], with_row_address=True).to_table()
    addresses: Addresses = found[ADDRESS].to_numpy()
    return addresses


def _open(at: VersionPlace) -> LanceDataset:
    options = at.folder.storage_options
    with lance_errors(table=at.folder.uri, action=f"read '{at.folder.uri}'"):
        return lance.dataset(
            at.folder.uri,
            version=at.version,
            storage_options=None if options is None else dict(options),
        )


def _get(table: LanceDataset, number: int) -> LanceFragment:
    fragment = table.get_fragment(number)
    if fragment is None:
        reason = f"fragment {number} is not there any more; plan the job again"
        raise UnavailableError(action=f"read '{table.uri}'", reason=reason)
    return fragment
