"""`omnigraph` without a graph, as a user or a script runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import Ended, invoke_command, run_command

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
GOOD = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }\n"
BAD = "query q() { match { $p: Person } return { $p.agee } }\n"


def omnigraph(*arguments: str, given: str = "") -> Ended:
    return invoke_command(*arguments, stdin=given)


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.pg"
    path.write_text(SCHEMA)
    return str(path)


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_clean_file_passes_lint(schema: str, tmp_path: Path) -> None:
    done = run_command("lint", "--schema", schema, "--query", write(tmp_path, "q.gq", GOOD))

    assert done.code == 0
    assert done.out.splitlines() == [
        "OK    query `q` (read)",
        "INFO  Lint complete: 1 query processed (0 error(s), 0 warning(s), 0 info item(s))",
    ]
    assert done.err == ""


def test_an_error_fails_lint_and_shows_its_position_and_fix(schema: str, tmp_path: Path) -> None:
    path = write(tmp_path, "q.gq", BAD)

    done = omnigraph("lint", "--schema", schema, "--query", path)

    assert done.code == 1
    assert "ERROR query `q`: type error: Person has no property `agee` [T6]" in done.out
    assert f"--> {path}:1:46" in done.out
    assert "did you mean `age`?" in done.out


def test_lint_as_json_is_the_whole_of_standard_output(schema: str, tmp_path: Path) -> None:
    path = write(tmp_path, "q.gq", BAD)

    done = omnigraph("lint", "--schema", schema, "--query", path, "--json")

    report = json.loads(done.out)
    assert done.code == 1
    assert report["status"] == "error"
    assert report["schema_source"] == {"kind": "file", "path": schema}
    assert report["query_path"] == path
    assert done.out == json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def test_queries_may_come_through_a_pipe(schema: str) -> None:
    done = omnigraph("lint", "--schema", schema, "--query", "-", given=GOOD)

    assert done.code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--schema", "missing.pg", "--query", "-"), "file 'missing.pg' not found"),
        (("--schema", ".", "--query", "-"), "cannot read '.'"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_not_a_traceback(
    arguments: tuple[str, ...], message: str
) -> None:
    done = omnigraph("lint", *arguments)

    assert done.code == 1
    assert done.err.startswith("Error: ")
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_schema_that_does_not_compile_is_an_error(tmp_path: Path) -> None:
    schema = write(tmp_path, "s.pg", "node person {}")

    done = omnigraph("lint", "--schema", schema, "--query", "-", given=GOOD)

    assert done.code == 1
    assert "type names start with a capital letter: `Person`" in done.err


def test_a_file_in_another_encoding_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "latin.pg"
    path.write_bytes("node N { a: String @description('café') }".encode("latin-1"))

    done = omnigraph("lint", "--schema", str(path), "--query", "-", given=GOOD)

    assert done.code == 1
    assert "the file is not UTF-8" in done.err


@pytest.mark.parametrize("arguments", [("lnt",), ("lint",), ("lint", "--nope"), ()])
def test_a_wrong_command_line_exits_with_two(arguments: tuple[str, ...]) -> None:
    done = omnigraph(*arguments)

    assert done.code == 2
    assert "omnigraph" in done.err


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("lint", "--help"), ("-v",)])
def test_help_and_version_succeed(arguments: tuple[str, ...]) -> None:
    assert omnigraph(*arguments).code == 0


def test_help_lists_commands_by_capability() -> None:
    shown = omnigraph("--help").out

    assert "COMMANDS BY CAPABILITY" in shown
    assert shown.index("direct commands") < shown.index("local commands")


@pytest.mark.parametrize("arguments", [("version",), ("-v",), ("--version",)])
def test_the_version_is_printed_in_one_way(arguments: tuple[str, ...]) -> None:
    assert omnigraph(*arguments).out == "omnigraph 0.1.0\n"


def test_a_plan_lists_its_steps(schema: str, tmp_path: Path) -> None:
    desired = write(tmp_path, "new.pg", SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))

    done = omnigraph("schema", "plan", "--from", schema, "--schema", desired)

    assert done.code == 0
    assert done.out.splitlines()[:2] == [f"schema plan for {schema}", "supported: yes"]
    assert "Person.nick" in done.out


def test_an_unsupported_plan_still_exits_with_zero(schema: str, tmp_path: Path) -> None:
    desired = write(tmp_path, "new.pg", SCHEMA.replace("I32?", "I64?"))

    done = omnigraph("schema", "plan", "--from", schema, "--schema", desired)

    assert done.code == 0
    assert "supported: no" in done.out
    assert "unsupported change on node:Person.age [OG-MF-106, destructive]" in done.out


def test_a_plan_as_json_counts_its_steps(schema: str, tmp_path: Path) -> None:
    desired = write(tmp_path, "new.pg", SCHEMA + "edge Blocks: Person -> Person")

    done = omnigraph("schema", "plan", "--from", schema, "--schema", desired, "--json")

    assert json.loads(done.out) == {
        "uri": schema,
        "supported": True,
        "step_count": 1,
        "steps": [{"kind": "add_type", "type_kind": "edge", "name": "Blocks"}],
        "blockers": [],
    }


def test_the_same_schema_plans_nothing(schema: str) -> None:
    done = omnigraph("schema", "plan", "--from", schema, "--schema", schema)

    assert "no schema changes" in done.out


def test_a_closed_output_pipe_causes_no_error(schema: str, tmp_path: Path) -> None:
    many = "".join(GOOD.replace("query q", f"query q{n}") for n in range(3_000))
    path = write(tmp_path, "many.gq", many)
    command = f"{sys.executable} -m omnigraph lint --schema {schema} --query {path} | head -1"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert done.stdout == "OK    query `q0` (read)\n"
    assert done.stderr == ""
