"""The server conforms to its own OpenAPI document on every route, with tokens and without.

Schemathesis generates valid and invalid requests from the document, the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from tests.support.hostile_requests import find_leaks, find_log_flaws, read_document
from tests.support.policed_servers import ALLOWED_TOKEN, READER_TOKEN, SECRETS, policed_server
from tests.support.servers import Server

Operation = APIOperation[Any, Any, Any, Any]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with policed_server(tmp_path_factory.mktemp("described")) as running:
        yield running


def read_operations(server: Server) -> Sequence[Operation]:
    schema = schemathesis.openapi.from_dict(dict(read_document(server)))
    found = list(schema.get_all_operations())
    read = [each.ok() for each in found if isinstance(each, Ok)]
    assert len(read) == len(found), "schemathesis cannot read the document"
    return read


def send_generated(
    server: Server, operation: Operation, mode: GenerationMode, headers: Mapping[str, str]
) -> set[int]:
    """Send generated requests of one operation and validate the responses against the document."""
    statuses: set[int] = set()

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def check(case: Case[Any]) -> None:
        # A valid request names an existing graph: one about another fails too early.
        if mode is GenerationMode.POSITIVE and "graph_id" in case.path_parameters:
            case.path_parameters["graph_id"] = "default"
        case.headers.pop("Authorization", None)
        response = case.call(base_url=server.url, headers=dict(headers))
        case.validate_response(response, checks=CHECKS)
        said = response.text
        assert list(find_leaks(said, secrets=(*SECRETS, str(server.folder)))) == []
        statuses.add(response.status_code)

    check()
    return statuses


@pytest.mark.parametrize(
    ("token", "mode"),
    [
        (ALLOWED_TOKEN, GenerationMode.POSITIVE),
        (ALLOWED_TOKEN, GenerationMode.NEGATIVE),
        (READER_TOKEN, GenerationMode.POSITIVE),
    ],
    ids=["good requests", "bad requests", "requests of a reader"],
)
def test_every_route_conforms_to_the_openapi_document(
    server: Server, subtests: pytest.Subtests, token: str, mode: GenerationMode
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    # An operation without parameters has no invalid request.
    operations = [each for each in read_operations(server) if each.path != "/healthz"]

    for operation in operations:
        with subtests.test(operation=operation.label):
            statuses = send_generated(server, operation, mode, headers)
            assert statuses, "nothing was sent"

    assert list(find_log_flaws(server, secrets=SECRETS)) == []


def test_without_a_token_only_the_public_routes_are_served(
    server: Server, subtests: pytest.Subtests
) -> None:
    for operation in read_operations(server):
        with subtests.test(operation=operation.label):
            statuses = send_generated(server, operation, GenerationMode.POSITIVE, {})
            is_public = operation.path in ("/healthz", "/openapi.json")
            assert statuses == ({200} if is_public else {401})

    assert list(find_log_flaws(server, secrets=SECRETS)) == []
