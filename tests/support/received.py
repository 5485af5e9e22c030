"""What a load receives, for tests: read without a graph, ids counted up."""

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache

import pyarrow as pa

from omnigraph.engine.input.batches import ReadContext, ReceivedRows
from omnigraph.engine.input.sources import read_input
from omnigraph.model.catalog import Catalog
from omnigraph.storage.external_files import NO_EXTERNAL_BLOBS, ExternalFiles
from tests.support.schemas import compile_text

Row = Mapping[str, object]


class CountedIds:
    """A runtime whose ids are `new-1`, `new-2` and so on."""

    def __init__(self) -> None:
        self._count = 0

    def now(self) -> datetime:
        return datetime(2024, 6, 1, tzinfo=UTC)

    def new_id(self) -> str:
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        self._count += count
        return [f"new-{number}" for number in range(self._count - count + 1, self._count + 1)]


def receive_all(given: object, *, schema: str) -> dict[str, ReceivedRows]:
    """What is received from anything that a load may be given."""
    return read_input(given, context=make_read_context(_compile(schema)), runtime=CountedIds())


def make_read_context(catalog: Catalog) -> ReadContext:
    """What reading takes if nothing outside is allowed but local files."""
    return ReadContext(catalog, NO_EXTERNAL_BLOBS, ExternalFiles({}, folder=""))


def receive_lines(*lines: str, schema: str) -> dict[str, ReceivedRows]:
    """What is received from lines of NDJSON."""
    return receive_all(io.StringIO("\n".join(lines)), schema=schema)


def rows_of(received: Mapping[str, ReceivedRows], table_key: str) -> list[Row]:
    """The rows of a type, instants as milliseconds."""
    rows: list[Row] = plain_rows(received[table_key].rows)
    return rows


def plain_rows(rows: pa.Table) -> list[Row]:
    """Rows as dictionaries, instants as milliseconds."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in rows.columns
    ]
    found: list[Row] = pa.table(columns, names=rows.column_names).to_pylist()
    return found


@cache
def _compile(schema: str) -> Catalog:
    # Compiling takes longer than most of what is tested here.
    return compile_text(schema)
