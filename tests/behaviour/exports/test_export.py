"""The contents of an export: which rows, in which order, in which encoding, of which commit."""

from datetime import date
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from omnigraph.engine.ops.export import export
from omnigraph.engine.rows.values import column_of
from omnigraph.engine.state.manifest import Entry, Snapshot, table_key_of
from omnigraph.errors import InvalidValueError, NotFoundError
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.names import MAIN
from omnigraph.model.types import STRING
from omnigraph.storage.lance.tables import LanceTables
from tests.support.schemas import compile_text

CATALOG = compile_text("""
node Person { name: String @key  born: Date?  photo: Blob?  score: F64? }
node Knows  { name: String @key }
edge Knows: Person -> Person
""")
PERSON, TOPIC, KNOWS = CATALOG.nodes["Person"], CATALOG.nodes["Knows"], CATALOG.edges["Knows"]

ANN = (
    '{"type":"Person","data":{"id":"Ann","born":"1970-01-01","name":"Ann",'
    '"photo":"base64:AQ==","score":0.1}}'
)
BOB = '{"type":"Person","data":{"id":"Bob","born":null,"name":"Bob","photo":null,"score":null}}'
ANN_KNOWS_BOB = '{"edge":"Knows","from":"Ann","to":"Bob","data":{"id":"e1"}}'
MUSIC = '{"type":"Knows","data":{"id":"music","name":"music"}}'


class Exporting:
    """Tables that are filled directly, and a snapshot of them."""

    def __init__(self, folder: Path) -> None:
        self.tables = LanceTables(str(folder), storage_options={}, is_local=True, is_durable=False)
        self.entries: dict[str, Entry] = {}

    def put(self, declared: NodeType | EdgeType, **columns: pa.Array) -> None:
        """Create the table of a type with these columns."""
        key = table_key_of(declared)
        path = key.replace(":", "/")
        at = self.tables.create(path, pa.table(columns), config={})
        self.entries[key] = Entry(key, path, at.version, None, 0)

    def export(self, types: list[str] | None = None, *, catalog: Catalog = CATALOG) -> list[str]:
        snapshot = Snapshot(MAIN, 1, self.entries)
        return list(export(snapshot, catalog=catalog, tables=self.tables, types=types))


def filled(folder: Path) -> Exporting:
    """Bob and Ann, in this order, who knows him, and music, which is called Knows as well."""
    graph = Exporting(folder)
    names = pa.array(["Bob", "Ann"])
    properties = PERSON.properties
    graph.put(
        PERSON,
        id=names,
        born=column_of([None, date(1970, 1, 1)], properties["born"].type, subject="born"),
        name=names,
        photo=column_of([None, "base64:AQ=="], properties["photo"].type, subject="photo"),
        score=pa.array([None, 0.1]),
    )
    graph.put(KNOWS, id=pa.array(["e1"]), src=pa.array(["Ann"]), dst=pa.array(["Bob"]))
    graph.put(TOPIC, id=pa.array(["music"]), name=pa.array(["music"]))
    return graph


def test_edges_come_before_nodes_and_rows_in_the_order_of_their_ids(tmp_path: Path) -> None:
    graph = filled(tmp_path)

    assert graph.export() == [ANN_KNOWS_BOB, MUSIC, ANN, BOB]


def test_only_the_types_that_are_named_are_exported(tmp_path: Path) -> None:
    graph = filled(tmp_path)

    assert graph.export(["Person"]) == [ANN, BOB]
    assert graph.export([]) == []


def test_a_name_that_is_a_node_type_and_an_edge_type_exports_both(tmp_path: Path) -> None:
    graph = filled(tmp_path)

    assert graph.export(["Knows", "Knows"]) == [ANN_KNOWS_BOB, MUSIC]


def test_an_unknown_type_is_refused_before_the_first_line(tmp_path: Path) -> None:
    graph = filled(tmp_path)

    with pytest.raises(NotFoundError, match="type 'Persn' not found; did you mean `Person`"):
        export(
            Snapshot(MAIN, 1, graph.entries),
            catalog=CATALOG,
            tables=graph.tables,
            types=["Person", "Persn"],
        )


def test_a_type_and_a_property_that_came_later_are_empty(tmp_path: Path) -> None:
    graph = filled(tmp_path)
    later = compile_text("""
    node Person { name: String @key  born: Date?  city: String?  photo: Blob?  score: F64? }
    node City   { name: String @key }
    """)

    lines = graph.export(catalog=later)

    contents = [orjson.loads(line)["data"] for line in lines]
    assert [(each["id"], each["city"]) for each in contents] == [("Ann", None), ("Bob", None)]


def test_a_number_without_a_json_form_is_reported_with_its_position(tmp_path: Path) -> None:
    graph = Exporting(tmp_path)
    ids = column_of(["Ann", "Bob"], STRING, subject="id")
    graph.put(PERSON, id=ids, name=ids, score=pa.array([1.0, float("inf")]))

    with pytest.raises(InvalidValueError, match="Person 'Bob', property 'score': inf") as caught:
        graph.export()

    assert caught.value.type == "F64?"
