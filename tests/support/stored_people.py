"""The people of fixture F as files and as a stored graph, for tests of command lines."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.graphs import SOCIAL, SOCIAL_RECORDS, Record, social_graph

QUERIES = """
query get_person($name: String) {
    match { $p: Person { name: $name } }
    return { $p.name, $p.age }
}
query all_people() {
    match { $p: Person }
    return { $p.name, $p.age }
    order { $p.name }
}
"""
ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"


def store_people(folder: Path) -> Path:
    """The place of a graph of fixture F."""
    social_graph(folder / "graph").close()
    return folder / "graph"


def write_text(folder: Path, name: str, text: str) -> Path:
    """A new file with a text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def write_queries(folder: Path) -> Path:
    """A file of two reads."""
    return write_text(folder, "queries.gq", QUERIES)


def write_schema(folder: Path) -> Path:
    """The schema of fixture F."""
    return write_text(folder, "schema.pg", SOCIAL)


def write_rows(folder: Path, *records: Record) -> Path:
    """A file of records; without any, those of fixture F."""
    lines = (f"{json.dumps(record)}\n" for record in records or SOCIAL_RECORDS)
    return write_text(folder, "rows.jsonl", "".join(lines))
