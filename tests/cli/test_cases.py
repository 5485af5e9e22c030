"""The specification's cases of the command line, each by the processes that a user would start."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.support.commands import Ended, run_command
from tests.support.graphs import SOCIAL, build_graph, ndjson, node, social_graph
from tests.support.policies import TEAM
from tests.support.servers import FIND_PERSON, Server, running_server

PAIR = """
version: 1
groups: {owners: [olga], readers: [rita]}
rules:
  - {id: own, allow: {actors: {group: owners}, actions: [read, change]}}
  - {id: look, allow: {actors: {group: readers}, actions: [read]}}
"""
LISTS = """
version: 1
groups: {operators: [rita]}
rules:
  - {id: list, allow: {actors: {group: operators}, actions: [graph_list]}}
"""
ALL_PEOPLE = "query all() { match { $p: Person } return { $p.name } }"
ADD = 'query add() { insert Person { name: "Eve" } }'
TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"rita": "token-rita"}'}
MOCK = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}
ALPHA = [-0.5420488, -0.4717994, 0.1609051, 0.6765338]
NEAREST = (
    'query near() { match { $d: Doc } return { $d.slug } order { nearest($d.vec, "alpha") } '
    "limit 3 }"
)
# No process listens there.
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Fixture F, with a branch `draft`; what tests write there is on branches of their own."""
    path = tmp_path_factory.mktemp("cases") / "graph"
    with social_graph(path) as made:
        made.create_branch("draft")
    return str(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Fixture F, with stored queries and a list of graphs for rita, who may only read."""
    folder = tmp_path_factory.mktemp("cases-server")
    queries = save(folder, "queries.gq", FIND_PERSON + ADD)
    listing = save(folder, "listing.yaml", LISTS)
    policy = save(
        folder,
        "policy.yaml",
        LISTS.replace("graph_list", "read, change, branch_delete, invoke_query"),
    )
    flags = ("--queries", queries, "--server-policy", listing, "--policy", policy)
    with running_server(folder, *map(str, flags), environment=TOKENS) as running:
        yield running


def save(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def save_config(folder: Path, **sections: object) -> Path:
    """A home with this configuration."""
    save(folder, "config.yaml", yaml.safe_dump(sections))
    return folder


def require_refused(ended: Ended, *said: str, code: int = 1) -> None:
    """The command failed, printed nothing but the error as JSON, and its message has these."""
    assert ended.code == code, ended
    assert not ended.out or ended.fields.keys() >= {"error", "code"}, ended
    missing = [each for each in said if each not in ended.err]
    assert not missing, f"{missing} not in {ended.err}"
    assert code != 1 or "Error: " in ended.err


# Policies


def test_a_valid_policy_is_counted_and_a_broken_one_refused(tmp_path: Path) -> None:  # case 65
    pair = save(tmp_path, "pair.yaml", PAIR)
    broken = save(tmp_path, "broken.yaml", PAIR.replace("group: owners", "group: absent"))

    valid = run_command("policy", "validate", "--config", pair)
    refused = run_command("policy", "validate", "--config", broken)

    assert valid.code == 0
    assert "policy valid:" in valid.out
    assert "[2 actors]" in valid.out
    require_refused(refused, "absent")


@pytest.mark.parametrize(
    ("branch", "printed"),
    [
        ("main", ("decision: deny", "message: ")),
        ("feature", ("decision: allow", "matched_rule: draft")),
    ],
)
def test_a_decision_is_explained(
    branch: str, printed: tuple[str, ...], tmp_path: Path
) -> None:  # case 67
    team = save(tmp_path, "team.yaml", TEAM)

    ended = run_command(
        *("policy", "explain", "--config", team, "--actor", "bruno"),
        *("--action", "change", "--branch", branch),
    )

    assert ended.code == 0
    assert [each for each in printed if each not in ended.out] == []


def test_of_two_policies_one_has_to_be_named(tmp_path: Path) -> None:  # case 68
    save(tmp_path / "policies", "team.yaml", TEAM)
    save(tmp_path / "policies", "pair.yaml", PAIR)

    ended = run_command(
        *("policy", "explain", "--config", tmp_path / "policies"),
        *("--actor", "olga", "--action", "read"),
    )

    require_refused(ended, "team", "pair")


# The frame


@pytest.mark.parametrize("spelling", ["version", "-v", "--version"])
def test_the_version_is_printed(spelling: str) -> None:  # case 83
    ended = run_command(spelling)

    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"omnigraph \d+\.\d+\.\d+\n", ended.out)


@pytest.mark.parametrize(
    "arguments", [("version", "--nope"), ("--nope",), ("load", "--data", "d", "g"), ()]
)
def test_a_wrong_command_line_exits_with_two(arguments: tuple[str, ...]) -> None:  # cases 83, 85
    require_refused(run_command(*arguments), code=2)


# Loading


def test_a_load_counts_what_it_brought_in(tmp_path: Path) -> None:  # case 85
    with social_graph(tmp_path / "old") as old:
        rows = save(tmp_path, "rows.jsonl", "\n".join(old.export()))
    schema = save(tmp_path, "schema.pg", SOCIAL)
    store = tmp_path / "new"

    made = run_command("init", store, "--schema", schema)
    loaded = run_command("load", "--data", rows, "--mode", "overwrite", store, "--json")

    assert (made.code, made.out) == (0, f"initialized {store}\n")
    assert loaded.fields["nodes_loaded"] == 6
    assert loaded.fields["edges_loaded"] == 5
    assert loaded.fields["node_types_loaded"] == 2
    assert loaded.fields["edge_types_loaded"] == 2
    assert "base_branch" not in loaded.fields


def test_a_missing_branch_is_made_only_if_its_base_is_said(graph: str, tmp_path: Path) -> None:
    # case 86
    rows = save(tmp_path, "rows.jsonl", ndjson(node("Person", name="Zoe")).getvalue())
    command = ("load", graph, "--data", rows, "--mode", "append", "--branch", "fresh", "--json")

    alone = run_command(*command)
    based = run_command(*command, "--from", "main")

    require_refused(alone, "fresh")
    assert based.code == 0
    assert based.fields["branch_created"] is True
    assert based.fields["base_branch"] == "main"


# Queries


def test_a_query_needs_one_text_and_one_name(graph: str, tmp_path: Path) -> None:  # case 88
    queries = save(tmp_path, "queries.gq", FIND_PERSON)
    at = ("--store", graph)

    require_refused(run_command("query", "--query", queries, *at), "multiple queries")
    require_refused(run_command("query", "-e", "", *at), "must not be empty")
    require_refused(run_command("query", "-e", ALL_PEOPLE, "--query", queries, *at), code=2)


def test_a_stored_query_needs_a_server(graph: str) -> None:  # case 89
    require_refused(run_command("query", "find_people", "--store", graph), "needs a server")


@pytest.mark.parametrize(
    ("old", "new", "rest"),
    [
        (("read",), ("query",), ("--store", "GRAPH", "-e", ALL_PEOPLE)),
        (("change",), ("mutate",), ("--store", "GRAPH", "-e", ADD, "--branch", "draft")),
        (("check",), ("lint",), ("--schema", "SCHEMA", "--query", "QUERIES")),
        (("query", "lint"), ("lint",), ("--schema", "SCHEMA", "--query", "QUERIES")),
    ],
    ids=["read", "change", "check", "query lint"],
)
def test_an_old_spelling_does_the_same_and_says_so(
    old: tuple[str, ...], new: tuple[str, ...], rest: tuple[str, ...], graph: str, tmp_path: Path
) -> None:  # case 91
    named = {
        "GRAPH": graph,
        "SCHEMA": str(save(tmp_path, "schema.pg", SOCIAL)),
        "QUERIES": str(save(tmp_path, "queries.gq", FIND_PERSON)),
    }
    given = [named.get(each, each) for each in rest]

    today = run_command(*new, *given)
    before = run_command(*old, *given)

    assert (before.code, before.out) == (today.code, today.out)
    printed = [line for line in before.err.splitlines() if line not in today.err.splitlines()]
    assert len(printed) == 1
    assert f"`omnigraph {' '.join(old)}` is deprecated" in printed[0]


# Addresses


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--graph", "k"), "already a single graph"),
        (("--server", "b"), "exclusive"),
    ],
)
def test_an_address_is_one_graph(flags: tuple[str, ...], said: str, graph: str) -> None:  # case 92
    require_refused(run_command("query", "--store", graph, *flags, "-e", ALL_PEOPLE), said)


def test_maintenance_does_not_accept_a_server() -> None:  # case 94
    ended = run_command("optimize", "--server", "prod")

    require_refused(
        ended,
        *("`optimize`", "direct (storage-native)", "--server", "does not apply"),
        *("a storage URI", "--cluster <dir> --graph <id>"),
    )


def test_a_deletion_elsewhere_wants_consent(server: Server) -> None:  # case 95
    command = ("branch", "delete", "x", "--server", server.url, "--graph", "default", "--json")
    env = {"OMNIGRAPH_BEARER_TOKEN": "token-rita"}

    without = run_command(*command, env=env)
    consented = run_command(*command, "--yes", env=env)

    require_refused(without, "--yes")
    require_refused(consented, "'x'", "not found")


def test_the_name_of_a_writer_is_the_flags_else_the_configurations(
    graph: str, tmp_path: Path
) -> None:  # case 97
    home = save_config(tmp_path, operator={"actor": "olga"})
    written = ("mutate", "--store", graph, "-e", ADD, "--branch", "draft", "--json")

    refused = run_command("--as", "ann", "mutate", "-e", ADD, "--server", NOWHERE)
    flagged = run_command("--as", "ann", *written, home=home)
    configured = run_command(*written, home=home)

    require_refused(refused, "--as", "derives the actor from")
    assert flagged.fields["actor_id"] == "ann"
    assert configured.fields["actor_id"] == "olga"


def test_a_server_that_has_graphs_is_not_guessed(server: Server) -> None:  # case 103
    ended = run_command(
        *("query", "--server", server.url, "-e", ALL_PEOPLE),
        env={"OMNIGRAPH_BEARER_TOKEN": "token-rita"},
    )

    require_refused(ended, "default", "--graph <id>")


# Maintenance and schemas


def test_a_cleanup_is_shown_before_it_is_done(tmp_path: Path) -> None:  # case 98
    social_graph(tmp_path / "graph").close()
    store = tmp_path / "graph"

    shown = run_command("cleanup", store, "--keep", "5")
    done = run_command("cleanup", store, "--keep", "5", "--confirm", "--json")
    unlimited = run_command("cleanup", store)

    assert (shown.code, shown.out) == (0, "")
    assert "node:Person" in shown.err
    tables = done.fields["tables"]
    assert isinstance(tables, list)
    assert {each["table_key"] for each in tables} >= {"node:Person", "edge:Knows"}
    assert set(tables[0]) >= {"table_key", "bytes_removed", "old_versions_removed", "error"}
    require_refused(unlimited, "--keep", "--older-than")


@pytest.mark.parametrize(
    ("query", "code", "status", "finding"),
    [
        (
            'query q($n: String) { update Person set { name: $n } where name = "A" }',
            1,
            "error",
            None,
        ),
        ('query q($n: Date) { update Knows set { since: $n } where from = "A" }', 1, "error", None),
        (ALL_PEOPLE.replace("Person", "Persn"), 1, "error", None),
        ("query {", 1, "error", "Q000"),
    ],
    ids=["key", "edge", "type", "parse"],
)
def test_lint_says_what_is_wrong_with_queries(
    query: str, code: int, status: str, finding: str | None, tmp_path: Path
) -> None:  # case 100
    schema = save(tmp_path, "schema.pg", SOCIAL)
    queries = save(tmp_path, "q.gq", query)

    ended = run_command("lint", "--schema", schema, "--query", queries, "--json")

    assert (ended.code, ended.fields["status"]) == (code, status)
    findings = ended.fields["findings"]
    assert isinstance(findings, list)
    assert [each["code"] for each in findings] == ([] if finding is None else [finding])


def test_lint_warns_of_a_property_that_no_update_sets(tmp_path: Path) -> None:  # case 100
    schema = save(tmp_path, "schema.pg", "node P { k: String @key  a: I32?  b: I32? }")
    queries = save(tmp_path, "q.gq", 'query q($n: I32) { update P set { a: $n } where k = "x" }')

    ended = run_command("lint", "--schema", schema, "--query", queries, "--json")

    assert (ended.code, ended.fields["status"]) == (0, "ok")
    findings = ended.fields["findings"]
    assert isinstance(findings, list)
    assert (findings[0]["code"], findings[0]["property"]) == ("L201", "b")


def test_a_change_that_cannot_be_made_is_planned_and_not_applied(
    graph: str, tmp_path: Path
) -> None:  # case 101
    schema = save(tmp_path, "next.pg", SOCIAL.replace("I32?", "String?"))

    planned = run_command("schema", "plan", graph, "--schema", schema, "--json")
    applied = run_command("schema", "apply", graph, "--schema", schema)
    shown = run_command("schema", "show", graph)

    assert (planned.code, planned.fields["supported"]) == (0, False)
    steps = planned.fields["steps"]
    assert isinstance(steps, list)
    assert "unsupported_change" in [step["kind"] for step in steps]
    require_refused(applied, "changing property type")
    assert shown.out == SOCIAL


# Embeddings


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three documents; `a` has the vector that the specification gives for `alpha`."""
    path = tmp_path_factory.mktemp("notes") / "graph"
    vectors = {"x": [1.0, 0.0, 0.0, 0.0], "a": ALPHA, "z": [0.5, 0.5, 0.5, 0.5]}
    documents = [node("Doc", slug=slug, vec=vector) for slug, vector in vectors.items()]
    build_graph(path, "node Doc { slug: String @key  vec: Vector(4) }", *documents).close()
    return str(path)


def test_the_built_in_vectors_are_those_of_the_specification(notes: str) -> None:  # case 133
    distance = NEAREST.replace("$d.slug", '$d.slug, nearest($d.vec, "alpha") as distance')

    ended = run_command("query", "-e", distance, "--store", notes, "--json", env=MOCK)

    rows = ended.fields["rows"]
    assert isinstance(rows, list)
    assert (rows[0]["d.slug"], rows[0]["distance"]) == ("a", pytest.approx(0, abs=1e-6))


def test_a_text_is_near_to_itself(notes: str) -> None:  # case 134
    once, again = (
        run_command("query", "-e", NEAREST, "--store", notes, "--format", "csv", env=MOCK)
        for _ in range(2)
    )

    assert once.out.splitlines()[:2] == ["d.slug", "a"]
    assert again.out == once.out


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "OPENROUTER_API_KEY or OPENAI_API_KEY"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "cohere"}, "unknown embedding provider"),
    ],
)
def test_a_provider_that_cannot_embed_is_reported(
    env: Mapping[str, str], said: str, notes: str
) -> None:  # case 136
    require_refused(run_command("query", "-e", NEAREST, "--store", notes, env=env), said)


