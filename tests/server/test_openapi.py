"""The OpenAPI document of the server: valid, complete, and the one in the documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from openapi_spec_validator import validate

import omnigraph
from omnigraph.server.context import GRAPH
from omnigraph.server.routes.openapi import openapi_document
from omnigraph.server.routes.table import make_routes
from omnigraph.server.telemetry import Metrics
from tests.support.servers import open_server, running_server

CHECKED_IN = Path(__file__).parents[2] / "docs/reference/openapi.json"
REFERENCE = CHECKED_IN.with_name("http.md")
DEPRECATED = {"cluster_read", "cluster_change", "cluster_ingest"}
TAGS = [
    "health",
    "management",
    "snapshots",
    "queries",
    "mutations",
    "schema",
    "branches",
    "commits",
]

Described = dict[str, object]

ROUTES = make_routes(
    version="0",
    source_version=None,
    metrics=Metrics(),
    group=None,
    is_authenticated=True,
    agents_write_main=False,
)
UNDOCUMENTED = {"/graphs/{graph_id}/mcp", "/metrics", "/openapi.json"}


def operations_of(document: Described) -> Iterator[tuple[str, Described]]:
    """The operations of a document with their paths."""
    paths = document["paths"]
    assert isinstance(paths, dict)
    for path, methods in paths.items():
        for operation in methods.values():
            yield path, operation


@pytest.mark.parametrize("is_authenticated", [True, False])
def test_the_document_is_valid(*, is_authenticated: bool) -> None:
    validate(openapi_document(ROUTES, version="1.0", is_authenticated=is_authenticated))


def test_a_server_shows_its_document_without_a_token(tmp_path: Path) -> None:  # case 140
    with open_server(tmp_path) as server, server.client(token=None) as client:
        shown = client.get("/openapi.json").json()

    assert shown == openapi_document(ROUTES, version=omnigraph.__version__, is_authenticated=False)
    assert (shown["openapi"], shown["info"]["title"]) == ("3.1.0", "Omnigraph API")
    assert shown["info"]["version"] == omnigraph.__version__
    assert shown["info"]["license"]["name"] == "MIT"
    assert "securitySchemes" not in shown["components"]
    assert not [path for path, each in operations_of(shown) if "security" in each]


def test_with_tokens_every_operation_but_health_needs_one(tmp_path: Path) -> None:  # case 140
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ann": "secret"}'}
    with (
        running_server(tmp_path, environment=environment) as server,
        server.client(token=None) as client,
    ):
        shown = client.get("/openapi.json").json()

    assert shown["components"]["securitySchemes"] == {
        "bearer_token": {"type": "http", "scheme": "bearer"}
    }
    for path, operation in operations_of(shown):
        needed: object = [{"bearer_token": []}] if path != "/healthz" else None
        assert operation.get("security") == needed


def test_operations_of_a_graph_are_named_and_nested() -> None:  # case 140
    document = openapi_document(ROUTES, version="1.0", is_authenticated=True)

    ids = []
    for path, operation in operations_of(document):
        ids.append(operation["operationId"])
        if path not in ("/healthz", "/graphs", "/admin/reload"):
            assert path.startswith("/graphs/{graph_id}/")
            assert str(operation["operationId"]).startswith("cluster_")
            parameters = operation["parameters"]
            assert isinstance(parameters, list)
            assert (parameters[0]["name"], parameters[0]["in"]) == ("graph_id", "path")
            assert parameters[0]["required"] is True
    assert len(ids) == len(set(ids))
    assert {"health", "listGraphs", "cluster_query", "cluster_list_queries"} <= set(ids)
    assert {"cluster_invoke_query", "cluster_listBranches", "cluster_load"} <= set(ids)


def test_deprecated_routes_are_marked() -> None:
    document = openapi_document(ROUTES, version="1.0", is_authenticated=True)

    found = {each["operationId"] for _, each in operations_of(document) if each.get("deprecated")}

    assert found == DEPRECATED


def test_the_document_has_the_chapters_of_the_product() -> None:
    document = openapi_document(ROUTES, version="1.0", is_authenticated=True)
    used = {str(each["tags"]) for _, each in operations_of(document)}

    assert document["tags"] == [{"name": name} for name in TAGS]
    assert used == {str([name]) for name in TAGS}


def test_errors_refer_to_one_shape() -> None:
    document = openapi_document(ROUTES, version="1.0", is_authenticated=True)

    for _, operation in operations_of(document):
        responses = operation["responses"]
        assert isinstance(responses, dict)
        refused = {int(status): each for status, each in responses.items() if int(status) >= 400}
        for response in refused.values():
            schema = response["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorOutput"}


def test_every_operation_with_a_body_lists_the_errors_of_reading_it() -> None:
    document = openapi_document(ROUTES, version="1.0", is_authenticated=True)

    for path, operation in operations_of(document):
        if "requestBody" in operation:
            responses = operation["responses"]
            assert isinstance(responses, dict)
            assert {"408", "413", "415", "422"} <= set(responses), path


def test_every_route_is_in_the_document_except_a_few() -> None:
    document = openapi_document(ROUTES, version="1.0", is_authenticated=True)
    paths = document["paths"]
    assert isinstance(paths, dict)

    assert {each.path for each in ROUTES} - set(paths) == UNDOCUMENTED


def test_the_http_reference_lists_every_route() -> None:
    text = REFERENCE.read_text(encoding="utf-8")

    documented = [each for each in ROUTES if each.operation is not None]
    listed = [f"{each.method} `{each.path.removeprefix(GRAPH)}`" for each in documented]

    assert [each for each in listed if each not in text] == []


def test_the_document_in_the_reference_is_the_servers() -> None:
    document = openapi_document(ROUTES, version=omnigraph.__version__, is_authenticated=True)
    text = json.dumps(document, indent=2) + "\n"
    if os.environ.get("OMNIGRAPH_BLESS"):
        CHECKED_IN.write_text(text, encoding="utf-8")

    assert CHECKED_IN.read_text(encoding="utf-8") == text, "OMNIGRAPH_BLESS=1 rewrites it"
