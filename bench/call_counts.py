"""The number of function calls and modules of OmniGraph in one insert and in one cached query.

Comprehensions and generator expressions are not counted. The counts are deterministic, so they
change only when the code changes. `--modules` also lists the calls of each module.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.tables import print_table

SCHEMA = "node Person { name: String @key  age: I32? }"
INSERT = "query add($name: String, $age: I32) { insert Person { name: $name, age: $age } }"
QUERY = "query adults($age: I32) { match { $p: Person  $p.age >= $age } return { $p.name } }"
WARMUP_ROUNDS = 3

_PACKAGE = f"{Path(omnigraph.__file__).parent}/"


def main() -> None:
    """Count the calls of an insert and of a query with warm caches."""
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(str(Path(folder) / "graph"), SCHEMA)
        for number in range(WARMUP_ROUNDS):
            graph.mutate(INSERT, {"name": f"p{number}", "age": number})
            graph.query(QUERY, {"age": 1})
        calls_by_step = {
            "insert": count_calls(lambda: graph.mutate(INSERT, {"name": "ann", "age": 7})),
            "compiled query": count_calls(lambda: graph.query(QUERY, {"age": 1})),
        }
    print_table(
        ["step", "calls", "modules"],
        [[step, f"{calls.total():,}", str(len(calls))] for step, calls in calls_by_step.items()],
    )
    if "--modules" in sys.argv[1:]:
        for step, calls in calls_by_step.items():
            print(f"\n{step}\n")
            rows = [[module, f"{count:,}"] for module, count in calls.most_common()]
            print_table(["module", "calls"], rows)


def count_calls(run: Callable[[], object]) -> Counter[str]:
    """Run a function and count its calls of Python functions of OmniGraph by module."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001
        file = frame.f_code.co_filename
        is_function = not frame.f_code.co_name.endswith(("comp>", "genexpr>"))
        if event == "call" and is_function and file.startswith(_PACKAGE):
            calls[file.removeprefix(_PACKAGE).removesuffix(".py")] += 1

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


if __name__ == "__main__":
    main()
