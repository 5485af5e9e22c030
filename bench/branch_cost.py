"""The cost of creating and listing branches when there are ten and when there are a thousand.

Creating a branch writes one small version of the history and no rows, so its cost must not grow
with the number of branches. Deleting a branch is shown as well: Lance checks whether any other
branch was created from it.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.tables import milliseconds, print_table

SCHEMA = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person"
INSERT = "query add($name: String) { insert Person { name: $name } }"
FEW, MANY, SAMPLES = 10, 1_000, 25
GOAL_GROWTH = 1.5

Step = Callable[[omnigraph.Graph, str], object]
STEPS: Mapping[str, Step] = {
    "create": lambda graph, name: graph.create_branch(name),
    "list": lambda graph, _: graph.branches(),
    "first write": lambda graph, name: graph.mutate(INSERT, {"name": "bob"}, branch=name),
    "delete": lambda graph, name: graph.delete_branch(name),
}


def main() -> None:
    """Measure the same steps in alternation with ten branches and with a thousand."""
    with TemporaryDirectory() as folder:
        few, many = (make_graph(Path(folder) / str(count), count) for count in (FEW, MANY))
        costs = [_medians(step, few, many) for step in STEPS.values()]
    print(f"Medians of {SAMPLES}, wall time, flushed to disk, alternating.\n")
    print_table(
        ["existing branches", *STEPS],
        [
            [f"{FEW:,}", *(milliseconds(each) for each, _ in costs)],
            [f"{MANY:,}", *(milliseconds(each) for _, each in costs)],
        ],
    )
    growth = costs[0][1] / costs[0][0]
    outcome = "met" if growth <= GOAL_GROWTH else "MISSED"
    print(
        f"Goal: the cost of creation grows at most {GOAL_GROWTH} times: {growth:.2f} — {outcome}.\n"
    )


def make_graph(path: Path, branch_count: int) -> omnigraph.Graph:
    """Create a graph of one node with this many branches."""
    graph = omnigraph.init(str(path), SCHEMA)
    graph.mutate(INSERT, {"name": "ann"})
    for number in range(branch_count):
        graph.create_branch(f"b{number}")
    return graph


def _medians(step: Step, few: omnigraph.Graph, many: omnigraph.Graph) -> tuple[float, float]:
    timings: list[tuple[float, float]] = []
    for number in range(SAMPLES):
        # Alternating, so that load peaks of the machine affect both.
        name = f"sample{number}"
        timings.append((_seconds(step, few, name), _seconds(step, many, name)))
    return median(each for each, _ in timings), median(each for _, each in timings)


def _seconds(step: Step, graph: omnigraph.Graph, name: str) -> float:
    start = perf_counter()
    step(graph, name)
    return perf_counter() - start


if __name__ == "__main__":
    main()
