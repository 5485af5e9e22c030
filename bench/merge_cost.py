"""The cost of merging one changed row, by the size of the target, and of many merges in sequence.

Graphs alternate with each other and with bare Lance, which writes the same row into a table of the
same rows: no branch, comparison, checks, manifest or flush to disk; its merge-insert reads the
whole key column, with or without an index. Each type is in one file, as after a large load. There
are as many edges as nodes, and deleting a node searches all of them. `--quick` uses fewer rows and
samples.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import lance
import numpy as np
import pyarrow as pa

import omnigraph
from bench.support.tables import milliseconds, print_table

SCHEMA = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person"
CHANGES: Mapping[str, str] = {
    "insert": "query q($name: String) { insert Person { name: $name, age: -1 } }",
    "update": "query q($name: String) { update Person set { age: -1 } where name = $name }",
    "delete": "query q($name: String) { delete Person where name = $name }",
}
LANDED_CHANGE = """
query q($new: String, $old: String) {
  insert Person { name: $new }
  update Person set { age: -1 } where name = $old
}
"""
OUTCOMES = ("merged", "fast_forward")
STEPS = ("start", "change", "merge", "delete")
GOAL_RATIO, GOAL_GROWTH = 2.0, 1.5


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers of rows, rounds and merges to measure."""

    few: int
    many: int
    rounds: int
    landings: int
    compared: int


FULL = Scale(few=10_000, many=1_000_000, rounds=11, landings=200, compared=20)
QUICK = Scale(few=10_000, many=100_000, rounds=3, landings=40, compared=8)


@dataclass(slots=True)
class Contest:
    """A graph and a bare table of the same size, and the times of each change on both."""

    size: int
    graph: omnigraph.Graph
    bare: lance.LanceDataset
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)


def main() -> None:
    """Measure one merge by size, and many merges in sequence."""
    parser = ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rows and samples")
    parser.add_argument("--part", choices=("sizes", "landings"), help="only one of the two")
    requested = parser.parse_args()
    scale = QUICK if requested.quick else FULL
    if requested.part != "landings":
        show_sizes(scale)
    if requested.part != "sizes":
        show_landings(scale)


def show_sizes(scale: Scale) -> None:
    """Merge one row, by kind of change, whether the target moved, size and indexes."""
    with TemporaryDirectory() as folder:
        contests = {
            (size, is_indexed): make_contest(
                Path(folder, f"{size}-{is_indexed}"), size=size, is_indexed=is_indexed
            )
            for size, is_indexed in product((scale.few, scale.many), (True, False))
        }
        for number in range(scale.rounds + 1):
            for (at, change), contest in product(enumerate(CHANGES), contests.values()):
                timings = _change_once(contest, change, round_number=number * len(CHANGES) + at)
                # The first round is a warm-up.
                for contender, seconds in timings.items() if number else ():
                    contest.times.setdefault((change, contender), []).append(seconds)
    print(f"One row merged into main, wall time, medians of {scale.rounds}, alternating.")
    for is_indexed in (True, False):
        print(f"\n{'With' if is_indexed else 'Without'} indexes:\n")
        _print_sizes(contests[scale.few, is_indexed], contests[scale.many, is_indexed])
    print()


def show_landings(scale: Scale) -> None:
    """Create a branch, change two rows, merge and delete it, many times."""
    with TemporaryDirectory() as folder:
        fresh, used = (
            make_graph(Path(folder, name), size=scale.few, is_indexed=True)
            for name in ("fresh", "used")
        )
        before = scale.landings - scale.compared
        for number in range(before):
            _land(used, number)
        # The first merges of one graph alternate with the last ones of the other.
        times = [(_land(fresh, each), _land(used, before + each)) for each in range(scale.compared)]
    first, last = (_medians([pair[side] for pair in times]) for side in (0, 1))
    growth = [late / early for early, late in zip(first, last, strict=True)]
    print(f"{scale.landings} branches of one insert and one update merged in sequence.\n")
    print_table(
        ["landings", *STEPS, "total"],
        [
            [f"first {scale.compared}", *map(milliseconds, first)],
            [f"last {scale.compared}", *map(milliseconds, last)],
            ["ratio", *(f"{each:.2f}" for each in growth)],
        ],
    )
    outcome = "met" if growth[-1] <= GOAL_GROWTH else "MISSED"
    print(
        f"Goal: the last cost at most {GOAL_GROWTH} times as much: {growth[-1]:.2f} — {outcome}.\n"
    )


