"""The wall time of commands on a small local graph, including start-up.

Whole processes, alternating with one that only imports Lance: the lower bound of any Python program
that opens a Lance table. The graph has six rows, two types and no index.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.command_runner import CommandRunner
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
BASELINE = 'python -c "import lance"'
HELP = "omnigraph --help"
HELP_GOAL_SECONDS = 0.3
GOAL_SECONDS = 1.0

PYTHON = sys.executable
OMNIGRAPH = str(Path(PYTHON).with_name("omnigraph"))


def main() -> None:
    """Create a graph, then run each command several times."""
    with TemporaryDirectory() as folder:
        _prepare(Path(folder))
        timings = _measure(CommandRunner(Path(folder)))
    baseline = timings[BASELINE].median
    print(f"Wall time of a process on a warm disk with cached bytecode, {ROUNDS} runs.\n")
    print_table(
        ["command", "fastest", "median", "slowest", "ratio to import"],
        [
            [
                f"`{name}`",
                milliseconds(timing.fastest),
                milliseconds(timing.median),
                milliseconds(timing.slowest),
                f"{timing.median / baseline:.2f}",
            ]
            for name, timing in timings.items()
        ],
    )
    medians = [timing.median for name, timing in timings.items() if name not in (BASELINE, HELP)]
    is_met = timings[HELP].median < HELP_GOAL_SECONDS and max(medians) < GOAL_SECONDS
    goals = (
        f"{milliseconds(HELP_GOAL_SECONDS)} for help, {milliseconds(GOAL_SECONDS)} for the others"
    )
    print(f"Goal: under {goals} — {'met' if is_met else 'MISSED'}.\n")


def _prepare(folder: Path) -> None:
    (folder / "rows.jsonl").write_text(ROWS, encoding="utf-8")
    with omnigraph.init(folder / "graph", SCHEMA) as graph:
        graph.load(folder / "rows.jsonl", mode="append")


def _measure(command: CommandRunner) -> dict[str, Timing]:
    at = ("--store", "graph")
    return measure(
        {
            BASELINE: command(PYTHON, "-c", "import lance"),
            HELP: command(OMNIGRAPH, "--help"),
            "omnigraph query": command(OMNIGRAPH, "query", "-e", POINT, *at),
            "omnigraph query, one hop": command(OMNIGRAPH, "query", "-e", HOP, *at),
            "omnigraph mutate": command(OMNIGRAPH, "mutate", "-e", SET, *at),
            "omnigraph branch list": command(OMNIGRAPH, "branch", "list", *at),
            "omnigraph load, 6 rows": command(
                OMNIGRAPH, "load", "--data", "rows.jsonl", "--mode", "merge", *at
            ),
        },
        rounds=ROUNDS,
        warmup_rounds=1,
        clock=perf_counter,
    )


if __name__ == "__main__":
    main()
