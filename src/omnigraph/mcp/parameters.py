"""Parameters of stored queries as JSON Schema, so that a model fills them in rightly.

A description, not a check: the engine checks the values, and says what is wrong with one.
"""

from __future__ import annotations

from omnigraph.wire.shapes import ParameterOutput

Schema = dict[str, object]

_KINDS: dict[str, Schema] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    # One kind for numbers with a sign and without, so the bounds are those of both together.
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**32 - 1},
    "bigint": {
        "anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]{1,20}$"}],
        "description": "A whole number of 64 bits; as text if it has more than 15 digits.",
    },
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date", "description": "A day: YYYY-MM-DD."},
    "datetime": {
        "type": "string",
        "format": "date-time",
        "description": "A moment as RFC 3339 writes it, such as 2026-01-31T12:00:00Z.",
    },
    "blob": {"type": "string", "description": "The uri of the content, or the content itself."},
}


def parameter_schema(parameter: ParameterOutput) -> Schema:
    """What the value of a parameter has to be; null too, if it may be missing."""
    described = _describe(parameter)
    if not parameter["nullable"]:
        return described
    return {"anyOf": [described, {"type": "null"}], "default": None}


def _describe(parameter: ParameterOutput) -> Schema:
    kind = parameter["kind"]
    if kind == "vector":
        dimension = parameter["vector_dim"]
        return {
            "type": "array",
            "items": {"type": "number"},
            "minItems": dimension,
            "maxItems": dimension,
        }
    if kind == "list":
        return {"type": "array", "items": _kind(parameter["item_kind"])}
    return _kind(kind)


def _kind(name: str) -> Schema:
    # A server of a later version may have kinds that we do not know: anything goes then.
    return dict(_KINDS.get(name, {}))
