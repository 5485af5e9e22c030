"""`omnigraph alias`: a stored query under a name of one's own, with its server and parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module

import click

from omnigraph.cli.command import command
from omnigraph.cli.completions import complete_aliases
from omnigraph.cli.config import Alias, Format, OperatorConfig
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.query_inputs import (
    PARAMS_FILE_OPTION,
    PARAMS_OPTION,
    find_params,
    require_one,
)
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.scopes import make_server_scope
from omnigraph.wire.shapes import Target as Place


@command()
@click.argument("name", shell_complete=complete_aliases)
@click.argument("args", nargs=-1)
@PARAMS_OPTION
@PARAMS_FILE_OPTION
@click.option(
    "--format",
    "chosen",
    type=click.Choice([each.value for each in Format]),
    help="How to print rows.",
)
@JSON_OPTION
@click.pass_obj
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
    """Run the stored query that NAME stands for under `aliases:` in the configuration.

    ARGS are values for the parameters that the alias lists, in that order: JSON, or else text.
    """
    require_one({"--format": chosen, "--json": is_json})
    bound = get_alias(name, invocation.config)
    given = find_params(params_text, params_path) or {}
    params = {**bound.params, **name_arguments(name, bound, args), **given}
    scope = make_server_scope(
        bound.server, graph=bound.graph, fallback=None, config=invocation.config
    )
    format = invocation.output_format(is_json=is_json, chosen=chosen, of_alias=bound.format)
    place: Place = {"branch": "main", "snapshot": None}
    with invocation.open_served(invocation.served_graph(scope), read_only=True) as remote:
        found = remote.invoke(bound.query, params, expect_mutation=False)
        # By its name, because the engine takes a while to import: refusals do without.
        printing = import_module("omnigraph.cli.formats.printing")
        printing.print_result(invocation, found, place, format=format)


def get_alias(name: str, config: OperatorConfig) -> Alias:
    """The alias of a name."""
    found = config.aliases.get(name)
    if found is None:
        known = ", ".join(sorted(config.aliases)) or "none"
        raise CommandError(f"unknown alias '{name}'; aliases of the configuration: {known}")
    return found


def name_arguments(name: str, bound: Alias, args: Sequence[str]) -> Mapping[str, object]:
    """The values of arguments under the names that the alias has for them."""
    if len(args) > len(bound.args):
        raise CommandError(
            f"alias '{name}' takes {len(bound.args)} arguments "
            f"({', '.join(bound.args) or 'none'}), not {len(args)}"
        )
    return {key: _parse(text) for key, text in zip(bound.args, args, strict=False)}


def _parse(text: str) -> object:
    try:
        # Python would take NaN and Infinity for numbers; JSON has no such words.
        parsed: object = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text
    return parsed


def _refuse_constant(word: str) -> object:
    raise ValueError(word)
