"""`omnigraph explain`: how a read would be run."""

from __future__ import annotations

import click

from omnigraph.cli.command import command
from omnigraph.cli.files import placing
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import BRANCH_OPTION, ENGINE_OPTION, JSON_OPTION
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.query_inputs import (
    PARAMS_FILE_OPTION,
    PARAMS_OPTION,
    QUERY_OPTION,
    TEXT_OPTION,
    find_params,
    find_text,
    require_one_reader_of_input,
)
from omnigraph.wire.shapes import ExplainOutput


@command()
@click.argument("name", required=False)
@QUERY_OPTION
@TEXT_OPTION
@PARAMS_OPTION
@PARAMS_FILE_OPTION
@BRANCH_OPTION
@ENGINE_OPTION
@JSON_OPTION
@click.pass_obj
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
    """Show how a query would be run, step by step; nothing is run."""
    require_one_reader_of_input(query_path, params_path)
    text = find_text(query_path, query_text)
    if text is None:
        raise click.UsageError("give the text of the query with -e or --query FILE")
    params = find_params(params_text, params_path)
    with (
        placing(text, query_path),
        invocation.open(invocation.target(None), read_only=True) as graph,
    ):
        output: ExplainOutput = {
            "plan": graph.explain(text, params, name=name, branch=branch, engine=engine)
        }
    if is_json:
        print_json(output)
    else:
        print_line(output["plan"])
