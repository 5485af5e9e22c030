"""What commands print: payloads on standard output, nothing else there."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click


def print_json(payload: Mapping[str, object]) -> None:
    """Print a payload as JSON, indented, keys in the order they were made."""
    click.echo(json.dumps(payload, indent=2, ensure_ascii=False))


def print_line(line: str) -> None:
    """Print one line of a payload."""
    click.echo(line)
