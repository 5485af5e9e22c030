"""The OpenAPI 3.1 document, generated from the route table.

All servers of one version have the same document, except for whether tokens are required.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pydantic import TypeAdapter

from omnigraph.http.responses import ErrorOutput
from omnigraph.server.context import Operation, Route, Tag
from omnigraph.server.requests import Parameter

_REF = "#/components/schemas/{model}"
_JSON = "application/json"
_SCHEME = "bearer_token"
_HEALTH = "/healthz"

_IN_PATH = re.compile(r"\{(\w+)\}")

_DESCRIPTIONS: Mapping[int, str] = {
    200: "Success",
    202: "The job was started",
    206: "The requested range",
    400: "Invalid request",
    401: "Missing or invalid token",
    403: "The policy does not allow this action",
    404: "Not found",
    405: "Method not allowed",
    408: "The body arrived too slowly",
    409: "Conflict with the current state, or with a concurrent write",
    412: "The given commit is not the head of the branch",
    413: "The request or its result exceeds a limit",
    415: "Unsupported content type",
    416: "The range is outside the blob",
    422: "A field of the body is missing or has the wrong type",
    429: "Too many requests in progress; retry later",
    500: "Error of the server or its storage",
    503: "An interrupted write must be recovered first",
}

_PATH_PARAMETERS: Mapping[str, str] = {
    "graph_id": "The id of a graph.",
    "name": "The name of a stored query.",
    "branch": "The name of a branch; a `/` in it is sent as `%2F`.",
    "tag": "The name of a tag; a `/` in it is sent as `%2F`.",
    "commit_id": "The id of a commit, or a tag.",
    "job_id": "The id of a job.",
}


def openapi_document(
    routes: Iterable[Route], *, version: str, is_authenticated: bool
) -> dict[str, object]:
    """The document of these routes; without authentication it does not mention tokens."""
    documented = [(each, each.operation) for each in routes if each.operation is not None]
    schemas = _Schemas(documented)
    paths: dict[str, dict[str, object]] = {}
    for route, operation in documented:
        entry = _describe(route, operation, schemas, is_authenticated=is_authenticated)
        paths.setdefault(route.path, {})[route.method.lower()] = entry
    components: dict[str, object] = {"schemas": schemas.definitions}
    if is_authenticated:
        components["securitySchemes"] = {_SCHEME: {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Omnigraph API",
            "version": version,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": components,
        "tags": [{"name": str(tag)} for tag in Tag],
    }


class _Schemas:
    """The schemas of all bodies, and references to them."""

    def __init__(self, documented: Iterable[tuple[Route, Operation]]) -> None:
        requests: dict[type, None] = {}
        responses: dict[type, None] = {ErrorOutput: None}
        for route, operation in documented:
            if route.body.shape is not None:
                requests[route.body.shape] = None
            for each in (operation.outputs, *(shapes for _, shapes in operation.also)):
                responses.update(dict.fromkeys(each))
        self._by_key, whole = TypeAdapter.json_schemas(
            [
                *((each.__name__, "validation", TypeAdapter(each)) for each in requests),
                *((each.__name__, "serialization", TypeAdapter(each)) for each in responses),
            ],
            ref_template=_REF,
        )
        found = whole.get("$defs", {})
        self.definitions = {name: _without_titles(found[name]) for name in sorted(found)}

    def of_request(self, shape: type) -> object:
        """A reference to the schema of a request body."""
        return _without_titles(self._by_key[shape.__name__, "validation"])

    def of_response(self, *shapes: type) -> object:
        """A reference to the schema of a response body, or to each alternative."""
        found = [_without_titles(self._by_key[each.__name__, "serialization"]) for each in shapes]
        return found[0] if len(found) == 1 else {"anyOf": found}


def _describe(
    route: Route, operation: Operation, schemas: _Schemas, *, is_authenticated: bool
) -> dict[str, object]:
    needs_token = is_authenticated and route.path != _HEALTH
    entry: dict[str, object] = {
        "tags": [str(operation.tag)],
        "summary": route.summary,
        "operationId": f"cluster_{operation.id}" if route.is_of_graph else operation.id,
        "parameters": [
            _describe_parameter(each) for each in (*_path_parameters(route.path), *route.parameters)
        ],
    }
    if route.body.shape is not None:
        is_required, schema = route.body.is_required, schemas.of_request(route.body.shape)
        allowed = schema if is_required else {"anyOf": [schema, {"type": "null"}]}
        entry["requestBody"] = {"required": is_required, "content": {_JSON: {"schema": allowed}}}
    responses = {"200": _success(200, operation.outputs, operation, schemas)}
    for status, shapes in operation.also:
        responses[str(status)] = _success(status, shapes, operation, schemas)
    error = {"content": {_JSON: {"schema": schemas.of_response(ErrorOutput)}}}
    for status in sorted(route.error_statuses | ({401} if needs_token else set())):
        responses[str(status)] = {"description": _DESCRIPTIONS[status], **error}
    entry["responses"] = responses
    if route.successor is not None:
        entry["deprecated"] = True
    if needs_token:
        entry["security"] = [{_SCHEME: []}]
    return entry


def _success(
    status: int, shapes: tuple[type, ...], operation: Operation, schemas: _Schemas
) -> dict[str, object]:
    content: dict[str, object] = {}
    if shapes:
        content[_JSON] = {"schema": schemas.of_response(*shapes)}
    for media in operation.media if status == 200 or not shapes else ():
        content[media] = {"schema": {"type": "string", "format": "binary"}}
    return {"description": _DESCRIPTIONS[status], "content": content}


def _path_parameters(path: str) -> list[Parameter[object]]:
    return [
        Parameter(name, _PATH_PARAMETERS[name], str, place="path", is_required=True)
        for name in _IN_PATH.findall(path)
    ]


def _describe_parameter(parameter: Parameter[object]) -> dict[str, object]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": {"type": parameter.kind},
    }


def _without_titles(schema: object) -> object:
    """A schema without titles that repeat the names of its fields."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {field: _without_titles(each) for field, each in value.items()}
        if name == "properties"
        else _without_titles(value)
        for name, value in schema.items()
        if name != "title"
    }
