"""A generated graph of any size: loaded, queried and analysed on Spark, with what memory there is.

What comes out must be what numpy makes of the generated files. Memory is that of this process and
of all that it starts, Java and Python workers, with shared pages shared out; a thread looks at it
from time to time. Run as a program with the number of edges.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import omnigraph
import omnigraph.spark
from bench.support.big_graph import SCHEMA, BigGraph, write_big_graph

TWO_HOPS = """query two_hops() {
  match { $a: Person  $a $_:follows $b  $b $_:follows $c }
  return { count(*) as n }
}"""
KINDS = """query kinds() {
  match { $a: Person  $a $w:follows $b }
  return { $w.kind as kind, count(*) as n }
}"""
LOOK_S = 1.0

Findings = Mapping[str, object]
"""What is true of a graph, whichever engine computes it."""


def main() -> None:
    """Do everything with a graph of as many edges as the argument says."""
    with tempfile.TemporaryDirectory(prefix="soak-big-") as folder:
        soak_big(Path(folder), edges=int(sys.argv[1]))


def soak_big(folder: Path, *, edges: int) -> None:
    """Write, load, query and analyse a graph; fail unless the findings are those of the files."""
    with watched() as watch:
        with watch.step("write files"):
            big = write_big_graph(folder / "files", edges=edges)
        with watch.step("reckon with numpy"):
            expected = reckon(big)
        with omnigraph.spark.session() as spark:
            graph = omnigraph.init(folder / "graph", SCHEMA)
            with watch.step("load"):
                done = graph.load(big.files, mode="append", engine="spark", spark=spark)
            assert (done.nodes_loaded, done.edges_loaded) == (
                {"Person": big.persons},
                {"Follows": edges},
            )
            found = _query(graph, spark, watch)
    wrong = [name for name, each in expected.items() if found[name] != each]
    assert not wrong, f"the graph and its files differ in {wrong}"
    sys.stdout.write(
        f"{edges:,} edges: all is as the files say; at most {watch.peak_mib:,.0f} MiB "
        f"of {_machine_mib():,.0f} MiB\n"
    )


# What the files say, and what the graph says


def reckon(big: BigGraph) -> Findings:
    """What numpy finds in the files."""
    sources: list[npt.NDArray[np.int32]] = []
    targets: list[npt.NDArray[np.int32]] = []
    kinds: list[pa.Array] = []
    for path in big.files["Follows"]:
        rows = pq.read_table(path, columns=["src", "dst", "kind"])
        for ends, name in ((sources, "src"), (targets, "dst")):
            ends.append(np.asarray(pc.utf8_slice_codeunits(rows[name], 1).cast(pa.int32())))
        kinds.append(rows["kind"].combine_chunks().dictionary_encode())
    source, target = np.concatenate(sources), np.concatenate(targets)
    outgoing = np.bincount(source, minlength=big.persons)
    incoming = np.bincount(target, minlength=big.persons)
    counted = pa.chunked_array(kinds).unify_dictionaries().cast(pa.string()).value_counts()
    ones = np.ones(len(source), np.int8)
    matrix = coo_array((ones, (source, target)), shape=(big.persons, big.persons))
    component_count, _ = connected_components(matrix, directed=False)
    return {
        "two hops": int(incoming @ outgoing),
        "kinds": {each["values"]: each["counts"] for each in counted.to_pylist()},
        "followers": incoming.tolist(),
        "components": int(component_count),
    }


def _query(graph: omnigraph.Graph, spark: SparkSession, watch: Watch) -> Findings:
    """What queries and algorithms on Spark find in the graph."""
    with watch.step("count two hops"):
        (counted,) = graph.query(TWO_HOPS, engine="spark", spark=spark).rows
    with watch.step("count kinds of edges"):
        kinds = graph.query(KINDS, engine="spark", spark=spark).rows
    algorithms = graph.algorithms("Follows", engine="spark", spark=spark)
    with watch.step("degrees"):
        degrees = algorithms.degrees().to_arrow().sort_by("id")
    with watch.step("connected components"):
        components = algorithms.connected_components().to_arrow()
    return {
        "two hops": counted["n"],
        "kinds": {each["kind"]: each["n"] for each in kinds},
        "followers": degrees["in_degree"].to_pylist(),
        "components": len(pc.unique(components["component"])),
    }


# Memory


class Watch:
    """Reports what each step took, and the peak memory so far."""

    def __init__(self) -> None:
        self.peak_mib = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a block."""
        start = time.monotonic()
        yield
        seconds = time.monotonic() - start
        sys.stdout.write(f"{name}: {seconds:,.1f} s, so far {self.peak_mib:,.0f} MiB\n")
        sys.stdout.flush()

    def look(self) -> None:
        """Measure what is held now."""
        self.peak_mib = max(self.peak_mib, sum(map(_held_mib, _family(os.getpid()))))


@contextmanager
def watched() -> Iterator[Watch]:
    """A watch that looks from time to time until the block ends."""
    watch, over = Watch(), Event()

    def look_on() -> None:
        while not over.wait(LOOK_S):
            watch.look()

    looking = Thread(target=look_on, daemon=True)
    looking.start()
    try:
        yield watch
    finally:
        over.set()
        looking.join()


def _family(process_id: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # The name of a program may hold anything, and ends with the last bracket.
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    family = [process_id]
    for each in family:
        family.extend(children.get(each, ()))
    return family


def _held_mib(process_id: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for line in Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "Pss":
                return int(rest.split()[0]) / 1024
    return 0.0


def _machine_mib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20


if __name__ == "__main__":
    main()
