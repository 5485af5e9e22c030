"""The options of a read or a write through Spark, checked and parsed into one frozen value.

Spark passes options with lower-case names and text values. Unknown or contradictory options are
rejected before anything is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.ops.load import LoadMode
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import MAIN, parse_word

_STORAGE_PREFIX = "storage."
_PLACE = ("uri", "path")
_TYPE_ONLY = ("columns", "where")
_QUERY_ONLY = ("name", "params")
_READ = (*_PLACE, "type", "query", "branch", "commit", "readOnly", *_TYPE_ONLY, *_QUERY_ONLY)
_WRITE = (*_PLACE, "type", "branch", "mode", "actor", "queryId")
# Options of a stream that Spark itself reads, and also passes on.
_STREAM = ("checkpointLocation", "queryName")


@dataclass(frozen=True, slots=True)
class GraphLocation:
    """The location of a graph, and the options for opening it."""

    uri: str
    # Storage options hold secrets, so they are not part of the repr.
    storage_options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TypeOptions:
    """Rows of a type: some or all columns, of the rows that match a condition or of all rows."""

    name: str
    columns: tuple[str, ...] | None
    where: str | None


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The result of a query in a `.gq` text."""

    text: str
    name: str | None
    params: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read from which graph, at a branch or a commit."""

    place: GraphLocation
    request: TypeOptions | QueryOptions
    branch: str | None
    commit: str | None
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The type of the rows, the target graph and branch, and the write mode.

    `query_id` identifies the batches of a stream, if it is not Spark's own query id.
    """

    place: GraphLocation
    type_name: str
    branch: str
    mode: LoadMode
    actor: str | None
    query_id: str | None


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a read."""
    given = {name.lower(): value for name, value in options.items()}
    _require_known(given, _READ)
    if "branch" in given and "commit" in given:
        raise refuse_option("commit", "a read is at a branch or at a commit, not at both")
    read_only = given.get("readonly", "false").lower()
    if read_only not in ("true", "false"):
        raise refuse_option("readOnly", f"'{read_only}' is neither true nor false")
    return ReadOptions(
        place=parse_place(given),
        request=_parse_request(given),
        branch=given.get("branch"),
        commit=given.get("commit"),
        is_read_only=read_only == "true",
    )


def parse_write_options(options: Mapping[str, str], *, is_overwrite: bool) -> WriteOptions:
    """Parse the options of a write; Spark sets `is_overwrite` if rows are to be replaced."""
    given = {name.lower(): value for name, value in options.items()}
    _require_known(given, (*_WRITE, *_STREAM))
    if "type" not in given:
        problem = 'not given; name the type of the rows, as in .option("type", "Person")'
        raise refuse_option("type", problem)
    return WriteOptions(
        place=parse_place(given),
        type_name=given["type"],
        branch=given.get("branch", MAIN),
        mode=_parse_write_mode(given, is_overwrite=is_overwrite),
        actor=given.get("actor"),
        query_id=given.get("queryid"),
    )


def parse_place(given: Mapping[str, str]) -> GraphLocation:
    """Parse the location of the graph."""
    uris = [given[name] for name in _PLACE if name in given]
    if not uris:
        problem = (
            'not given; name the location of the graph, as in .option("uri", "/data/team-graph"), '
            '.load("/data/team-graph") or .save("/data/team-graph")'
        )
        raise refuse_option("uri", problem)
    if len(uris) > 1:
        raise refuse_option("uri", "give the location once, as 'uri' or as a path")
    if uris[0].lower().startswith("memory:"):
        problem = "a memory:// graph is visible to one process only, and Spark runs several"
        raise refuse_option("uri", problem)
    storage = {
        name.removeprefix(_STORAGE_PREFIX): value
        for name, value in given.items()
        if name.startswith(_STORAGE_PREFIX)
    }
    return GraphLocation(uris[0], storage)


def refuse_option(name: str, problem: str) -> InvalidValueError:
    """The error for an invalid option."""
    return InvalidValueError(
        subject=f"option '{name}'", expected="an option", value=name, problem=problem
    )


def _require_known(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    by_folded = {name.lower(): name for name in known}
    for name in given:
        if name not in by_folded and not name.startswith(_STORAGE_PREFIX):
            listed = ", ".join(sorted(known))
            advice = advise_name(name, known) or f"options are {listed} and {_STORAGE_PREFIX}<name>"
            raise refuse_option(name, f"unknown option; {advice}")


def _parse_write_mode(given: Mapping[str, str], *, is_overwrite: bool) -> LoadMode:
    if "mode" not in given:
        return LoadMode.OVERWRITE if is_overwrite else LoadMode.APPEND
    mode = parse_word(LoadMode, given["mode"], subject="mode")
    if is_overwrite != (mode is LoadMode.OVERWRITE):
        problem = "only `.mode('overwrite')` replaces rows, and it excludes other modes"
        raise refuse_option("mode", problem)
    return mode


def _parse_request(given: Mapping[str, str]) -> TypeOptions | QueryOptions:
    if "type" not in given and "query" not in given:
        problem = (
            'not given; name what to read, as in .option("type", "Person") '
            'or .option("query", "query q() { … }")'
        )
        raise refuse_option("type", problem)
    if "type" in given and "query" in given:
        raise refuse_option("type", "give either a type or a query, not both")
    is_type = "type" in given
    for name in _QUERY_ONLY if is_type else _TYPE_ONLY:
        if name in given:
            raise refuse_option(name, f"it is an option of a {'query' if is_type else 'type'} only")
    if is_type:
        return TypeOptions(given["type"], _parse_columns(given), given.get("where"))
    return QueryOptions(given["query"], given.get("name"), _parse_params(given))


def _parse_columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    if "columns" not in given:
        return None
    names = tuple(each.strip() for each in given["columns"].split(","))
    if len(set(names)) < len(names) or "" in names:
        raise refuse_option("columns", "it must be a list of distinct names, separated by commas")
    return names


def _parse_params(given: Mapping[str, str]) -> Mapping[str, object] | None:
    if "params" not in given:
        return None
    try:
        params: object = orjson.loads(given["params"])
    except orjson.JSONDecodeError as error:
        raise refuse_option("params", f"it is not valid JSON: {error}") from error
    if not isinstance(params, dict):
        raise refuse_option("params", 'it must be a JSON object, such as {"name": "Ann"}')
    return params
