"""The commands `query`, `explain`, `alias`, `entity` and `shell`.

All but `shell` only read. The formats of results need Arrow and are imported once there is a result
to print. Stored queries run on a server by name; the server rejects a mutation here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.config import Alias, Format
from omnigraph.cli.inputs import (
    PARAMS_FILE_OPTION,
    PARAMS_OPTION,
    QUERY_OPTION,
    STANDARD_INPUT,
    STANDARD_OUTPUT,
    TEXT_OPTION,
    attach_path,
    find_params,
    find_text,
    hinting_at_store,
    read_source,
    refuse_constant,
    require_one,
    require_one_reader_of_input,
    require_stored,
)
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    BRANCH_OPTION,
    ENGINE_OPTION,
    FORMAT_OPTION,
    JSON_OPTION,
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
    print_output,
    show_count,
    show_value,
    show_waiting,
)
from omnigraph.cli.targets import make_server_scope
from omnigraph.compiler.statements import split_statements
from omnigraph.http.responses import EntityOutput, ExplainOutput
from omnigraph.http.responses import Target as Place
from omnigraph.model.errors import NotFoundError

if TYPE_CHECKING:
    from omnigraph.cli.shell.session import Session
    from omnigraph.engine.results import Result

# Imported by name, because the engine is slow to import and help and usage errors do not need it.
_PRINTING = "omnigraph.cli.formats"


@command()
@click.argument("name", required=False)
@QUERY_OPTION
@TEXT_OPTION
@PARAMS_OPTION
@PARAMS_FILE_OPTION
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
def query(  # noqa: PLR0913  # its flags
    invocation: Invocation,
    *,
    name: str | None,
    query_path: str | None,
    query_text: str | None,
    params_text: str | None,
    params_path: str | None,
    branch: str | None,
    snapshot: str | None,
    chosen: str | None,
    is_json: bool,
    engine: str,
    out: str | None,
) -> None:
    """Run a query and print the rows that it finds.

    With a query text, NAME selects one of its queries; without, NAME is a stored query of a server.
    """
    require_one({"--branch": branch, "--snapshot": snapshot})
    require_one({"--format": chosen, "--json": is_json})
    require_one_reader_of_input(query_path, params_path)
    text = find_text(query_path, query_text)
    params = find_params(params_text, params_path)
    format = Format.JSON if is_json else None if chosen is None else Format(chosen)
    if out is not None and out != STANDARD_OUTPUT:
        import_module(_PRINTING).require_writable(out, chosen=format)
    with hinting_at_store(name):
        target = invocation.target(None)
    place: Place = {
        "branch": None if snapshot is not None else branch or "main",
        "snapshot": snapshot,
    }
    if text is None:
        stored, served = require_stored(name, target)
        with invocation.open_served(served, read_only=True) as remote:
            with show_waiting("query", invocation.environment):
                found: Result = import_module("omnigraph.client.remote").run_read(
                    remote, stored, params, branch=place["branch"], commit=snapshot
                )
            _show(invocation, found, place, format=format, out=out)
        return
    with invocation.open(target, read_only=True) as graph:
        with attach_path(text, query_path), show_waiting("query", invocation.environment):
            found = graph.query(
                text, params, name=name, branch=place["branch"], commit=snapshot, engine=engine
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
    if out is None or out == STANDARD_OUTPUT:
        format = invocation.output_format(is_json=False, chosen=format, of_alias=None)
        printing.print_result(invocation, result, place, format=format)
        return
    printing.save_result(result, place, path=out, chosen=format)
    print_note(f"wrote {show_count(len(result), 'row')} to {out}")


@command()
@click.argument("name", required=False)
@QUERY_OPTION
@TEXT_OPTION
@PARAMS_OPTION
@PARAMS_FILE_OPTION
@BRANCH_OPTION
@ENGINE_OPTION
@JSON_OPTION
def explain(  # noqa: PLR0913  # its flags
    invocation: Invocation,
    *,
    name: str | None,
    query_path: str | None,
    query_text: str | None,
    params_text: str | None,
    params_path: str | None,
    branch: str,
    engine: str,
    is_json: bool,
) -> None:
    """Show the plan of a query, step by step; nothing is run."""
    require_one_reader_of_input(query_path, params_path)
    text = find_text(query_path, query_text)
    if text is None:
        raise click.UsageError("pass the text of the query with -e or --query FILE")
    params = find_params(params_text, params_path)
    with (
        attach_path(text, query_path),
        invocation.open(invocation.target(None), read_only=True) as graph,
    ):
        output: ExplainOutput = {
            "plan": graph.explain(text, params, name=name, branch=branch, engine=engine)
        }
    print_output(output, [output["plan"]], is_json=is_json)


@command()
@click.argument("name", shell_complete=complete_aliases)
@click.argument("args", nargs=-1)
@PARAMS_OPTION
@PARAMS_FILE_OPTION
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
    is_json: bool,
) -> None:
    """Run the stored query of the alias NAME, defined under `aliases:` in the configuration.

    ARGS are values for the parameters that the alias lists, in that order: JSON, or else text.
    """
    require_one({"--format": chosen, "--json": is_json})
    bound = invocation.config.aliases.get(name)
    if bound is None:
        known = ", ".join(sorted(invocation.config.aliases)) or "none"
        raise CommandError(f"unknown alias '{name}'; aliases of the configuration: {known}")
    given = find_params(params_text, params_path) or {}
    params = {**bound.params, **_name_arguments(name, bound, args), **given}
    scope = make_server_scope(
        bound.server, graph=bound.graph, fallback=None, config=invocation.config
    )
    format = invocation.output_format(is_json=is_json, chosen=chosen, of_alias=bound.format)
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
        parsed: object = json.loads(text, parse_constant=refuse_constant)
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
    uri: str | None,
    is_json: bool,
) -> None:
    """Show one node or edge of a TYPE by its ID; exits with 1 if there is none."""
    require_one({"--branch": branch, "--snapshot": snapshot})
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        found = graph.entity(type, id, branch=branch, commit=snapshot)
    if found is None and not is_json:
        raise NotFoundError(kind=type, name=id, advice="")
    lines = [
        f"{name}: {escape_control(value) if isinstance(value, str) else show_value(value)}"
        for name, value in (found or {}).items()
    ]
    output: EntityOutput = {"type": type, "id": id, "entity": found}
    print_output(output, lines, is_json=is_json)
    if found is None:
        sys.exit(1)


@command()
@URI_ARGUMENT
@click.option("--branch", default="main", show_default=True, help="The initial branch.")
@FORMAT_OPTION
def shell(invocation: Invocation, *, uri: str | None, branch: str, chosen: str | None) -> None:
    """Query and change a graph interactively.

    Without a terminal, statements are read from standard input, up to the first that fails.
    """
    target = invocation.target(uri)
    with invocation.open(target, read_only=False) as graph:
        format = invocation.output_format(is_json=False, chosen=chosen, of_alias=None)
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
        for statement in split_statements(read_source(STANDARD_INPUT).text):
            session.run(statement)
            if session.is_over:
                return
