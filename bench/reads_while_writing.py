"""Queries of several threads on one handle while another thread commits, compared with no commits.

Each reader runs a point read and a hop alternately, with a pause after each query, so that the
threads do not only wait for the interpreter. The writer updates a node and inserts an edge
alternately, at a fixed rate. An argument sets the number of persons.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import perf_counter, sleep

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import omnigraph
from bench.support.follow_graph import FOLLOWS_EACH, PERSONS, SCHEMA, make_rows
from bench.support.tables import milliseconds, print_table
from omnigraph import Graph

READERS = 8
COMMITS_PER_SECOND = 10
SECONDS = 10.0
PAUSE_S = 0.01
GOAL_RATIO = 3.0

POINT = "query q($name: String) { match { $a: Person { name: $name } } return { $a.age } }"
HOP = """query q($name: String) {
  match { $a: Person { name: $name }  $a follows $b } return { $b.name, $b.age } }"""
UPDATE = "query w($name: String, $n: I32) { update Person set { age: $n } where name = $name }"
INSERT = """query w($name: String, $to: String, $n: I32) {
  insert Follows { from: $name, to: $to, since: $n } }"""


def main(person_count: int) -> None:
    """Measure the readers alone, and beside the writer."""
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(folder, SCHEMA)
        graph.load(make_rows(person_count), mode="append")
        graph.ensure_indices()
        _read(graph, person_count, seconds=2.0)
        quiet = _read(graph, person_count, seconds=SECONDS)
        ended = Event()
        with ThreadPoolExecutor(1) as pool:
            writer = pool.submit(_write, graph, person_count, ended.is_set)
            busy = _read(graph, person_count, seconds=SECONDS)
            ended.set()
            commits = writer.result()
    print(
        f"{person_count:,} persons, {person_count * FOLLOWS_EACH:,} edges; {READERS} threads read "
        f"for {SECONDS:g} s; {commits / SECONDS:.1f} commits a second.\n"
    )
    print_table(
        ["queries", "a second", "median", "99th percentile"],
        [_row("without commits", quiet), _row("with commits", busy)],
    )
    ratio = float(np.percentile(busy, 99) / np.median(quiet))
    outcome = "met" if ratio <= GOAL_RATIO else "MISSED"
    print(f"Goal: 99th percentile at most {GOAL_RATIO:g} quiet medians: {ratio:.1f} — {outcome}.")


def _row(name: str, seconds: list[float]) -> list[str]:
    return [
        name,
        f"{len(seconds) / SECONDS:,.0f}",
        milliseconds(float(np.median(seconds))),
        milliseconds(float(np.percentile(seconds, 99))),
    ]


def _read(graph: Graph, person_count: int, *, seconds: float) -> list[float]:
    """The latencies of all queries of all readers."""
    end = perf_counter() + seconds

    def run(reader: int) -> list[float]:
        found: list[float] = []
        number = reader
        while (start := perf_counter()) < end:
            text = (POINT, HOP)[number % 2]
            rows = graph.query(text, {"name": _name(number * 97 % person_count)}).rows
            found.append(perf_counter() - start)
            assert rows, "every person exists and follows others"
            number += READERS + 1
            sleep(PAUSE_S)
        return found

    with ThreadPoolExecutor(READERS) as pool:
        return [each for part in pool.map(run, range(READERS)) for each in part]


def _write(graph: Graph, person_count: int, is_over: Callable[[], bool]) -> int:
    """Commit at a fixed rate, or as fast as possible if that is slower; the number of commits."""
    start = perf_counter()
    for number in count():
        if is_over():
            return number
        name, other = _name(number * 31 % person_count), _name(number * 57 % person_count)
        if number % 2:
            graph.mutate(UPDATE, {"name": name, "n": number})
        else:
            graph.mutate(INSERT, {"name": name, "to": other, "n": number})
        due = start + (number + 1) / COMMITS_PER_SECOND
        sleep(max(0.0, due - perf_counter()))
    raise AssertionError("the count has no end")


def _name(number: int) -> str:
    return f"person-{number:06}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PERSONS)
