"""The commands `query`, `mutate`, `explain`, `alias`, `entity` and `shell`.

All but `mutate` and `shell` only read. The formats of results need Arrow and are imported once
there is a result to print. Stored queries run on a server by name; the server rejects a query of
the other kind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Unpack

import click

from omnigraph.cli import inputs
from omnigraph.cli.command import command
from omnigraph.cli.config import Alias, Format
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    BRANCH_OPTION,
    EMBED_OPTION,
    ENGINE_OPTION,
    FORMAT_OPTION,
    IF_COMMIT_OPTION,
    JSON_OPTION,
    KEY_OPTION,
    READ_BRANCH_OPTION,
    SNAPSHOT_OPTION,
    URI_ARGUMENT,
    URI_OPTION,
    complete_aliases,
)
from omnigraph.cli.output import (
    CommandError,
    escape_control,
    print_note,
    show_count,
    show_value,
)
from omnigraph.cli.targets import make_server_scope
from omnigraph.compiler.query.parser import get_single_query_name
from omnigraph.compiler.statements import split_statements
from omnigraph.http.encode import encode_mutation
from omnigraph.http.responses import EntityOutput, ExplainOutput
from omnigraph.http.responses import Target as Place
from omnigraph.model.errors import NotFoundError
from omnigraph.model.ports import WriteConditions

if TYPE_CHECKING:
    from omnigraph.cli.shell.session import Session
    from omnigraph.engine.results import MutationResult, Result

# Imported by name, because the engine is slow to import and help and usage errors do not need it.
_PRINTING = "omnigraph.cli.formats"


@command()
@inputs.takes_query
@READ_BRANCH_OPTION
@SNAPSHOT_OPTION
@FORMAT_OPTION
@JSON_OPTION
@ENGINE_OPTION
@click.option(
    "--out",
    metavar="FILE",
    help="Write rows to a file, in the format of its suffix: parquet, arrow, feather, ipc, "
    "ndjson, jsonl, json, csv, tsv.",
)
def query(
    invocation: Invocation,
    *,
    query: inputs.QueryInput,
    branch: str | None,
    snapshot: str | None,
    chosen: str | None,
    engine: str,
    out: str | None,
) -> None:
    """Run a query and print the rows that it finds.

    With a query text, NAME selects one of its queries; without, NAME is a stored query of a server.
    """
    inputs.require_one({"--branch": branch, "--snapshot": snapshot})
    inputs.require_one({"--format": chosen, "--json": invocation.is_json})
    format = Format.JSON if invocation.is_json else None if chosen is None else Format(chosen)
    if out is not None and out != inputs.STANDARD_OUTPUT:
        import_module(_PRINTING).require_writable(out, chosen=format)
    with inputs.hinting_at_store(query.name):
        target = invocation.target()
    place: Place = {
        "branch": None if snapshot is not None else branch or "main",
        "snapshot": snapshot,
    }
    if query.text is None:
        stored, served = inputs.require_stored(query.name, target)
        with invocation.open_served(served, read_only=True) as remote:
            with invocation.waiting("query"):
                found: Result = import_module("omnigraph.client.remote").run_read(
                    remote, stored, query.params, branch=place["branch"], commit=snapshot
                )
            _show(invocation, found, place, format=format, out=out)
        return
    with invocation.open(target, read_only=True) as graph:
        with query.attach_path(), invocation.waiting("query"):
            found = graph.query(
                query.text,
                query.params,
                name=query.name,
                branch=place["branch"],
                commit=snapshot,
                engine=engine,
            )
        _show(invocation, found, place, format=format, out=out)


def _show(
    invocation: Invocation,
    result: Result,
    place: Place,
    *,
    format: Format | None,
    out: str | None,
) -> None:
    printing = import_module(_PRINTING)
    if out is None or out == inputs.STANDARD_OUTPUT:
        format = invocation.output_format(chosen=format, of_alias=None)
        printing.print_result(invocation, result, place, format=format)
        return
    printing.save_result(result, place, path=out, chosen=format)
    print_note(f"wrote {show_count(len(result), 'row')} to {out}")


@command(BRANCH_OPTION, EMBED_OPTION, IF_COMMIT_OPTION, KEY_OPTION, JSON_OPTION)
@inputs.takes_query
def mutate(
    invocation: Invocation,
    *,
    query: inputs.QueryInput,
    branch: str,
    embed: str | None,
    **conditions: Unpack[WriteConditions],
) -> None:
    """Run a mutation as one commit, or change nothing.

    With a query text, NAME selects one of its queries; without, NAME is a stored query of a server.
    """
    with inputs.hinting_at_store(query.name):
        target = invocation.target()
    if query.text is None:
        stored, served = inputs.require_stored(query.name, target)
        invocation.announce("mutate", target)
        with invocation.open_served(served, read_only=False) as remote:
            with invocation.waiting("mutate"):
                done: MutationResult = import_module("omnigraph.client.remote").run_mutation(
                    remote, stored, query.params, branch=branch, embed=embed, **conditions
                )
            output = encode_mutation(done, branch=branch, query_name=stored, actor=remote.actor)
    else:
        with invocation.open_to_write("mutate", target) as graph:
            with query.attach_path(), invocation.waiting("mutate"):
                done = graph.mutate(
                    query.text,
                    query.params,
                    name=query.name,
                    branch=branch,
                    embed=embed,
                    **conditions,
                )
            ran = get_single_query_name(query.text) if query.name is None else query.name
            output = encode_mutation(done, branch=branch, query_name=ran, actor=graph.actor)
    nodes, edges = output["affected_nodes"], output["affected_edges"]
    lines = [
        f"changed {output['branch']} via {output['query_name']}: "
        f"{show_count(nodes, 'node')}, {show_count(edges, 'edge')}"
    ]
    if output["actor_id"] is not None:
        lines.append(f"actor_id: {output['actor_id']}")
    invocation.print_output(output, lines)


@command()
@inputs.takes_query
@BRANCH_OPTION
@ENGINE_OPTION
@click.option("--analyze", is_flag=True, help="Run the query and measure each step.")
@JSON_OPTION
def explain(
    invocation: Invocation,
    *,
    query: inputs.QueryInput,
    branch: str,
    engine: str,
    analyze: bool,
) -> None:
    """Show the plan of a query, step by step; nothing is run without --analyze."""
    if query.text is None:
        raise click.UsageError("pass the text of the query with -e or --query FILE")
    with inputs.hinting_at_store(query.name):
        target = invocation.target()
    with query.attach_path(), invocation.open(target, read_only=True) as graph:
        plan = graph.explain(
            query.text,
            query.params,
            name=query.name,
            branch=branch,
            engine=engine,
            analyze=analyze,
        )
    output: ExplainOutput = {"plan": plan}
    invocation.print_output(output, [plan])


@command()
@click.argument("name", shell_complete=complete_aliases)
@click.argument("args", nargs=-1)
@inputs.PARAMS_OPTION
@inputs.PARAMS_FILE_OPTION
@FORMAT_OPTION
@JSON_OPTION
def alias(
    invocation: Invocation,
    name: str,
    args: tuple[str, ...],
    *,
    params_text: str | None,
    params_path: str | None,
    chosen: str | None,
) -> None:
    """Run the stored query of the alias NAME, defined under `aliases:` in the configuration.

    ARGS are values for the parameters that the alias lists, in that order: JSON, or else text.
    """
    inputs.require_one({"--format": chosen, "--json": invocation.is_json})
    bound = invocation.config.aliases.get(name)
    if bound is None:
        known = ", ".join(sorted(invocation.config.aliases)) or "none"
        raise CommandError(f"unknown alias '{name}'; aliases of the configuration: {known}")
    given = inputs.find_params(params_text, params_path) or {}
    params = {**bound.params, **_name_arguments(name, bound, args), **given}
    scope = make_server_scope(
        bound.server, graph=bound.graph, fallback=None, config=invocation.config
    )
    format = invocation.output_format(chosen=chosen, of_alias=bound.format)
    place: Place = {"branch": "main", "snapshot": None}
    with invocation.open_served(invocation.served_graph(scope), read_only=True) as remote:
        found = remote.invoke(bound.query, params, expect_mutation=False)
        import_module(_PRINTING).print_result(invocation, found, place, format=format)


def _name_arguments(name: str, bound: Alias, args: Sequence[str]) -> Mapping[str, object]:
    """The values of arguments by the parameter names of the alias."""
    if len(args) > len(bound.args):
        raise CommandError(
            f"alias '{name}' takes {show_count(len(bound.args), 'argument')} "
            f"({', '.join(bound.args) or 'none'}), not {len(args)}"
        )
    return {key: _parse(text) for key, text in zip(bound.args, args, strict=False)}


def _parse(text: str) -> object:
    try:
        # Python would accept NaN and Infinity as numbers; JSON does not.
        parsed: object = json.loads(text, parse_constant=inputs.refuse_constant)
    except ValueError:
        return text
    return parsed


@command()
@click.argument("type")
@click.argument("id")
@READ_BRANCH_OPTION
@SNAPSHOT_OPTION
@URI_OPTION
@JSON_OPTION
def entity(
    invocation: Invocation,
    *,
    type: str,
    id: str,
    branch: str | None,
    snapshot: str | None,
) -> None:
    """Show one node or edge of a TYPE by its ID; exits with 1 if there is none."""
    inputs.require_one({"--branch": branch, "--snapshot": snapshot})
    with invocation.open_to_read() as graph:
        found = graph.entity(type, id, branch=branch, commit=snapshot)
    if found is None and not invocation.is_json:
        raise NotFoundError(kind=type, name=id, advice="")
    lines = [
        f"{name}: {escape_control(value) if isinstance(value, str) else show_value(value)}"
        for name, value in (found or {}).items()
    ]
    output: EntityOutput = {"type": type, "id": id, "entity": found}
    invocation.print_output(output, lines)
    if found is None:
        sys.exit(1)


@command()
@URI_ARGUMENT
@click.option("--branch", default="main", show_default=True, help="The initial branch.")
@FORMAT_OPTION
def shell(invocation: Invocation, *, branch: str, chosen: str | None) -> None:
    """Query and change a graph interactively.

    Without a terminal, statements are read from standard input, up to the first that fails.
    """
    target = invocation.target()
    with invocation.open(target, read_only=False) as graph:
        format = invocation.output_format(chosen=chosen, of_alias=None)
        sessions = import_module("omnigraph.cli.shell.session")
        session: Session = sessions.Session(graph, invocation, target, format=format)
        graph.head(branch)
        session.branch = branch
        if sys.stdin.isatty() and sys.stdout.isatty():
            print_note(f"{target.uri} ({target.access}); \\help lists the commands")
            # Imported by name, because the line editor is slow to import and scripts do not need
            # it.
            import_module("omnigraph.cli.shell.prompt").run_prompt(session, home=invocation.home)
            return
        for statement in split_statements(inputs.read_source(inputs.STANDARD_INPUT).text):
            session.run(statement)
            if session.is_over:
                return
