"""Rows with a property of every type, as Arrow batches: what is made JSON of them is the test's."""

from datetime import UTC, date, datetime

import pyarrow as pa

from omnigraph.compiler.ir import Value
from omnigraph.engine.rows.values import column_of
from tests.support.schemas import compile_text

CATALOG = compile_text("""
node Gauge { code: String @key  at: DateTime?  b: Blob?  day: Date?  days: [Date]?  f: F64?
             fs: [F32]?  g: F32?  l: I64?  on: Bool?  tags: [String]?  times: [DateTime]?
             v: Vector(2)?  w: U64? }
edge Near: Gauge -> Gauge { since: Date? }
""")
GAUGE, NEAR = CATALOG.nodes["Gauge"], CATALOG.edges["Near"]

TIMESTAMP = datetime(2024, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)
FULL: dict[str, Value] = {
    "at": TIMESTAMP,
    "b": "base64:AQID",
    "code": "g1",
    "day": date(2024, 6, 1),
    "days": (date(1970, 1, 2), date(1969, 12, 31)),
    "f": 2.0,
    "fs": (0.1, 0.5),
    "g": 0.1,
    "l": -(2**63),
    "on": True,
    "tags": ("x", 'say "hi"'),
    "times": (TIMESTAMP,),
    "v": (0.25, 0.1),
    "w": 2**64 - 1,
}


def gauges(*rows: dict[str, Value]) -> pa.RecordBatch:
    """Rows whose ids are their codes; what is left out is null."""
    columns = {
        name: column_of([row.get(name) for row in rows], prop.type, subject=name)
        for name, prop in GAUGE.properties.items()
    }
    return pa.record_batch({"id": columns["code"], **columns})


def edges() -> pa.RecordBatch:
    """Two edges, one of them with a date."""
    since = column_of([date(1970, 1, 2), None], NEAR.properties["since"].type, subject="since")
    return pa.record_batch(
        {"id": ["e1", "e2"], "src": ["a", "b"], "dst": ["b", "b"], "since": since}
    )
