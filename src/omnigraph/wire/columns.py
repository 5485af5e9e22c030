"""What an Arrow stream says of its rows beyond their columns, and reading it back.

The schema of a stream carries one JSON object: which query of which branch at which commit, and
what its columns hold, so that a result that was sent is the result that was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa

from omnigraph.engine.results import Result, ResultColumn
from omnigraph.model.types import PropertyType, Scalar, Vector

NOTE = b"omnigraph"
"""The key of the JSON object in the metadata of a schema."""


@dataclass(frozen=True, slots=True)
class ResultNote:
    """What a stream says of its result."""

    query_name: str
    branch: str
    commit_id: str
    columns: tuple[ResultColumn, ...]


def with_note(rows: pa.Table, note: Mapping[str, object]) -> pa.Table:
    """The same rows with a JSON object in their schema."""
    return rows.replace_schema_metadata({NOTE: orjson.dumps(note)})


def find_note(schema: pa.Schema) -> dict[str, object] | None:
    """The JSON object of a schema, or None if there is none."""
    written = (schema.metadata or {}).get(NOTE)
    note = None if written is None else orjson.loads(written)
    return note if isinstance(note, dict) else None


def noted_table(result: Result) -> pa.Table:
    """The rows of a result with all that a client needs to make it again."""
    return with_note(
        result.to_arrow(),
        {
            "query_name": result.query_name,
            "branch": result.branch,
            "commit_id": result.commit_id,
            "columns": [
                {
                    "name": each.name,
                    "type": describe_type(each.type),
                    "is_aggregate": each.is_aggregate,
                }
                for each in result.result_columns
            ],
        },
    )


def read_note(schema: pa.Schema) -> ResultNote | None:
    """What `noted_table` wrote; None if the stream is of somebody who writes no notes.

    A note of another shape is a `KeyError`, `TypeError` or `ValueError`.
    """
    note = find_note(schema)
    if note is None:
        return None
    columns = note["columns"]
    if not isinstance(columns, list):
        raise TypeError("a list is needed")
    return ResultNote(
        query_name=str(note["query_name"]),
        branch=str(note["branch"]),
        commit_id=str(note["commit_id"]),
        columns=tuple(
            ResultColumn(each["name"], type_of(each["type"]), each["is_aggregate"])
            for each in columns
        ),
    )


def describe_type(type: PropertyType) -> dict[str, object]:
    """A property type as JSON; what is not said is false."""
    told: dict[str, object] = {}
    match type.element:
        case Scalar() as scalar:
            told["element"] = scalar.value
        case Vector(dimension=dimension):
            told["vector"] = dimension
    if type.is_nullable:
        told["nullable"] = True
    if type.is_list:
        told["list"] = True
    if type.enum_values is not None:
        told["enum"] = list(type.enum_values)
    return told


def type_of(told: Mapping[str, object]) -> PropertyType:
    """The exact inverse of `describe_type`."""
    vector, enum = told.get("vector"), told.get("enum")
    return PropertyType(
        element=Vector(vector) if isinstance(vector, int) else Scalar(str(told["element"])),
        is_nullable=told.get("nullable") is True,
        is_list=told.get("list") is True,
        enum_values=_texts(enum) if isinstance(enum, Sequence) else None,
    )


def _texts(told: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(each) for each in told)
