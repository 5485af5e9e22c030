"""Rows with every type of property and every value that it can store, bounds and oddities first."""

from collections.abc import Mapping, Sequence
from datetime import date

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

EVERYTHING = """
node Thing { f: F64?  g: F32?  i: I32?  l: I64?  u: U32?  w: U64?  on: Bool?  text: String?
             day: Date?  at: DateTime?  blob: Blob?  kind: enum(a, b)?  v: Vector(2)?
             fs: [F32]?  ws: [U64]?  ons: [Bool]?  tags: [String]?  days: [Date]?
             times: [DateTime]? }
node Key   { code: I64 @key  name: String }
edge Links: Thing -> Key { at: DateTime?  note: Blob?  weight: F64 }
"""

Row = Mapping[str, object]
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
FIRST_MS, LAST_MS = FIRST_DAY * 86_400_000, (LAST_DAY + 1) * 86_400_000 - 1

_DAYS = st.sampled_from([date.min, date.max]) | st.dates()
_TIMESTAMPS = st.sampled_from([FIRST_MS, -1, 0, LAST_MS]) | st.integers(FIRST_MS, LAST_MS)
_NARROW = st.sampled_from([-0.0, 0.1, 1e-45, 3.4028235e38]) | st.floats(width=32)
_WIDE = st.sampled_from([-0.0, 0.1, 5e-324, 1e16, 1.7976931348623157e308]) | st.floats()
_U64 = st.sampled_from([0, 2**63, 2**64 - 1])

_STRATEGY_BY_COLUMN: Mapping[str, tuple[pa.DataType, SearchStrategy[object]]] = {
    "f": (pa.float64(), _WIDE),
    "g": (pa.float32(), _NARROW),
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "w": (pa.uint64(), _U64),
    "on": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text()),
    "day": (pa.date32(), _DAYS),
    "at": (pa.int64(), _TIMESTAMPS),
    "blob": (pa.large_binary(), st.binary()),
    "kind": (pa.string(), st.sampled_from(["a", "b"])),
    "v": (pa.list_(pa.float32(), 2), st.tuples(_NARROW, _NARROW)),
    "fs": (pa.list_(pa.float32()), st.lists(_NARROW, max_size=3)),
    "ws": (pa.list_(pa.uint64()), st.lists(_U64, max_size=3)),
    "ons": (pa.list_(pa.bool_()), st.lists(st.booleans(), max_size=3)),
    "tags": (pa.list_(pa.string()), st.lists(st.text(), max_size=3)),
    "days": (pa.list_(pa.date32()), st.lists(_DAYS, max_size=3)),
    "times": (pa.list_(pa.int64()), st.lists(_TIMESTAMPS, max_size=3)),
}


def things() -> SearchStrategy[Sequence[Row]]:
    """Rows of `Thing`, each property a value of its type or null."""
    columns = {name: st.none() | values for name, (_, values) in _STRATEGY_BY_COLUMN.items()}
    return st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=12)


def thing_table(rows: Sequence[Row]) -> pa.Table:
    """The rows as a load takes them; timestamps are milliseconds."""
    return pa.table(
        {
            name: pa.array([row[name] for row in rows], type)
            for name, (type, _) in _STRATEGY_BY_COLUMN.items()
        }
    )
