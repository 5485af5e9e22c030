"""How long a person waits for a command on a small local graph, start-up included.

Whole processes, in turns with one that only imports Lance: nobody who opens a Lance table from
Python waits less. The graph has six rows, two types and no index.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.starting import Starter
from bench.support.tables import milliseconds, print_table
from bench.support.timing import Timing, measure

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
ROWS = """\
{"type": "Person", "data": {"name": "Ann", "age": 41}}
{"type": "Person", "data": {"name": "Bob"}}
{"type": "Person", "data": {"name": "Cid", "age": 7}}
{"edge": "Knows", "from": "Ann", "to": "Bob"}
{"edge": "Knows", "from": "Bob", "to": "Cid"}
{"edge": "Knows", "from": "Cid", "to": "Ann"}
"""
POINT = 'query one() { match { $p: Person { name: "Ann" } } return { $p.name, $p.age } }'
HOP = 'query near() { match { $p: Person { name: "Ann" } $p knows $f } return { $f.name } }'
SET = 'query older() { update Person set { age: 42 } where name = "Ann" }'

ROUNDS = 11
FLOOR = 'python -c "import lance"'
HELP = "omnigraph --help"
HELP_GOAL_SECONDS = 0.3
GOAL_SECONDS = 1.0

PYTHON = sys.executable
OMNIGRAPH = str(Path(PYTHON).with_name("omnigraph"))


def main() -> None:
    """Make a graph, then run each command a few times."""
    with TemporaryDirectory() as folder:
        _prepare(Path(folder))
        timings = _measure(Starter(Path(folder)))
    floor = timings[FLOOR].median
    print(f"Wall time of a process on a warm disk with cached bytecode, {ROUNDS} times.\n")
    print_table(
        ["command", "fastest", "median", "slowest", "to the floor"],
        [
            [
                f"`{name}`",
                milliseconds(timing.fastest),
                milliseconds(timing.median),
                milliseconds(timing.slowest),
                f"{timing.median / floor:.2f}",
            ]
            for name, timing in timings.items()
        ],
    )
    verbs = [timing.median for name, timing in timings.items() if name not in (FLOOR, HELP)]
    is_met = timings[HELP].median < HELP_GOAL_SECONDS and max(verbs) < GOAL_SECONDS
    goals = f"{milliseconds(HELP_GOAL_SECONDS)} for help, {milliseconds(GOAL_SECONDS)} for the rest"
    print(f"Goal: under {goals} — {'met' if is_met else 'MISSED'}.\n")


def _prepare(folder: Path) -> None:
    (folder / "rows.jsonl").write_text(ROWS, encoding="utf-8")
    with omnigraph.init(folder / "graph", SCHEMA) as graph:
        graph.load(folder / "rows.jsonl", mode="append")


def _measure(starting: Starter) -> dict[str, Timing]:
    at = ("--store", "graph")
    return measure(
        {
            FLOOR: starting(PYTHON, "-c", "import lance"),
            HELP: starting(OMNIGRAPH, "--help"),
            "omnigraph query": starting(OMNIGRAPH, "query", "-e", POINT, *at),
            "omnigraph query, one hop": starting(OMNIGRAPH, "query", "-e", HOP, *at),
            "omnigraph mutate": starting(OMNIGRAPH, "mutate", "-e", SET, *at),
            "omnigraph branch list": starting(OMNIGRAPH, "branch", "list", *at),
            "omnigraph load, 6 rows": starting(
                OMNIGRAPH, "load", "--data", "rows.jsonl", "--mode", "merge", *at
            ),
        },
        rounds=ROUNDS,
        warm_up_rounds=1,
        clock=perf_counter,
    )


if __name__ == "__main__":
    main()
