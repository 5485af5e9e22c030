"""Stored queries as tools: what a model is told of one, and what its arguments mean.

A tool has the query's parameters and, beside them, where it runs. Knows no graph: whether names and
values mean anything is found out when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, repeat

from mcp_types import Tool, ToolAnnotations

from omnigraph.mcp.parameters import Schema, parameter_schema
from omnigraph.mcp.placing import WriteRule
from omnigraph.mcp.ports import Params, Place
from omnigraph.model.arguments import require_one_place, require_text
from omnigraph.model.names import MAIN, parse_branch_name
from omnigraph.wire.shapes import StoredQueryOutput

READING = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
# The catalog does not say whether a mutation only inserts, so that none promises it.
CHANGING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)

ROWS_OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "object"}},
        "row_count": {"type": "integer", "description": "How many rows there are in all."},
        "commit_id": {"type": "string", "description": "The commit that was read."},
        "note": {"type": "string", "description": "Said if rows were left out."},
    },
    "required": ["columns", "rows", "row_count", "commit_id"],
}
CHANGE_OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "affected_nodes": {"type": "integer"},
        "affected_edges": {"type": "integer"},
        "branch": {"type": "string", "description": "Where it was written."},
        "commit_id": {
            "type": ["string", "null"],
            "description": "The commit that it became; null if nothing changed.",
        },
    },
    "required": ["affected_nodes", "affected_edges", "branch", "commit_id"],
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a tool was called with: the query's parameters, and where it is to run."""

    params: Params
    branch: object
    commit: object


def describe_tool(query: StoredQueryOutput, rule: WriteRule) -> Tool:
    """A stored query as a model sees it."""
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
    """The arguments of a tool, taken apart."""
    branch, commit = _place_names(query)
    # A mutation takes no commit, so that one who names it hears of it as of any other.
    places = (branch,) if query["mutation"] else (branch, commit)
    params = {name: given for name, given in arguments.items() if name not in places}
    return ToolCall(params, arguments.get(branch), arguments.get(commit))


def parse_place(branch: object, commit: object) -> Place:
    """What a read is about, `main` if nothing is said; `InvalidValueError` if both are."""
    require_one_place(branch, commit)
    if commit is None:
        return Place(MAIN if branch is None else parse_branch_name(branch), None)
    require_text(commit, subject="commit")
    return Place(None, str(commit))


def place_schemas(branch: str, commit: str) -> dict[str, Schema]:
    """How a read is told where to look, under these names."""
    return {
        branch: _optional(f"The branch to read, `{MAIN}` if nothing is said."),
        commit: _optional("The id or the tag of a commit to read instead of a branch."),
    }


def make_schema(properties: Mapping[str, Schema], *, required: list[str]) -> Schema:
    """What the arguments of a tool have to be."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def _input_schema(query: StoredQueryOutput, rule: WriteRule) -> Schema:
    branch, commit = _place_names(query)
    properties = {each["name"]: parameter_schema(each) for each in query["params"]}
    required = [each["name"] for each in query["params"] if not each["nullable"]]
    if not query["mutation"]:
        return make_schema({**properties, **place_schemas(branch, commit)}, required=required)
    written = _optional(
        f"The branch to write to, `{rule.own}` if nothing is said. What was written is read by "
        "naming the same branch."
    )
    return make_schema({**properties, branch: written}, required=required)


def _optional(description: str) -> Schema:
    return {"type": ["string", "null"], "description": description, "default": None}


def _place_names(query: StoredQueryOutput) -> tuple[str, str]:
    """What the arguments for branch and commit are called: as no parameter of the query is."""
    taken = {each["name"] for each in query["params"]}
    return _free_name("branch", taken), _free_name("commit", taken)


def _free_name(name: str, taken: set[str]) -> str:
    names = accumulate(repeat("graph_"), lambda found, prefix: prefix + found, initial=name)
    return next(each for each in names if each not in taken)
