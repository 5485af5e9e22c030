"""Fields of a stored JSON object, each asked for by its type; anything else than expected raises.

What the control plane stores it also checks on the way back: a field that nobody knows was written
by somebody who knows more, and is better left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson


class ShapeError(ValueError):
    """A stored object is not what stands at its place."""


class VersionError(ValueError):
    """A stored object is of a version that is unknown here."""


def decode_fields(content: bytes, *, version_key: str, known: frozenset[str]) -> StoredFields:
    """The fields of an object of version 1."""
    try:
        tree: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ShapeError("it is no JSON") from error
    if not isinstance(tree, dict):
        raise ShapeError("it is no JSON object")
    version = tree.get(version_key)
    if version != 1 or isinstance(version, bool):
        raise VersionError(f"its {version_key} is {version!r}, and only 1 is known here")
    return StoredFields.parse(tree, "", known=known | {version_key})


class StoredFields:
    """The fields at a place of a stored object."""

    def __init__(self, place: str, fields: Mapping[str, object]) -> None:
        self._place = place
        self._fields = fields

    @staticmethod
    def parse(tree: object, place: str, *, known: frozenset[str] | None) -> StoredFields:
        """The fields of a tree; with `known`, no others may be there."""
        if not isinstance(tree, dict):
            raise ShapeError(f"`{place}` holds no fields")
        unknown = [] if known is None else sorted(set(tree) - known)
        if unknown:
            raise ShapeError(f"unknown field `{_join(place, str(unknown[0]))}`")
        return StoredFields(place, tree)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are there."""
        return tuple(self._fields)

    def within(self, key: str, *, known: frozenset[str] | None) -> StoredFields:
        """The fields of a field; none if it is not there."""
        found = self._fields.get(key)
        return StoredFields.parse({} if found is None else found, self._at(key), known=known)

    def text(self, key: str) -> str:
        """The text of a field."""
        found = self._fields.get(key)
        if not isinstance(found, str) or not found:
            raise ShapeError(f"`{self._at(key)}` is no text")
        return found

    def find_text(self, key: str) -> str | None:
        """The text of a field, or None if it is not there."""
        return None if self._fields.get(key) is None else self.text(key)

    def number(self, key: str) -> int:
        """The whole number of a field."""
        found = self._fields.get(key)
        if not isinstance(found, int) or isinstance(found, bool):
            raise ShapeError(f"`{self._at(key)}` is no whole number")
        return found

    def find_number(self, key: str) -> int | None:
        """The whole number of a field, or None if it is not there."""
        return None if self._fields.get(key) is None else self.number(key)

    def find_texts(self, key: str) -> tuple[str, ...] | None:
        """The texts of a list, or None if it is not there."""
        found = self._fields.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ShapeError(f"`{self._at(key)}` is no list of texts")
        return tuple(found)

    def trees(self, key: str) -> dict[str, dict[str, object]]:
        """Objects by name, whatever is in them."""
        named = self.within(key, known=None)
        found = {}
        for name in named.names:
            tree = named.within(name, known=None)
            found[name] = dict(tree._fields)
        return found

    def _at(self, key: str) -> str:
        return _join(self._place, key)


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def encode_tree(tree: Mapping[str, object]) -> bytes:
    """An object as it is stored, for people to read as well."""
    return orjson.dumps(tree, option=orjson.OPT_INDENT_2) + b"\n"
