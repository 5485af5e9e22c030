"""`omnigraph queries codegen --python`: a module whose types are true, on every kind of graph."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

import omnigraph
from omnigraph.client.remote import AnyGraph
from tests.support.clusters import applied_cluster, two_graph_cluster, write_config, write_files
from tests.support.commands import Ended, invoke_command
from tests.support.servers import serving

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  born: Date?
  seen: DateTime?
  tags: [String]?
  score: F64?
  mood: enum(happy, sad)?
  place: Vector(2)?
}
edge Knows: Person -> Person
"""

LONG = "Use it when the name is known. " + "It goes on for more than a line. " * 4
QUERIES = """
// Everything that a type may be.
query person($name: String)
  @description("One person, by name.")
  @instruction("LONG")
{
  match { $p: Person { name: $name } }
  return {
    $p, $p.name, $p.age, $p.born, $p.seen, $p.tags, $p.score, $p.mood, $p.place as place,
    now() as asked
  }
}

query friends() {
  match { $p: Person optional { $p knows $f } }
  return { $p.name as name, $f.name as friend, count(*) as n, avg($p.age) as age }
}

query add(
  $name: String, $age: I32?, $born: Date?, $seen: DateTime?, $tags: [String]?, $score: F64?,
  $mood: String?, $place: Vector(2)?
) @description("Add a person.") {
  insert Person {
    name: $name, age: $age, born: $born, seen: $seen, tags: $tags, score: $score, mood: $mood,
    place: $place
  }
}
""".replace("LONG", LONG)

HOSTILE = r"""
query class($from: String, $graph: I32?, $branch: Bool?, $list: [String]?, $found: Date, $_x: F32?)
  @description("It says \"\"\" and \\ and \"")
  @instruction("\"\"\"\nimport os; os.abort()\n\"\"\" \\")
{ match { $p: Person { name: $from } } return { $p.name as class, $p.name as __init__ } }
query list($cast: [Date], $commit: DateTime?) { match { $p: Person } return { $p.name as list } }
query str($str: String?, $datetime: [DateTime]?, $made: Bool?) @description(" ")
{ match { $p: Person } return { $p.name, $p.name as name } }
query cast() { match { $p: Person } return { count($p) as n } }
query __getattr__($self: String) { delete Person where name = $self }
query find_it() { match { $p: Person { name: "\"\"\" \\ ' \n" } } return { $p.name } }
query findIt() { match { $p: Person } return { $p.name } }
query datetime() { match { $p: Person } return { $p.name } }
query query() { match { $p: Person } return { $p.name } }
"""

MYPY_FLAGS = [
    "--strict",
    "--no-error-summary",
    "--cache-dir",
    "cache",
    "--config-file",
    "/dev/null",
]

CALLER = """
import datetime
from typing import assert_type

from omnigraph.engine.graph import Graph
from omnigraph.client.remote import RemoteGraph
from omnigraph.engine.results import MutationResult

import hostile
import made


def embedded(graph: Graph) -> None:
    assert_type(made.person(graph, name="Ann"), list[made.PersonRow])
    [row] = made.person(graph, name="Ann", branch="main")
    assert_type(row["p"], str)
    assert_type(row["p.name"], str)
    assert_type(row["p.age"], int | None)
    assert_type(row["p.born"], str | None)
    assert_type(row["p.tags"], list[str] | None)
    assert_type(row["p.score"], float | None)
    assert_type(row["place"], list[float] | None)
    assert_type(row["asked"], str)
    made.add(graph, name="Bob", born=datetime.date(1990, 1, 2), seen="1990-01-02", place=[0, 1])


def remote(graph: RemoteGraph) -> None:
    [row] = made.friends(graph)
    assert_type(row["name"], str)
    assert_type(row["friend"], str | None)
    assert_type(row["n"], int)
    assert_type(row["age"], float | None)
    assert_type(made.add(graph, name="Bob"), MutationResult)
    hostile.class_(graph, from_="x", graph=1, branch=True, list_=["a"], found_="2020-01-01")
    assert_type(hostile.list_(graph, cast_=[datetime.date(2020, 1, 1)]), list[hostile.ListRow])


def refused(graph: Graph) -> None:
    made.person(graph)  # E: call-arg
    made.person(graph, name=1)  # E: arg-type
    made.person(graph, "Ann")  # E: call-arg misc
    made.person(graph, name="Ann")[0]["p.nmae"]  # E: typeddict-item
    made.add(graph, name="Bob", tags=[1])  # E: list-item
"""


