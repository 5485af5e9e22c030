"""Passages as text, and as many of them as a budget of tokens holds.

A passage is a heading and a line for each property. The lines of a value are indented, so that no
value can pass for a heading or another property. Passages are taken in their order; one that does
not fit is left out and a later, shorter one may take its room. Only the first may be cut, if it
alone is too long. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from omnigraph.engine.retrieval.answers import NodeName, Passage, PathStep, Place, TokenCount
from omnigraph.model.errors import InvalidValueError

BYTES_RULE = "utf8/4"
"""How tokens are counted if the caller does not count them: by every fourth byte."""

_BETWEEN = "\n\n"
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Packed:
    """What fits, as one text."""

    passages: tuple[Passage, ...]
    text: str
    tokens: int


def count_bytes(text: str) -> int:
    """How many tokens a text is about: a quarter of its bytes in UTF-8, rounded up."""
    return -(-len(text.encode()) // 4)


def write_passage(place: Place, properties: Mapping[str, object]) -> Passage:
    """A node with what it holds, also as text."""
    heading = _write_node(place.node)
    if place.path:
        heading += f" ({_write_path(place.seed, place.path)})"
    lines = [heading, *(f"  {name}: {_write(value)}" for name, value in properties.items())]
    return Passage(place, properties, "\n".join(lines))


def pack(passages: Sequence[Passage], *, budget: int, count: TokenCount) -> Packed:
    """The passages that fit, in order; if the first alone does not, as much of it as does."""
    kept: list[Passage] = []
    text = ""
    tokens = 0
    for position, each in enumerate(passages):
        grown = f"{text}{_BETWEEN}{each.text}" if kept else each.text
        needed = _count(grown, count)
        if needed <= budget:
            kept.append(each)
            text, tokens = grown, needed
        elif position == 0:
            cut = _cut(each.text, budget=budget, count=count)
            if not cut:
                break
            place = replace(each.place, is_cut=True)
            return Packed((replace(each, place=place, text=cut),), cut, _count(cut, count))
    return Packed(tuple(kept), text, tokens)


def _cut(text: str, *, budget: int, count: TokenCount) -> str:
    """The longest beginning of a text that fits with a mark behind it; nothing if none does."""
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if _count(text[:middle] + _CUT, count) <= budget:
            fits = middle
        else:
            too_long = middle
    return text[:fits] + _CUT if fits else ""


def _count(text: str, count: TokenCount) -> int:
    found: object = count(text)
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    raise InvalidValueError(
        subject="count_tokens",
        expected="a whole number",
        value=found,
        problem=f"it said {found!r}, which is no number of tokens",
    )


def _write_path(seed: NodeName, path: Sequence[PathStep]) -> str:
    parts = [_write_node(seed)]
    for step in path:
        arrow = f"-{step.edge}->" if step.direction == "out" else f"<-{step.edge}-"
        parts += [arrow, _write_node(step.node)]
    return " ".join(parts)


def _write_node(node: NodeName) -> str:
    return f"{node.type} {_write_json(node.id)}"


def _write(value: object) -> str:
    if isinstance(value, str):
        # Every character that somebody may take for the end of a line is one here.
        return "\n    ".join(value.splitlines())
    return _write_json(value)


def _write_json(value: object) -> str:
    return orjson.dumps(value).decode()
