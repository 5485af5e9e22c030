"""A generated network of persons as NDJSON files, and the baseline that rewrites them with Spark.

Lines are built by column, so millions of them take seconds. The same size always gives the same
files.
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
    """The files of a network: its persons and whom they know."""

    folder: Path
    persons: int

    @property
    def rows(self) -> int:
        """The number of nodes and edges."""
        return self.persons * (1 + KNOWS_EACH)


def write_network(folder: Path, *, persons: int) -> Network:
    """Write the files of a network to a new folder."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    numbers = np.arange(persons)
    write_persons(folder / "persons.ndjson", numbers, ages=random.integers(0, 100, persons))
    for file_number, part in enumerate(np.array_split(numbers, FILES)):
        count = len(part) * KNOWS_EACH
        lines = _join(
            '{"edge":"Knows","from":"person-',
            _padded(np.repeat(part, KNOWS_EACH)),
            '","to":"person-',
            _padded(random.integers(0, persons, count)),
            '","data":{"since":',
            pa.array(random.integers(1990, 2026, count)).cast(pa.string()),
            "}}\n",
        )
        _write(folder / f"knows-{file_number}.ndjson", lines)
    return Network(folder, persons)


def write_persons(path: Path, numbers: Numbers, *, ages: Numbers) -> None:
    """Write a file of the persons with these numbers."""
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
    """Read the files with a schema and write them as Parquet with Spark, without any checks."""
    for name, schema in (("persons", _PERSON), ("knows", _KNOWS)):
        lines = spark.read.schema(schema).json(f"{network.folder}/{name}*.ndjson")
        lines.write.parquet(f"{folder}/{name}")


def _padded(numbers: Numbers) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0")


def _join(*parts: pa.Array | str) -> pa.Array:
    # A file may exceed the 2 GiB that 32-bit Arrow offsets address.
    wide = pa.large_string()
    joined = [pa.scalar(each, wide) if isinstance(each, str) else each.cast(wide) for each in parts]
    return pc.binary_join_element_wise(*joined, pa.scalar("", wide))


def _write(path: Path, lines: pa.Array) -> None:
    # All lines are adjacent in one buffer, whose capacity may exceed their total length.
    _, _, texts = lines.buffers()
    path.write_bytes(texts.slice(0, pc.sum(pc.binary_length(lines)).as_py()))
