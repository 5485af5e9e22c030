"""Tools beside the stored queries: `query`, which reads by a text, and `retrieve`, which searches.

Only read. A stored query of the same name takes the place of one of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcp_types import Tool

from omnigraph.engine.retrieval.limits import BUDGET_TOKENS, FOUND, HOPS
from omnigraph.mcp.parameters import Schema
from omnigraph.mcp.ports import Answer, Question, TextTool, ToolGraph
from omnigraph.mcp.tools import READING, ROWS_OUTPUT, make_schema, parse_place, place_schemas
from omnigraph.model.arguments import require_names, require_text
from omnigraph.model.errors import InvalidValueError

_PLACES = place_schemas("branch", "commit")
_RETRIEVED: Schema = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What was found, to be read."},
        "tokens": {"type": "integer"},
        "passages": {"type": "array", "items": {"type": "object"}},
        "left_out": {"type": "integer", "description": "Passages that did not fit."},
        "commit_id": {"type": "string"},
    },
    "required": ["text", "tokens", "passages", "left_out", "commit_id"],
}

QUERY = Tool(
    name=TextTool.QUERY,
    description="Run a read in the query language (.gq) of this graph. Read the schema first: it "
    "is the resource omnigraph://graph/schema.\n\nA text looks like this: "
    "query q($name: String) { match { $p: Person { name: $name } $p knows $f } "
    "return { $f.name, $f.age } order { $f.name } limit 10 }",
    input_schema=make_schema(
        {
            "query": {"type": "string", "description": "The text, with one query in it."},
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
    description="Find what this graph holds about a text: the nodes that match it best by words "
    "and by meaning, and their neighbours, as one text to read.",
    input_schema=make_schema(
        {
            "text": {"type": "string", "description": "What to look for."},
            "types": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "description": "Node types to look in; all if nothing is said.",
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
) -> Answer:
    """What one of them answers."""
    _require_known(TEXT_TOOLS[tool], arguments)
    place = parse_place(arguments.get("branch"), arguments.get("commit"))
    match tool:
        case TextTool.QUERY:
            return await graph.run_text(_text(arguments, "query"), _params(arguments), place)
        case TextTool.RETRIEVE:
            return await graph.retrieve(_question(arguments), place)


def _question(arguments: Mapping[str, object]) -> Question:
    return Question(
        text=_text(arguments, "text"),
        types=_names(arguments, "types"),
        k=_number(arguments, "k", otherwise=FOUND),
        hops=_number(arguments, "hops", otherwise=HOPS),
        budget_tokens=_number(arguments, "budget_tokens", otherwise=BUDGET_TOKENS),
    )


def _require_known(tool: Tool, arguments: Mapping[str, object]) -> None:
    known = tool.input_schema["properties"]
    for name in arguments:
        if name not in known:
            raise _refuse(name, arguments[name], f"the tool takes {', '.join(known)} and no more")


def _text(arguments: Mapping[str, object], name: str) -> str:
    given = arguments.get(name)
    require_text(given, subject=name)
    return str(given)


def _params(arguments: Mapping[str, object]) -> Mapping[str, object]:
    given = arguments.get("params")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _refuse("params", given, "a JSON object is needed")
    return given


def _names(arguments: Mapping[str, object], name: str) -> list[str] | None:
    given = arguments.get(name)
    if given is None:
        return None
    if not isinstance(given, list):
        raise _refuse(name, given, "a list of names is needed")
    return require_names(given, subject=name)


def _number(arguments: Mapping[str, object], name: str, *, otherwise: int) -> int:
    given = arguments.get(name)
    if given is None:
        return otherwise
    if isinstance(given, bool) or not isinstance(given, int):
        raise _refuse(name, given, "a whole number is needed")
    return given


def _refuse(name: str, given: object, problem: str) -> InvalidValueError:
    return InvalidValueError(subject=name, expected="argument", value=given, problem=problem)
