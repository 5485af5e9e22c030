"""A made-up network of any size, written straight to Parquet: who follows whom, and since when.

Rows are drawn by columns, a portion at a time, so memory does not grow with the edges, and twenty
million of them take well under a minute. The same size gives the same rows each time. Some persons
are followed far more than others: of a million, the first about a thousand times the average.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

EDGES_EACH = 10
PORTION_ROWS = 1_000_000
CITIES = 500
KINDS = ("friend", "colleague", "fan", "family", "bot")
SCHEMA = f"""
node Person {{ name: String @key  age: I32  score: F64  joined: Date  city: String }}
edge Follows: Person -> Person {{
  since: Date  weight: F64  strength: I32  kind: enum({", ".join(KINDS)})
}}
"""

_SEED = 7
_FIRST_DAY, _LAST_DAY = 10_957, 20_453
"""Days since 1970, as dates are counted: from 2000 to 2025."""

Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class BigGraph:
    """The files of so many persons and of the edges between them."""

    folder: Path
    edges: int

    @property
    def persons(self) -> int:
        """How many persons there are for so many edges."""
        return max(1, self.edges // EDGES_EACH)

    @property
    def files(self) -> Mapping[str, list[str]]:
        """The files of each type, as a load takes them."""
        return {
            name: sorted(str(path) for path in (self.folder / name).glob("*.parquet"))
            for name in ("Person", "Follows")
        }


def write_big_graph(folder: Path, *, edges: int) -> BigGraph:
    """Write the files of a network with so many edges, and a tenth as many persons."""
    big = BigGraph(folder, edges)
    write_persons(folder, count=big.persons)
    names = _names(big.persons)
    for number, (_, count) in enumerate(_portions(edges)):
        rows = _follows(_random("Follows", number), names, count)
        _write(folder / "Follows", number, rows)
    return big


def write_persons(folder: Path, *, count: int) -> None:
    """Write the files of the persons alone."""
    names = _names(count)
    for number, (start, row_count) in enumerate(_portions(count)):
        rows = _persons(_random("Person", number), names.slice(start, row_count))
        _write(folder / "Person", number, rows)


def _persons(random: Generator, names: pa.Array) -> pa.Table:
    count = len(names)
    return pa.table(
        {
            "name": names,
            "age": pa.array(random.integers(18, 90, count, dtype=np.int32)),
            "score": pa.array(random.random(count)),
            "joined": _days(random, count),
            "city": _choose(random, [f"city-{number}" for number in range(CITIES)], count),
        }
    )


def _follows(random: Generator, names: pa.Array, count: int) -> pa.Table:
    sources = random.integers(0, len(names), count)
    # Squaring draws the lower numbers more often: those are the persons whom many follow.
    targets = (len(names) * random.random(count) ** 2).astype(np.int64)
    return pa.table(
        {
            "src": names.take(pa.array(sources)),
            "dst": names.take(pa.array(targets)),
            "since": _days(random, count),
            "weight": pa.array(random.random(count)),
            "strength": pa.array(random.integers(0, 1_000, count, dtype=np.int32)),
            "kind": _choose(random, KINDS, count),
        }
    )


def _random(name: str, number: int) -> Generator:
    """The chance of one portion, whatever was drawn before it."""
    return np.random.default_rng([_SEED, len(name), number])


def _names(count: int) -> pa.Array:
    digits = pc.utf8_lpad(pa.array(np.arange(count)).cast(pa.string()), 9, "0")
    return pc.binary_join_element_wise("p", digits, "")


def _days(random: Generator, count: int) -> pa.Array:
    days = random.integers(_FIRST_DAY, _LAST_DAY, count, dtype=np.int32)
    return pa.array(days).cast(pa.date32())


def _choose(random: Generator, words: list[str] | tuple[str, ...], count: int) -> pa.Array:
    # Most draws are of the first words, as in most categories.
    places: npt.NDArray[np.int64] = (len(words) * random.random(count) ** 2).astype(np.int64)
    return pa.array(words).take(pa.array(places))


def _portions(rows: int) -> Iterator[tuple[int, int]]:
    """Where each portion begins, and how many rows it has."""
    for start in range(0, rows, PORTION_ROWS):
        yield start, min(PORTION_ROWS, rows - start)


def _write(folder: Path, number: int, rows: pa.Table) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / f"part-{number:05}.parquet")
