"""Whether long files cost more per line than short ones: ours beside lark's bare parse.

Python's collector of cycles walks over what is alive now and then, and the longer the text, the
more is alive. So every size is also timed with the collector at rest, which leaves our own work.
"""

import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.peers import lark_parser
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
    """Print the best time of each size, and how the cost of one unit grew from first to last."""
    one, many = unit
    peer = lark_parser(language)
    rows: list[list[str]] = []
    costs: list[list[float]] = []
    for count, text in text_by_count.items():
        timings = measure(
            {
                "ours": partial(compile, text),
                "ours at rest": at_rest(partial(compile, text)),
                "lark": partial(peer.parse, text),
                "lark at rest": at_rest(partial(peer.parse, text)),
            },
            rounds=ROUNDS,
            warm_up_rounds=1,
            clock=process_time,
        )
        costs.append([timing.fastest / count for timing in timings.values()])
        total = milliseconds(timings["ours"].fastest)
        rows.append([f"{count:,} {many}", total, *map(microseconds, costs[-1])])
    growth = [last / first for first, last in zip(costs[0], costs[-1], strict=True)]
    rows.append(["last / first", "", *(f"{ratio:.2f}" for ratio in growth)])
    print_table(
        ["size", "compile", f"a {one}", "collector at rest", "lark's bare parse", "at rest"], rows
    )
    verdict = "met" if growth[1] <= GOAL_RATIO else "MISSED"
    print(f"Goal: our own work on a {one} grows at most {GOAL_RATIO} times — {verdict}.\n")


def at_rest(run: Callable[[], object]) -> Callable[[], object]:
    """The same run without the collector."""

    def run_at_rest() -> None:
        gc.disable()
        run()
        gc.enable()

    return run_at_rest


if __name__ == "__main__":
    main()
