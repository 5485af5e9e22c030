"""Stored values and names as one line of text shows them.

Nothing that is stored reaches a terminal as a control character: a value could otherwise rewrite
the screen of whoever looks at it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from omnigraph.cli.display import make_harmless


def show_value(value: object) -> str:
    """A value as JSON, in one line."""
    return make_harmless(json.dumps(value, ensure_ascii=False))


def show_name(name: str) -> str:
    """An id or the name of a branch, in quotes only where it could be misread."""
    is_plain = name.isprintable() and name == name.strip() and name != ""
    return name if is_plain else show_value(name)


def show_properties(image: Mapping[str, object]) -> str:
    """The properties of a node or an edge that have a value."""
    shown = [f"{name}: {show_value(value)}" for name, value in image.items() if value is not None]
    return "{" + ", ".join(shown) + "}"
