"""`omnigraph query`: a read of a text, or a stored one by its name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.config import Format
from omnigraph.cli.files import STANDARD_OUTPUT, placing
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    ENGINE_OPTION,
    JSON_OPTION,
    READ_BRANCH_OPTION,
    SNAPSHOT_OPTION,
)
from omnigraph.cli.output import print_note
from omnigraph.cli.query_inputs import (
    PARAMS_FILE_OPTION,
    PARAMS_OPTION,
    QUERY_OPTION,
    TEXT_OPTION,
    find_params,
    find_text,
    require_one,
    require_one_reader_of_input,
    require_stored,
)
from omnigraph.cli.terminal import waiting
from omnigraph.wire.shapes import Target as Place

if TYPE_CHECKING:
    from omnigraph.engine.results import Result

# By their names, because the engine takes a while to import: help and refusals do without.
_PRINTING = "omnigraph.cli.formats.printing"
_STORED = "omnigraph.cli.stored_queries"


@command()
@click.argument("name", required=False)
@QUERY_OPTION
@TEXT_OPTION
@PARAMS_OPTION
@PARAMS_FILE_OPTION
@READ_BRANCH_OPTION
@SNAPSHOT_OPTION
@click.option(
    "--format",
    "chosen",
    type=click.Choice([each.value for each in Format]),
    help="How to print rows.",
)
@JSON_OPTION
@ENGINE_OPTION
@click.option(
    "--out",
    metavar="FILE",
    help="Write rows to a file; its suffix tells the format: parquet, arrow, ndjson, csv, json.",
)
@click.pass_obj
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

    With a text, NAME picks one of its queries; without, NAME is a stored query of a server.
    """
    require_one({"--branch": branch, "--snapshot": snapshot})
    require_one({"--format": chosen, "--json": is_json})
    require_one_reader_of_input(query_path, params_path)
    text = find_text(query_path, query_text)
    params = find_params(params_text, params_path)
    target = invocation.target(None)
    place: Place = {
        "branch": None if snapshot is not None else branch or "main",
        "snapshot": snapshot,
    }
    if text is None:
        stored, served = require_stored(name, target)
        with invocation.open_served(served, read_only=True) as remote:
            with waiting("query", invocation.environment):
                found: Result = import_module(_STORED).run_read(
                    remote, stored, params, branch=place["branch"], commit=snapshot
                )
            _show(invocation, found, place, chosen=chosen, is_json=is_json, out=out)
        return
    with invocation.open(target, read_only=True) as graph:
        with placing(text, query_path), waiting("query", invocation.environment):
            found = graph.query(
                text, params, name=name, branch=place["branch"], commit=snapshot, engine=engine
            )
        _show(invocation, found, place, chosen=chosen, is_json=is_json, out=out)


def _show(
    invocation: Invocation,
    result: Result,
    place: Place,
    *,
    chosen: str | None,
    is_json: bool,
    out: str | None,
) -> None:
    printing = import_module(_PRINTING)
    if out is None or out == STANDARD_OUTPUT:
        format = invocation.output_format(is_json=is_json, chosen=chosen, of_alias=None)
        printing.print_result(invocation, result, place, format=format)
        return
    asked = Format.JSON if is_json else None if chosen is None else Format(chosen)
    printing.save_result(result, place, path=out, chosen=asked)
    print_note(f"wrote {len(result)} rows to {out}")
