"""Names of the present, followed from an earlier schema to now."""

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.state.history import NameChange
from omnigraph.engine.state.renames import (
    PresentName,
    SchemaChange,
    also_known_as,
    trace_names,
)
from omnigraph.model.catalog import Catalog, TypeKind
from omnigraph.model.source import Source


def catalog(text: str) -> Catalog:
    return compile_schema(Source("schema.pg", text))


def renamed(kind: str, old: str, new: str) -> NameChange:
    return NameChange(kind, new, None, old)


THEN = catalog("node A { k: String @key  x: I32? } edge Knows: A -> A")
NOW = catalog("node B { k: String @key  y: I32? } edge Likes: B -> B")


def test_names_are_followed_through_every_change() -> None:
    changes = [
        SchemaChange(2, (renamed("node", "A", "M"), NameChange("node", "M", "w", "x"))),
        SchemaChange(3, (renamed("node", "M", "B"), renamed("edge", "Knows", "Likes"))),
        SchemaChange(4, (NameChange("node", "B", "y", "w"),)),
    ]

    names = trace_names(THEN, NOW, changes)

    assert names == {
        PresentName(TypeKind.NODE, "A", None, "B"),
        PresentName(TypeKind.NODE, "A", "x", "y"),
        PresentName(TypeKind.EDGE, "Knows", None, "Likes"),
    }


def test_nothing_is_followed_across_a_change_without_a_record() -> None:
    changes = [
        SchemaChange(2, None),
        SchemaChange(3, (renamed("node", "A", "B"), renamed("edge", "Knows", "Likes"))),
    ]

    assert trace_names(THEN, NOW, changes) == frozenset()


def test_a_name_that_was_given_to_another_type_is_followed_no_further() -> None:
    changes = [
        SchemaChange(2, (NameChange("node", "A", None, None),)),
        SchemaChange(3, (renamed("node", "A", "B"),)),
    ]

    assert trace_names(THEN, NOW, changes) == frozenset()


def test_a_catalog_lists_what_it_finds_by_other_names_once() -> None:
    names = trace_names(
        THEN,
        NOW,
        [SchemaChange(2, (renamed("node", "A", "B"), renamed("edge", "Knows", "Likes")))],
    )

    known = also_known_as(THEN, names)

    assert (list(known.nodes), list(known.edges)) == (["A"], ["Knows"])
    assert known.nodes["B"] == known.nodes["A"]
    assert "B" in known.nodes
    assert known.nodes.get("C") is None
    for spelling in ("Likes", "likes", "LIKES", "knows"):
        edge = known.find_edge(spelling)
        assert edge is not None
        assert edge.name == "Knows"


def test_a_name_of_the_earlier_schema_keeps_its_meaning() -> None:
    then = catalog("node A { k: String @key  x: I32?  y: I32? } node B { k: String @key }")
    names = [
        PresentName(TypeKind.NODE, "A", None, "B"),
        PresentName(TypeKind.NODE, "A", "x", "y"),
    ]

    known = also_known_as(then, names)

    assert known.nodes["B"].name == "B"
    assert known.nodes["A"].properties["y"].name == "y"


def test_an_edge_keeps_its_name_in_every_spelling() -> None:
    then = catalog("node A { k: String @key } edge Knows: A -> A edge Likes: A -> A")

    known = also_known_as(then, [PresentName(TypeKind.EDGE, "Knows", None, "likes")])

    found = known.find_edge("likes")
    assert found is not None
    assert found.name == "Likes"
