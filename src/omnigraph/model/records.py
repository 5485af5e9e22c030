"""JSON records by the declared fields of dataclasses: the encoding of what a graph stores.

A dataclass is stored as an object with a member for each field, and a named tuple as a list. A
field may have another name in JSON, or None if the caller stores it, in its metadata `json`. An
optional field that is empty is omitted. Decoding is strict: a member that is missing or has another
type raises `RecordError`; unknown members are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import NewType, TypeVar, get_args, get_origin, get_type_hints

import orjson

from omnigraph.model.types import read_timestamp

T = TypeVar("T")

_INCOMPLETE = "a field is missing or has another type"


class RecordError(ValueError):
    """A stored record that cannot be decoded; the message completes the name of the record."""


def encode_record(record: object, *, version: int) -> bytes:
    """The content of an object that stores one record."""
    document = {"format_version": version, **encode_fields(record)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def decode_record(kind: type[T], content: bytes, *, version: int, **known: object) -> T:
    """The record that an object stores; `known` are the fields that are not stored in it."""
    return decode_fields(kind, read_document(content, version=version), **known)


def read_document(
    content: bytes, *, version: int, version_key: str = "format_version"
) -> Mapping[str, object]:
    """The JSON object that an object of a format version holds."""
    try:
        document: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise RecordError("it is not valid JSON") from error
    if not isinstance(document, dict) or not isinstance(document.get(version_key), int):
        raise RecordError(_INCOMPLETE)
    if document[version_key] != version:
        found = document[version_key]
        raise RecordError(f"it has format {found}, this version of OmniGraph reads {version}")
    return document


def encode_fields(record: object) -> dict[str, object]:
    """The members of the object that stores a dataclass."""
    found = (
        (name, each, getattr(record, each.name)) for name, each in _stored_fields(type(record))
    )
    return {
        name: _encode(value)
        for name, each, value in found
        if value not in (None, ()) or value != each.default
    }


def decode_fields(kind: type[T], document: object, **known: object) -> T:
    """The dataclass that an object stores; `known` are the fields that are not stored in it."""
    if not isinstance(document, dict):
        raise RecordError(_INCOMPLETE)
    values, types = dict(known), _types_of(kind)
    for name, each in _stored_fields(kind):
        if name in document:
            values[each.name] = decode_value(types[each.name], document[name])
        elif each.default is MISSING and each.name not in known:
            raise RecordError(_INCOMPLETE)
    return kind(**values)


def decode_value(kind: object, value: object) -> object:
    """A value of a type, from its JSON form."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:
        if value is None and NoneType in arguments:
            return None
        (kind,) = (each for each in arguments if each is not NoneType)
        return decode_value(kind, value)
    if origin is tuple and isinstance(value, list):
        return tuple(decode_value(arguments[0], each) for each in value)
    if origin is Mapping and isinstance(value, dict):
        return {name: decode_value(arguments[1], each) for name, each in value.items()}
    if isinstance(kind, NewType):
        return decode_value(kind.__supertype__, value)
    if isinstance(kind, type):
        return _decode_plain(kind, value)
    raise RecordError(_INCOMPLETE)


def _decode_plain(kind: type[object], value: object) -> object:
    if is_dataclass(kind):
        return decode_fields(kind, value)
    if issubclass(kind, tuple) and isinstance(value, list):
        types = _types_of(kind).values()
        if len(types) == len(value):
            return tuple.__new__(kind, map(decode_value, types, value))
    if isinstance(value, str):
        try:
            if issubclass(kind, StrEnum):
                return kind(value)
            if issubclass(kind, datetime):
                return read_timestamp(value)
        except ValueError as error:
            raise RecordError(str(error)) from error
    if kind is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind):
        raise RecordError(_INCOMPLETE)
    return value


def _encode(value: object) -> object:
    if is_dataclass(value):
        return encode_fields(value)
    if isinstance(value, tuple):
        return [_encode(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _stored_fields(kind: type[object]) -> Iterator[tuple[str, Field[object]]]:
    assert is_dataclass(kind), "only dataclasses are stored as objects"
    for each in fields(kind):
        name = each.metadata.get("json", each.name)
        if name is not None:
            yield name, each


def _types_of(kind: object) -> Mapping[str, object]:
    return _read_types(kind)


_read_types = cache(get_type_hints)
