"""`omnigraph version`."""

from __future__ import annotations

import omnigraph
from omnigraph.cli.command import command
from omnigraph.cli.output import print_line


@command()
def version() -> None:
    """Print the version."""
    print_line(f"omnigraph {omnigraph.__version__}")
