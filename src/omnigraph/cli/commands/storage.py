"""`omnigraph storage check`: whether a place can be trusted with a graph, tried out there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.targets import StoreTarget
from omnigraph.cli.terminal import Colour, Terminal, standard_output, waiting
from omnigraph.model.runtime import SystemRuntime
from omnigraph.storage.environment import make_storage_options

if TYPE_CHECKING:
    from omnigraph.storage.probing import Trial


@command()
@URI_ARGUMENT
@JSON_OPTION
@click.pass_obj
def check(invocation: Invocation, *, uri: str | None, is_json: bool) -> None:
    """Try whether a folder or a bucket does what a graph needs.

    Works below a new prefix, `__omnigraph_check/…`, and removes it again; touches nothing else.
    No graph needs to be there. Exits with 1 if something is not as it must be.
    """
    target = invocation.direct_target(uri)
    with waiting("try the storage", invocation.environment):
        trial = _try(target, invocation.environment)
    if is_json:
        print_json(_encode(trial))
    else:
        for line in _view(trial, standard_output(invocation.environment)):
            print_line(line)
    if not trial.is_passed:
        sys.exit(1)


def _try(target: StoreTarget, environment: Mapping[str, str]) -> Trial:
    # By their names, because help needs neither.
    locations, probing = map(
        import_module, ("omnigraph.storage.locations", "omnigraph.storage.probing")
    )
    options = make_storage_options(environment, {})
    trial: Trial = probing.try_storage(
        locations.parse_location(target.uri, storage_options=options),
        id=SystemRuntime().new_id(),
        open_store=probing.open_durably,
    )
    return trial


def _encode(trial: Trial) -> dict[str, object]:
    return {
        "uri": trial.uri,
        "ok": trial.is_passed,
        "complete": trial.is_complete,
        "probes": [
            {
                "probe": each.name,
                "ok": each.is_ok,
                "promise": each.promise,
                "problem": each.problem,
                "advice": each.advice,
            }
            for each in trial.probed
        ],
    }


def _view(trial: Trial, terminal: Terminal) -> Iterator[str]:
    width = max(len(each.name) for each in trial.probed)
    for each in trial.probed:
        name = each.name.ljust(width)
        if each.is_ok:
            yield f"{terminal.paint('OK', Colour.GREEN)}    {name}  {each.promise}"
            continue
        yield f"{terminal.paint('FAIL', Colour.RED)}  {name}  {each.problem}"
        yield f"      a graph needs that {each.promise}"
        yield f"      -> {each.advice}"
    if trial.is_passed:
        yield terminal.paint(f"{trial.uri} can hold a graph", Colour.GREEN)
    elif trial.is_complete:
        yield terminal.paint(f"{trial.uri} must not hold a graph as it is", Colour.RED)
    else:
        yield terminal.paint(f"{trial.uri} cannot be used; nothing else was tried", Colour.RED)
