"""Offline commands start at once: no process pays for a library that it does not use."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = frozenset(
    {"datafusion", "lance", "lark", "numpy", "pandas", "pyarrow", "pydantic", "pyspark"}
)

SCHEMA = "node Person { name: String @key age: I32? } edge Knows: Person -> Person"
QUERIES = "query friends() { match { $p: Person $p knows $f } return { $f.nme } }"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["lint", "--help"],
        ["lint", "--schema", "schema.pg", "--query", "queries.gq"],
        ["lint", "--schema", "schema.pg", "--query", "queries.gq", "--json"],
        ["schema", "plan", "--schema", "schema.pg", "--from", "schema.pg"],
        ["queries", "list", "--help"],
        ["queries", "codegen", "--python", "--schema", "schema.pg", "--query", "queries.gq"],
        ["policy", "validate", "--config", "team.yaml"],
    ],
    ids=" ".join,
)
def test_an_offline_command_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "queries.gq").write_text(QUERIES, encoding="utf-8")
    (tmp_path / "team.yaml").write_text("version: 1\n", encoding="utf-8")

    imported = _imported_packages(arguments, directory=tmp_path)

    assert "click" in imported
    assert not imported & HEAVY


def _imported_packages(arguments: list[str], *, directory: Path) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "omnigraph", *arguments]
    # Lint finds a fault and exits with 1, which is irrelevant here; a usage error exits with 2.
    finished = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert finished.returncode in {0, 1}, finished.stderr
    lines = [line for line in finished.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
