"""Reads that once went wrong, as files of the corpus: a query, a schema, rows and parameters.

What a file should return is not in it: the oracle computes it whenever it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime

from omnigraph.compiler.ir import Value
from omnigraph.model.types import PropertyType, Scalar
from tests.support.corpus import CorpusFile
from tests.support.read_graphs import Params, PlainGraph, plain_graph, types_of
from tests.support.schemas import compile_text


def render_case(graph: PlainGraph, text: str, params: Params) -> str:
    """A graph, a query and its parameters as a file of the corpus."""
    rows = [
        json.dumps({"of": name, "row": _without_nulls(row)}, default=_render, ensure_ascii=False)
        for name, stored in graph.rows_by_type.items()
        for row in stored
    ]
    written = json.dumps(params, default=_render, ensure_ascii=False)
    parts = [text, "--- schema", graph.schema.strip(), "--- rows", *rows, "--- params", written]
    return "\n".join(parts) + "\n"


def parse_case(file: CorpusFile) -> tuple[PlainGraph, str, Params]:
    """The same, from a file of the corpus."""
    schema = file.sections["schema"]
    types = types_of(compile_text(schema))
    rows: dict[str, list[Mapping[str, Value]]] = {}
    for line in file.sections["rows"].splitlines():
        record = json.loads(line)
        properties = types[record["of"]].properties
        row = {
            name: _parse(value, properties[name].type) if name in properties else value
            for name, value in record["row"].items()
        }
        rows.setdefault(record["of"], []).append(row)
    return plain_graph(schema, rows), file.source, json.loads(file.sections["params"])


def _without_nulls(row: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in row.items() if value is not None}


def _render(value: object) -> str:
    assert isinstance(value, date)
    return value.isoformat()


def _parse(value: object, type: PropertyType) -> Value:
    if isinstance(value, list):
        return tuple(_parse(each, type.list_element) for each in value)
    assert value is None or isinstance(value, bool | int | float | str)
    if isinstance(value, str) and type.element is Scalar.DATE:
        return date.fromisoformat(value)
    if isinstance(value, str) and type.element is Scalar.DATETIME:
        return datetime.fromisoformat(value)
    return value
