"""What a request carries: query parameters, headers and bodies, each declared once.

Requests are validated against these declarations, and the OpenAPI document is generated from them.
An optional field may be absent or null; an undeclared field is rejected. The module knows no
graphs: the handlers interpret the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Generic, TypeVar, dataclass_transform
from urllib.parse import parse_qs

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

from omnigraph.http.responses import Target
from omnigraph.model.limits import BODY_BYTES_MAX, BODY_DEPTH_MAX
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.server.responses import HttpError, bad_request, unprocessable, unsupported_type

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Parameter(Generic[T_co]):
    """A query parameter or a header; `parse` gets None if it is absent."""

    name: str
    description: str
    parse: Callable[[str | None], T_co]
    kind: str = "string"
    place: str = "query"
    is_required: bool = False


def text(name: str, description: str) -> Parameter[str | None]:
    """An optional text."""
    return Parameter(name, description, lambda given: given)


def required_text(name: str, description: str) -> Parameter[str]:
    """A text that must be present."""

    def parse(given: str | None) -> str:
        if given is None:
            raise bad_request(f"query parameter '{name}' is required: ?{name}=…")
        return given

    return Parameter(name, description, parse, is_required=True)


def text_list(name: str, description: str) -> Parameter[list[str] | None]:
    """Comma-separated texts."""

    def parse(given: str | None) -> list[str] | None:
        return None if given is None else [each for each in given.split(",") if each]

    return Parameter(name, description, parse)


def flag(name: str, description: str) -> Parameter[bool]:
    """A boolean, false if it is absent."""

    def parse(given: str | None) -> bool:
        if given not in (None, "false", "0", "true", "1"):
            raise bad_request(f"{name}: expected true or false")
        return given in ("true", "1")

    return Parameter(name, description, parse, kind="boolean")


def integer(
    name: str, description: str, *, default: int, minimum: int, maximum: int | None
) -> Parameter[int]:
    """A number within bounds."""

    def parse(given: str | None) -> int:
        if given is None:
            return default
        is_number = given.isascii() and given.isdigit() and len(given) <= _DIGITS_MAX
        if not is_number or int(given) < minimum:
            raise bad_request(f"{name}: expected a number of at least {minimum}")
        if maximum is not None and int(given) > maximum:
            raise bad_request(f"{name}: the maximum is {maximum}")
        return int(given)

    return Parameter(name, description, parse, kind="integer")


def header(name: str, description: str) -> Parameter[str | None]:
    """An optional header."""
    return Parameter(name, description, lambda given: given, place="header")


def parse_arguments(query_string: bytes, known: frozenset[str]) -> Mapping[str, str]:
    """The query parameters of a request.

    Raises 400 for a parameter that the route does not have or that is given twice, and for text
    that is not percent-encoded UTF-8.
    """
    if not query_string:
        return {}
    try:
        found = parse_qs(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise bad_request("the query string is not percent-encoded UTF-8") from error
    for name, values in found.items():
        if name not in known:
            accepted = ", ".join(sorted(known)) or "none"
            raise bad_request(f"unknown query parameter '{name}'; this route accepts: {accepted}")
        if len(values) > 1:
            raise bad_request(f"query parameter '{name}' is given {len(values)} times")
    return {name: value for name, (value,) in found.items()}


def parse_branch(name: str | None) -> BranchName:
    """The branch that a request names, or `main`.

    Names are parsed before permissions are checked, so that a policy sees the branch that is meant
    and not another spelling of it.
    """
    return MAIN if name is None else parse_branch_name(name)


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """The target of a read: a branch or a commit."""

    branch: BranchName | None
    commit: str | None

    @property
    def output(self) -> Target:
        """The target as responses show it."""
        return {"branch": self.branch, "snapshot": self.commit}


def parse_target(branch: str | None, snapshot: str | None) -> ReadTarget:
    """A branch or a commit, by default `main`; 400 if both are given."""
    if snapshot is None:
        return ReadTarget(parse_branch(branch), None)
    if branch is not None:
        raise bad_request("specify a branch or a snapshot, not both")
    return ReadTarget(None, snapshot)


BRANCH = Parameter("branch", "The name of a branch; the default is `main`.", parse_branch)
SNAPSHOT = text("snapshot", "The id of a commit, or a tag. Excludes `branch`.")
IF_COMMIT = header(
    "Omnigraph-If-Graph-Commit",
    "Writes only if this commit is the head of the branch; otherwise the status is 412.",
)
IDEMPOTENCY_KEY = header(
    "Idempotency-Key",
    "Makes retries of this request idempotent: a request with a known key returns the recorded "
    "response.",
)
WRITE_OPTIONS = (IF_COMMIT, IDEMPOTENCY_KEY)

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


@dataclass_transform(frozen_default=True)
def shape(declared: type[T]) -> type[T]:
    """Declare the fields of a body: a frozen dataclass that rejects other fields."""
    return with_config(_STRICT)(dataclass(frozen=True, slots=True)(declared))


@shape
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


@shape
class ReadRequest:
    """A read to run, as `QueryRequest` with the earlier field names."""

    query_source: StrictStr
    query_name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None


@shape
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


@shape
class ExplainRequest:
    """A read to explain; `engine` is `local` or `spark`.

    With `analyze` the read is run and measured, which requires `local`; `seconds_max` and
    `bytes_max` lower the server's limits for it.
    """

    query: StrictStr
    name: StrictStr | None = None
    params: Params = None
    branch: StrictStr | None = None
    engine: StrictStr | None = None
    analyze: StrictBool | None = None
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@shape
class InvokeRequest:
    """The arguments of a stored query; `embed`, for a mutation, is as in `MutateRequest`."""

    params: Params = None
    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    expect_mutation: StrictBool | None = None
    embed: StrictStr | None = None


@shape
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


@shape
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


@shape
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


@shape
class ReplayRequest:
    """The receipt of a retrieval to run again."""

    receipt: dict[str, object]
    seconds_max: StrictFloat | None = None
    bytes_max: StrictInt | None = None


@shape
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


@shape
class ExportRequest:
    """The rows to export; all types if none is named."""

    branch: StrictStr | None = None
    snapshot: StrictStr | None = None
    type_names: list[StrictStr] | None = None
    table_keys: list[StrictStr] | None = None


@shape
class SchemaPlanRequest:
    """A schema to plan."""

    schema_source: StrictStr
    allow_data_loss: StrictBool | None = None


@shape
class SchemaRequest:
    """A schema to apply; `engine` is `auto`, `local` or `spark`."""

    schema_source: StrictStr
    allow_data_loss: StrictBool | None = None
    engine: StrictStr | None = None


@shape
class BranchRequest:
    """A branch to create, from `main` unless another base is named."""

    name: StrictStr
    base: Annotated[StrictStr | None, Field(alias="from")] = None


@shape
class Decision:
    """The resolution of one conflict: the row version of one side, or a row."""

    type: StrictStr
    id: StrictStr
    choice: StrictStr | None = None
    row: dict[str, object] | None = None


@shape
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


@shape
class RevertRequest:
    """The branch on which to revert a commit."""

    branch: StrictStr | None = None


@shape
class CherryPickRequest:
    """The branch onto which to cherry-pick a commit."""

    onto: StrictStr | None = None


@shape
class TagRequest:
    """A name for a commit."""

    name: StrictStr
    commit: StrictStr


class JsonType(StrEnum):
    """When a request must declare its body to be JSON; a page of another site cannot do that."""

    ALWAYS = "always"
    WITH_BODY = "with_body"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Body(Generic[T_co]):
    """The body of a route: its shape in the OpenAPI document, its bound and its decoder."""

    shape: type | None
    decode: Callable[[bytes], T_co]
    is_required: bool = True
    json_type: JsonType = JsonType.ALWAYS
    bytes_max: int = BODY_BYTES_MAX


NO_BODY: Body[None] = Body(None, lambda given: None, json_type=JsonType.NEVER, bytes_max=0)  # noqa: ARG005


def json_body(model: type[T], *, bytes_max: int = BODY_BYTES_MAX) -> Body[T]:
    """A JSON body that must be present; 400 if it is not JSON, 422 if a field is invalid."""
    validate = TypeAdapter(model).validate_python

    def decode(given: bytes) -> T:
        return _validate(validate, _load_json(given, "the body is not valid JSON"), unprocessable)

    return Body(model, decode, bytes_max=bytes_max)


def optional_json_body(
    model: type[T],
    *,
    json_type: JsonType = JsonType.WITH_BODY,
    reject: Callable[[str], HttpError] = bad_request,
    subject: str = "body",
) -> Body[T]:
    """A JSON body that may be empty or null; `reject` makes the error for an invalid field."""
    validate = TypeAdapter(model).validate_python

    def decode(given: bytes) -> T:
        found = _load_json(given, f"invalid {subject}") if given.strip() else None
        return _validate(
            validate,
            {} if found is None else found,
            lambda problem: reject(f"invalid {subject}: {problem}"),
        )

    return Body(model, decode, is_required=False, json_type=json_type)


def raw_body(model: type, *, bytes_max: int) -> Body[bytes]:
    """A body that the handler decodes, because its content type decides how."""
    return Body(model, lambda given: given, json_type=JsonType.NEVER, bytes_max=bytes_max)


def parse_params(params: object) -> Mapping[str, object] | None:
    """The values for a query's parameters; 400 unless they are an object or absent."""
    if params is None or isinstance(params, dict):
        return params
    raise bad_request("params: expected a JSON object")