def test_rows_of_a_file_are_selected(tmp_path: Path) -> None:  # case 139
    rows = [{"slug": slug, "title": slug, "vector": [1, 0, 0, 0]} for slug in ("a", "b")]
    lines = "\n".join(json.dumps({"type": "Decision", "data": each}) for each in rows)
    types = {"Decision": {"target": "vector", "fields": ["title"]}}
    files = ("--input", save(tmp_path, "rows.jsonl", lines), "--output", tmp_path / "out.jsonl")
    spec = save(tmp_path, "spec.json", json.dumps({"dimension": 4, "types": types}))
    command = ("embed", *files, "--spec", spec, "--json")

    repeated = run_command(*command, "--select", "Decision:slug=b", env=MOCK)
    cleaned = run_command(*command, "--clean", "--select", "Decision:slug=b")
    both = run_command(*command, "--clean", "--reembed-all", env=MOCK)

    assert (repeated.fields["mode"], repeated.fields["embedded_rows"]) == ("reembed_selected", 1)
    assert (cleaned.code, cleaned.fields["cleaned_rows"]) == (0, 1)
    require_refused(both, code=2)


# The operator's configuration


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"server": "s", "store": "g"}, "has both `server` and `store`"),
        ({"store": "g", "default_graph": "k"}, "already a single graph"),
    ],
)
def test_defaults_that_contradict_each_other_are_refused(
    defaults: Mapping[str, str], said: str, tmp_path: Path
) -> None:  # case 106
    home = save_config(tmp_path, defaults=dict(defaults), servers={"s": {"url": NOWHERE}})

    require_refused(run_command("query", "-e", ALL_PEOPLE, home=home), said)


