"""The tools of one caller: stored queries, `query` and `retrieve`, with their input schemas.

A JSON schema describes the arguments; the engine checks the values. `query` and `retrieve` only
read, and a stored query of the same name takes precedence. The agent branch is created by the first
write. Errors of the graph are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, repeat

from mcp_types import Tool, ToolAnnotations

from omnigraph.http.responses import ParameterOutput, StoredQueryOutput
from omnigraph.mcp.ports import (
    Params,
    Place,
    Question,
    TextTool,
    ToolGraph,
    ToolResult,
    WritePlacement,
    unknown_tool,
)
from omnigraph.model.errors import AlreadyExistsError, InvalidValueError, NotFoundError
from omnigraph.model.limits import BUDGET_TOKENS, FOUND, HOPS
from omnigraph.model.names import (
    MAIN,
    parse_branch_name,
    require_branch_or_commit,
    require_names,
    require_text,
)

Schema = dict[str, object]

_KINDS: dict[str, Schema] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    # Signed and unsigned numbers share this kind, so the bounds cover both.
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**32 - 1},
    "bigint": {
        "anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]{1,20}$"}],
        "description": "A 64-bit integer; as text if it has more than 15 digits.",
    },
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date", "description": "A date: YYYY-MM-DD."},
    "datetime": {
        "type": "string",
        "format": "date-time",
        "description": "A timestamp in RFC 3339 format, such as 2026-01-31T12:00:00Z.",
    },
    "blob": {"type": "string", "description": "The URI of the content, or the content itself."},
}


def parameter_schema(parameter: ParameterOutput) -> Schema:
    """The JSON schema of a parameter's value; null is allowed if the parameter is nullable."""
    # A server of a later version may have unknown kinds, for which any value is allowed.
    match parameter["kind"]:
        case "vector":
            described: Schema = {
                "type": "array",
                "items": {"type": "number"},
                "minItems": parameter["vector_dim"],
                "maxItems": parameter["vector_dim"],
            }
        case "list":
            described = {"type": "array", "items": dict(_KINDS.get(parameter["item_kind"], {}))}
        case kind:
            described = dict(_KINDS.get(kind, {}))
    if not parameter["nullable"]:
        return described
    return {"anyOf": [described, {"type": "null"}], "default": None}


READING = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
# The catalog does not say whether a mutation only inserts, so every mutation counts as destructive.
CHANGING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)

ROWS_OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "object"}},
        "row_count": {"type": "integer", "description": "The total number of rows."},
        "commit_id": {"type": "string", "description": "The commit that was read."},
        "note": {"type": "string", "description": "Present if rows were omitted."},
    },
    "required": ["columns", "rows", "row_count", "commit_id"],
}
CHANGE_OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "affected_nodes": {"type": "integer"},
        "affected_edges": {"type": "integer"},
        "branch": {"type": "string", "description": "The branch that was written to."},
        "commit_id": {
            "type": ["string", "null"],
            "description": "The commit of the write; null if nothing changed.",
        },
    },
    "required": ["affected_nodes", "affected_edges", "branch", "commit_id"],
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The arguments of a tool call: the query's parameters, and the branch or commit."""

    params: Params
    branch: object
    commit: object


def describe_tool(query: StoredQueryOutput, rule: WritePlacement) -> Tool:
    """The tool definition of a stored query, as a model sees it."""
    parts = [query.get("description"), query.get("instruction")]
    is_mutation = query["mutation"]
    return Tool(
        name=query["tool_name"],
        description="\n\n".join(filter(None, parts)) or f"The stored query `{query['name']}`.",
        input_schema=_input_schema(query, rule),
        output_schema=CHANGE_OUTPUT if is_mutation else ROWS_OUTPUT,
        annotations=CHANGING if is_mutation else READING,
    )


