"""`omnigraph version`."""

from __future__ import annotations

import click

import omnigraph
from omnigraph.cli.output import print_line


@click.command()
def version() -> None:
    """Print the version."""
    print_line(f"omnigraph {omnigraph.__version__}")
