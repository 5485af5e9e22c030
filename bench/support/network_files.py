"""A made-up network of persons as NDJSON files, and the least that Spark could do with them.

Lines are put together by columns, so millions of them take seconds. The same size gives the same
files each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

KNOWS_EACH = 24
CITIES = 500
FILES = 8

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  email: String
  @unique(email)
  @range(age, 0..150)
}
edge Knows: Person -> Person { since: I32? }
"""
_PERSON = "type string, data struct<name:string, age:int, city:string, email:string>"
_KNOWS = "edge string, `from` string, `to` string, data struct<since:int>"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Network:
    """The files of so many persons and of whom they know."""

    folder: Path
    persons: int

    @property
    def rows(self) -> int:
        """How many nodes and edges there are."""
        return self.persons * (1 + KNOWS_EACH)


def write_network(folder: Path, *, persons: int) -> Network:
    """Write the files of a network to a new folder."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    everybody = np.arange(persons)
    write_persons(folder / "persons.ndjson", everybody, ages=random.integers(0, 100, persons))
    for number, some in enumerate(np.array_split(everybody, FILES)):
        count = len(some) * KNOWS_EACH
        lines = _join(
            '{"edge":"Knows","from":"person-',
            _padded(np.repeat(some, KNOWS_EACH)),
            '","to":"person-',
            _padded(random.integers(0, persons, count)),
            '","data":{"since":',
            pa.array(random.integers(1990, 2026, count)).cast(pa.string()),
            "}}\n",
        )
        _write(folder / f"knows-{number}.ndjson", lines)
    return Network(folder, persons)


def write_persons(path: Path, numbers: Numbers, *, ages: Numbers) -> None:
    """Write a file of the persons that have these numbers."""
    names = _padded(numbers)
    lines = _join(
        '{"type":"Person","data":{"name":"person-',
        names,
        '","age":',
        pa.array(ages).cast(pa.string()),
        ',"city":"city-',
        pa.array(numbers % CITIES).cast(pa.string()),
        '","email":"p',
        names,
        '@example.org"}}\n',
    )
    _write(path, lines)


def rewrite_bare(spark: SparkSession, network: Network, folder: Path) -> None:
    """Have Spark read the files by their schema and write them as Parquet, and check nothing."""
    for name, schema in (("persons", _PERSON), ("knows", _KNOWS)):
        lines = spark.read.schema(schema).json(f"{network.folder}/{name}*.ndjson")
        lines.write.parquet(f"{folder}/{name}")


def _padded(numbers: Numbers) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0")


def _join(*parts: pa.Array | str) -> pa.Array:
    # A file may have more bytes than Arrow counts in 31 bits.
    wide = pa.large_string()
    joined = [pa.scalar(each, wide) if isinstance(each, str) else each.cast(wide) for each in parts]
    return pc.binary_join_element_wise(*joined, pa.scalar("", wide))


def _write(path: Path, lines: pa.Array) -> None:
    # The lines of a column lie one after another in one buffer, which may have room for more.
    _, _, texts = lines.buffers()
    path.write_bytes(texts.slice(0, pc.sum(pc.binary_length(lines)).as_py()))
