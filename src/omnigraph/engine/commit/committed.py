"""The committed rows that a write is checked against, and a record of what was asked.

Whatever a check reads becomes part of the write's read set: if one of those tables moves before
the write lands, the checks would have said something else, and the write is prepared again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa


class CommittedRows(Protocol):
    """What checks may ask of the state a write is based on. Unknown tables have no rows."""

    def count(self, table_key: str) -> int:
        """How many rows a type has."""

    def find_ids(self, table_key: str, ids: pa.Array) -> pa.Array:
        """Those of the ids that are there, in any order, each once."""

    def find_rows(
        self, table_key: str, column: str, values: pa.Array, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows whose column holds one of the values (of the column's type, without nulls)."""

    def scan(self, table_key: str, *, columns: Sequence[str]) -> pa.Table:
        """Every row of a type."""
