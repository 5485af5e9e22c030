"""What a hybrid search costs and whether it finds the right documents.

Vectors and words fused by rank, among documents that pass a filter and whose author, one hop away,
passes another. The judge looks at every document with numpy and counts words in plain Python; it
shares the analyzer with us and nothing else. Beside us, bare pylance asks its vector index and its
text index of the same documents, without the hop and without fusing what they find.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

import lance

import omnigraph
from bench.support.documents import AUTHORS, DIMENSION, DOCUMENTS, SCHEMA, Request, make_library
from bench.support.hybrid_judge import Judge
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
    """Ask every request of us, of the judge and of bare pylance."""
    library = make_library(REQUESTS)
    judge = Judge(library)
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(folder, SCHEMA)
        graph.load(library.rows, mode="append")
        graph.ensure_indices()
        bare = lance.dataset(graph.tables()["node:Document"].path)
        requests = library.requests
        start = perf_counter()
        _search(graph, requests[0])
        cold = perf_counter() - start
        recall = fmean(_recall(_search(graph, each), judge.best(each)) for each in requests)
        timings = measure(
            {
                "omnigraph": lambda: [_search(graph, each) for each in requests],
                "bare pylance": lambda: _search_bare(bare, requests),
                "looking at everything": lambda: [judge.best(each) for each in requests],
            },
            rounds=ROUNDS,
            warm_up_rounds=1,
            clock=perf_counter,
        )
        slowest = max(_fastest(graph, request) for request in requests)
    print(
        f"{DOCUMENTS:,} documents of about 50 words with vectors of {DIMENSION}, {AUTHORS:,} "
        f"authors; {REQUESTS} requests in {ROUNDS} rounds, wall time of one request.\n"
    )
    print_table(
        ["what", "fastest round", "median"],
        [
            [name, milliseconds(each.fastest / REQUESTS), milliseconds(each.median / REQUESTS)]
            for name, each in timings.items()
        ],
    )
    print(f"The first request took {milliseconds(cold)}, the slowest when warm", end=" ")
    print(f"{milliseconds(slowest)}.")
    warm = timings["omnigraph"].fastest / REQUESTS
    print(f"Goal: under {milliseconds(GOAL_SECONDS)} warm — {_verdict(warm < GOAL_SECONDS)}.")
    print(f"Goal: recall@10 of at least {GOAL_RECALL}: {recall:.3f} — ", end="")
    print(f"{_verdict(recall >= GOAL_RECALL)}.\n")


def _search(graph: omnigraph.Graph, request: Request) -> list[object]:
    given = {
        "words": request.words,
        "vector": request.vector.tolist(),
        "country": request.country,
        "year": request.year,
    }
    return [row["title"] for row in graph.query(QUERY, given)]


def _search_bare(documents: lance.LanceDataset, requests: Sequence[Request]) -> None:
    for request in requests:
        _find_bare(documents, request)


def _find_bare(documents: lance.LanceDataset, request: Request) -> None:
    only = f"year >= {request.year}"
    near = {"column": "vector", "q": request.vector, "k": 10, "nprobes": 20, "refine_factor": 5}
    documents.to_table(columns=["title", "_distance"], filter=only, prefilter=True, nearest=near)
    documents.to_table(
        columns=["title", "_score"],
        filter=only,
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


def _recall(found: Sequence[object], right: Sequence[str]) -> float:
    return len(set(found) & set(right)) / len(right)


def _verdict(is_met: bool) -> str:  # noqa: FBT001  # a verdict is about nothing else
    return "met" if is_met else "MISSED"


if __name__ == "__main__":
    main()
