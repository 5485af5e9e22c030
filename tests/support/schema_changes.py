"""Changes of a schema for tests: one graph of people and companies, and what it may become.

People stay as they are in all of them, so that a graph takes the same write before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph import Graph
from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.state.schema_files import FILES, STAGED_FILE, encode_schema_files
from omnigraph.model.source import Source
from omnigraph.storage.local_files import LOCKS_FOLDER
from tests.support.graphs import build_graph, edge, node, root_of

PEOPLE = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""
COMPANY = "node Company { name: String @key  city: String?  size: I32? }"
NOTE = "node Note { title: String @key }"
WORKS_AT = "edge WorksAt: Person -> Company { role: String? }"

OFFICE = "\n".join([PEOPLE, COMPANY, NOTE, WORKS_AT])
"""The schema that the changes start from."""

FIRM = (
    'node Firm @rename_from("Company") { name: String @key  city: String?  size: I32? }\n'
    "edge WorksAt: Person -> Firm { role: String? }"
)


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A schema to apply, and whether what it drops goes for good."""

    schema: str
    is_final: bool

    def apply(self, graph: Graph) -> object:
        """Apply it."""
        return graph.apply_schema(self.schema, allow_data_loss=self.is_final)


def office_with(company: str) -> str:
    """The schema with another declaration of companies."""
    return "\n".join([PEOPLE, company, NOTE, WORKS_AT])


ALL_AT_ONCE = "\n".join(
    [
        PEOPLE,
        'node Firm @rename_from("Company") { name: String @key  web: String?',
        '  town: String? @rename_from("city") }',
        "node Pet { name: String @key }",
        'edge Serves: Person -> Firm @rename_from("WorksAt") { role: String? }',
        "edge Owns: Person -> Pet",
    ]
)

CHANGES: Mapping[str, SchemaChange] = {
    "a new type": SchemaChange(f"{OFFICE}\nnode Pet {{ name: String @key }}", is_final=False),
    "a new property": SchemaChange(
        office_with("node Company { name: String @key  city: String?  size: I32?  web: String? }"),
        is_final=False,
    ),
    "a description": SchemaChange(
        office_with(
            'node Company @description("Who pays") { name: String @key  city: String?  size: I32? }'
        ),
        is_final=False,
    ),
    "a renamed type": SchemaChange("\n".join([PEOPLE, FIRM, NOTE]), is_final=False),
    "a renamed property": SchemaChange(
        office_with(
            'node Company { name: String @key  town: String? @rename_from("city")  size: I32? }'
        ),
        is_final=False,
    ),
    "a dropped property": SchemaChange(
        office_with("node Company { name: String @key  size: I32? }"), is_final=False
    ),
    "a property dropped for good": SchemaChange(
        office_with("node Company { name: String @key  size: I32? }"), is_final=True
    ),
    "a dropped type": SchemaChange("\n".join([PEOPLE, COMPANY, WORKS_AT]), is_final=False),
    "a type dropped for good": SchemaChange("\n".join([PEOPLE, COMPANY, WORKS_AT]), is_final=True),
    "all at once": SchemaChange(ALL_AT_ONCE, is_final=True),
}


KEEPING: Mapping[str, SchemaChange] = {
    name: change if not change.is_final else replace(change, is_final=False)
    for name, change in CHANGES.items()
    if "for good" not in name
}
"""The changes after which all rows of earlier commits can still be read."""


def office(path: Path) -> Graph:
    """Two people, two companies that employ them, and a note."""
    return build_graph(
        path,
        OFFICE,
        node("Person", name="Alice", age=30),
        node("Person", name="Bob", age=25),
        node("Company", name="Acme", city="Bern", size=7),
        node("Company", name="Globex", city=None, size=9),
        node("Note", title="n1"),
        edge("Knows", "Alice", "Bob"),
        edge("WorksAt", "Alice", "Acme", role="cook"),
        edge("WorksAt", "Bob", "Globex"),
    )


def renamed_office(path: Path) -> Graph:
    """The same after its companies were renamed, so that the old name has had versions."""
    graph = office(path)
    CHANGES["a renamed type"].apply(graph)
    return graph


RENAMED_BACK = SchemaChange(
    "\n".join(
        [
            PEOPLE,
            'node Company @rename_from("Firm") { name: String @key  city: String?  size: I32? }',
            NOTE,
            WORKS_AT,
        ]
    ),
    is_final=False,
)


def require_files(graph: Graph) -> None:
    """Fail unless the files at the root are those of the schema that the graph says it has."""
    root, source = root_of(graph), graph.schema_source
    expected = encode_schema_files(source, compile_schema(Source("<schema>", source)))
    assert {name: (root / name).read_bytes() for name in FILES} == expected
    assert not (root / STAGED_FILE).exists(), "a schema is still staged"


@contextmanager
def bytes_untouched(root: Path) -> Iterator[None]:
    """Fail if the block adds, removes or changes a file; a queued writer may add its ticket."""
    before = _read_files(root)
    yield
    assert _read_files(root) == before


def _read_files(root: Path) -> Mapping[Path, bytes]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if LOCKS_FOLDER not in path.parts}
