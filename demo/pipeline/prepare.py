"""What the pipeline needs: a graph with a schema, and a folder with a first file of contacts."""

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
    """Make the graph and the folder below a new one."""
    incoming = home / "incoming"
    incoming.mkdir(parents=True)
    (incoming / "first.json").write_text(CONTACTS, encoding="utf-8")
    return omnigraph.init(home / "graph", SCHEMA)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
