"""The engine and the oracle on the same reads: the smallest case in which they disagree.

Run as a program this asks generated reads of generated graphs for as long as one likes, and prints
what it finds as a file for `tests/corpus/reads`.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.errors import GraphError
from tests.support.generated_graphs import GeneratedRead, graphs, reads
from tests.support.oracle import OracleResult
from tests.support.oracle_pipeline import TooManyRowsError
from tests.support.oracle_values import Measured
from tests.support.read_corpus import render_case
from tests.support.read_graphs import PlainGraph, run_oracle, store
from tests.support.shrinking import shrink

ROWS_MAX = 1_500
"""Most rows that the oracle makes on its way before it gives a read up."""

READS_PER_GRAPH = 28
"""So many that storing graphs does not cost more than asking them, some given up included."""

GENERATING = settings(
    # Shrinking is done here, by what graphs and reads consist of, which ends sooner.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)

_GRAPHS_PER_ROUND = 10

# What the engine raises when it is wrong about something; all of it is a disagreement.
_FAULTS = (
    GraphError, AssertionError, ArithmeticError, AttributeError, LookupError, MemoryError,
    NotImplementedError, OSError, RuntimeError, TypeError, ValueError, pa.ArrowException,
)  # fmt: skip


class DisagreementError(AssertionError):
    """The engine and the oracle return different results."""


def compare_all(drawn: st.DataObject) -> int:
    """Ask the reads of one generated graph, and count them; raise the smallest disagreement."""
    graph, traversal = drawn.draw(graphs()), drawn.draw(st.sampled_from(TraversalMode))
    strategy = reads(graph)
    count = 0
    with TemporaryDirectory(prefix="omnigraph-reads-") as folder:
        stored = store(Path(folder) / "g", graph, traversal=traversal)
        for _ in range(READS_PER_GRAPH):
            read = drawn.draw(strategy)
            try:
                expected = run_oracle(graph, read.text, read.params, rows_max=ROWS_MAX)
            except TooManyRowsError:
                continue
            if find_fault(stored, read, expected) is not None:
                raise DisagreementError(_explain(graph, read, traversal))
            count += 1
    return count


def _explain(graph: PlainGraph, read: GeneratedRead, traversal: TraversalMode) -> str:
    """The smallest form of a disagreement, as a file of the corpus, and what either side says."""

    def find(graph: PlainGraph, read: GeneratedRead) -> tuple[str | None, OracleResult]:
        expected = run_oracle(graph, read.text, read.params, rows_max=ROWS_MAX)
        with TemporaryDirectory(prefix="omnigraph-reads-") as folder:
            stored = store(Path(folder) / "g", graph, traversal=traversal)
            return find_fault(stored, read, expected), expected

    graph, read = shrink(graph, read, lambda *smaller: find(*smaller)[0] is not None)
    fault, expected = find(graph, read)
    case = render_case(graph, read.text, read.params)
    return f"engine ({traversal}): {fault}\nreferee: {show(expected)}\n\n{case}"


def show(outcome: OracleResult) -> str:
    """A result on a few lines."""
    return "\n  ".join([", ".join(outcome.columns), *(repr(list(row)) for row in outcome.rows)])


def find_fault(
    stored: Graph, read: GeneratedRead, expected: OracleResult, *, commit: str | None = None
) -> str | None:
    """What the engine returns or raises at a commit, if that is not what was expected."""
    try:
        result = stored.query(read.text, read.params, commit=commit)
        columns, rows = tuple(result.columns), result.rows
    except _FAULTS as fault:
        return f"{type(fault).__name__}: {fault}"
    # A row as JSON keeps the last of two columns with one name.
    wanted = [dict(zip(expected.columns, row, strict=True)) for row in expected.rows]
    is_same = columns == expected.columns and len(rows) == len(wanted)
    if is_same and all(
        found.keys() == row.keys() and all(is_same_cell(row[name], found[name]) for name in row)
        for row, found in zip(wanted, rows, strict=True)
    ):
        return None
    return "\n  ".join([", ".join(columns), *(repr(list(row.values())) for row in rows)])


def is_same_cell(expected: object, found: object) -> bool:
    """Whether a cell is what it should be: its type and sign too, but for rounded numbers."""
    match expected:
        case Measured():
            return isinstance(found, float) and abs(found - expected) <= expected.slack
        case list():
            return (
                isinstance(found, list)
                and len(found) == len(expected)
                and all(map(is_same_cell, expected, found))
            )
        case _:
            return type(found) is type(expected) and repr(found) == repr(expected)


def compare_round(number: int, *, graph_count: int) -> int:
    """Compare the reads of some graphs, always the same for a number; how many reads there were."""
    counts: list[int] = []

    @seed(number)
    @settings(GENERATING, max_examples=graph_count, database=None)
    @given(st.data())
    def compare(drawn: st.DataObject) -> None:
        counts.append(compare_all(drawn))

    compare()
    return sum(counts)


def main() -> None:
    """Compare for some seconds; stop at the first disagreement."""
    end = time.monotonic() + float(sys.argv[1])
    number = random.randrange(1_000_000)
    count = 0
    while time.monotonic() < end:
        try:
            count += compare_round(number, graph_count=_GRAPHS_PER_ROUND)
        except DisagreementError as found:
            raise SystemExit(f"seed {number}\n{found}") from None
        sys.stdout.write(f"seed {number}: {count} reads agree\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    main()