def test_tokens_are_readable_by_their_owner_only(tmp_path: Path) -> None:  # case 107
    home = save_config(tmp_path, servers={"s": {"url": NOWHERE}, "t": {"url": NOWHERE}})
    credentials = home / "credentials"

    run_command("login", "t", "--token", "kept", home=home)
    first = run_command("login", "s", home=home, stdin="one\n")
    second = run_command("login", "s", "--token", "two", home=home)
    text = credentials.read_text(encoding="utf-8")
    mode = stat.S_IMODE(credentials.stat().st_mode)
    credentials.chmod(0o644)
    opened = run_command("query", "-e", ALL_PEOPLE, "--server", "s", home=home)

    assert (first.code, second.code) == (0, 0)
    assert mode == 0o600
    assert "one" not in text
    assert (text.count("[s]"), "two" in text, "kept" in text) == (1, True, True)
    require_refused(opened, "chmod 600")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("alias", "who", "Alice", "Bob", "--json"), "who"),
        (("alias", "add"), "is a mutation"),
        (("--server", "x", "alias", "who"), "--server"),
        (("alias", "absent"), "who"),
    ],
    ids=["too many arguments", "a mutation", "an address", "unknown"],
)
def test_an_alias_that_cannot_be_followed_is_refused(
    arguments: tuple[str, ...], said: str, server: Server, tmp_path: Path
) -> None:  # case 109
    require_refused(run_command(*arguments, home=save_aliases(server, tmp_path)), said)


