"""Which lines of an export were asked for: by the names of types, by keys that say the kind too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.model.errors import InvalidValueError

# How the line of a row begins, by the kind of its type.
_OPENING = {"node": '{"type":"', "edge": '{"edge":"'}


@dataclass(frozen=True, slots=True)
class LineSelection:
    """The types to export, None for all, and how the lines that count begin, None for any."""

    types: tuple[str, ...] | None
    openings: tuple[str, ...] | None

    def keep(self, lines: Iterator[str]) -> Iterator[str]:
        """The lines that were asked for."""
        openings = self.openings
        return lines if openings is None else (each for each in lines if each.startswith(openings))


def select_lines(type_names: Sequence[str], table_keys: Sequence[str]) -> LineSelection:
    """The selection that names and keys such as `node:Person` mean; without any, everything."""
    if not type_names and not table_keys:
        return LineSelection(None, None)
    types, openings = list(type_names), []
    for key in table_keys:
        kind, _, name = key.partition(":")
        if kind not in _OPENING or not name:
            raise InvalidValueError(
                subject="table_keys",
                expected="node:Name or edge:Name",
                value=key,
                problem=f"{key!r} is none; say node:Name or edge:Name",
            )
        types.append(name)
        openings.append(f'{_OPENING[kind]}{name}"')
    for name in type_names:
        openings += [f'{opening}{name}"' for opening in _OPENING.values()]
    return LineSelection(tuple(dict.fromkeys(types)), tuple(openings) if table_keys else None)
