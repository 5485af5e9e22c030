"""NDJSON read one record after the other with the plainest means: the oracle of the fast reader.

Knows the rules of loading and nothing of columns. A record is refused by its number; no messages.
"""

import json
import math
import struct
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.types import (
    FLOATS,
    INTEGER_RANGE,
    PropertyType,
    Scalar,
    Vector,
    fits_f32,
    parse_date,
    parse_datetime,
)

Row = dict[str, object]

_BLANKS = " \t\r\v\f"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MIN, _MS_MAX = -62135596800000, 253402300799999


class RefusedRecordError(Exception):
    """A record that must be refused, by its number."""

    def __init__(self, number: int) -> None:
        super().__init__(str(number))
        self.number = number


def read_naively(text: str, catalog: Catalog) -> dict[str, list[Row]]:
    """The rows of each type by table key, without ids that would be made; dates as numbers."""
    rows: dict[str, list[Row]] = {}
    lines = text.removeprefix("\ufeff").split("\n")
    records = (line for line in lines if line.strip(_BLANKS))
    for number, line in enumerate(records, start=1):
        try:
            key, row = _read_record(_parse(line), catalog)
        except (ValueError, RecursionError) as error:
            raise RefusedRecordError(number) from error
        rows.setdefault(key, []).append(row)
    return dict(sorted(rows.items()))


def _parse(line: str) -> object:
    line.encode()  # half of a surrogate pair is not valid text
    parsed: object = json.loads(line, object_pairs_hook=_keep_distinct, parse_constant=_refuse)
    json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def _keep_distinct(pairs: list[tuple[str, object]]) -> Row:
    _require(len(dict(pairs)) == len(pairs))
    return dict(pairs)


def _refuse(word: str) -> object:
    raise ValueError(word)


def _require(is_fine: object) -> None:
    if not is_fine:
        raise ValueError


def _read_record(record: object, catalog: Catalog) -> tuple[str, Row]:
    if not isinstance(record, dict):
        raise ValueError
    _require(("type" in record) != ("edge" in record))
    row: Row = {"id": None}
    declared: NodeType | EdgeType | None
    if "type" in record:
        _require(record.keys() <= {"type", "data"})
        declared = catalog.nodes.get(_text(record["type"]))
    else:
        _require(record.keys() <= {"edge", "from", "to", "data"})
        declared = catalog.find_edge(_text(record["edge"]))
        row |= {"src": _text(record.get("from")), "dst": _text(record.get("to"))}
    given = record.get("data", {})
    if declared is None or not isinstance(given, dict):
        raise ValueError
    _require(given.keys() <= declared.properties.keys() | {"id"})
    if "id" in given:
        row["id"] = _text(given["id"])
    for name, each in declared.properties.items():
        row[name] = None if given.get(name) is None else _convert(given[name], each.type)
    if isinstance(declared, NodeType) and declared.key:
        # The schemas of these tests have single keys that are texts or whole numbers.
        key = row[declared.key[0]]
        _require(key is not None and row["id"] in (None, str(key)))
        row["id"] = str(key)
    return f"{declared.kind}:{declared.name}", row


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _convert(value: object, wanted: PropertyType) -> object:
    if isinstance(wanted.element, Vector):
        elements = [_float(each, Scalar.F32) for each in _elements(value)]
        _require(len(elements) == wanted.element.dimension)
        return elements
    if wanted.is_list:
        return [_convert(each, wanted.list_element) for each in _elements(value)]
    return _convert_scalar(value, wanted.element)


def _elements(value: object) -> Iterator[object]:
    if not isinstance(value, list):
        raise ValueError
    return iter(value)


def _convert_scalar(value: object, scalar: Scalar) -> object:
    if scalar is Scalar.STRING:
        return _text(value)
    if scalar is Scalar.BLOB:
        _require(_text(value).startswith("base64:"))
        return b64decode(_text(value)[7:], validate=True)
    if scalar is Scalar.BOOL:
        _require(isinstance(value, bool))
        return value
    if scalar in FLOATS:
        return _float(value, scalar)
    if scalar is Scalar.DATE:
        return (parse_date(_text(value)) - _EPOCH.date()).days
    if isinstance(value, str) and scalar is Scalar.DATETIME:
        return (parse_datetime(value) - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    ranges = {
        **INTEGER_RANGE,
        Scalar.DATETIME: (_MS_MIN, _MS_MAX),
    }
    low, high = ranges[scalar]
    _require(low <= value <= high)
    return value


def _float(value: object, scalar: Scalar) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError from error
    _require(math.isfinite(number))
    if scalar is Scalar.F64:
        return number
    _require(fits_f32(number))
    (narrow,) = struct.unpack("<f", struct.pack("<f", number))
    return float(narrow)
