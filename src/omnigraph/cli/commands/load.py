"""The command `load`, and its deprecated form `ingest`.

A load is one commit or changes nothing. Spark code is imported when a session that the command line
configures is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NotRequired, TypedDict, Unpack

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
from omnigraph.cli.output import CommandError, print_note, print_output, progress, show_count
from omnigraph.cli.targets import ServedTarget, Target
from omnigraph.http.encode import ingest_output

if TYPE_CHECKING:
    from omnigraph.engine.results import LoadResult


class LoadOutput(TypedDict):
    """The counts of a load."""

    uri: str
    branch: str
    mode: str
    base_branch: NotRequired[str]
    branch_created: bool
    nodes_loaded: int
    edges_loaded: int
    node_types_loaded: int
    edge_types_loaded: int
    rejected: int
    commit_id: str | None
    actor_id: str | None
    engine: str


def load_output(done: LoadResult, *, uri: str, mode: str, actor: str | None) -> LoadOutput:
    """The counts of a load; the base branch is omitted if there is none."""
    output: LoadOutput = {
        "uri": uri,
        "branch": done.branch,
        "mode": mode,
        "base_branch": done.base_branch or "",
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
    if done.base_branch is None:
        del output["base_branch"]
    return output


_MODES = click.Choice(["overwrite", "append", "merge"])

_DATA_OPTION = click.option(
    "--data",
    "paths",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A file (NDJSON, Parquet, Arrow, CSV) or folder; `-` is NDJSON from stdin. Repeatable.",
)


class LoadOptions(TypedDict):
    """The options of a load; `master` and `settings` configure a Spark session, if one is used."""

    paths: Sequence[str]
    mode: str
    branch: str
    base: str | None
    engine: str
    master: str | None
    settings: Sequence[str]
    on_error: str
    quarantine: str | None
    if_commit: str | None
    idempotency_key: str | None
    embed: str | None
    is_json: bool


@command()
@URI_ARGUMENT
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
@EMBED_OPTION
@IF_COMMIT_OPTION
@KEY_OPTION
@JSON_OPTION
def load(invocation: Invocation, *, uri: str | None, **options: Unpack[LoadOptions]) -> None:
    """Load rows of any number of types as one commit, or change nothing."""
    target = invocation.target(uri)
    done, actor = _load(invocation, options, target, verb="load")
    output = load_output(done, uri=target.uri, mode=options["mode"], actor=actor)
    print_output(output, _view(output, done), is_json=options["is_json"])


@command()
@URI_ARGUMENT
@_DATA_OPTION
@click.option("--mode", type=_MODES, default="merge", show_default=True)
@BRANCH_OPTION
@click.option("--from", "base", default="main", show_default=True, metavar="BASE")
@EMBED_OPTION
@JSON_OPTION
def ingest(  # noqa: PLR0913  # its flags
    invocation: Invocation,
    *,
    uri: str | None,
    paths: tuple[str, ...],
    mode: str,
    branch: str,
    base: str,
    embed: str | None,
    is_json: bool,
) -> None:
    """Load rows (deprecated: use `omnigraph load`)."""
    print_note("warning: `omnigraph ingest` is deprecated; use `omnigraph load`")
    options: LoadOptions = {
        "paths": paths,
        "mode": mode,
        "branch": branch,
        "base": base,
        "engine": "auto",
        "master": None,
        "settings": (),
        "on_error": "raise",
        "quarantine": None,
        "if_commit": None,
        "idempotency_key": None,
        "embed": embed,
        "is_json": is_json,
    }
    target = invocation.target(uri)
    done, actor = _load(invocation, options, target, verb="ingest")
    lines = _view(load_output(done, uri=target.uri, mode=mode, actor=actor), done)
    output = ingest_output(done, uri=target.uri, mode=mode, actor=actor)
    print_output(output, lines, is_json=is_json)


def _load(
    invocation: Invocation, options: LoadOptions, target: Target, *, verb: str
) -> tuple[LoadResult, str | None]:
    """Run a load; returns its result and its actor."""
    has_session = options["master"] is not None or bool(options["settings"])
    if options["engine"] == "inline" and has_session:
        raise click.UsageError("--engine inline does not use Spark")
    rows = _find_rows(options["paths"])
    start_session = _plan_session(options, target) if has_session else lambda: None
    branch = options["branch"]
    if options["mode"] == "overwrite":
        invocation.confirm(
            f"replace the rows of branch '{branch}'", target, is_json=options["is_json"]
        )
    invocation.announce(verb, target)
    with (
        invocation.open(target, read_only=False) as graph,
        progress(invocation.environment) as report,
    ):
        done = graph.load(
            rows,
            mode=options["mode"],
            branch=branch,
            base=options["base"],
            engine="spark" if has_session else options["engine"],
            progress=report,
            spark=start_session(),
            on_error=options["on_error"],
            quarantine=options["quarantine"],
            if_commit=options["if_commit"],
            idempotency_key=options["idempotency_key"],
            embed=options["embed"],
        )
        return done, graph.actor


def _find_rows(paths: Sequence[str]) -> object:
    if STANDARD_INPUT not in paths:
        return paths[0] if len(paths) == 1 else list(paths)
    if len(paths) > 1:
        raise click.UsageError("--data - cannot be combined with other inputs")
    return sys.stdin.buffer


def _plan_session(options: LoadOptions, target: Target) -> Callable[[], object]:
    """A function that starts the Spark session that the options configure."""
    if isinstance(target, ServedTarget):
        raise CommandError(
            "--spark-master and --spark-conf are for graphs that are opened directly; a server "
            "has its own Spark: use --engine spark"
        )
    settings: dict[str, str] = {}
    for written in options["settings"]:
        key, equals, value = written.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--spark-conf {written!r}: write KEY=VALUE")
        settings[key] = value
    # Imported by name, because PySpark takes a second to import and most loads do not need it.
    part = import_module("omnigraph.spark")
    return partial(part.session, options["master"], **settings)


def _view(output: LoadOutput, done: LoadResult) -> Iterator[str]:
    yield (
        f"loaded {output['uri']} on branch {output['branch']} with {output['mode']}: "
        f"{show_count(output['nodes_loaded'], 'node')} across "
        f"{show_count(output['node_types_loaded'], 'node type')}, "
        f"{show_count(output['edges_loaded'], 'edge')} across "
        f"{show_count(output['edge_types_loaded'], 'edge type')}"
    )
    if done.branch_created:
        yield f"branch {done.branch} created from {done.base_branch}"
    if done.rejected:
        yield f"quarantined {show_count(done.rejected, 'row')}:"
        yield str(done.report)
