"""`omnigraph embed`: vectors for the rows of a file, before they are loaded."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from omnigraph.cli.command import command
from omnigraph.cli.inputs import STANDARD_INPUT, STANDARD_OUTPUT
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import print_note, print_pieces, progress
from omnigraph.embed.files import (
    Job,
    Manifest,
    Mode,
    Report,
    embed_rows,
    new_rows,
    open_rows,
    parse_selector,
    read_manifest,
    read_spec,
)
from omnigraph.embed.providers import find_embedder
from omnigraph.storage.environment import expand_home


@command(JSON_OPTION)
@click.option(
    "--seed",
    "manifest_path",
    metavar="MANIFEST",
    help="A YAML file with input, output and specification.",
)
@click.option(
    "--input", "source", metavar="FILE", help="The rows, one JSON object per line; `-` is stdin."
)
@click.option("--output", metavar="FILE", help="The output file; `-` is stdout.")
@click.option(
    "--spec", "spec_path", metavar="FILE", help="The specification of what to embed, as JSON."
)
@click.option("--clean", "is_clean", is_flag=True, help="Remove the vectors.")
@click.option("--reembed-all", "is_recomputed", is_flag=True, help="Compute all vectors again.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type. Repeatable.")
@click.option(
    "--select",
    "selectors",
    multiple=True,
    metavar="[TYPE:]FIELD=VALUE",
    help="Only matching rows, whose vectors are computed again. Repeatable.",
)
def embed(  # noqa: PLR0913  # one per flag
    invocation: Invocation,
    *,
    manifest_path: str | None,
    source: str | None,
    output: str | None,
    spec_path: str | None,
    is_clean: bool,
    is_recomputed: bool,
    types: tuple[str, ...],
    selectors: tuple[str, ...],
) -> None:
    """Add missing vectors to the rows of a file.

    The embedded texts are made of the fields that the manifest or the specification names.
    """
    if is_clean and is_recomputed:
        raise click.UsageError("--clean and --reembed-all are mutually exclusive")
    if invocation.is_json and output == STANDARD_OUTPUT:
        raise click.UsageError("--json and --output - are mutually exclusive: both write to stdout")
    files = _find_files(manifest_path, source, output, spec_path)
    mode = _choose_mode(
        is_clean=is_clean, is_recomputed=is_recomputed, has_selectors=bool(selectors)
    )
    job = Job(
        source="<stdin>" if source == STANDARD_INPUT else str(files.source),
        spec=files.spec,
        mode=mode,
        types=frozenset(types),
        selectors=tuple(parse_selector(each) for each in selectors),
    )
    embedder = None if mode is Mode.CLEAN else find_embedder(invocation.environment)
    # An embedder that cannot be used fails here, before anything is read.
    model = None if embedder is None else embedder.model
    is_input_piped, is_output_piped = source == STANDARD_INPUT, output == STANDARD_OUTPUT
    with (
        nullcontext(sys.stdin.buffer) if is_input_piped else open_rows(files.source) as rows,
        nullcontext(_print_rows) if is_output_piped else new_rows(files.output) as write,
        progress(invocation.environment) as report_progress,
    ):
        report = embed_rows(job, rows, write, embedder=embedder, progress=report_progress)
    if is_output_piped:
        print_note(_describe(job, report))
        return
    payload = {
        "input": str(files.source),
        "output": str(files.output),
        "rows": report.rows,
        "selected_rows": report.selected_rows,
        "embedded_rows": report.embedded_rows,
        "cleaned_rows": report.cleaned_rows,
        "mode": job.mode.value,
        "dimension": job.spec.dimension,
        "model": model,
    }
    invocation.print_output(payload, [_describe(job, report), f"wrote {files.output}"])


def _find_files(
    manifest_path: str | None, source: str | None, output: str | None, spec_path: str | None
) -> Manifest:
    match manifest_path, source, output, spec_path:
        case str(), None, None, None:
            return read_manifest(expand_home(manifest_path))
        case None, str(), str(), str():
            return Manifest(
                expand_home(source), expand_home(output), read_spec(expand_home(spec_path))
            )
        case str(), _, _, _:
            raise click.UsageError("--seed replaces --input, --output and --spec")
        case _:
            raise click.UsageError("pass --seed MANIFEST, or --input, --output and --spec")


def _choose_mode(*, is_clean: bool, is_recomputed: bool, has_selectors: bool) -> Mode:
    if is_clean:
        return Mode.CLEAN
    if is_recomputed:
        return Mode.REEMBED_ALL
    return Mode.REEMBED_SELECTED if has_selectors else Mode.FILL_MISSING


def _print_rows(rows: bytes) -> None:
    print_pieces([rows])


def _describe(job: Job, report: Report) -> str:
    done = (
        f"cleaned {report.cleaned_rows:,}"
        if job.mode is Mode.CLEAN
        else f"embedded {report.embedded_rows:,}"
    )
    return f"{done} of {report.selected_rows:,} selected rows, {report.rows:,} in all ({job.mode})"
