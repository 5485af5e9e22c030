"""Indexed nearest-neighbour search in a large type: time, memory and recall, beside bare Lance.

Bare pylance searches the same index with as many partitions and exact comparisons. The exact
neighbours are computed while the vectors are generated. A child process stores the graph, so the
memory of this process is that of its queries. The arguments are the number of vectors and their
dimension.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import omnigraph
from bench.support.memory import measure_resident, reset_peak
from bench.support.tables import milliseconds, print_table
from bench.support.timing import measure
from omnigraph.model.limits import NEAREST_PROBES, NEAREST_SPARE, NEAREST_SPARE_MIN

ROWS, DIMENSION = 200_000, 128
BLOCK_ROWS = 50_000
SUBJECTS, NOISE = 1_000, 0.5
REQUESTS, WANTED = 20, 10
ROUNDS, COMMITS = 7, 7
RECALL_MIN = 0.95

Matrix = npt.NDArray[np.float32]


def main(row_count: int, dimension: int) -> None:
    """Store the vectors, then run every request with OmniGraph and with bare pylance."""
    with TemporaryDirectory() as folder:
        child = get_context("spawn").Process(target=_store, args=(folder, row_count, dimension))
        start = perf_counter()
        child.start()
        child.join()
        assert child.exitcode == 0, "the process that stores the graph failed"
        stored = perf_counter() - start
        requests: Matrix = np.load(f"{folder}/requests.npy")
        nearest = np.load(f"{folder}/nearest.npy")
        _report(folder, row_count, requests, nearest, stored)


def _report(
    folder: str, row_count: int, requests: Matrix, nearest: npt.NDArray[np.int64], stored: float
) -> None:
    dimension = requests.shape[1]
    before = measure_resident().now
    reset_peak()
    start = perf_counter()
    graph = omnigraph.open(f"{folder}/graph")
    _search(graph, requests[0])
    cold = perf_counter() - start
    found = [_search(graph, each) for each in requests]
    memory = measure_resident().peak - before
    hits = [
        len(set(numbers) & set(exact))
        for numbers, exact in zip(found, nearest.tolist(), strict=True)
    ]
    recall = fmean(hits) / WANTED
    start = perf_counter()
    bare = lance.dataset(graph.tables()["node:Document"].path)
    _search_bare(bare, requests[0])
    bare_cold = perf_counter() - start
    timings = measure(
        {
            "omnigraph": lambda: [_search(graph, each) for each in requests],
            "bare pylance": lambda: [_search_bare(bare, each) for each in requests],
        },
        rounds=ROUNDS,
        warmup_rounds=1,
        clock=perf_counter,
    )
    ours, baseline, bytes_after = _search_after_commits(graph, bare, requests)
    start = perf_counter()
    _search(graph, requests[0], effort=", exact")
    exact_seconds = perf_counter() - start
    print(
        f"{row_count:,} vectors of {dimension} numbers ({row_count * dimension * 4 >> 20:,} MiB), "
        f"stored and indexed in {stored:.0f} s; {REQUESTS} requests, wall time of one.\n"
    )
    warm = {name: each.median / REQUESTS for name, each in timings.items()}
    print_table(
        ["search", "omnigraph", "bare pylance"],
        [
            ["cold, including open", milliseconds(cold), milliseconds(bare_cold)],
            ["warm", milliseconds(warm["omnigraph"]), milliseconds(warm["bare pylance"])],
            ["after an inserted row", milliseconds(ours), milliseconds(baseline)],
            ["first exact search", milliseconds(exact_seconds), ""],
        ],
    )
    print(f"Memory of the queries: {memory:,.0f} MiB, after commits {bytes_after:,.0f} MiB.")
    ratio = warm["omnigraph"] / warm["bare pylance"]
    print(
        f"Goal: at most twice bare pylance when warm: {ratio:.2f} — {_outcome(is_met=ratio <= 2)}."
    )
    print(f"Goal: recall@{WANTED} of at least {RECALL_MIN}: {recall:.3f} — ", end="")
    print(f"{_outcome(is_met=recall >= RECALL_MIN)}.")
    bound = 2 * warm["omnigraph"] + 0.005
    print(
        f"Goal: after a commit at most {milliseconds(bound)} — {_outcome(is_met=ours <= bound)}.\n"
    )


def _search_after_commits(
    graph: omnigraph.Graph, bare: lance.LanceDataset, requests: Matrix
) -> tuple[float, float, float]:
    """The median times of the first search after a commit, and the memory of OmniGraph."""
    before = measure_resident().now
    reset_peak()
    ours, baseline = [], []
    insert = (
        f"query add($title: String, $v: Vector({requests.shape[1]})) "
        "{ insert Document { title: $title, number: -1, vector: $v } }"
    )
    for number in range(COMMITS):
        vector = requests[number]
        graph.mutate(insert, {"title": f"new-{number}", "v": vector.tolist()})
        start = perf_counter()
        found = _search(graph, vector)
        ours.append(perf_counter() - start)
        assert found[0] == -1, "the inserted row is found"
        start = perf_counter()
        _search_bare(bare.checkout_version(bare.latest_version), vector)
        baseline.append(perf_counter() - start)
    return median(ours), median(baseline), measure_resident().peak - before


def _search(graph: omnigraph.Graph, vector: Matrix, *, effort: str = "") -> list[int]:
    text = (
        f"query near($v: Vector({len(vector)})) {{ match {{ $d: Document }} "
        f"return {{ $d.number as number }} order {{ nearest($d.vector, $v{effort}) }} "
        f"limit {WANTED} }}"
    )
    return [int(str(row["number"])) for row in graph.query(text, {"v": vector.tolist()}).rows]


def _search_bare(documents: lance.LanceDataset, vector: Matrix) -> pa.Table:
    compared = NEAREST_SPARE * WANTED + NEAREST_SPARE_MIN
    near = {
        "column": "vector",
        "q": vector,
        "k": WANTED,
        "nprobes": NEAREST_PROBES,
        "refine_factor": compared // WANTED,
    }
    return documents.to_table(columns=["number", "_distance"], nearest=near)


# In the child process that stores the graph


def _store(folder: str, row_count: int, dimension: int) -> None:
    random = np.random.default_rng(7)
    centres = random.standard_normal((SUBJECTS, dimension)).astype(np.float32)
    requests = _near(centres, REQUESTS, random)
    graph = omnigraph.init(
        f"{folder}/graph",
        f"node Document {{ title: String @key  number: I64  vector: Vector({dimension}) @index }}",
    )
    numbers, distances = np.zeros((REQUESTS, 0), np.int64), np.zeros((REQUESTS, 0))
    for first, vectors in _blocks(centres, row_count, random):
        graph.load({"Document": _rows(first, vectors)}, mode="append")
        block = np.arange(first, first + len(vectors))
        every = np.stack([np.square(vectors - each).sum(axis=1) for each in requests])
        numbers = np.hstack([numbers, np.broadcast_to(block, every.shape)])
        distances = np.hstack([distances, every])
        best = np.argsort(distances, axis=1, kind="stable")[:, :WANTED]
        numbers = np.take_along_axis(numbers, best, 1)
        distances = np.take_along_axis(distances, best, 1)
    graph.ensure_indices()
    np.save(f"{folder}/requests.npy", requests)
    np.save(f"{folder}/nearest.npy", numbers)


def _blocks(
    centres: Matrix, row_count: int, random: np.random.Generator
) -> Iterator[tuple[int, Matrix]]:
    for first in range(0, row_count, BLOCK_ROWS):
        yield first, _near(centres, min(BLOCK_ROWS, row_count - first), random)


def _near(centres: Matrix, count: int, random: np.random.Generator) -> Matrix:
    chosen = centres[random.integers(0, len(centres), count)]
    noise = random.standard_normal(chosen.shape, dtype=np.float32)
    return chosen + np.float32(NOISE) * noise


def _rows(first: int, vectors: Matrix) -> pa.Table:
    numbers = range(first, first + len(vectors))
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    titles = [f"document-{number:07}" for number in numbers]
    return pa.table({"title": titles, "number": pa.array(numbers, pa.int64()), "vector": column})


def _outcome(*, is_met: bool) -> str:
    return "met" if is_met else "MISSED"


if __name__ == "__main__":
    arguments = [int(each) for each in sys.argv[1:]]
    main(*arguments, *(ROWS, DIMENSION)[len(arguments) :])
