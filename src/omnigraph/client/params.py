"""Parameters of a query as JSON: Python values in, the same values out.

What has no place in JSON is refused here, never sent as something else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from numbers import Integral, Real

import orjson

from omnigraph.model.errors import InvalidValueError
from omnigraph.model.temporal import format_datetime


def plain_params(params: object) -> dict[str, object] | None:
    """The parameters of a call, as JSON has them."""
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise InvalidValueError(
            subject="params",
            expected="object",
            value=params,
            problem=f"a JSON object is needed, not a {type(params).__name__}",
        )
    return {str(name): _plain(value, f"param '{name}'") for name, value in params.items()}


def plain_row(row: Mapping[str, object], *, subject: str) -> dict[str, object]:
    """A row that a caller gives, as JSON has it."""
    return {str(name): _plain(value, f"{subject}, '{name}'") for name, value in row.items()}


def encode_body(body: Mapping[str, object]) -> bytes:
    """A body as JSON; fields that are None are left out."""
    given = {name: value for name, value in body.items() if value is not None}
    try:
        return orjson.dumps(given)
    except TypeError:
        # Whole numbers of more than 64 bits: the server says what is wrong with them.
        return json.dumps(given).encode()


def _plain(value: object, subject: str) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return _require_text(value, subject)
        case Integral():
            return int(value)
        case Real():
            return _require_finite(float(value), subject)
        case datetime():
            moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return format_datetime(moment)
        case date():
            return value.isoformat()
        case Mapping():
            return {str(name): _plain(each, subject) for name, each in value.items()}
        case Iterable() if not isinstance(value, bytes | bytearray | memoryview):
            return [_plain(each, subject) for each in value]
        case _:
            raise _refuse(subject, value, f"a {type(value).__name__} has no place in JSON")


def _require_finite(number: float, subject: str) -> float:
    if math.isfinite(number):
        return number
    raise _refuse(subject, number, f"{number} has no place in JSON, so no server can be sent it")


def _require_text(text: str, subject: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refuse(subject, text, "the text holds half of a surrogate pair") from error
    return text


def _refuse(subject: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=subject, expected="a value that JSON has", value=value, problem=problem
    )
