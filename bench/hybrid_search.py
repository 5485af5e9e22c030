"""The cost and the recall of a hybrid search.

Vector and text rankings are fused, among documents that pass a filter and whose author, one hop
away, passes another. The reference implementation scans every document with numpy and counts words
in plain Python; it shares only the analyzer with OmniGraph. Bare pylance searches its vector index
and its text index of the same documents, without the hop and without rank fusion.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import lance

import omnigraph
from bench.support.documents import AUTHORS, DIMENSION, DOCUMENTS, SCHEMA, Request, make_library
from bench.support.reference_search import ReferenceSearch
from bench.support.tables import milliseconds, print_table
from bench.support.timing import measure

QUERY = """
query search($words: String, $vector: Vector(128), $country: String, $year: I32) {
  match {
    $d: Document
    $d.year >= $year
    $d writtenBy $a
    $a.country = $country
  }
  return { $d.title as title, $a.name as author }
  order { rrf(nearest($d.vector, $vector), bm25($d.text, $words)) }
  limit 10
}
"""
REQUESTS = 20
ROUNDS = 5
GOAL_SECONDS = 0.05
GOAL_RECALL = 0.95


def main() -> None:
    """Run every request with OmniGraph, the reference implementation and bare pylance."""
    library = make_library(REQUESTS)
    reference = ReferenceSearch(library)
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(folder, SCHEMA)
        graph.load(library.rows, mode="append")
        graph.ensure_indices()
        bare = lance.dataset(graph.tables()["node:Document"].path)
        requests = library.requests
        start = perf_counter()
        _search(graph, requests[0])
        cold = perf_counter() - start
        recall = fmean(_recall(_search(graph, each), reference.best(each)) for each in requests)
        timings = measure(
            {
                "omnigraph": lambda: [_search(graph, each) for each in requests],
                "bare pylance": lambda: _search_bare(bare, requests),
                "exhaustive scan": lambda: [reference.best(each) for each in requests],
            },
            rounds=ROUNDS,
            warmup_rounds=1,
            clock=perf_counter,
        )
        slowest = max(_fastest(graph, request) for request in requests)
    print(
        f"{DOCUMENTS:,} documents of about 50 words with vectors of {DIMENSION}, {AUTHORS:,} "
        f"authors; {REQUESTS} requests in {ROUNDS} rounds, wall time of one request.\n"
    )
    print_table(
        ["search", "fastest round", "median"],
        [
            [name, milliseconds(each.fastest / REQUESTS), milliseconds(each.median / REQUESTS)]
            for name, each in timings.items()
        ],
    )
    print(f"The first request took {milliseconds(cold)}, the slowest warm one", end=" ")
    print(f"{milliseconds(slowest)}.")
    warm = timings["omnigraph"].fastest / REQUESTS
    print(
        f"Goal: under {milliseconds(GOAL_SECONDS)} warm — {_outcome(is_met=warm < GOAL_SECONDS)}."
    )
    print(f"Goal: recall@10 of at least {GOAL_RECALL}: {recall:.3f} — ", end="")
    print(f"{_outcome(is_met=recall >= GOAL_RECALL)}.\n")


def _search(graph: omnigraph.Graph, request: Request) -> list[object]:
    params = {
        "words": request.words,
        "vector": request.vector.tolist(),
        "country": request.country,
        "year": request.year,
    }
    return [row["title"] for row in graph.query(QUERY, params)]


def _search_bare(documents: lance.LanceDataset, requests: Sequence[Request]) -> None:
    for request in requests:
        _find_bare(documents, request)


def _find_bare(documents: lance.LanceDataset, request: Request) -> None:
    condition = f"year >= {request.year}"
    near = {"column": "vector", "q": request.vector, "k": 10, "nprobes": 20, "refine_factor": 5}
    documents.to_table(
        columns=["title", "_distance"], filter=condition, prefilter=True, nearest=near
    )
    documents.to_table(
        columns=["title", "_score"],
        filter=condition,
        prefilter=True,
        full_text_query=request.words,
        limit=100,
    )


def _fastest(graph: omnigraph.Graph, request: Request) -> float:
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        _search(graph, request)
        times.append(perf_counter() - start)
    return min(times)


def _recall(found: Sequence[object], exact: Sequence[str]) -> float:
    return len(set(found) & set(exact)) / len(exact)


def _outcome(*, is_met: bool) -> str:
    return "met" if is_met else "MISSED"


if __name__ == "__main__":
    main()
