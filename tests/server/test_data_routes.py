"""Reads, mutations and loads over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

import omnigraph
from tests.support.graphs import edge, node
from tests.support.served_graphs import (
    ADD_PERSON,
    ALL_PEOPLE,
    GET_PERSON,
    PEOPLE,
    SET_AGE,
    G,
    add_person,
    fork,
    head_of,
    lines,
    names_on,
    require_refused,
)
from tests.support.servers import Server

LEGACY = {"query_source": "query", "query_name": "name"}


# Reads


def test_a_query_returns_its_rows_and_their_commit(client: httpx.Client) -> None:
    head = head_of(client, "main")

    response = client.post(f"{G}/query", json={"query": GET_PERSON, "params": {"name": "Alice"}})

    assert response.status_code == 200
    assert response.json() == {
        "query_name": "get_person",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["p.name", "p.age"],
        "commit_id": head,
        "rows": [{"p.name": "Alice", "p.age": 30}],
    }
    assert response.headers["content-type"] == "application/json"
    assert response.headers["omnigraph-graph-commit"] == head
    assert not {"deprecation", "link"} & set(response.headers)


def _read_alice(condition: str, returned: str) -> dict[str, object]:
    pattern = f'$p: Person {{ name: "Alice" }} {condition}'
    return {"query": f"query q() {{ match {{ {pattern} }} return {{ {returned} }} }}"}


def test_each_literal_that_is_returned_has_a_column_of_its_own(client: httpx.Client) -> None:
    response = client.post(f"{G}/query", json=_read_alice("", "1, 2"))

    assert response.json()["columns"] == ["literal", "literal_2"]
    assert response.json()["rows"] == [{"literal": 1, "literal_2": 2}]


@pytest.mark.parametrize("returned", ["$p.name, $p.name", "$p.name as x, $p.age as x", "min($p)"])
def test_a_column_that_cannot_be_returned_is_refused(client: httpx.Client, returned: str) -> None:
    response = client.post(f"{G}/query", json=_read_alice("", returned))

    require_refused(response, 400, code="bad_request", says="type error")


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ('"xx Alice yy" contains $p.name', ["Alice"]),
        ('"Alice" starts_with $p.name', ["Alice"]),
        ('"Bob" contains $p.name', []),
        *((each, []) for each in ("null > 3", "null = 3", "3 in null", "now() in null")),
    ],
)
def test_a_comparison_without_a_property_on_its_left_runs(
    client: httpx.Client, condition: str, names: list[str]
) -> None:
    response = client.post(f"{G}/query", json=_read_alice(condition, "$p.name"))

    assert response.status_code == 200
    assert [row["p.name"] for row in response.json()["rows"]] == names


def test_the_deprecated_read_gives_the_same_body_and_names_its_successor(
    client: httpx.Client,
) -> None:  # case 25
    body = {"query_source": GET_PERSON, "query_name": "get_person", "params": {"name": "Bob"}}

    deprecated = client.post(f"{G}/read", json=body)

    current = {LEGACY.get(name, name): value for name, value in body.items()}
    assert deprecated.json() == client.post(f"{G}/query", json=current).json()
    assert deprecated.headers["deprecation"] == "true"
    assert deprecated.headers["link"] == '<query>; rel="successor-version"'


def test_a_deprecated_route_that_refuses_says_nothing_of_its_successor(
    client: httpx.Client,
) -> None:
    response = client.post(f"{G}/read", json={"query_source": "no query"})

    assert response.status_code == 400
    assert not {"deprecation", "link"} & set(response.headers)


def test_a_mutation_sent_to_query_is_refused_with_its_route(
    client: httpx.Client,
) -> None:  # case 26
    response = client.post(f"{G}/query", json={"query": ADD_PERSON, "params": {"name": "Eve"}})

    require_refused(response, 400, code="bad_request", says="contains mutations")
    assert "POST /mutate" in response.json()["error"]


def test_a_read_sent_to_mutate_is_refused_with_its_route(client: httpx.Client) -> None:
    response = client.post(f"{G}/mutate", json={"query": ALL_PEOPLE})

    require_refused(response, 400, code="bad_request", says="POST /query")


def test_a_text_of_several_queries_needs_a_name(client: httpx.Client) -> None:  # case 28
    several = GET_PERSON + ALL_PEOPLE

    unnamed = client.post(f"{G}/query", json={"query": several})
    misnamed = client.post(f"{G}/query", json={"query": several, "name": "absent"})
    named = client.post(f"{G}/query", json={"query": several, "name": "all_people"})

    require_refused(unnamed, 400, code="bad_request", says="multiple queries")
    require_refused(misnamed, 400, code="bad_request", says="absent")
    assert named.json()["row_count"] >= len(PEOPLE)


def test_a_read_at_a_commit_says_so(client: httpx.Client) -> None:  # case 29
    branch = fork(client, "at-a-commit")
    before = head_of(client, branch)
    add_person(client, "Later", branch=branch)

    response = client.post(f"{G}/query", json={"query": ALL_PEOPLE, "snapshot": before})
    unknown = client.post(
        f"{G}/query", json={"query": ALL_PEOPLE, "snapshot": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    )

    assert response.json()["target"] == {"branch": None, "snapshot": before}
    assert "Later" not in [row["p.name"] for row in response.json()["rows"]]
    require_refused(unknown, 404, code="not_found", says="commit")


def test_a_read_is_of_a_branch_or_of_a_commit(client: httpx.Client) -> None:
    both = {"query": ALL_PEOPLE, "branch": "main", "snapshot": head_of(client, "main")}

    require_refused(client.post(f"{G}/query", json=both), 400, code="bad_request", says="not both")


def test_a_read_of_a_missing_branch_is_not_found(client: httpx.Client) -> None:
    response = client.post(f"{G}/query", json={"query": ALL_PEOPLE, "branch": "nowhere"})

    require_refused(response, 404, code="not_found", says="nowhere")


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"name": 3}, "name"),
        ({}, "'name' not provided"),
        ({"name": "Bob", "other": {}}, "other"),
        ([1], "object"),
    ],
    ids=["another-type", "missing", "undeclared", "no-object"],
)
def test_bad_params_are_refused_by_name(client: httpx.Client, params: object, says: str) -> None:
    response = client.post(f"{G}/query", json={"query": GET_PERSON, "params": params})

    require_refused(response, 400, code="bad_request", says=says)


@pytest.mark.parametrize("given", [25, "25"])
def test_a_whole_number_may_be_given_as_text(client: httpx.Client, given: object) -> None:
    source = "query q($age: I64) { match { $p: Person { age: $age } } return { $p.name } }"

    response = client.post(f"{G}/query", json={"query": source, "params": {"age": given}})

    assert response.json()["rows"] == [{"p.name": "Bob"}]


def test_a_result_of_many_rows_is_what_the_graph_itself_gives(
    server: Server, client: httpx.Client
) -> None:
    branch = fork(client, "many-rows")
    crowd = [node("Person", name=f'p"{number:05}\\', age=number) for number in range(20_000)]
    client.post(f"{G}/load", json={"data": lines(*crowd), "branch": branch})
    source = "query q() { match { $p: Person } return { $p.name, $p.age as age } }"

    response = client.post(f"{G}/query", json={"query": source, "branch": branch})

    with omnigraph.open(server.store, read_only=True) as graph:
        expected = graph.query(source, branch=branch)
    assert response.json()["rows"] == expected.rows
    assert response.json()["row_count"] == len(crowd) + len(PEOPLE)


def test_a_plan_is_returned_without_running_the_query(client: httpx.Client) -> None:
    response = client.post(f"{G}/explain", json={"query": ALL_PEOPLE})

    assert response.status_code == 200
    assert "scan $p: Person" in response.json()["plan"]


def test_an_analyzed_plan_shows_what_the_query_took(client: httpx.Client) -> None:
    body = {"query": ALL_PEOPLE, "analyze": True}

    response = client.post(f"{G}/explain", json=body)
    over_limit = client.post(f"{G}/explain", json={**body, "bytes_max": 1})
    spark = client.post(f"{G}/explain", json={**body, "engine": "spark"})

    assert response.status_code == 200
    assert f"result: {len(PEOPLE)} rows in " in response.json()["plan"]
    assert over_limit.status_code == 413
    assert spark.status_code == 400


def test_one_entity_is_looked_up_by_its_id(client: httpx.Client) -> None:
    found = client.get(f"{G}/entity", params={"type": "Person", "id": "Alice"})
    absent = client.get(f"{G}/entity", params={"type": "Person", "id": "Absent"})
    without_id = client.get(f"{G}/entity", params={"type": "Person"})

    assert found.json() == {
        "type": "Person",
        "id": "Alice",
        "entity": {"id": "Alice", "name": "Alice", "age": 30},
    }
    assert absent.json()["entity"] is None
    require_refused(without_id, 400, code="bad_request", says="id")


# Mutations


def test_a_mutation_is_visible_to_the_next_read(client: httpx.Client) -> None:  # case 31
    branch = fork(client, "mutated")

    response = add_person(client, "Eve", branch=branch)

    head = head_of(client, branch)
    assert response.json() == {
        "branch": branch,
        "query_name": "add_person",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": None,
        "commit_id": head,
    }
    assert "Eve" in names_on(client, branch)


@pytest.mark.parametrize("fields", [("query", "name"), ("query_source", "query_name")])
def test_change_reads_new_and_old_field_names(
    client: httpx.Client, fields: tuple[str, str]
) -> None:  # case 32
    branch = fork(client, f"changed-{fields[0]}")
    body = {fields[0]: ADD_PERSON, fields[1]: "add_person", "params": {"name": "Eve"}}

    response = client.post(f"{G}/change", json={**body, "branch": branch})

    assert response.json()["affected_nodes"] == 1
    assert response.headers["deprecation"] == "true"
    assert response.headers["link"] == '<mutate>; rel="successor-version"'


def test_a_mutation_that_matches_nothing_makes_no_commit(client: httpx.Client) -> None:
    head = head_of(client, "main")
    body = {"query": SET_AGE, "params": {"name": "Absent", "age": 1}}

    response = client.post(f"{G}/mutate", json=body)

    assert response.json()["affected_nodes"] == 0
    assert response.json()["commit_id"] is None
    assert head_of(client, "main") == head


def test_a_write_by_another_process_blocks_no_write_of_the_server(
    server: Server, client: httpx.Client
) -> None:  # case 46: no cached state of a server is ever stale
    branch = fork(client, "elsewhere")
    names_on(client, branch)
    with omnigraph.open(server.store) as graph:
        graph.mutate(SET_AGE, {"name": "Bob", "age": 1}, branch=branch)

    body = {"query": SET_AGE, "params": {"name": "Bob", "age": 2}, "branch": branch}
    response = client.post(f"{G}/mutate", json=body)

    assert response.status_code == 200
    assert response.json()["affected_nodes"] == 1


def test_inserts_of_one_type_at_the_same_time_all_succeed(
    server: Server, client: httpx.Client
) -> None:  # case 47
    branch = fork(client, "crowd")

    def insert(number: int) -> int:
        with server.client(token=None) as own:
            return add_person(own, f"new-{number}", branch=branch).status_code

    with ThreadPoolExecutor(12) as threads:
        statuses = list(threads.map(insert, range(12)))

    assert statuses == [200] * 12
    assert len(names_on(client, branch)) == len(PEOPLE) + 12


def test_inserts_of_two_types_at_the_same_time_all_succeed(
    server: Server, client: httpx.Client
) -> None:  # case 49
    branch = fork(client, "two-types")
    company = "query add_company($name: String) { insert Company { name: $name } }"

    def insert(number: int) -> int:
        source = company if number % 2 else ADD_PERSON
        body = {"query": source, "params": {"name": f"new-{number}"}, "branch": branch}
        with server.client(token=None) as own:
            return own.post(f"{G}/mutate", json=body).status_code

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(insert, range(8)))

    assert statuses == [200] * 8


def test_concurrent_updates_of_one_row_succeed_or_conflict(
    server: Server, client: httpx.Client
) -> None:
    branch = fork(client, "one-row")
    before = len(client.get(f"{G}/commits", params={"branch": branch}).json()["commits"])

    def update(age: int) -> httpx.Response:
        body = {"query": SET_AGE, "params": {"name": "Bob", "age": age}, "branch": branch}
        with server.client(token=None) as own:
            return own.post(f"{G}/mutate", json=body)

    with ThreadPoolExecutor(6) as threads:
        responses = list(threads.map(update, range(6)))

    statuses = [each.status_code for each in responses]
    after = len(client.get(f"{G}/commits", params={"branch": branch}).json()["commits"])
    assert set(statuses) <= {200, 409}
    assert after - before == statuses.count(200) >= 1
    for refused in (each.json() for each in responses if each.status_code == 409):
        assert refused["code"] == "conflict"
        conflict = refused.get("manifest_conflict", {"expected": 0, "actual": 1})
        assert conflict["actual"] > conflict["expected"]


# Loads


def test_a_load_into_a_branch_reports_the_loaded_rows(client: httpx.Client) -> None:
    branch = fork(client, "loaded")  # case 34
    rows = lines(node("Person", name="Zoe", age=33), edge("Knows", "Zoe", "Bob"))

    response = client.post(f"{G}/load", json={"data": rows, "branch": branch})

    assert response.json() == {
        "uri": "/graphs/default",
        "branch": branch,
        "base_branch": None,
        "branch_created": False,
        "mode": "merge",
        "tables": [
            {"table_key": "edge:Knows", "rows_loaded": 1},
            {"table_key": "node:Person", "rows_loaded": 1},
        ],
        "actor_id": None,
        "commit_id": head_of(client, branch),
        "engine": "inline",
    }


def test_a_load_creates_a_missing_branch_only_with_a_base(
    client: httpx.Client,
) -> None:  # case 35
    body = {"data": lines(node("Person", name="Zoe")), "branch": "not-yet"}

    refused = client.post(f"{G}/load", json=body)
    listed = client.get(f"{G}/branches").json()["branches"]
    response = client.post(f"{G}/load", json={**body, "from": "main"})

    require_refused(refused, 404, code="not_found", says="not-yet")
    assert "not-yet" not in listed
    assert response.json()["branch_created"] is True
    assert response.json()["base_branch"] == "main"


def test_ingest_returns_a_base_that_it_did_not_use(client: httpx.Client) -> None:  # case 37
    branch = fork(client, "ingested")
    body = {"data": lines(node("Person", name="Zoe")), "branch": branch, "from": "no-such-branch"}

    response = client.post(f"{G}/ingest", json=body)

    assert response.json()["branch_created"] is False
    assert response.json()["base_branch"] == "no-such-branch"
    assert response.headers["deprecation"] == "true"
    assert response.headers["link"] == '<load>; rel="successor-version"'


@pytest.mark.parametrize(
    "record",
    [
        '{"data":{"name":"X"}}',
        '{"type":"Nope","data":{"name":"X"}}',
        '{"edge":"Knows","from":"Bob"}',
    ],
    ids=["neither-type-nor-edge", "unknown-type", "edge-without-to"],
)
def test_a_bad_record_is_named_and_nothing_is_written(
    client: httpx.Client, record: str
) -> None:  # case 38
    head = head_of(client, "main")
    rows = f'{{"type":"Person","data":{{"name":"Fine"}}}}\n{record}\n'

    response = client.post(f"{G}/load", json={"data": rows})

    require_refused(response, 400, code="bad_request", says="record 2")
    assert head_of(client, "main") == head


def test_an_append_of_an_existing_key_is_a_conflict(client: httpx.Client) -> None:
    body = {"data": lines(node("Person", name="Alice")), "mode": "append"}

    response = client.post(f"{G}/load", json=body)

    require_refused(response, 409, code="key_conflict", says="Alice")


def test_rows_that_violate_a_rule_are_a_client_error(client: httpx.Client) -> None:
    body = {"data": lines(edge("Knows", "Alice", "Absent"))}

    require_refused(client.post(f"{G}/load", json=body), 400, code="bad_request", says="Absent")


def test_rows_may_be_sent_as_ndjson(client: httpx.Client) -> None:
    response = client.post(
        f"{G}/load",
        params={"branch": "as-they-are", "from": "main", "mode": "append"},
        content=lines(node("Person", name="Zoe")),
        headers={"Content-Type": "application/x-ndjson"},
    )

    assert response.json()["mode"] == "append"
    assert "Zoe" in names_on(client, "as-they-are")


@pytest.mark.parametrize("names", [("from", "to"), ("src", "dst")])
def test_the_ends_of_sent_edges_go_by_either_pair_of_names(
    client: httpx.Client, names: tuple[str, str]
) -> None:
    ends = dict(zip(names, ("Alice", "Bob"), strict=True))
    body = {
        "data": lines({"edge": "Knows", **ends}),
        "branch": f"ends-{names[0]}",
        "from": "main",
        "mode": "append",
    }

    response = client.post(f"{G}/load", json=body)

    assert response.status_code == 200, response.text
    assert sum(each["rows_loaded"] for each in response.json()["tables"]) == 1


def test_a_load_of_another_content_type_is_refused(client: httpx.Client) -> None:
    response = client.post(f"{G}/load", content="x", headers={"Content-Type": "text/plain"})

    require_refused(response, 415, code="bad_request", says="application/x-ndjson")


@pytest.mark.parametrize(
    ("route", "body", "field"),
    [
        ("query", {}, "query"),
        ("query", {"query": 3}, "query"),
        ("mutate", {"query": "x", "branch": 3}, "branch"),
        ("load", {"data": "", "mode": []}, "mode"),
        ("branches", {}, "name"),
        ("branches/merge", {"source": "x", "dry_run": "yes"}, "dry_run"),
        ("schema/apply", {"schema_source": None}, "schema_source"),
        ("export", {"type_names": "Person"}, "type_names"),
    ],
)
def test_a_field_that_is_missing_or_of_another_type_is_named(
    client: httpx.Client, route: str, body: object, field: str
) -> None:
    require_refused(
        client.post(f"{G}/{route}", json=body), 422, code="bad_request", says=f"'{field}'"
    )


def test_fields_that_are_not_declared_are_refused(client: httpx.Client) -> None:
    response = client.post(f"{G}/query", json={"query": ALL_PEOPLE, "actor": "root"})

    assert response.status_code == 400
    assert "unknown field 'actor'" in response.json()["error"]
