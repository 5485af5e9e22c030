"""The cost of a commit of one entity compared with bare pylance, and its growth with the history.

Commits of OmniGraph and bare ones alternate, so that load peaks affect both. The bare manifest is
compacted as often as that of OmniGraph, but outside the measured time: only OmniGraph pays for
compaction.
"""

import sys
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

import omnigraph
from bench.support.bare_lance import BareGraph
from bench.support.tables import milliseconds, print_table

SCHEMA = "node Person { name: String @key  age: I32? }"
INSERT = "query add($name: String, $age: I32) { insert Person { name: $name, age: $age } }"
DEPTH = 1_000
EARLY, LATE = range(10, 60), range(950, 1_000)
COMPACT_EVERY = 32
GOAL_RATIO, GOAL_GROWTH = 2.5, 1.2


def main() -> None:
    """Commit a thousand times, alternating with the baseline."""
    ours, bare = [], []
    with TemporaryDirectory() as folder:
        root = Path(folder)
        graph = omnigraph.init(str(root / "graph"), SCHEMA)
        baseline = BareGraph(root, _row(-1))
        for number in range(DEPTH):
            start = perf_counter()
            graph.mutate(INSERT, {"name": f"p{number}", "age": number})
            middle = perf_counter()
            baseline.commit(_row(number))
            ours.append(middle - start)
            bare.append(perf_counter() - middle)
            if number % COMPACT_EVERY == 0:
                baseline.compact_manifest()
    early, late = _ratio(ours, bare, EARLY), _ratio(ours, bare, LATE)
    print(f"{DEPTH} commits of one node, wall time, alternating.\n")
    print_table(
        ["commits", "omnigraph", "mean", "bare pylance", "mean", "ratio of medians"],
        [_line(ours, bare, span) for span in (EARLY, range(280, 330), LATE)],
    )
    print(f"Goal: at most {GOAL_RATIO} times the bare cost — {_outcome(early, GOAL_RATIO)}.")
    print(
        f"Goal: the ratio grows at most {GOAL_GROWTH} times from commit 10 to 1,000: "
        f"{late / early:.2f} — {_outcome(late / early, GOAL_GROWTH)}.\n"
    )


def _row(number: int) -> pa.Table:
    return pa.table(
        {"id": [f"p{number}"], "age": pa.array([number], pa.int32()), "name": [f"p{number}"]}
    )


def _ratio(ours: list[float], bare: list[float], span: range) -> float:
    return median(ours[i] for i in span) / median(bare[i] for i in span)


def _line(ours: list[float], bare: list[float], span: range) -> list[str]:
    return [
        f"{span.start} to {span.stop}",
        milliseconds(median(ours[i] for i in span)),
        milliseconds(fmean(ours[i] for i in span)),
        milliseconds(median(bare[i] for i in span)),
        milliseconds(fmean(bare[i] for i in span)),
        f"{_ratio(ours, bare, span):.2f}",
    ]


def _outcome(found: float, goal: float) -> str:
    return "met" if found <= goal else "MISSED"


if __name__ == "__main__":
    main()
