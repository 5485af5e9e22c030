"""Creates the inputs of the pipeline: an empty graph, and a folder with one file of contacts."""

import sys
from pathlib import Path

import omnigraph

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
CONTACTS = """\
{"name": "Ann", "age": 34, "friends": ["Bob", "Cyd"]}
{"name": "Bob", "age": 19, "friends": ["Cyd"]}
{"name": "Cyd", "age": 51}
"""


def prepare(home: Path) -> omnigraph.Graph:
    """Create the graph and the input folder in a new folder."""
    incoming = home / "incoming"
    incoming.mkdir(parents=True)
    (incoming / "first.json").write_text(CONTACTS, encoding="utf-8")
    return omnigraph.init(home / "graph", SCHEMA)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
