"""One API: `Graph` defines it; `RemoteGraph`, HTTP routes and commands are compared with it.

`CALLS` has a row for every call that works on an embedded and on a served graph. The row names the
operation of the OpenAPI document and the command that offer the call. A parameter has the same
name everywhere except as `WIRE_NAMES` and `OPTION_NAMES` say; what a surface leaves out or adds is
in the row.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import click
import pytest

from omnigraph import Graph, RemoteGraph
from omnigraph.cli.main import make_root
from omnigraph.cli.options import GlobalOption
from tests.support.source_tree import ROOT


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `Graph`, and where HTTP and the command line offer it."""

    name: str
    operation: str | None
    command: str | None
    added_fields: frozenset[str] = frozenset()
    """Fields of the request without a parameter."""
    no_option: frozenset[str] = frozenset()
    """Parameters without an option of the command."""
    added_options: frozenset[str] = frozenset()
    """Options of the command without a parameter, apart from those of the output."""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


CALLS = (
    Call("query", "query", "query", no_option=words("limits")),
    Call("prepare", None, None),
    Call("explain", "explain", "explain", no_option=words("limits")),
    Call("mutate", "mutate", "mutate"),
    Call(
        "load",
        "load",
        "load",
        added_fields=words("async name"),
        added_options=words("--spark-master --spark-conf"),
    ),
    Call("entity", "getEntity", "entity"),
    Call("read_blob", "getBlob", None),
    Call(
        "export",
        "export",
        "export",
        added_fields=words("table_keys"),
        added_options=words("--table"),
    ),
    Call("retrieve", "retrieve", None),
    Call("retrieve_by", "retrieveBy", None),
    Call("replay", "replay", None),
    Call("snapshot", "getSnapshot", "snapshot"),
    Call("tables", "getSnapshot", None),
    Call("branches", "listBranches", "branch list"),
    Call("create_branch", "createBranch", "branch create"),
    Call("delete_branch", "deleteBranch", "branch delete"),
    Call(
        "merge",
        "mergeBranches",
        "merge",
        added_fields=words("delete_branch"),
        no_option=words("engine"),
        added_options=words("--write-decisions"),
    ),
    Call("tags", "listTags", "tag list"),
    Call("tag", "createTag", "tag create"),
    Call("delete_tag", "deleteTag", "tag delete"),
    Call("head", "getHead", None),
    Call("commit", "getCommit", "commit show"),
    Call("commits", "listCommits", "commit list", added_options=words("--limit")),
    Call("revert", "revertCommit", "revert"),
    Call("cherry_pick", "cherryPickCommit", "cherry-pick"),
    Call(
        "diff",
        "diff",
        "diff",
        added_fields=words("limit page_token"),
        no_option=words("engine"),
        added_options=words("--stat"),
    ),
    Call(
        "changes",
        "listChanges",
        "changes",
        added_fields=words("commits limit"),
        added_options=words("--follow --limit"),
    ),
    Call("recoveries", "listRecoveries", "recoveries"),
    Call(
        "plan_schema",
        "planSchema",
        "schema plan",
        added_options=words("--from"),
    ),
    Call("apply_schema", "applySchema", "schema apply", no_option=words("engine")),
    Call("transaction", None, None),
    Call("close", None, None),
)
"""The public calls that an embedded and a served graph have in common."""

# Fields of requests and parameters of routes whose names differ from the parameters of `Graph`.
WIRE_NAMES: Mapping[str, str] = {
    "commit": "snapshot",
    "base": "from",
    "into": "target",
    "if_commit": "Omnigraph-If-Graph-Commit",
    "idempotency_key": "Idempotency-Key",
}
WIRE_NAMES_BY_CALL: Mapping[str, Mapping[str, str]] = {
    "query": {"source": "query"},
    "explain": {"source": "query"},
    "mutate": {"source": "query"},
    "retrieve_by": {"source": "query"},
    "plan_schema": {"source": "schema_source"},
    "apply_schema": {"source": "schema_source"},
    "export": {"types": "type_names"},
    "delete_branch": {"name": "branch"},
    "delete_tag": {"name": "tag"},
    "commit": {"id": "commit_id"},
    "revert": {"commit": "commit_id"},
    "cherry_pick": {"commit": "commit_id"},
    "tag": {"commit": "commit"},
}
# What the token, the process of the caller or a header of HTTP itself says.
NEVER_SENT = words("actor spark progress on_error quarantine count_tokens start length")
LIMIT_FIELDS = words("seconds_max bytes_max")