def _load_json(given: bytes, problem: str) -> object:
    try:
        found = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"{problem}: {error}") from error
    _require_shallow(found, given)
    return found


def _validate(
    validate: Callable[[object], T], given: object, reject: Callable[[str], HttpError]
) -> T:
    try:
        return validate(given)
    except ValidationError as error:
        unknown = [each["loc"] for each in error.errors() if each["type"] == _UNKNOWN]
        if unknown:
            path = ".".join(map(str, unknown[0]))
            raise bad_request(f"unknown field '{path}' in the body; nothing was changed") from error
        raise reject(_explain(error)) from error


def is_json(content_type: str) -> bool:
    """Whether a content type declares JSON."""
    kind = media_type(content_type)
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def require_json(content_type: str) -> None:
    """Raise 415 unless a body is declared to be JSON."""
    if not is_json(content_type):
        raise unsupported_type("the body must be JSON; send `Content-Type: application/json`")


def media_type(content_type: str) -> str:
    """The media type of a `Content-Type` header, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _require_shallow(given: object, body: bytes) -> None:
    # Few brackets cannot nest deeply, and counting them is faster than visiting the values.
    if body.count(b"[") + body.count(b"{") <= BODY_DEPTH_MAX:
        return
    level = [given]
    for _ in range(BODY_DEPTH_MAX):
        level = [within for each in level for within in _children(each)]
        if not level:
            return
    raise bad_request(f"the body is nested more than {BODY_DEPTH_MAX} levels deep")


def _children(given: object) -> list[object]:
    """The objects and lists directly inside a value."""
    children: Iterable[object] = ()
    if isinstance(given, dict):
        children = given.values()
    elif isinstance(given, list):
        children = given
    return [each for each in children if isinstance(each, dict | list)]


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(map(str, first["loc"]))
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return f"field '{path}': {problem}" if path else "the body must be a JSON object"
