"""The time to compile a typical query of a dozen lines in a warm process."""

import sys
from pathlib import Path
from time import process_time

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.lark_baseline import lark_parser
from bench.support.tables import milliseconds, print_table
from bench.support.texts import QUERY, SCHEMA
from bench.support.timing import measure
from omnigraph.compiler.compile import compile_query, compile_schema
from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.parser import Language
from omnigraph.compiler.query.check import check_query
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.model.source import Source

ROUNDS = 500
GOAL_SECONDS = 0.002


def main() -> None:
    """Compile one query many times, in total and by stage, compared with lark."""
    catalog = compile_schema(Source("schema.pg", SCHEMA))
    source = Source("query.gq", QUERY)
    (parsed,) = parse_queries(source)
    lark = lark_parser(Language.QUERY)
    ours = "compile: text to IR"
    timings = measure(
        {
            ours: lambda: compile_query(source, catalog, name="colleagues"),
            "— parse: text to syntax": lambda: parse_queries(source),
            "— check and lower: syntax to IR": lambda: check_query(
                parsed, catalog, Diagnostics(source)
            ),
            "lark: text to a bare parse tree": lambda: lark.parse(QUERY),
        },
        rounds=ROUNDS,
        warmup_rounds=20,
        clock=process_time,
    )
    token_count = sum(1 for _ in lark.lex(QUERY))
    line_count = len(QUERY.splitlines())
    print(f"One query of {line_count} lines and {token_count} tokens.")
    print(f"CPU time, {ROUNDS} runs.\n")
    print_table(
        ["step", "median", "p95"],
        [
            [name, milliseconds(timing.median), milliseconds(timing.p95)]
            for name, timing in timings.items()
        ],
    )
    outcome = "met" if timings[ours].median < GOAL_SECONDS else "MISSED"
    print(f"Goal: under {milliseconds(GOAL_SECONDS)} — {outcome}.\n")


if __name__ == "__main__":
    main()
