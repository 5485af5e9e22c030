"""Stored queries as a list, for people and for programs.

Made of what was written, not of what it means: a query is listed whether it fits its graph or not.
Pure, and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NotRequired, TypedDict

from omnigraph.compiler.query.parse import parse_queries
from omnigraph.compiler.query.syntax import ParameterSyntax, QuerySyntax, Read
from omnigraph.model.errors import NotFoundError
from omnigraph.model.source import Source

_INDENT = "    "


class ListedParameter(TypedDict):
    """A parameter as the list shows it; the type is spelled as in a query, without its `?`."""

    name: str
    type: str
    nullable: bool


class ListedQuery(TypedDict):
    """A stored query as the list shows it; what it lacks is left out."""

    graph: str
    name: str
    mcp_expose: bool
    tool_name: str
    mutation: bool
    description: NotRequired[str]
    instruction: NotRequired[str]
    params: list[ListedParameter]


def list_query(source: Source, *, graph: str, name: str) -> ListedQuery:
    """The query of a name, as it was written."""
    declared = _get_declared(source, name)
    # Of two declarations of one name the last counts, as when it is compiled.
    parameters = {each.variable.name: each for each in declared.parameters}
    texts = {each.name.text: each.value for each in declared.annotations}
    listed: ListedQuery = {
        "graph": graph,
        "name": name,
        "mcp_expose": True,
        "tool_name": name,
        "mutation": not isinstance(declared.body, Read),
        "description": texts.get("description", ""),
        "instruction": texts.get("instruction", ""),
        "params": [_list_parameter(each) for each in parameters.values()],
    }
    if "description" not in texts:
        del listed["description"]
    if "instruction" not in texts:
        del listed["instruction"]
    return listed


def view_queries(listed: Sequence[ListedQuery]) -> Iterator[str]:
    """The list for people; which graph a query is for is told where there are several."""
    if not listed:
        yield "(no stored queries registered)"
    is_several = len({each["graph"] for each in listed}) > 1
    for graph, queries in groupby(listed, key=lambda each: each["graph"]):
        if is_several:
            yield f"graph {graph}"
        for each in queries:
            yield from _view_query(each)


def _get_declared(source: Source, name: str) -> QuerySyntax:
    for each in parse_queries(source):
        if each.name.text == name:
            return each
    raise NotFoundError(kind="query", name=name, advice=f"{source.name} has none of this name")


def _list_parameter(parameter: ParameterSyntax) -> ListedParameter:
    word = parameter.type.text
    if parameter.dimension is not None:
        word = f"{word}({parameter.dimension})"
    return {
        "name": parameter.variable.name,
        "type": f"[{word}]" if parameter.is_list else word,
        "nullable": parameter.is_nullable,
    }


def _view_query(listed: ListedQuery) -> Iterator[str]:
    parameters = ", ".join(
        f"${each['name']}: {each['type']}{'?' if each['nullable'] else ''}"
        for each in listed["params"]
    )
    kind = "mutation" if listed["mutation"] else "read"
    yield f"{kind}  {listed['name']}({parameters})"
    yield from _view_text("description", listed.get("description"))
    yield from _view_text("instruction", listed.get("instruction"))


def _view_text(label: str, text: str | None) -> Iterator[str]:
    if text is None:
        return
    heading = f"{_INDENT}{label}: "
    first, *others = text.split("\n")
    yield f"{heading}{first}"
    for line in others:
        yield f"{' ' * len(heading)}{line}"
