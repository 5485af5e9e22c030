"""How long a person waits for `omnigraph --help` and `omnigraph lint`, as real processes."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.starting import Starter
from bench.support.tables import milliseconds, print_table
from bench.support.texts import QUERY, SCHEMA
from bench.support.timing import measure

ROUNDS = 15
GOAL_SECONDS = 0.3
PYTHON = sys.executable
OMNIGRAPH = str(Path(PYTHON).with_name("omnigraph"))


def main() -> None:
    """Start each command a few times, beside interpreters that do nothing."""
    with TemporaryDirectory() as directory:
        schema, queries = Path(directory, "schema.pg"), Path(directory, "queries.gq")
        schema.write_text(SCHEMA, encoding="utf-8")
        queries.write_text(QUERY, encoding="utf-8")
        starting = Starter(Path(directory))
        timings = measure(
            {
                "python -c pass": starting(PYTHON, "-c", "pass"),
                'python -c "import click"': starting(PYTHON, "-c", "import click"),
                'python -c "import click, lark"': starting(PYTHON, "-c", "import click, lark"),
                "omnigraph --help": starting(OMNIGRAPH, "--help"),
                "omnigraph lint": starting(
                    OMNIGRAPH, "lint", "--schema", str(schema), "--query", str(queries)
                ),
            },
            rounds=ROUNDS,
            warm_up_rounds=1,
            clock=perf_counter,
        )
    print(f"Wall time of a process on a warm disk with cached bytecode, {ROUNDS} times.\n")
    print_table(
        ["command", "fastest", "median", "slowest"],
        [
            [
                f"`{command}`",
                *(milliseconds(each) for each in (timing.fastest, timing.median, timing.slowest)),
            ]
            for command, timing in timings.items()
        ],
    )
    slowest = max(t.median for name, t in timings.items() if name.startswith("omnigraph"))
    verdict = "met" if slowest < GOAL_SECONDS else "MISSED"
    print(f"Goal: under {milliseconds(GOAL_SECONDS)} — {verdict}.\n")


if __name__ == "__main__":
    main()
