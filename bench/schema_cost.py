"""The cost of schema changes on a type with a million rows, compared with an empty type.

Adding, dropping or renaming a property changes only the metadata of a version, and renaming a type
changes only the history, so their cost must not depend on the number of rows. Dropping a property
permanently rewrites the rows; its cost is shown without a goal.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import pyarrow as pa

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.tables import milliseconds, print_table

ROWS, SAMPLES = 1_000_000, 9
GOAL_GROWTH = 2.0

PERSON = "name: String @key  age: I32?"
STEPS: Mapping[str, str] = {
    "add a property": f"node Person {{ {PERSON}  nick: String? }}",
    "rename it": f'node Person {{ {PERSON}  alias: String? @rename_from("nick") }}',
    "rename the type": f'node Human @rename_from("Person") {{ {PERSON}  alias: String? }}',
    "drop the property": f"node Human {{ {PERSON} }}",
    "rename the type back": f'node Person @rename_from("Human") {{ {PERSON} }}',
}
PERMANENT_DROP = "node Person { name: String @key }"


def main() -> None:
    """Measure the same changes in alternation on a type with a million rows and on an empty one."""
    with TemporaryDirectory() as folder:
        empty, full = (make_graph(Path(folder) / str(count), count) for count in (0, ROWS))
        costs: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in STEPS}
        for _ in range(SAMPLES):
            # Alternating, so that load peaks of the machine affect both.
            for name, schema in STEPS.items():
                for graph, timings in zip((empty, full), costs[name], strict=True):
                    timings.append(_seconds(graph, schema, is_final=False))
        medians = {name: (median(one), median(other)) for name, (one, other) in costs.items()}
        permanent = [_seconds(graph, PERMANENT_DROP, is_final=True) for graph in (empty, full)]
    print(f"Medians of {SAMPLES}, wall time, flushed to disk, alternating.\n")
    print_table(
        ["rows of the type", *STEPS, "drop permanently"],
        [
            ["0", *(milliseconds(one) for one, _ in medians.values()), milliseconds(permanent[0])],
            [
                f"{ROWS:,}",
                *(milliseconds(other) for _, other in medians.values()),
                milliseconds(permanent[1]),
            ],
        ],
    )
    one, other = medians["add a property"]
    outcome = "met" if other / one <= GOAL_GROWTH else "MISSED"
    print(
        f"Goal: adding a property to {ROWS:,} rows costs at most {GOAL_GROWTH} times as much as "
        f"on an empty type: {other / one:.2f} — {outcome}.\n"
    )


def make_graph(path: Path, row_count: int) -> omnigraph.Graph:
    """Create a graph of one type with this many rows."""
    graph = omnigraph.init(str(path), f"node Person {{ {PERSON} }}")
    if row_count:
        names = pa.array([f"person {number}" for number in range(row_count)])
        ages = pa.array([number % 90 for number in range(row_count)], pa.int32())
        graph.load({"Person": pa.table({"name": names, "age": ages})}, mode="append")
    return graph


def _seconds(graph: omnigraph.Graph, schema: str, *, is_final: bool) -> float:
    start = perf_counter()
    graph.apply_schema(schema, allow_data_loss=is_final)
    return perf_counter() - start


if __name__ == "__main__":
    main()
