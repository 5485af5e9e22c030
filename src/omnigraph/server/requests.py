"""What callers send: the shape of each body, and reading one.

A shape is declared once; bodies are checked by it, and the OpenAPI document is written from it. A
field that is not required may be absent or null; fields that nobody declared are left alone. Knows
no graphs: what the values mean is for the routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import orjson
from pydantic import (
    AliasChoices,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from omnigraph.server.limits import BODY_DEPTH_MAX
from omnigraph.server.problems import HttpError, bad_request, unprocessable

T = TypeVar("T")

# Checked by the engine, which says what is wrong with a parameter (400).
Params = Annotated[
    object,
    WithJsonSchema(
        {
            "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}],
            "description": "Values of the query's parameters, by name.",
        }
    ),
]


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A read to run on a branch, or at a commit; `engine` is `local` or `spark`.

    `seconds_max` and `bytes_max` allow it less than the server does.
    """

    query: StrictStr
    name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    engine: StrictStr | None = None
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The same under the field names of before."""

    query_source: StrictStr
    query_name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class MutateRequest:
    """A mutation to run on a branch; `query_source` and `query_name` are read as well."""

    query: Annotated[StrictStr, Field(validation_alias=AliasChoices("query", "query_source"))]
    name: Annotated[
        StrictStr | None, Field(validation_alias=AliasChoices("name", "query_name"))
    ] = None
    params: Params = None
    branch: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A read whose plan is asked for; `engine` is `local` or `spark`."""

    query: StrictStr
    name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    engine: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class InvokeRequest:
    """What a stored query is run with."""

    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    expect_mutation: StrictBool | None = None


@dataclass(frozen=True, slots=True)
class RetrieveRequest:
    """A text, and how much of what a branch or commit holds about it is wanted.

    `vector` stands in for that of the text. `seconds_max` and `bytes_max` allow each read less than
    the server does.
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


@dataclass(frozen=True, slots=True)
class RetrieveStoredRequest:
    """The same for the nodes that a stored query finds, with values for its parameters."""

    params: Params = None
    edges: list[StrictStr] | None = None
    hops: StrictInt | None = None
    budget_tokens: StrictInt | None = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@dataclass(frozen=True, slots=True)
class RetrieveByRequest:
    """The same for the nodes that a read finds; `name` picks one of several."""

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


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A receipt of a retrieval whose answer is wanted again."""

    receipt: dict[str, object]
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Rows to load, as lines of JSON; with `from` a branch that is missing is started there.

    `engine` is `auto`, `inline` or `spark`.
    """

    rows: Annotated[StrictStr, Field(alias="data")]
    branch: StrictStr | None = None
    base: Annotated[StrictStr | None, Field(alias="from")] = None
    mode: StrictStr | None = None
    engine: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Which rows to write out; all types if none is named."""

    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    type_names: list[StrictStr] | None = None
    table_keys: list[StrictStr] | None = None


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema to apply or to plan for; `engine` is `auto`, `local` or `spark`."""

    schema_source: StrictStr
    allow_data_loss: StrictBool | None = None
    engine: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class BranchRequest:
    """A branch to start, from `main` unless another is named."""

    name: StrictStr
    base: Annotated[StrictStr | None, Field(alias="from")] = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one conflict: the image of one side, or a row."""

    type: StrictStr
    id: StrictStr
    choice: StrictStr | None = None
    row: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A branch to merge into another, `main` unless one is named.

    `engine` is `auto`, `local` or `spark`.
    """

    source: StrictStr
    target: StrictStr | None = None
    dry_run: StrictBool | None = None
    granularity: StrictStr | None = None
    resolve: list[Decision] | None = None
    engine: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """Where a commit is to be undone."""

    branch: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class CherryPickRequest:
    """Where what a commit did is to be done again."""

    onto: StrictStr | None = None


@dataclass(frozen=True, slots=True)
class TagRequest:
    """A name for a commit."""

    name: StrictStr
    commit: StrictStr


class Shape(Generic[T]):
    """A kind of body: what it must be like, and how it is read."""

    def __init__(self, model: type[T]) -> None:
        self.model = model
        self._check: Callable[[object], T] = TypeAdapter(model).validate_python

    def read(self, body: bytes) -> T:
        """The body of a request that must have one (400 or 422 if it is none)."""
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise bad_request(f"the body is no JSON: {error}") from error
        _require_shallow(given, body)
        return self._fit(given, unprocessable)

    def read_optional(self, body: bytes, *, subject: str) -> T:
        """A body that may be missing or null, whatever its content type says (400)."""
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
    """Whether a body is said to be JSON."""
    kind = media_type(content_type)
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def media_type(content_type: str) -> str:
    """What a header says of a body, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _require_shallow(given: object, body: bytes) -> None:
    # Few brackets nest nothing deep, and are counted sooner than values are looked at.
    if body.count(b"[") + body.count(b"{") <= BODY_DEPTH_MAX:
        return
    level = [given]
    for _ in range(BODY_DEPTH_MAX):
        level = [within for each in level for within in _parts_of(each)]
        if not level:
            return
    raise bad_request(f"the body is nested more than {BODY_DEPTH_MAX} deep")


def _parts_of(given: object) -> list[object]:
    """What an object or a list holds that may hold something itself."""
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
