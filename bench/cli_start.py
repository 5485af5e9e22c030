"""The wall time of `omnigraph --help` and `omnigraph lint` as real processes."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.command_runner import CommandRunner
from bench.support.tables import milliseconds, print_table
from bench.support.texts import QUERY, SCHEMA
from bench.support.timing import measure

ROUNDS = 15
GOAL_SECONDS = 0.3
PYTHON = sys.executable
OMNIGRAPH = str(Path(PYTHON).with_name("omnigraph"))


def main() -> None:
    """Run each command several times, compared with interpreters that only import."""
    with TemporaryDirectory() as directory:
        schema, queries = Path(directory, "schema.pg"), Path(directory, "queries.gq")
        schema.write_text(SCHEMA, encoding="utf-8")
        queries.write_text(QUERY, encoding="utf-8")
        command = CommandRunner(Path(directory))
        timings = measure(
            {
                "python -c pass": command(PYTHON, "-c", "pass"),
                'python -c "import click"': command(PYTHON, "-c", "import click"),
                'python -c "import click, lark"': command(PYTHON, "-c", "import click, lark"),
                "omnigraph --help": command(OMNIGRAPH, "--help"),
                "omnigraph lint": command(
                    OMNIGRAPH, "lint", "--schema", str(schema), "--query", str(queries)
                ),
            },
            rounds=ROUNDS,
            warmup_rounds=1,
            clock=perf_counter,
        )
    print(f"Wall time of a process on a warm disk with cached bytecode, {ROUNDS} runs.\n")
    print_table(
        ["command", "fastest", "median", "slowest"],
        [
            [
                f"`{name}`",
                *(milliseconds(each) for each in (timing.fastest, timing.median, timing.slowest)),
            ]
            for name, timing in timings.items()
        ],
    )
    slowest = max(t.median for name, t in timings.items() if name.startswith("omnigraph"))
    outcome = "met" if slowest < GOAL_SECONDS else "MISSED"
    print(f"Goal: under {milliseconds(GOAL_SECONDS)} — {outcome}.\n")


if __name__ == "__main__":
    main()
