"""Frozen values as JSON between the driver and its executors: numbers, texts, tuples, dataclasses.

What a value is made of is read off its type, so there is nothing to keep in step. Both sides run
the same version of this package.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

T = TypeVar("T")


def encode(value: object) -> str:
    """The JSON of a value."""
    return orjson.dumps(value).decode()


def decode(kind: type[T], text: str) -> T:
    """The value of a type that some JSON stands for."""
    value = _build(kind, orjson.loads(text))
    assert isinstance(value, kind), "what one process encodes another decodes"
    return value


def _build(kind: object, document: object) -> object:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if document is None:
            return None
        (kind,) = (each for each in arguments if each is not NoneType)
        return _build(kind, document)
    if origin is tuple and isinstance(document, list):
        kinds = [arguments[0]] * len(document) if arguments[-1] is Ellipsis else arguments
        return tuple(_build(*pair) for pair in zip(kinds, document, strict=True))
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(document, dict):
        hints = get_type_hints(kind)
        return kind(**{name: _build(hints[name], part) for name, part in document.items()})
    return document