def test_an_alias_runs_a_stored_query(server: Server, tmp_path: Path) -> None:  # case 109
    home = save_aliases(server, tmp_path)

    ended = run_command("alias", "who", "Alice", "--json", home=home)

    assert ended.fields["rows"] == [{"p.name": "Alice", "p.age": 30}]


def save_aliases(server: Server, folder: Path) -> Path:
    """A home with an alias for a read, and one for a mutation."""
    save(folder, "credentials", "[s]\ntoken = token-rita\n").chmod(0o600)
    bound = {"server": "s", "graph": "default"}
    return save_config(
        folder,
        servers={"s": {"url": server.url}},
        aliases={
            "who": {**bound, "query": "get_person", "args": ["name"]},
            "add": {**bound, "query": "add"},
        },
    )


def test_profiles_are_listed_with_what_is_wrong_with_them(tmp_path: Path) -> None:  # case 110
    home = save_config(
        tmp_path, profiles={"p": {"store": "g"}, "two": {"store": "g", "server": "s"}}
    )

    ended = run_command("profile", "list", "--json", home=home, env={"OMNIGRAPH_PROFILE": "p"})

    listed = ended.body
    assert isinstance(listed, list)
    by_name = {each["name"]: each for each in listed}
    assert (by_name["p"]["scope_kind"], by_name["p"]["active"]) == ("store", True)
    assert by_name["two"]["scope_kind"] == "invalid"
    assert (by_name["two"]["valid"], by_name["two"]["target"]) == (False, None)
    assert by_name["two"]["active"] is False
