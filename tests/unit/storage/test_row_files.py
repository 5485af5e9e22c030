"""Which columns a type has, and of which Arrow types."""

import pyarrow as pa
import pytest

from omnigraph.model.types import PropertyType, Scalar, Vector
from omnigraph.storage.row_files import arrow_type, table_schema
from tests.support.schemas import compile_text

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  born: Date?
  tags: [String]?
  embedding: Vector(3)?
  photo: Blob?
  seen: DateTime
  mood: enum(happy, sad)?
}
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Person
"""


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (Scalar.STRING, pa.string()),
        (Scalar.BLOB, pa.large_binary()),
        (Scalar.BOOL, pa.bool_()),
        (Scalar.I32, pa.int32()),
        (Scalar.I64, pa.int64()),
        (Scalar.U32, pa.uint32()),
        (Scalar.U64, pa.uint64()),
        (Scalar.F32, pa.float32()),
        (Scalar.F64, pa.float64()),
        (Scalar.DATETIME, pa.timestamp("ms", tz="UTC")),
        (Scalar.DATE, pa.date32()),
    ],
)
def test_a_scalar_has_the_arrow_type_of_its_name(scalar: Scalar, expected: pa.DataType) -> None:
    assert arrow_type(PropertyType(scalar)) == expected


@pytest.mark.parametrize("scalar", [scalar for scalar in Scalar if scalar is not Scalar.BLOB])
def test_a_list_has_elements_that_may_be_null(scalar: Scalar) -> None:
    listed = arrow_type(PropertyType(scalar, is_list=True))

    assert listed == pa.list_(pa.field("item", arrow_type(PropertyType(scalar)), nullable=True))


def test_a_vector_has_a_fixed_number_of_floats() -> None:
    vector = arrow_type(PropertyType(Vector(3)))

    assert vector == pa.list_(pa.field("item", pa.float32(), nullable=True), 3)


def test_an_enum_is_text() -> None:
    assert arrow_type(PropertyType(Scalar.STRING, enum_values=("a", "b"))) == pa.string()


def test_a_node_has_its_id_and_then_its_properties_by_name() -> None:
    person = compile_text(SCHEMA).nodes["Person"]

    schema = table_schema(person)

    assert schema.names == [
        "id",
        "age",
        "born",
        "embedding",
        "mood",
        "name",
        "photo",
        "seen",
        "tags",
    ]
    assert [field.name for field in schema if not field.nullable] == ["id", "name", "seen"]


def test_an_edge_has_its_endpoints_behind_its_id() -> None:
    edges = compile_text(SCHEMA).edges

    assert table_schema(edges["Knows"]).names == ["id", "src", "dst", "since"]
    assert table_schema(edges["Likes"]).names == ["id", "src", "dst"]
    assert not any(field.nullable for field in table_schema(edges["Likes"]))


def test_the_order_of_declarations_does_not_matter() -> None:
    one = compile_text("node N { a: String  b: I32? }").nodes["N"]
    other = compile_text("node N { b: I32?  a: String }").nodes["N"]

    assert table_schema(one) == table_schema(other)