def make_contest(folder: Path, *, size: int, is_indexed: bool) -> Contest:
    """Create a graph and a bare table of the same persons."""
    graph = make_graph(folder / "graph", size=size, is_indexed=is_indexed)
    persons = _make_rows(size)["Person"]
    bare = lance.write_dataset(
        persons.add_column(0, "id", persons["name"]),
        str(folder / "bare"),
        mode="create",
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )
    if is_indexed:
        bare.create_scalar_index("id", "BTREE")
    return Contest(size, graph, bare)


def make_graph(folder: Path, *, size: int, is_indexed: bool) -> omnigraph.Graph:
    """Create a graph with this many persons and as many edges between the first half of them."""
    graph = omnigraph.init(str(folder), SCHEMA)
    graph.load(_make_rows(size), mode="append")
    if is_indexed:
        graph.ensure_indices()
    return graph


def _make_rows(size: int) -> dict[str, pa.Table]:
    names = pa.array([f"p{number}" for number in range(size)])
    sources, targets = np.random.default_rng(7).integers(0, size // 2, (2, size))
    return {
        "Person": pa.table({"name": names, "age": pa.array(np.arange(size), pa.int32())}),
        "Knows": pa.table(
            {"src": names.take(pa.array(sources)), "dst": names.take(pa.array(targets))}
        ),
    }


def _change_once(contest: Contest, change: str, *, round_number: int) -> dict[str, float]:
    """The seconds of both kinds of merge, and of the same change on the bare table."""
    # Counted from the end: these persons have no edges to delete with them.
    first = contest.size - 4 * round_number - 4
    names = [f"{'new' if change == 'insert' else 'p'}{first + each}" for each in range(4)]
    return {
        "merged": _merge_once(contest.graph, change, names[0], meanwhile=names[1]),
        "bare": _change_bare(contest.bare, change, names[3]),
        "fast_forward": _merge_once(contest.graph, change, names[2], meanwhile=None),
    }


def _merge_once(graph: omnigraph.Graph, change: str, name: str, *, meanwhile: str | None) -> float:
    graph.create_branch("work")
    graph.mutate(CHANGES[change], {"name": name}, branch="work")
    if meanwhile is not None:
        graph.mutate(CHANGES[change], {"name": meanwhile})
    start = perf_counter()
    done = graph.merge("work")
    seconds = perf_counter() - start
    assert done.outcome == ("fast_forward" if meanwhile is None else "merged")
    assert graph.commits()[-1].merged_parent_id is not None
    graph.delete_branch("work")
    return seconds


def _change_bare(table: lance.LanceDataset, change: str, name: str) -> float:
    row = pa.table({"id": [name], "name": [name], "age": pa.array([-1], pa.int32())})
    start = perf_counter()
    if change == "delete":
        table.delete(f"id = '{name}'")
    else:
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).execute(row)
    return perf_counter() - start


def _print_sizes(few: Contest, many: Contest) -> None:
    rows, ratios = [], []
    for change, outcome in product(CHANGES, OUTCOMES):
        small, large = (median(each.times[change, outcome]) for each in (few, many))
        bare_small, bare_large = (median(each.times[change, "bare"]) for each in (few, many))
        ratios.append(large / small)
        rows.append(
            [
                f"{change}, {outcome.replace('_', ' ')}",
                milliseconds(small),
                milliseconds(large),
                f"{large / small:.2f}",
                milliseconds(bare_small),
                milliseconds(bare_large),
                f"{small / bare_small:.1f}, {large / bare_large:.1f}",
            ]
        )
    print_table(
        [
            "one row",
            f"{few.size:,} rows",
            f"{many.size:,} rows",
            "ratio",
            f"bare, {few.size:,}",
            f"bare, {many.size:,}",
            "omnigraph / bare",
        ],
        rows,
    )
    outcome = "met" if max(ratios) <= GOAL_RATIO else "MISSED"
    print(f"Goal: at most {GOAL_RATIO} times as much, worst: {max(ratios):.2f} — {outcome}.")


def _land(graph: omnigraph.Graph, number: int) -> list[float]:
    """Run one branch from creation to deletion and return the seconds of each step."""
    times = [perf_counter()]
    graph.create_branch("work")
    times.append(perf_counter())
    graph.mutate(LANDED_CHANGE, {"new": f"new{number}", "old": f"p{number}"}, branch="work")
    times.append(perf_counter())
    graph.merge("work")
    times.append(perf_counter())
    graph.delete_branch("work")
    times.append(perf_counter())
    return [end - start for start, end in pairwise(times)]


def _medians(landings: Sequence[Sequence[float]]) -> list[float]:
    """The median of each step, and of their total."""
    return [*map(median, zip(*landings, strict=True)), median(map(sum, landings))]


if __name__ == "__main__":
    main()
