"""`omnigraph mutate`: one commit, in whose name, under which conditions."""

from pathlib import Path

import omnigraph
from tests.support.commands import invoke_command, run_command
from tests.support.stored_people import ADD, store_people, write_text


def add(store: Path, name: str, *flags: str, home: Path | None = None) -> dict[str, object]:
    ended = invoke_command(
        *("mutate", "-e", ADD, "--params", f'{{"name": "{name}"}}', "--store", store, "--json"),
        *flags,
        home=home,
    )
    assert ended.code == 0, ended.err
    return ended.fields


def test_a_mutation_says_what_it_changed_and_in_whose_name(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    ended = run_command(
        *("--as", "ann", "mutate", "--store", store),
        *("-e", ADD, "--params", '{"name": "Eve"}'),
    )

    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == ["changed main via add: 1 node, 0 edges", "actor_id: ann"]
    assert ended.err == f"omnigraph mutate → {store} (direct, local)\n"


def test_the_name_of_the_only_query_is_found_in_the_text(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    done = add(store, "Eve", "--as", "ann")

    with omnigraph.open(store) as graph:
        head = graph.commit(graph.head())
    assert done == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": "ann",
        "commit_id": head.id,
    }
    assert head.actor == "ann"


def test_the_configured_actor_writes_unless_a_flag_names_another(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    write_text(tmp_path, "config.yaml", "operator: { actor: boris }\n")

    assert add(store, "Eve", home=tmp_path)["actor_id"] == "boris"
    assert add(store, "Fay", "--as", "ann", home=tmp_path)["actor_id"] == "ann"


def test_a_server_decides_who_writes() -> None:
    ended = invoke_command(
        "--as",
        "ann",
        "mutate",
        "-e",
        "query q() {}",
        "--server",
        "http://localhost:1",
        "--graph",
        "g",
    )

    assert ended.code == 1
    assert "--as" in ended.err
    assert "derives the actor from" in ended.err


def test_a_branch_that_moved_on_is_not_written(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    with omnigraph.open(store) as graph:
        before = graph.head()
    add(store, "Eve", "--if-commit", before)

    ended = invoke_command(
        *("mutate", "-e", ADD, "--params", '{"name": "Fay"}', "--store", store),
        *("--if-commit", before),
    )

    assert ended.code == 4
    with omnigraph.open(store) as graph:
        assert graph.entity("Person", "Fay") is None


def test_a_retried_request_with_a_key_is_applied_once(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    first = add(store, "Eve", "--idempotency-key", "k1")
    again = add(store, "Eve", "--idempotency-key", "k1")

    assert again == first


def test_a_stored_mutation_needs_a_server(tmp_path: Path) -> None:
    ended = invoke_command("mutate", "add", "--store", tmp_path / "nowhere")

    assert ended.code == 1
    assert "needs a server" in ended.err


def test_a_read_is_not_run_by_mutate(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    ended = invoke_command(
        *("mutate", "--store", store, "-e"),
        "query q() { match { $p: Person } return { $p.name } }",
    )

    assert ended.code == 1
    assert ended.out == ""
