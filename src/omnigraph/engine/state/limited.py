"""What a reader who may not see everything has in place of a state's rows.

The entries of the snapshot name versions that only `tables` knows: whoever asks the store itself
for one of them finds nothing, so that a read which forgets the limits fails instead of leaking.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.engine.state.snapshot import Snapshot
from omnigraph.storage.ports import RowReader


@dataclass(frozen=True, slots=True)
class Limited:
    """The permitted part of a state: its types with the rows that are seen, and who reads them."""

    snapshot: Snapshot
    tables: RowReader
