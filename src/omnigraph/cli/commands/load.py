"""The command `load`, and its deprecated form `ingest`.

A load is one commit or changes nothing. Spark code is imported when a session that the command line
configures is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

import click

from omnigraph.cli.command import command
from omnigraph.cli.inputs import STANDARD_INPUT
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    BRANCH_OPTION,
    EMBED_OPTION,
    IF_COMMIT_OPTION,
    JSON_OPTION,
    KEY_OPTION,
    URI_ARGUMENT,
)
from omnigraph.cli.output import CommandError, print_note, progress, show_count
from omnigraph.cli.targets import ServedTarget, Target
from omnigraph.http.encode import ingest_output

if TYPE_CHECKING:
    from omnigraph.engine.results import LoadResult


def load_output(done: LoadResult, *, uri: str, mode: str, actor: str | None) -> dict[str, object]:
    """The counts of a load; the base branch is omitted if there is none."""
    base = {} if done.base_branch is None else {"base_branch": done.base_branch}
    return {
        "uri": uri,
        "branch": done.branch,
        "mode": mode,
        **base,
        "branch_created": done.branch_created,
        "nodes_loaded": sum(done.nodes_loaded.values()),
        "edges_loaded": sum(done.edges_loaded.values()),
        "node_types_loaded": len(done.nodes_loaded),
        "edge_types_loaded": len(done.edges_loaded),
        "rejected": done.rejected,
        "commit_id": done.commit_id,
        "actor_id": actor,
        "engine": done.engine,
    }


_MODES = click.Choice(["overwrite", "append", "merge"])

_DATA_OPTION = click.option(
    "--data",
    "paths",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A file (NDJSON, Parquet, Arrow, CSV) or folder; `-` is NDJSON from stdin. Repeatable.",
)


class LoadOptions(TypedDict, total=False):
    """The options of a load that are arguments of `Graph.load`."""

    mode: Required[str]
    branch: Required[str]
    base: str | None
    engine: str
    on_error: str
    quarantine: str | None
    if_commit: str | None
    idempotency_key: str | None
    embed: str | None


@command(URI_ARGUMENT, EMBED_OPTION, IF_COMMIT_OPTION, KEY_OPTION, JSON_OPTION)
@_DATA_OPTION
@click.option(
    "--mode",
    type=_MODES,
    required=True,
    help="Replace all rows, append new rows, or insert and update.",
)
@BRANCH_OPTION
@click.option("--from", "base", metavar="BASE", help="Create a missing branch from this one.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "inline", "spark"]),
    default="auto",
    show_default=True,
    help="The engine that reads and checks rows.",
)
@click.option(
    "--spark-master", "master", metavar="URL", help="Load on Spark, with this master URL."
)
@click.option(
    "--spark-conf",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Load on Spark, with this setting. Repeatable.",
)
@click.option(
    "--on-error",
    type=click.Choice(["raise", "quarantine"]),
    default="raise",
    show_default=True,
    help="Whether invalid rows fail the load or are quarantined (on Spark).",
)
@click.option("--quarantine", metavar="FOLDER", help="The folder for quarantined rows.")
def load(
    invocation: Invocation,
    *,
    paths: Sequence[str],
    master: str | None,
    settings: Sequence[str],
    **options: Unpack[LoadOptions],
) -> None:
    """Load rows of any number of types as one commit, or change nothing."""
    target = invocation.target()
    start_session = None
    if master is not None or settings:
        if options["engine"] == "inline":
            raise click.UsageError("--engine inline does not use Spark")
        start_session = _plan_session(master, settings, target)
        options["engine"] = "spark"
    done, actor = _load(invocation, paths, target, "load", start_session, options)
    output = load_output(done, uri=target.uri, mode=options["mode"], actor=actor)
    invocation.print_output(output, _view(done, uri=target.uri, mode=options["mode"]))


@command(URI_ARGUMENT, EMBED_OPTION, JSON_OPTION)
@_DATA_OPTION
@click.option("--mode", type=_MODES, default="merge", show_default=True)
@BRANCH_OPTION
@click.option("--from", "base", default="main", show_default=True, metavar="BASE")
def ingest(invocation: Invocation, *, paths: Sequence[str], **options: Unpack[LoadOptions]) -> None:
    """Load rows (deprecated: use `omnigraph load`)."""
    print_note("warning: `omnigraph ingest` is deprecated; use `omnigraph load`")
    target = invocation.target()
    done, actor = _load(invocation, paths, target, "ingest", None, options)
    output = ingest_output(done, uri=target.uri, mode=options["mode"], actor=actor)
    invocation.print_output(output, _view(done, uri=target.uri, mode=options["mode"]))


def _load(  # its parts
    invocation: Invocation,
    paths: Sequence[str],
    target: Target,
    verb: str,
    start_session: Callable[[], object] | None,
    options: LoadOptions,
) -> tuple[LoadResult, str | None]:
    """Run a load; returns its result and its actor."""
    rows = _find_rows(paths)
    if options["mode"] == "overwrite":
        invocation.confirm(f"replace the rows of branch '{options['branch']}'", target)
    with (
        invocation.open_to_write(verb, target) as graph,
        progress(invocation.environment) as report,
    ):
        session = None if start_session is None else start_session()
        return graph.load(rows, **options, progress=report, spark=session), graph.actor


def _find_rows(paths: Sequence[str]) -> object:
    if STANDARD_INPUT not in paths:
        return paths[0] if len(paths) == 1 else list(paths)
    if len(paths) > 1:
        raise click.UsageError("--data - cannot be combined with other inputs")
    return sys.stdin.buffer


def _plan_session(
    master: str | None, settings: Sequence[str], target: Target
) -> Callable[[], object]:
    """A function that starts the Spark session that the command line configures."""
    if isinstance(target, ServedTarget):
        raise CommandError(
            "--spark-master and --spark-conf are for graphs that are opened directly; a server "
            "has its own Spark: use --engine spark"
        )
    configured: dict[str, str] = {}
    for written in settings:
        key, equals, value = written.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--spark-conf {written!r}: write KEY=VALUE")
        configured[key] = value
    # Imported by name, because PySpark takes a second to import and most loads do not need it.
    part = import_module("omnigraph.spark")
    return partial(part.session, master, **configured)


def _view(done: LoadResult, *, uri: str, mode: str) -> Iterator[str]:
    yield (
        f"loaded {uri} on branch {done.branch} with {mode}: "
        f"{show_count(sum(done.nodes_loaded.values()), 'node')} across "
        f"{show_count(len(done.nodes_loaded), 'node type')}, "
        f"{show_count(sum(done.edges_loaded.values()), 'edge')} across "
        f"{show_count(len(done.edges_loaded), 'edge type')}"
    )
    if done.branch_created:
        yield f"branch {done.branch} created from {done.base_branch}"
    if done.rejected:
        yield f"quarantined {show_count(done.rejected, 'row')}:"
        yield str(done.report)
