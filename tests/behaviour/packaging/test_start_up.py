"""Imports are lazy: which libraries a fresh process imports, and which it does not.

Counted, not timed: what is imported is the same on every machine. The modules that `--help` and
the offline commands avoid are in `tests/surface/test_start_up.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.commands import command_environment
from tests.support.graphs import ndjson, node, social_graph

STORAGE = frozenset({"lance", "numpy", "pyarrow"})

# Each takes from tens to hundreds of milliseconds, and a plain read or write needs none of them.
HEAVY = frozenset(
    {
        "IPython",
        "Stemmer",
        "cedarpy",
        "mcp",
        "prompt_toolkit",
        "pydantic",
        "pyspark",
        "rapidfuzz",
        "scipy",
        "starlette",
        "urllib3",
        "yaml",
    }
)

# Arrow imports it by itself, in programs of others too; the command line keeps it from that. The
# interpreter lists what it was asked for in vain too, so this is a part of it.
PANDAS = "pandas.core"

# Own modules that a point read does not need.
OTHER_CALLS = frozenset(
    {
        "omnigraph.engine.analysis.algorithms",
        "omnigraph.engine.graph_load",
        "omnigraph.engine.maintenance.cleanup",
        "omnigraph.engine.maintenance.doctor",
        "omnigraph.engine.merge.merge",
        "omnigraph.engine.ops.mutate",
        "omnigraph.engine.maintenance.optimize",
        "omnigraph.engine.schema_apply",
        "omnigraph.policy.gate",
        "omnigraph.spark.sessions",
    }
)

POINT = "query one($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
HOP = 'query friends() { match { $p: Person { name: "Alice" } $p knows $f } return { $f.name } }'
ADD = 'query add() { insert Person { name: "Cid" } }'
COUNT = "query many() { match { $p: Person $p knows $f } return { $p.name, count($f) as n } }"


def test_importing_the_package_imports_no_library() -> None:
    modules = _modules_after("import omnigraph")

    assert "omnigraph" in modules
    assert sorted(_packages(modules) & (STORAGE | HEAVY | {"click", "pandas"})) == []


def test_a_program_that_reads_imports_only_what_reading_needs(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()

    modules = _modules_after(
        "import omnigraph",
        f"graph = omnigraph.open({str(tmp_path / 'graph')!r})",
        f"assert graph.query({POINT!r}, {{'n': 'Alice'}}).rows == [{{'p.name': 'Alice'}}]",
    )

    assert _packages(modules) >= STORAGE
    assert sorted(_packages(modules) & HEAVY) == []
    assert sorted(modules & OTHER_CALLS) == []


@pytest.mark.parametrize("query", [HOP, COUNT], ids=["hop", "count"])
def test_a_traversal_of_a_small_graph_imports_no_matrices(query: str, tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()

    modules = _modules_after(
        "import omnigraph",
        f"graph = omnigraph.open({str(tmp_path / 'graph')!r})",
        f"assert len(graph.query({query!r})) > 0",
    )

    assert "scipy" not in _packages(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "-e", POINT, "--params", '{"n": "Alice"}'],
        ["mutate", "-e", ADD],
        ["branch", "list"],
        ["load", "--data", "rows.jsonl", "--mode", "merge"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_on_a_local_graph_imports_what_it_uses(
    arguments: list[str], tmp_path: Path
) -> None:
    social_graph(tmp_path / "graph").close()
    (tmp_path / "rows.jsonl").write_text(ndjson(node("Person", name="Dan")).read())

    modules = _modules_of_command([*arguments, "--store", "graph"], folder=tmp_path)

    assert _packages(modules) >= STORAGE
    assert sorted(_packages(modules) & HEAVY) == []
    assert PANDAS not in modules


def test_a_command_result_can_become_a_pandas_frame(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").close()

    modules = _modules_after(
        "import sys",
        "from omnigraph.cli.main import defer_imports",
        "defer_imports()",
        "import omnigraph",
        f"graph = omnigraph.open({str(tmp_path / 'graph')!r})",
        f"found = graph.query({POINT!r}, {{'n': 'Alice'}})",
        "assert found.rows == [{'p.name': 'Alice'}]",
        "assert 'pandas' not in sys.modules",
        "assert found.to_pandas().to_dict('records') == found.rows",
    )

    assert "pandas" in modules


def _modules_after(*lines: str) -> frozenset[str]:
    """The modules that a fresh process has imported once it has run some lines."""
    program = "\n".join([*lines, "import json, sys", "print(json.dumps(list(sys.modules)))"])
    finished = _run([sys.executable, "-c", program], folder=Path.cwd())
    return frozenset(json.loads(finished.stdout))


def _modules_of_command(arguments: Sequence[str], *, folder: Path) -> frozenset[str]:
    """The modules that a command imports in a process of its own."""
    # The interpreter lists imports on stderr, and the command reports its progress there.
    finished = _run([sys.executable, "-X", "importtime", "-m", "omnigraph", *arguments], folder)
    lines = [line for line in finished.stderr.splitlines() if line.startswith("import time:")]
    return frozenset(line.rpartition("|")[2].strip() for line in lines)


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    finished = subprocess.run(
        command, cwd=folder, env=command_environment(), capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished


def _packages(modules: frozenset[str]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in modules)