OPTION_NAMES: Mapping[str, str] = {"commit": "--snapshot", "base": "--from", "types": "--type"}
OPTION_NAMES_BY_CALL: Mapping[str, Mapping[str, str]] = {
    "query": {"source": "--query"},
    "explain": {"source": "--query"},
    "mutate": {"source": "--query"},
    "plan_schema": {"source": "--schema"},
    "apply_schema": {"source": "--schema"},
    "diff": {"ops": "--op"},
    "commits": {"actor": "--filter"},
    "revert": {"commit": "commit"},
    "cherry_pick": {"commit": "commit"},
    "tag": {"commit": "commit"},
}
# The global option `--as`, and values that only a program can pass.
NEVER_AN_OPTION = words("actor spark progress")
OUTPUT_OPTIONS = words("uri --uri --json --jsonl --format --out --query-string --params-file")


def test_the_table_has_every_call_that_both_graphs_offer() -> None:
    of_served_graphs_only = {"graph_id", "invoke", "retrieve_stored", "stored_queries"}
    properties = {"actor", "schema_source", "uri"}
    rejected = {"for_actor"}

    common = _public(RemoteGraph) - of_served_graphs_only - properties - rejected

    assert common <= _public(Graph)
    assert sorted(common) == sorted(call.name for call in CALLS)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_remote_graph_has_the_signature_of_a_graph(call: Call) -> None:
    assert _signature(getattr(RemoteGraph, call.name)) == _signature(getattr(Graph, call.name))


@pytest.mark.parametrize(
    "call", [call for call in CALLS if call.operation is not None], ids=lambda call: call.name
)
def test_a_route_takes_the_parameters_of_its_call(call: Call) -> None:
    names = {**WIRE_NAMES, **WIRE_NAMES_BY_CALL.get(call.name, {})}
    expected = {
        names.get(parameter, parameter)
        for parameter in _parameters(call) - (NEVER_SENT - _also_sent(call))
    }
    if "limits" in expected:
        expected = (expected - {"limits"}) | LIMIT_FIELDS

    assert _fields(call) == expected | call.added_fields


@pytest.mark.parametrize(
    "call", [call for call in CALLS if call.command is not None], ids=lambda call: call.name
)
def test_a_command_takes_the_parameters_of_its_call(call: Call) -> None:
    own = OPTION_NAMES_BY_CALL.get(call.name, {})
    names = {**OPTION_NAMES, **own}
    options, arguments = _options(call)
    expected = {
        names.get(parameter) or (parameter if parameter in arguments else _option(parameter))
        for parameter in _parameters(call) - (NEVER_AN_OPTION - own.keys()) - call.no_option
    }

    assert (options | arguments) - OUTPUT_OPTIONS == expected | call.added_options


def _public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def _signature(call: Callable[..., object]) -> list[tuple[str, object, object, object]]:
    found = inspect.signature(call).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in found]


def _parameters(call: Call) -> set[str]:
    return {name for name, *_ in _signature(getattr(Graph, call.name))[1:]}


def _also_sent(call: Call) -> frozenset[str]:
    """Parameters of one call that share the name of one that is never sent."""
    match call.name:
        case "changes":
            return frozenset({"start"})
        case "commits":
            return frozenset({"actor"})
        case _:
            return frozenset()


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


@cache
def _fields_by_operation() -> Mapping[str, frozenset[str]]:
    """The parameters and the fields of the body of every operation of the OpenAPI document."""
    document = json.loads((ROOT / "docs/reference/openapi.json").read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    found: dict[str, frozenset[str]] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            schema = body.get("schema", {})
            bodies = [
                schemas[each["$ref"].rpartition("/")[2]]
                for each in (schema, *schema.get("anyOf", ()))
                if "$ref" in each
            ]
            name = operation["operationId"].removeprefix("cluster_")
            found[name] = frozenset(
                [each["name"] for each in operation.get("parameters", ())]
                + [field for each in bodies for field in each["properties"]]
            )
    return found


def _fields(call: Call) -> frozenset[str]:
    assert call.operation is not None
    return _fields_by_operation()[call.operation] - {"graph_id", "Range"}


def _options(call: Call) -> tuple[set[str], set[str]]:
    """The long names of the options of a command, and the names of its arguments."""
    assert call.command is not None
    context = click.Context(make_root(), info_name="omnigraph")
    command: click.Command = context.command
    for word in call.command.split():
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None, f"there is no command {call.command!r}"
        command = found
        context = click.Context(command, info_name=word, parent=context)
    own = [each for each in command.params if not isinstance(each, GlobalOption)]
    options = {each.opts[-1] for each in own if isinstance(each, click.Option)}
    return options, {each.name for each in own if isinstance(each, click.Argument) and each.name}