def codegen(*words: str | Path) -> Ended:
    return invoke_command("queries", "codegen", "--python", *words)


def generate(folder: Path, name: str, queries: str) -> Path:
    """A module that is made of files."""
    write_files(folder, {"schema.pg": SCHEMA, f"{name}.gq": queries})
    made = folder / f"{name}.py"
    arguments = ("--schema", folder / "schema.pg", "--query", folder / f"{name}.gq", "--out", made)
    ended = codegen(*arguments)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    return made


def import_made(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def opened(way: str, folder: Path) -> Iterator[AnyGraph]:
    """An empty graph, opened by its uri or reached through a server."""
    with omnigraph.init(folder / "graph", SCHEMA) as graph:
        if way == "embedded":
            yield graph
            return
    server = serving(folder, "--store", str(folder / "graph"), "--unauthenticated")
    with server as running, omnigraph.connect(running.url) as reached:
        yield reached


@pytest.mark.parametrize("way", ["embedded", "served"])
def test_the_functions_work_on_every_graph_with_the_schema(way: str, tmp_path: Path) -> None:
    made = import_made(generate(tmp_path, "made", QUERIES))
    facts = {"age": 30, "born": "1990-01-02", "tags": ["a"], "score": 0.5, "place": [0.0, 1.0]}

    with opened(way, tmp_path) as graph:
        done = made.add(graph, name="Ann", mood="happy", seen="2020-01-01T00:00:00Z", **facts)
        graph.create_branch("draft")
        made.add(graph, name="Bob", branch="draft")
        [ann] = made.person(graph, name="Ann")
        friends = made.friends(graph, branch="draft")
        earlier = made.friends(graph, commit=graph.head())

    assert done.affected_nodes == 1
    assert {name: ann[f"p.{name}"] for name in facts if name != "place"} == {
        name: value for name, value in facts.items() if name != "place"
    }
    assert ann["place"] == facts["place"]
    assert ann["p.seen"] == "2020-01-01T00:00:00.000Z"
    assert [(each["name"], each["friend"], each["n"]) for each in friends] == [
        ("Ann", None, 1),
        ("Bob", None, 1),
    ]
    assert [each["name"] for each in earlier] == ["Ann"]


def test_the_types_are_those_that_a_type_checker_sees(tmp_path: Path) -> None:
    generate(tmp_path, "made", QUERIES)
    generate(tmp_path, "hostile", HOSTILE)
    write_files(tmp_path, {"caller.py": CALLER})

    ended = subprocess.run(
        [sys.executable, "-m", "mypy", *MYPY_FLAGS, "caller.py", "made.py", "hostile.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    expected = [
        (number, code)
        for number, line in enumerate(CALLER.splitlines(), start=1)
        if "# E: " in line
        for code in line.partition("# E: ")[2].split()
    ]
    found = [
        (int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]"))
        for line in ended.stdout.splitlines()
        if ": error: " in line
    ]
    assert {number for number, _ in found} == {number for number, _ in expected}, ended.stdout
    assert {code for _, code in found} <= {code for _, code in expected}, ended.stdout
    assert all(line.startswith("caller.py:") for line in ended.stdout.splitlines())


def test_hostile_names_and_texts_do_nothing(tmp_path: Path) -> None:
    module = import_made(generate(tmp_path, "hostile", HOSTILE))

    docstring = module.class_.__doc__
    assert docstring.splitlines()[0] == 'It says """ and \\ and "'
    assert "import os; os.abort()" in docstring
    public = {name for name in dir(module) if not name.startswith("_")}
    assert public >= {"class_", "list_", "str_", "cast_", "query__getattr__", "FindItRow_"}

    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        assert module.find_it(graph) == []
        assert module.query__getattr__(graph, self="x").affected_nodes == 0
        assert module.cast_(graph) == [{"n": 0}]


@pytest.mark.parametrize("queries", [QUERIES, HOSTILE], ids=["plain", "hostile"])
def test_the_module_is_laid_out_as_a_formatter_would(queries: str, tmp_path: Path) -> None:
    made = generate(tmp_path, "made", queries)

    ruff = Path(sys.executable).parent / "ruff"
    for verb in (["format", "--check"], ["check", "--select", "E,F,I,W"]):
        ended = subprocess.run(
            [ruff, *verb, "--isolated", "--line-length", "100", "--target-version", "py311", made],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout


def test_the_same_queries_give_the_same_module(tmp_path: Path) -> None:
    first, *others = QUERIES.split("\n\n")
    one = generate(tmp_path / "one", "made", QUERIES)
    other = generate(tmp_path / "other", "made", "\n\n".join([*reversed(others), first]))

    assert one.read_text() == other.read_text()


def test_the_queries_may_be_those_that_a_cluster_has_applied(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    write_files(folder, {"people.pg": SCHEMA, "q.gq": QUERIES})
    write_config(folder, {"graphs": {"people": {"schema": "people.pg", "queries": "q.gq"}}})
    applied_cluster(folder)
    write_files(folder, {"q.gq": "edited since", "people.pg": "edited since"})

    printed = codegen("--cluster", folder)
    dashed = codegen("--cluster", folder, "--graph", "people", "--out", "-")

    assert printed.code == 0
    assert printed.out == generate(tmp_path, "made", QUERIES).read_text()
    assert dashed.out == printed.out


def test_of_several_graphs_one_is_named(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))

    arguments = codegen("--cluster", tmp_path)
    without_queries = codegen("--cluster", tmp_path, "--graph", "map")

    assert (arguments.code, arguments.out) == (1, "")
    assert "--graph <id>: knowledge, map" in arguments.err
    assert without_queries.code == 0
    compile(without_queries.out, "map.py", "exec")


def test_a_query_that_does_not_fit_the_schema_is_reported_with_its_place(tmp_path: Path) -> None:
    write_files(tmp_path, {"s.pg": SCHEMA, "q.gq": QUERIES.replace("$p.mood", "$p.moood")})

    ended = codegen("--schema", tmp_path / "s.pg", "--query", tmp_path / "q.gq", "--out", tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert "q.gq:9:" in ended.err
    assert "`moood`" in ended.err


def test_two_files_may_not_have_one_query(tmp_path: Path) -> None:
    write_files(tmp_path, {"s.pg": SCHEMA, "a.gq": QUERIES, "b.gq": QUERIES})
    files = ("--query", tmp_path / "a.gq", "--query", tmp_path / "b.gq")

    ended = codegen("--schema", tmp_path / "s.pg", *files)

    assert (ended.code, ended.out) == (1, "")
    assert "stored query" in ended.err


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--schema", "s.pg"], 2, "--query"),
        (["--query", "q.gq"], 2, "--schema"),
        (["--cluster", "c", "--schema", "s.pg", "--query", "q.gq"], 1, "mutually exclusive"),
        ([], 1, "--cluster <dir|uri|name>"),
    ],
)
def test_a_command_line_that_does_not_add_up_is_refused(
    words: list[str], code: int, problem: str
) -> None:
    ended = codegen(*words)

    assert (ended.code, ended.out) == (code, "")
    assert problem in ended.err


def test_a_language_is_required() -> None:
    ended = invoke_command("queries", "codegen", "--schema", "s.pg", "--query", "q.gq")

    assert ended.code == 2
    assert "--python" in ended.err
