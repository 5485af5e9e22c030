"""Rows exported and loaded into another graph are identical bit for bit, in every format."""

import io
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

from omnigraph import Graph
from omnigraph.errors import NotFoundError
from tests.support.generated_rows import EVERYTHING, Row, thing_table, things
from tests.support.graphs import build_graph, contents, edge, ndjson, node

FORMATS = ("ndjson", "parquet", "arrow")
TYPES = ("Thing", "Key", "Links")


def fill(path: Path, rows: Sequence[Row]) -> Graph:
    """A graph with these things, and edges from each of them to one of two keys."""
    graph = build_graph(path, EVERYTHING)
    graph.load({"Thing": thing_table(rows)}, mode="append")
    ids = graph.export_batches("Thing").read_all()["id"].to_pylist()
    links = [
        edge("Links", id, "-1", at=number, note="base64:AA==", weight=-0.0)
        for number, id in enumerate(ids)
    ]
    keys = [node("Key", code=-1, name="\x00"), node("Key", code=2**62, name="🜂")]
    graph.load(ndjson(*keys, *links), mode="append")
    return graph


def stored(graph: Graph) -> dict[str, str]:
    """The rows of every type, written so that -0.0, NaN and null differ from all others."""
    found = {}
    for name in TYPES:
        table = graph.export_batches(name).read_all()
        found[name] = repr([_to_numbers(column).to_pylist() for column in table.columns])
    return found


def _to_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def replace_unfinite(table: pa.Table) -> pa.Table:
    """The same rows, with a number for every one that JSON lacks."""
    for place, name in enumerate(table.column_names):
        values = table[name].combine_chunks()
        numbers = values.values if pa.types.is_nested(values.type) else values
        if pa.types.is_floating(numbers.type):
            finite = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(1.5, numbers.type))
            if pa.types.is_list(values.type):
                finite = pa.ListArray.from_arrays(values.offsets, finite, mask=values.is_null())
            elif pa.types.is_fixed_size_list(values.type):
                finite = pa.FixedSizeListArray.from_arrays(finite, 2, mask=values.is_null())
            table = table.set_column(place, name, finite)
    return table


@given(things())
@settings(max_examples=12)
def test_files_keep_every_value_of_every_type(rows: Sequence[Row]) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        graph = fill(root / "graph", rows)
        for format in ("parquet", "arrow"):
            graph.export_files(root / format, format=format)

            copy = build_graph(root / f"copy-{format}", EVERYTHING)
            copy.load(root / format, mode="append")

            assert stored(copy) == stored(graph)
            assert len(copy.commits()) == 2, "a whole export is one commit"


@given(things())
@settings(max_examples=12)
def test_lines_keep_every_value_that_json_has(rows: Sequence[Row]) -> None:
    finite = replace_unfinite(thing_table(rows)).to_pylist()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        graph = fill(root / "graph", finite)
        graph.export_files(root / "files", format="ndjson")
        lines = list(graph.export())

        from_lines = build_graph(root / "from lines", EVERYTHING)
        from_lines.load(io.StringIO("\n".join(lines)), mode="append")
        from_files = build_graph(root / "from files", EVERYTHING)
        from_files.load(root / "files", mode="append")

        assert stored(from_lines) == stored(from_files) == stored(graph)
        assert list(from_files.export()) == lines


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_of_a_commit_is_the_graph_at_that_commit(tmp_path: Path, format: str) -> None:
    graph = build_graph(tmp_path / "graph", EVERYTHING, node("Key", code=1, name="one"))
    then, before = graph.head(), contents(graph)
    later = ndjson(node("Key", code=1, name="won"), node("Key", code=2, name="two"))
    graph.load(later, mode="merge")

    report = graph.export_files(tmp_path / "files", format=format, commit=then)

    copy = build_graph(tmp_path / "copy", EVERYTHING)
    copy.load(tmp_path / "files", mode="append")
    assert contents(copy) == before
    assert report.commit_id == then
    assert graph.export_batches("Key", commit=then).read_all()["name"].to_pylist() == ["one"]


def test_one_type_streams_into_another_graph(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", EVERYTHING, node("Key", code=1, name="one"))
    copy = build_graph(tmp_path / "copy", EVERYTHING)

    copy.load({"Key": graph.export_batches("Key")}, mode="append")

    assert contents(copy) == contents(graph)


def test_an_unknown_type_has_no_stream(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERYTHING)

    with pytest.raises(NotFoundError, match="type 'Kex' not found; did you mean `Key`"):
        graph.export_batches("Kex")
