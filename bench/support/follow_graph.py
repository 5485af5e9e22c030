"""A generated network of persons who follow each other, stored in OmniGraph and in Ladybug.

Both store the same rows. In-degrees are skewed, and some pairs have several edges: Ladybug counts
each of them, so the queries bind the edge to count them too.
"""

from __future__ import annotations

from pathlib import Path

import ladybug
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph

PERSONS = 100_000
FOLLOWS_EACH = 24
CITIES = 500

SCHEMA = """
node Person { name: String @key  age: I32  city: String }
edge Follows: Person -> Person { since: I32 }
"""
LADYBUG_SCHEMA = (
    "CREATE NODE TABLE Person(name STRING PRIMARY KEY, age INT32, city STRING)",
    "CREATE REL TABLE Follows(FROM Person TO Person, since INT32)",
)


def make_rows(person_count: int, follows_each: int = FOLLOWS_EACH) -> dict[str, pa.Table]:
    """Generate the persons and who follows whom; every call returns the same rows."""
    random = np.random.default_rng(7)
    follow_count = person_count * follows_each
    names = pa.array([f"person-{number:06}" for number in range(person_count)])
    cities = pa.array([f"city-{number}" for number in range(CITIES)])
    ages = random.integers(18, 90, person_count)
    home = random.integers(0, CITIES, person_count)
    sources = random.integers(0, person_count, follow_count)
    # Squaring favours low numbers, so the first persons have the most followers.
    targets = (person_count * random.random(follow_count) ** 2).astype(np.int64)
    years = random.integers(2000, 2026, follow_count)
    return {
        "Person": pa.table(
            {"name": names, "age": pa.array(ages, pa.int32()), "city": cities.take(pa.array(home))}
        ),
        "Follows": pa.table(
            {
                "src": names.take(pa.array(sources)),
                "dst": names.take(pa.array(targets)),
                "since": pa.array(years, pa.int32()),
            }
        ),
    }


def store_in_omnigraph(rows: dict[str, pa.Table], path: Path) -> None:
    """Load the rows into a new graph and build its indexes."""
    with omnigraph.init(path, SCHEMA) as graph:
        graph.load(rows, mode="append")
        graph.ensure_indices()


def store_in_ladybug(rows: dict[str, pa.Table], path: Path) -> None:
    """Load the rows into a new Ladybug database with `COPY`, which its manual recommends."""
    database = ladybug.Database(path)
    connection = ladybug.Connection(database)
    for statement in LADYBUG_SCHEMA:
        connection.execute(statement)
    for name, table in rows.items():
        file = path.with_name(f"{name}.parquet")
        pq.write_table(table, file)
        connection.execute(f"COPY {name} FROM '{file}'")
        file.unlink()
    connection.close()
    database.close()
