"""Conflicts as people read them, and the decisions that they write.

Each conflict is a block: what it is about, why, and its values in the base, the source and the
target, side by side. Decisions are a list, as YAML or JSON, the same as over HTTP. Pure: reading
and writing files is for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import yaml

from omnigraph.cli.display import clip, fill, measure
from omnigraph.cli.terminal import Colour, Terminal
from omnigraph.cli.value_text import show_name, show_value
from omnigraph.model.errors import Conflict, InvalidValueError

_SIDES = ("base", "source", "target")
_GAP = "  "
_NARROWEST_COLUMN = 8
_WIDEST_NAME = 24

# Its id is that of a node, which has too many edges or too few: it is they that are decided about.
_ABOUT_EDGES = "cardinality_violation"
_ID_OF_AN_EDGE = "the id of an edge"
_ADVICE_ABOUT_EDGES = "# Decide about some of its edges; an entry for each, without the #:"


def view_conflicts(conflicts: Sequence[Conflict], terminal: Terminal) -> Iterator[str]:
    """A block of lines for each conflict, with an empty line behind it."""
    for number, conflict in enumerate(conflicts, 1):
        head = f"conflict {number} of {len(conflicts)}: {_subject(conflict)} ({conflict.kind})"
        yield terminal.paint(terminal.cut(head), Colour.BOLD)
        yield terminal.cut(f"  {conflict.message}")
        yield from _view_images(conflict, terminal)
        yield ""


def has_images(conflicts: Sequence[Conflict]) -> bool:
    """Whether it is known what the conflicting rows hold."""
    return any(each.base or each.source or each.target for each in conflicts)


def write_decisions(conflicts: Sequence[Conflict], *, source: str, target: str) -> str:
    """A file of decisions to fill in: what is undecided in it is refused when it is read."""
    parts = [
        f"# Decisions for merging {show_name(source)} into {show_name(target)}.",
        "# Give each entry a choice, `source` or `target`; or write, instead of the choice, a",
        "# `row` with all the values that it shall have.",
    ]
    plain = Terminal(width=None, has_colours=False)
    for conflict in conflicts:
        told = [f"  {conflict.message}", *_view_images(conflict, plain)]
        parts += ["", f"# {_subject(conflict)} ({conflict.kind})", *(f"# {each}" for each in told)]
        if conflict.kind == _ABOUT_EDGES:
            entry = _write_entry({"type": conflict.type, "id": _ID_OF_AN_EDGE})
            parts += [_ADVICE_ABOUT_EDGES, *(f"# {each}" for each in (*entry, "  choice:"))]
        else:
            parts += [*_write_entry({"type": conflict.type, "id": conflict.id}), "  choice:"]
    return "\n".join(parts) + "\n"


def show_decision(conflict: Conflict) -> tuple[str, ...]:
    """One decision as it may be written."""
    id = _ID_OF_AN_EDGE if conflict.kind == _ABOUT_EDGES else conflict.id
    return _write_entry({"type": conflict.type, "id": id, "choice": "source"})


def parse_decisions(text: str, *, name: str) -> dict[tuple[str, str], object]:
    """The decisions of a YAML or JSON text; `name` is for messages."""
    try:
        content: object = yaml.load(text, Loader=_JsonLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _refuse(name, f"this is neither YAML nor JSON: {error}") from error
    if not isinstance(content, list):
        raise _refuse(name, "decisions are a list; begin each with `- type: …`")
    decisions: dict[tuple[str, str], object] = {}
    for number, entry in enumerate(content, 1):
        key, decision = _parse_decision(entry, name=name, number=number)
        if key in decisions:
            raise _refuse(name, f"{key[0]} '{key[1]}' is decided about twice; leave one out")
        decisions[key] = decision
    return decisions


class _JsonLoader(yaml.SafeLoader):
    """Reads what JSON can say: a date is the text that it is written as."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _parse_decision(entry: object, *, name: str, number: int) -> tuple[tuple[str, str], object]:
    fields = entry if isinstance(entry, Mapping) else {}
    type, id = fields.get("type"), fields.get("id")
    if not isinstance(type, str) or not isinstance(id, str):
        raise _refuse(name, f"entry {number} needs a `type` and an `id`, both as text")
    odd = sorted(str(key) for key in fields if key not in ("type", "id", "choice", "row"))
    if odd:
        raise _refuse(name, f"entry {number} has `{odd[0]}`; there are only a choice and a row")
    choice, row = fields.get("choice"), fields.get("row")
    match choice, row:
        case (("source" | "target"), None):
            return (type, id), choice
        case None, Mapping():
            return (type, id), row
        case None, None:
            raise _refuse(
                name,
                f"{type} '{id}' is undecided; write `choice: source`, `choice: target` or a `row`",
            )
        case _:
            raise _refuse(name, f"{type} '{id}' needs `choice: source`, `choice: target` or a row")


def _write_entry(entry: Mapping[str, str]) -> tuple[str, ...]:
    written = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=1_000_000)
    return tuple(written.rstrip("\n").split("\n"))


def _subject(conflict: Conflict) -> str:
    return f"{conflict.type} {show_name(conflict.id)}"


def _view_images(conflict: Conflict, terminal: Terminal) -> Iterator[str]:
    images = (conflict.base, conflict.source, conflict.target)
    if all(image is None for image in images):
        return
    names = _list_names(images)
    heads = [
        side if image is not None else f"{side} ({_say_absence(conflict)})"
        for side, image in zip(_SIDES, images, strict=True)
    ]
    cells = [[show_value(image.get(name)) if image else "" for image in images] for name in names]
    widths = _find_widths([heads, *cells], names, terminal.width)
    margin = min(max(map(measure, names), default=0), _WIDEST_NAME)
    yield terminal.paint(_row("", heads, margin, widths), Colour.FAINT)
    for name, row in zip(names, cells, strict=True):
        yield _row(name, row, margin, widths)


def _say_absence(conflict: Conflict) -> str:
    return "not there" if conflict.base is None else "deleted"


def _list_names(images: Sequence[Mapping[str, object] | None]) -> list[str]:
    """The properties in which the images that are there differ; of one image, all with values."""
    there = [image for image in images if image is not None]
    names = list(dict.fromkeys(each for image in there for each in image))
    first, others = there[0], there[1:]
    return [
        name
        for name in names
        if name != "id"
        and (
            any(image.get(name) != first.get(name) for image in others)
            if others
            else first[name] is not None
        )
    ]


def _find_widths(
    rows: Sequence[Sequence[str]], names: Sequence[str], width: int | None
) -> list[int]:
    wanted = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    if width is None:
        return wanted
    margin = min(max(map(measure, names), default=0), _WIDEST_NAME)
    room = width - 4 - margin - len(_GAP) * len(wanted)
    share = max(room // len(wanted), _NARROWEST_COLUMN)
    # What some columns do not need is for those that need more.
    spare = sum(max(share - each, 0) for each in wanted)
    greedy = sum(each > share for each in wanted)
    most = share + (spare // greedy if greedy else 0)
    return [min(each, most) for each in wanted]


def _row(name: str, cells: Sequence[str], margin: int, widths: Sequence[int]) -> str:
    shown = [fill(clip(cell, width), width) for cell, width in zip(cells, widths, strict=True)]
    return f"    {fill(clip(name, margin), margin)}{_GAP}{_GAP.join(shown)}".rstrip()


def _refuse(name: str, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=name, expected="decisions about conflicts", value=None, problem=problem
    )
