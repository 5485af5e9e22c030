"""`omnigraph alias`: a stored query under a name of one's own, with what to give it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import Ended, invoke_command
from tests.support.servers import Server, running_server

QUERIES = """
query find($name: String) {
    match { $p: Person { name: $name } }
    return { $p.name, $p.age }
}
query add($name: String) {
    insert Person { name: $name }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("aliased")
    queries = folder / "stored.gq"
    queries.write_text(QUERIES, encoding="utf-8")
    with running_server(folder, "--unauthenticated", "--queries", str(queries)) as running:
        yield running


def test_an_alias_runs_its_query_with_its_arguments(server: Server, tmp_path: Path) -> None:
    ended = _alias(server, tmp_path, "who", "Alice", "--json")

    assert (ended.code, ended.err) == (0, "")
    assert ended.fields["query_name"] == "find"
    assert ended.fields["rows"] == [{"p.name": "Alice", "p.age": 30}]


def test_what_is_typed_comes_before_what_the_alias_holds(server: Server, tmp_path: Path) -> None:
    held = _alias(server, tmp_path, "fixed", "--format", "csv")
    placed = _alias(server, tmp_path, "fixed", "Bob", "--format", "csv")
    given = _alias(
        server, tmp_path, "fixed", "Bob", "--params", '{"name": "Diana"}', "--format", "csv"
    )

    shown = [each.out.splitlines()[1].partition(",")[0] for each in (held, placed, given)]
    assert shown == ["Alice", "Bob", "Diana"]


def test_an_alias_has_a_format_of_its_own(server: Server, tmp_path: Path) -> None:
    own = _alias(server, tmp_path, "fixed")
    other = _alias(server, tmp_path, "fixed", "--format", "csv")

    assert "p.name: Alice" in own.out.splitlines()
    assert other.out.splitlines()[0] == "p.name,p.age"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("alias who Alice Bob", "takes 1 argument (name), not 2"),
        ("alias absent", "unknown alias 'absent'; aliases of the configuration: add, fixed, "),
        ("alias who 7", "name"),
        ("alias who", "name"),
        ("alias add Zoe", "is a mutation"),
        ("alias homeless Alice", "unknown server 'gone'"),
        ("--server here alias who", "--server does not apply to `alias`"),
        ("--as ann alias who", "--as does not apply to `alias`"),
    ],
)
def test_an_alias_that_cannot_be_run_is_refused(
    line: str, problem: str, server: Server, tmp_path: Path
) -> None:
    _configure(server, tmp_path)

    ended = invoke_command(*line.split(), home=tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert problem in ended.err


def _alias(server: Server, home: Path, *arguments: str) -> Ended:
    _configure(server, home)
    return invoke_command("alias", *arguments, home=home)


def _configure(server: Server, home: Path) -> None:
    (home / "config.yaml").write_text(
        f"servers: {{ here: {{ url: {server.url} }} }}\n"
        "aliases:\n"
        "  who: { server: here, graph: default, query: find, args: [name] }\n"
        "  fixed:\n"
        "    { server: here, graph: default, query: find, args: [name], params: { name: Alice },\n"
        "      format: kv }\n"
        "  add: { server: here, graph: default, query: add, args: [name] }\n"
        "  homeless: { server: gone, query: find, args: [name] }\n"
    )