def parse_call(query: StoredQueryOutput, arguments: Mapping[str, object]) -> ToolCall:
    """Split the arguments of a tool into query parameters, branch and commit."""
    branch, commit = _place_names(query)
    # A mutation takes no commit, so a commit argument is rejected like any unknown parameter.
    places = (branch,) if query["mutation"] else (branch, commit)
    params = {name: given for name, given in arguments.items() if name not in places}
    return ToolCall(params, arguments.get(branch), arguments.get(commit))


def parse_place(branch: object, commit: object) -> Place:
    """Parse the target of a read, `main` by default; `InvalidValueError` if both are given."""
    require_branch_or_commit(branch, commit)
    if commit is None:
        return Place(MAIN if branch is None else parse_branch_name(branch), None)
    require_text(commit, subject="commit")
    return Place(None, str(commit))


def place_schemas(branch: str, commit: str) -> dict[str, Schema]:
    """The JSON schemas of the branch and commit arguments of a read, under the given names."""
    return {
        branch: _optional(f"The branch to read; the default is `{MAIN}`."),
        commit: _optional("The id or tag of a commit to read instead of a branch."),
    }


def make_schema(properties: Mapping[str, Schema], *, required: list[str]) -> Schema:
    """The JSON schema of the arguments of a tool."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def _input_schema(query: StoredQueryOutput, rule: WritePlacement) -> Schema:
    branch, commit = _place_names(query)
    properties = {each["name"]: parameter_schema(each) for each in query["params"]}
    required = [each["name"] for each in query["params"] if not each["nullable"]]
    if not query["mutation"]:
        return make_schema({**properties, **place_schemas(branch, commit)}, required=required)
    written = _optional(
        f"The branch to write to; the default is `{rule.own}`. To read what was written, "
        "name the same branch."
    )
    return make_schema({**properties, branch: written}, required=required)


def _optional(description: str) -> Schema:
    return {"type": ["string", "null"], "description": description, "default": None}


def _place_names(query: StoredQueryOutput) -> tuple[str, str]:
    """The names of the branch and commit arguments, distinct from the query's parameters."""
    taken = {each["name"] for each in query["params"]}
    return _free_name("branch", taken), _free_name("commit", taken)


def _free_name(name: str, taken: set[str]) -> str:
    names = accumulate(repeat("graph_"), lambda found, prefix: prefix + found, initial=name)
    return next(each for each in names if each not in taken)


_PLACES = place_schemas("branch", "commit")
_RETRIEVED: Schema = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The retrieved text."},
        "tokens": {"type": "integer"},
        "passages": {"type": "array", "items": {"type": "object"}},
        "left_out": {
            "type": "integer",
            "description": "Number of passages beyond the budget.",
        },
        "commit_id": {"type": "string"},
    },
    "required": ["text", "tokens", "passages", "left_out", "commit_id"],
}

QUERY = Tool(
    name=TextTool.QUERY,
    description="Run a read in the query language (.gq) of this graph. Read the schema first: it "
    "is the resource omnigraph://graph/schema.\n\nExample: "
    "query q($name: String) { match { $p: Person { name: $name } $p knows $f } "
    "return { $f.name, $f.age } order { $f.name } limit 10 }",
    input_schema=make_schema(
        {
            "query": {"type": "string", "description": "The query text, with one query."},
            "params": {
                "type": ["object", "null"],
                "description": "Values of the query's parameters, by name.",
                "default": None,
            },
            **_PLACES,
        },
        required=["query"],
    ),
    output_schema=ROWS_OUTPUT,
    annotations=READING,
)
RETRIEVE = Tool(
    name=TextTool.RETRIEVE,
    description="Retrieve content that relates to a text: the nodes that match it best by words "
    "and by meaning, and their neighbours, as one text.",
    input_schema=make_schema(
        {
            "text": {"type": "string", "description": "The text to search for."},
            "types": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "description": "Node types to search; the default is all.",
                "default": None,
            },
            "k": {"type": "integer", "minimum": 1, "default": FOUND},
            "hops": {"type": "integer", "minimum": 0, "default": HOPS},
            "budget_tokens": {"type": "integer", "minimum": 1, "default": BUDGET_TOKENS},
            **_PLACES,
        },
        required=["text"],
    ),
    output_schema=_RETRIEVED,
    annotations=READING,
)
TEXT_TOOLS = {TextTool.QUERY: QUERY, TextTool.RETRIEVE: RETRIEVE}


