"""A schema without some properties is a schema, in which nothing names them."""

from __future__ import annotations

from omnigraph.compiler.schema.canonical import format_schema
from omnigraph.engine.row_security.views import hide_properties
from omnigraph.model.catalog import Catalog
from tests.support.schemas import compile_text

SCHEMA = """
interface Named { label: String  nick: String? }
node Person implements Named {
  name: String @key  pay: I32?  bio: String?  face: Vector(2)? @embed("bio")
  @unique(name, pay)  @range(pay, 0..100)  @index(bio)
}
node Desk implements Named { tag: String @key }
edge Knows: Person -> Person { since: I32?  note: String? @index }
"""


def without(**hidden: str) -> Catalog:
    """The schema without one property of some types, by their keys with an underscore."""
    names = {key.replace("_", ":", 1): frozenset({name}) for key, name in hidden.items()}
    return hide_properties(compile_text(SCHEMA), names)


def test_what_is_left_is_a_schema_of_its_own() -> None:
    for reduced in (
        without(node_Person="pay"),
        without(node_Person="bio"),
        without(node_Person="nick", edge_Knows="note"),
        without(node_Desk="label"),
    ):
        assert compile_text(format_schema(reduced)) == reduced


def test_constraints_go_with_the_property_they_name() -> None:
    reduced = without(node_Person="pay").nodes["Person"]

    assert "pay" not in reduced.properties
    assert reduced.key == ("name",)
    assert "pay" not in repr(reduced.constraints)


def test_a_vector_forgets_the_text_it_was_made_of() -> None:
    reduced = without(node_Person="bio").nodes["Person"]

    assert reduced.properties["face"].embedding is None


def test_an_interface_has_what_all_its_types_have() -> None:
    reduced = without(node_Desk="label")

    assert set(reduced.interfaces["Named"].properties) == {"nick"}
    assert "label" in reduced.nodes["Person"].properties


def test_edges_are_found_by_any_spelling_without_what_is_hidden() -> None:
    reduced = without(edge_Knows="note")

    found = reduced.find_edge("knows")

    assert found is reduced.edges["Knows"]
    assert set(found.properties) == {"since"}
