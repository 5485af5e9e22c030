"""The OpenAPI 3.1 document, generated from the shapes that validate the bodies.

All servers of one version have the same document, except for whether tokens are required.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pydantic import TypeAdapter

from omnigraph.http.responses import ErrorOutput
from omnigraph.server.routes.operations import OPERATIONS, Operation, Parameter, Tag

_REF = "#/components/schemas/{model}"
_JSON = "application/json"
_SCHEME = "bearer_token"

_IN_PATH = re.compile(r"\{(\w+)\}")

_REASON: Mapping[int, str] = {
    200: "Done",
    202: "Started",
    206: "A part of it",
    400: "The request cannot be carried out as it is",
    401: "Nobody knows who is asking",
    403: "Whoever asks may not do this",
    404: "Something that the request names does not exist",
    405: "The path has no such method",
    409: "What is there forbids it, or somebody else was first",
    412: "The branch is not at the commit that was named",
    413: "The request is larger than it may be",
    415: "The body is of another kind",
    416: "There are no such bytes",
    422: "The body lacks a field, or has one of another type",
    429: "Too much is under way; try again later",
    500: "The server or its storage failed",
    503: "A write stopped on its way; recover first",
}

_PATH_PARAMETERS: Mapping[str, str] = {
    "graph_id": "The id of a graph.",
    "name": "The name of a stored query.",
    "branch": "The name of a branch; a `/` in it is sent as `%2F`.",
    "tag": "The name of a tag; a `/` in it is sent as `%2F`.",
    "commit_id": "The id of a commit, or a tag.",
    "job_id": "The id of a job.",
}


def openapi_document(*, version: str, is_authenticated: bool) -> dict[str, object]:
    """The document of a server; without authentication it does not mention tokens."""
    shapes = _Shapes(OPERATIONS)
    paths: dict[str, dict[str, object]] = {}
    for each in OPERATIONS:
        described = _describe(each, shapes, is_authenticated=is_authenticated)
        paths.setdefault(each.path, {})[each.method.lower()] = described
    components: dict[str, object] = {"schemas": shapes.definitions}
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


class _Shapes:
    """The schemas of all bodies, and references to them."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        asked = [each.request for each in operations if each.request is not None]
        answered: list[type] = [ErrorOutput]
        for each in operations:
            answered += [*each.answer, *(shape for _, also in each.also for shape in also)]
        self._by_key, whole = TypeAdapter.json_schemas(
            [
                *((each.__name__, "validation", TypeAdapter(each)) for each in _unique(asked)),
                *(
                    (each.__name__, "serialization", TypeAdapter(each))
                    for each in _unique(answered)
                ),
            ],
            ref_template=_REF,
        )
        found = whole.get("$defs", {})
        self.definitions = {name: _tidy(found[name]) for name in sorted(found)}

    def asked(self, shape: type) -> object:
        """A reference to the schema of a request body."""
        return _tidy(self._by_key[shape.__name__, "validation"])

    def answered(self, *shapes: type) -> object:
        """A reference to the schema of a response body, or to each alternative."""
        found = [_tidy(self._by_key[each.__name__, "serialization"]) for each in shapes]
        return found[0] if len(found) == 1 else {"anyOf": found}


def _describe(
    operation: Operation, shapes: _Shapes, *, is_authenticated: bool
) -> dict[str, object]:
    described: dict[str, object] = {
        "tags": [str(operation.tag)],
        "summary": operation.summary,
        "operationId": f"cluster_{operation.id}" if operation.is_of_graph else operation.id,
        "parameters": [*_path_parameters(operation.path), *map(_parameter, operation.parameters)],
    }
    if operation.request is not None:
        schema = shapes.asked(operation.request)
        described["requestBody"] = _request_body(schema, is_required=operation.is_body_required)
    responses = {
        str(operation.success): _success(operation.success, operation.answer, operation, shapes)
    }
    for status, answer in operation.also:
        responses[str(status)] = _success(status, answer, operation, shapes)
    refused = {*operation.statuses, *((413, 415, 422) if operation.request else ())}
    if operation.path != "/healthz":
        refused |= {401} if is_authenticated else set()
    if operation.is_of_graph:
        refused |= {400, 404}
    error = {"content": {_JSON: {"schema": shapes.answered(ErrorOutput)}}}
    for status in sorted(refused):
        responses[str(status)] = {"description": _REASON[status], **error}
    described["responses"] = responses
    if operation.is_deprecated:
        described["deprecated"] = True
    if is_authenticated and operation.path != "/healthz":
        described["security"] = [{_SCHEME: []}]
    return described


def _request_body(schema: object, *, is_required: bool) -> dict[str, object]:
    allowed = schema if is_required else {"anyOf": [schema, {"type": "null"}]}
    return {"required": is_required, "content": {_JSON: {"schema": allowed}}}


def _success(
    status: int, answer: tuple[type, ...], operation: Operation, shapes: _Shapes
) -> dict[str, object]:
    content: dict[str, object] = {}
    if answer:
        content[_JSON] = {"schema": shapes.answered(*answer)}
    is_main = status == operation.success or not answer
    for media in operation.media if is_main else ():
        content[media] = {"schema": {"type": "string", "format": "binary"}}
    return {"description": _REASON[status], "content": content}


def _path_parameters(path: str) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_PARAMETERS[name],
            "schema": {"type": "string"},
        }
        for name in _IN_PATH.findall(path)
    ]


def _parameter(parameter: Parameter) -> dict[str, object]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": {"type": parameter.kind},
    }


def _unique(shapes: Iterable[type]) -> list[type]:
    return list(dict.fromkeys(shapes))


def _tidy(schema: object) -> object:
    """A schema without titles that repeat the names of its fields."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {field: _tidy(each) for field, each in value.items()}
        if name == "properties"
        else _tidy(value)
        for name, value in schema.items()
        if name != "title"
    }
