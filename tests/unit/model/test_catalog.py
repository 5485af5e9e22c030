"""The catalog's methods, and constraints as text."""

import pytest

from omnigraph.model.catalog import Check, Constraint, Index, Key, Range, Unique
from omnigraph.model.catalog import describe_constraint as describe
from tests.support.schemas import FLEET, compile_text


@pytest.mark.parametrize(
    ("constraint", "written"),
    [
        (Key(("a", "b")), "@key(a, b)"),
        (Unique(("a",)), "@unique(a)"),
        (Index(("a",)), "@index(a)"),
        (Range("a", 0, None), "@range(a, 0..)"),
        (Range("a", None, 1.5), "@range(a, ..1.5)"),
        (Range("a", -1e-7, 1e22), "@range(a, -0.0000001..10000000000000000000000.0)"),
        (Check("a", '\\d"\n'), r'@check(a, "\\d\"\n")'),
    ],
)
def test_a_constraint_is_described_as_one_writes_it(constraint: Constraint, written: str) -> None:
    assert describe(constraint) == written


@pytest.mark.parametrize("spelling", ["Flies", "flies", "fLIES"])
def test_an_edge_type_is_found_whatever_the_case_of_its_letters(spelling: str) -> None:
    catalog = compile_text(FLEET)

    assert catalog.find_edge(spelling) is catalog.edges["Flies"]
    assert catalog.find_edge("Fly") is None


def test_the_edges_of_a_node_type_start_or_end_there() -> None:
    catalog = compile_text(FLEET)

    assert [edge.name for edge in catalog.incident_edges("Pilot")] == ["Flies", "Mentors"]
    assert [edge.name for edge in catalog.incident_edges("Ship")] == ["Flies"]


def test_an_embedding_names_its_source_and_model() -> None:
    catalog = compile_text(
        'node Memo { text: String  v: Vector(2) @embed(text, model="mini")  w: Vector(2) }'
    )

    properties = catalog.nodes["Memo"].properties
    embedding = properties["v"].embedding
    assert embedding is not None
    assert (embedding.source, embedding.model) == ("text", "mini")
    assert properties["w"].embedding is None
