"""The compile time per line of files of growing size, compared with lark's bare parse.

Python's cyclic garbage collector traverses all live objects periodically, and a longer text has
more of them. Every size is therefore also measured with the collector disabled, which leaves the
time of the compiler itself.
"""

import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.lark_baseline import lark_parser
from bench.support.tables import microseconds, milliseconds, print_table
from bench.support.texts import SCHEMA, queries_of, schema_of
from bench.support.timing import measure
from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.compiler.parser import Language
from omnigraph.model.source import Source

ROUNDS = 7
LINE_COUNTS = (500, 1_000, 2_000, 5_000)
QUERY_COUNTS = (100, 250, 500, 1_000)
GOAL_RATIO = 1.3


def main() -> None:
    """Compile schemas and query files of growing size."""
    catalog = compile_schema(Source("schema.pg", SCHEMA))
    show(
        ("line", "lines"),
        {count: schema_of(count) for count in LINE_COUNTS},
        compile=lambda text: compile_schema(Source("schema.pg", text)),
        language=Language.SCHEMA,
    )
    show(
        ("query", "queries"),
        {count: queries_of(count) for count in QUERY_COUNTS},
        compile=lambda text: compile_queries(Source("queries.gq", text), catalog),
        language=Language.QUERY,
    )


def show(
    unit: tuple[str, str],
    text_by_count: dict[int, str],
    *,
    compile: Callable[[str], object],
    language: Language,
) -> None:
    """Print the best time of each size, and the growth of the cost per unit from first to last."""
    one, many = unit
    lark = lark_parser(language)
    rows: list[list[str]] = []
    costs: list[list[float]] = []
    for count, text in text_by_count.items():
        timings = measure(
            {
                "ours": partial(compile, text),
                "ours, GC off": without_gc(partial(compile, text)),
                "lark": partial(lark.parse, text),
                "lark, GC off": without_gc(partial(lark.parse, text)),
            },
            rounds=ROUNDS,
            warmup_rounds=1,
            clock=process_time,
        )
        costs.append([timing.fastest / count for timing in timings.values()])
        total = milliseconds(timings["ours"].fastest)
        rows.append([f"{count:,} {many}", total, *map(microseconds, costs[-1])])
    growth = [last / first for first, last in zip(costs[0], costs[-1], strict=True)]
    rows.append(["last / first", "", *(f"{ratio:.2f}" for ratio in growth)])
    print_table(["size", "compile", f"per {one}", "GC off", "lark's bare parse", "GC off"], rows)
    outcome = "met" if growth[1] <= GOAL_RATIO else "MISSED"
    print(f"Goal: without GC, the time per {one} grows at most {GOAL_RATIO} times — {outcome}.\n")


def without_gc(run: Callable[[], object]) -> Callable[[], object]:
    """Return the same call with the garbage collector disabled."""

    def run_without_gc() -> None:
        gc.disable()
        run()
        gc.enable()

    return run_without_gc


if __name__ == "__main__":
    main()
