"""Pieces of HTML for notebooks: tables of texts that are escaped and cut, and lines below them.

Promises that a value is text to the browser, whatever it says, and that no cell grows without end.
Does not know what the rows are of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import orjson

from omnigraph.model.limits import VALUE_CHARACTERS_SHOWN_MAX


def make_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table below the names of its columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_make_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def make_facts(facts: Iterable[tuple[str, object]]) -> str:
    """What there is to say of one thing, a line each."""
    rows = "".join(f"<tr><th>{escape(name)}</th>{_make_cell(fact)}</tr>" for name, fact in facts)
    return f"<table><tbody>{rows}</tbody></table>"


def make_note(text: str) -> str:
    """A line of its own."""
    return f"<p>{escape(text)}</p>"


def write_value(value: object) -> str:
    """A value as text, cut where it gets long."""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    if len(text) <= VALUE_CHARACTERS_SHOWN_MAX:
        return text
    return f"{text[:VALUE_CHARACTERS_SHOWN_MAX]}…"


def _make_cell(value: object) -> str:
    return f"<td>{escape(write_value(value))}</td>"
