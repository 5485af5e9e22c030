"""The request bodies: the shape of each, and decoding.

A shape is declared once; bodies are validated against it, and the OpenAPI document is generated
from it. An optional field may be absent or null; an undeclared field is rejected. The module knows
no graphs: the routes interpret the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import orjson
from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    with_config,
)

from omnigraph.model.limits import BODY_DEPTH_MAX
from omnigraph.server.responses import HttpError, bad_request, unprocessable, unsupported_type

T = TypeVar("T")

# An undeclared field is rejected: otherwise a misspelled field would be silently ignored.
_STRICT = ConfigDict(extra="forbid")
_UNKNOWN = "unexpected_keyword_argument"

# Checked by the engine, which reports what is wrong with a parameter (400).
Params = Annotated[
    object,
    WithJsonSchema(
        {
            "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}],
            "description": "Values of the query's parameters, by name.",
        }
    ),
]


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A read to run on a branch or at a commit; `engine` is `local` or `spark`.

    `seconds_max` and `bytes_max` lower the server's limits for this query.
    """

    query: StrictStr
    name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    engine: StrictStr | None = None
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read to run, as `QueryRequest` with the earlier field names."""

    query_source: StrictStr
    query_name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class MutateRequest:
    """A mutation to run on a branch; `query_source` and `query_name` are accepted as aliases.

    `embed` is `now` or `later`: when empty `@embed` properties are filled.
    """

    query: Annotated[StrictStr, Field(validation_alias=AliasChoices("query", "query_source"))]
    name: Annotated[
        StrictStr | None, Field(validation_alias=AliasChoices("name", "query_name"))
    ] = None
    params: Params = None
    branch: StrictStr | None = None
    embed: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A read to explain; `engine` is `local` or `spark`."""

    query: StrictStr
    name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    engine: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class InvokeRequest:
    """The arguments of a stored query; `embed`, for a mutation, is as in `MutateRequest`."""

    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    expect_mutation: StrictBool | None = None
    embed: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class RetrieveRequest:
    """A text, and how much of the related content of a branch or commit to return.

    `vector` replaces the embedding of the text. `seconds_max` and `bytes_max` lower the server's
    limits for each read.
    """

    text: StrictStr
    types: list[StrictStr] | None = None
    edges: list[StrictStr] | None = None
    hops: StrictInt | None = None
    k: StrictInt | None = None
    budget_tokens: StrictInt | None = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    vector: list[StrictFloat] | None = None
    word_weight: StrictFloat | None = None
    vector_weight: StrictFloat | None = None
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class RetrieveStoredRequest:
    """A retrieval that starts from the nodes that a stored query finds, with its parameters."""

    params: Params = None
    edges: list[StrictStr] | None = None
    hops: StrictInt | None = None
    budget_tokens: StrictInt | None = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class RetrieveByRequest:
    """A retrieval that starts from the nodes that a read finds; `name` selects one of several."""

    query: StrictStr
    name: StrictStr | None = None
    params: Params = None
    edges: list[StrictStr] | None = None
    hops: StrictInt | None = None
    budget_tokens: StrictInt | None = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The receipt of a retrieval to run again."""

    receipt: dict[str, object]
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Rows to load, as JSON lines; with `from`, a branch that does not exist is created there.

    `engine` is `auto`, `inline` or `spark`; `embed` is `now` or `later`: when empty `@embed`
    properties are filled.
    """

    rows: Annotated[StrictStr, Field(alias="data")]
    branch: StrictStr | None = None
    base: Annotated[StrictStr | None, Field(alias="from")] = None
    mode: StrictStr | None = None
    engine: StrictStr | None = None
    embed: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The rows to export; all types if none is named."""

    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    type_names: list[StrictStr] | None = None
    table_keys: list[StrictStr] | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema to apply or to plan; `engine` is `auto`, `local` or `spark`."""

    schema_source: StrictStr
    allow_data_loss: StrictBool | None = None
    engine: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class BranchRequest:
    """A branch to create, from `main` unless another base is named."""

    name: StrictStr
    base: Annotated[StrictStr | None, Field(alias="from")] = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class Decision:
    """The resolution of one conflict: the row version of one side, or a row."""

    type: StrictStr
    id: StrictStr
    choice: StrictStr | None = None
    row: dict[str, object] | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A branch to merge into another, by default `main`.

    `engine` is `auto`, `local` or `spark`. `delete_branch` deletes the source after the merge.
    """

    source: StrictStr
    target: StrictStr | None = None
    dry_run: StrictBool | None = None
    granularity: StrictStr | None = None
    resolve: list[Decision] | None = None
    engine: StrictStr | None = None
    delete_branch: StrictBool | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class RevertRequest:
    """The branch on which to revert a commit."""

    branch: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class CherryPickRequest:
    """The branch onto which to cherry-pick a commit."""

    onto: StrictStr | None = None


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class TagRequest:
    """A name for a commit."""

    name: StrictStr
    commit: StrictStr


class Shape(Generic[T]):
    """A kind of body: its schema and its decoder."""

    def __init__(self, model: type[T]) -> None:
        self.model = model
        self._check: Callable[[object], T] = TypeAdapter(model).validate_python

    def read(self, body: bytes) -> T:
        """The decoded body of a request that requires one; 400 or 422 if it is invalid."""
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise bad_request(f"the body is no JSON: {error}") from error
        _require_shallow(given, body)
        return self._fit(given, unprocessable)

    def read_optional(self, body: bytes, *, subject: str) -> T:
        """The decoded body of a request, which may be empty or null; 400 if it is invalid."""
        try:
            given = orjson.loads(body) if body.strip() else None
        except orjson.JSONDecodeError as error:
            raise bad_request(f"invalid {subject}: {error}") from error
        _require_shallow(given, body)
        return self._fit(
            {} if given is None else given,
            lambda problem: bad_request(f"invalid {subject}: {problem}"),
        )

    def _fit(self, given: object, refuse: Callable[[str], HttpError]) -> T:
        try:
            return self._check(given)
        except ValidationError as error:
            unknown = [each["loc"] for each in error.errors() if each["type"] == _UNKNOWN]
            if unknown:
                place = ".".join(map(str, unknown[0]))
                raise bad_request(
                    f"unknown field '{place}' in the body; nothing was changed"
                ) from error
            raise refuse(_explain(error)) from error


QUERY = Shape(QueryRequest)
READ = Shape(ReadRequest)
MUTATE = Shape(MutateRequest)
EXPLAIN = Shape(ExplainRequest)
INVOKE = Shape(InvokeRequest)
RETRIEVE = Shape(RetrieveRequest)
RETRIEVE_BY = Shape(RetrieveByRequest)
RETRIEVE_STORED = Shape(RetrieveStoredRequest)
REPLAY = Shape(ReplayRequest)
LOAD = Shape(LoadRequest)
EXPORT = Shape(ExportRequest)
SCHEMA = Shape(SchemaRequest)
BRANCH = Shape(BranchRequest)
MERGE = Shape(MergeRequest)
REVERT = Shape(RevertRequest)
CHERRY_PICK = Shape(CherryPickRequest)
TAG = Shape(TagRequest)


def is_json(content_type: str) -> bool:
    """Whether a content type declares JSON."""
    kind = media_type(content_type)
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def require_json(content_type: str) -> None:
    """Raise 415 unless a body is declared to be JSON."""
    if not is_json(content_type):
        raise unsupported_type("the body has to be JSON: send `Content-Type: application/json`")


def media_type(content_type: str) -> str:
    """The media type of a `Content-Type` header, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _require_shallow(given: object, body: bytes) -> None:
    # Few brackets cannot nest deeply, and counting them is faster than visiting the values.
    if body.count(b"[") + body.count(b"{") <= BODY_DEPTH_MAX:
        return
    level = [given]
    for _ in range(BODY_DEPTH_MAX):
        level = [within for each in level for within in _parts_of(each)]
        if not level:
            return
    raise bad_request(f"the body is nested more than {BODY_DEPTH_MAX} deep")


def _parts_of(given: object) -> list[object]:
    """The objects and lists directly inside a value."""
    parts: Iterable[object] = ()
    if isinstance(given, dict):
        parts = given.values()
    elif isinstance(given, list):
        parts = given
    return [each for each in parts if isinstance(each, dict | list)]


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return f"field '{place}': {problem}" if place else "the body must be a JSON object"