async def call_text_tool(
    tool: TextTool, arguments: Mapping[str, object], graph: ToolGraph
) -> ToolResult:
    """Run a text tool; `InvalidValueError` if an argument is unknown or not valid."""
    known = TEXT_TOOLS[tool].input_schema["properties"]
    for name in arguments:
        if name not in known:
            raise _refuse(name, arguments[name], f"the tool accepts only {', '.join(known)}")
    place = parse_place(arguments.get("branch"), arguments.get("commit"))
    match tool:
        case TextTool.QUERY:
            return await graph.run_text(_text(arguments, "query"), _params(arguments), place)
        case TextTool.RETRIEVE:
            question = Question(
                text=_text(arguments, "text"),
                types=_types(arguments),
                k=_number(arguments, "k", otherwise=FOUND),
                hops=_number(arguments, "hops", otherwise=HOPS),
                budget_tokens=_number(arguments, "budget_tokens", otherwise=BUDGET_TOKENS),
            )
            return await graph.retrieve(question, place)


def _text(arguments: Mapping[str, object], name: str) -> str:
    given = arguments.get(name)
    require_text(given, subject=name)
    return str(given)


def _params(arguments: Mapping[str, object]) -> Mapping[str, object]:
    given = arguments.get("params")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _refuse("params", given, "expected a JSON object")
    return given


def _types(arguments: Mapping[str, object]) -> list[str] | None:
    given = arguments.get("types")
    if given is None:
        return None
    if not isinstance(given, list):
        raise _refuse("types", given, "expected a list of names")
    return require_names(given, subject="types")


def _number(arguments: Mapping[str, object], name: str, *, otherwise: int) -> int:
    given = arguments.get(name)
    if given is None:
        return otherwise
    if isinstance(given, bool) or not isinstance(given, int):
        raise _refuse(name, given, "expected an integer")
    return given


def _refuse(name: str, given: object, problem: str) -> InvalidValueError:
    return InvalidValueError(subject=name, expected="argument", value=given, problem=problem)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a graph for one caller, and the placement of the caller's writes."""

    graph: ToolGraph
    rule: WritePlacement

    async def list_tools(self) -> list[Tool]:
        """Every tool that the caller may use."""
        stored = [describe_tool(each, self.rule) for each in await self.graph.queries()]
        taken = {each.name for each in stored}
        usable = await self.graph.text_tools() - taken
        return [*stored, *(tool for name, tool in TEXT_TOOLS.items() if name in usable)]

    async def call_tool(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """Run a tool and return its result; `ToolError` if the tool is unknown."""
        by_name = {each["tool_name"]: each for each in await self.graph.queries()}
        query = by_name.get(name)
        if query is None:
            usable = await self.graph.text_tools()
            tool = next((each for each in usable if each == name), None)
            if tool is None:
                raise unknown_tool()
            return await call_text_tool(tool, arguments, self.graph)
        call = parse_call(query, arguments)
        if query["mutation"]:
            return await self._change(query["name"], call)
        place = parse_place(call.branch, call.commit)
        return await self.graph.run_stored(query["name"], call.params, place)

    async def _change(self, name: str, call: ToolCall) -> ToolResult:
        branch = self.rule.place(call.branch)
        try:
            return await self.graph.change(name, call.params, branch)
        except NotFoundError as error:
            if error.kind != "branch" or branch != self.rule.own:
                raise
        # Another call of the same agent may have created the branch in between.
        with suppress(AlreadyExistsError):
            await self.graph.create_branch(branch)
        return await self.graph.change(name, call.params, branch)
