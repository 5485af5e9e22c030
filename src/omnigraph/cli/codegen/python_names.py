"""Names of the query language as names of Python, each its own.

Promises that no name is a word of Python or one that is taken, that different names stay different,
and that a name which can stay does. Pure.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

BUILTINS = frozenset(dir(builtins))


def make_names(names: Iterable[str], *, taken: Iterable[str], prefix: str) -> dict[str, str]:
    """The Python name of each name; `prefix` comes before one that would look private."""
    given = tuple(names)
    reserved = frozenset(taken)
    found = {name: name for name in given if _can_stay(name, reserved)}
    used = {*reserved, *found.values()}
    for name in given:
        if name not in found:
            found[name] = make_name(f"{prefix}{name}" if name.startswith("_") else name, taken=used)
            used.add(found[name])
    return {name: found[name] for name in given}


def make_name(wanted: str, *, taken: Iterable[str]) -> str:
    """A name like the wanted one that is not taken."""
    used = frozenset(taken)
    while wanted in used or keyword.iskeyword(wanted):
        wanted += "_"
    return wanted


def class_name(name: str) -> str:
    """A name in the way of classes: `find_person` becomes `FindPerson`."""
    words = (word for word in name.split("_") if word)
    return "".join(word[0].upper() + word[1:] for word in words) or "Query"


def _can_stay(name: str, reserved: frozenset[str]) -> bool:
    # Two underscores in front mean something to type checkers, or to Python.
    return not (name in reserved or name.startswith("_") or keyword.iskeyword(name))
