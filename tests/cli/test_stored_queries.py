"""Stored queries of a server by their names: reads by `query`, mutations by `mutate`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import Ended, invoke_command
from tests.support.servers import Server, running_server
from tests.support.stored_people import ADD, QUERIES, write_text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("stored")
    queries = write_text(folder, "stored.gq", QUERIES + ADD)
    with running_server(folder, "--unauthenticated", "--queries", str(queries)) as running:
        yield running


def call(server: Server, *arguments: str | Path) -> Ended:
    return invoke_command(*arguments, "--server", server.url, "--graph", "default")


def test_a_stored_read_is_run_by_its_name(server: Server) -> None:
    ended = call(server, "query", "get_person", "--params", '{"name": "Bob"}', "--json")

    assert ended.code == 0, ended.err
    assert ended.fields["query_name"] == "get_person"
    assert ended.fields["rows"] == [{"p.name": "Bob", "p.age": 25}]


def test_a_stored_mutation_is_run_by_its_name(server: Server) -> None:
    ended = call(server, "branch", "create", "work")
    assert ended.code == 0, ended.err

    ended = call(
        server, "mutate", "add", "--params", '{"name": "Eve"}', "--branch", "work", "--json"
    )

    assert ended.code == 0, ended.err
    assert (ended.fields["branch"], ended.fields["query_name"]) == ("work", "add")
    assert ended.fields["affected_nodes"] == 1


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("query", "add"), "'add' is a mutation — use omnigraph mutate add"),
        (("mutate", "get_person"), "'get_person' is a read — use omnigraph query get_person"),
        (("query", "nothing_like_it"), "stored query not found"),
    ],
)
def test_a_query_of_the_other_kind_is_refused_with_the_command_for_it(
    arguments: tuple[str, ...], advice: str, server: Server
) -> None:
    ended = call(server, *arguments)

    assert (ended.code, ended.out) == (1, "")
    assert advice in ended.err


def test_who_runs_a_stored_mutation_is_the_servers_to_say(server: Server) -> None:
    ended = call(server, "--as", "ann", "mutate", "add", "--params", '{"name": "Eve"}')

    assert ended.code == 1
    assert "--as" in ended.err
