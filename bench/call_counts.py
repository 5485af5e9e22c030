"""How many functions and modules of OmniGraph one insert and one compiled query pass through.

Comprehensions and generator expressions do not count. The counts are deterministic, so a change to
them is a change of the code, not of the machine. `--modules` also lists the calls of each module.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.tables import print_table

SCHEMA = "node Person { name: String @key  age: I32? }"
INSERT = "query add($name: String, $age: I32) { insert Person { name: $name, age: $age } }"
QUERY = "query adults($age: I32) { match { $p: Person  $p.age >= $age } return { $p.name } }"
WARM_UP_ROUNDS = 3

_PACKAGE = f"{Path(omnigraph.__file__).parent}/"


def main() -> None:
    """Count the calls of a warm insert and of a warm query."""
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(str(Path(folder) / "graph"), SCHEMA)
        for number in range(WARM_UP_ROUNDS):
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
    """The calls of Python functions of OmniGraph during a run, by module."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001
        file = frame.f_code.co_filename
        is_function = not frame.f_code.co_name.endswith(("comp>", "genexpr>"))
        if event == "call" and is_function and file.startswith(_PACKAGE):
            calls[file.removeprefix(_PACKAGE).removesuffix(".py")] += 1

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


if __name__ == "__main__":
    main()
