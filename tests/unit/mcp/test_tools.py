"""Parameters as JSON Schema: each kind that a stored query can have is described."""

from __future__ import annotations

import pytest

from omnigraph.compiler.descriptor import KIND_BY_SCALAR
from omnigraph.http.responses import ParameterOutput
from omnigraph.mcp.tools import parameter_schema


def parameter(kind: str, *, nullable: bool = False) -> ParameterOutput:
    """A parameter of a kind."""
    return {"name": "p", "kind": kind, "nullable": nullable}


@pytest.mark.parametrize("kind", sorted(set(KIND_BY_SCALAR.values())))
def test_every_kind_has_a_schema(kind: str) -> None:
    schema = parameter_schema(parameter(kind))

    assert "type" in schema or "anyOf" in schema


def test_whole_numbers_have_the_bounds_of_32_bits() -> None:
    schema = parameter_schema(parameter("int"))

    assert (schema["minimum"], schema["maximum"]) == (-(2**31), 2**32 - 1)


def test_long_numbers_may_come_as_text() -> None:
    schema = parameter_schema(parameter("bigint"))

    assert schema["anyOf"] == [
        {"type": "integer"},
        {"type": "string", "pattern": "^-?[0-9]{1,20}$"},
    ]


def test_what_may_be_missing_may_be_null() -> None:
    schema = parameter_schema(parameter("string", nullable=True))

    assert schema == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}


def test_a_vector_has_exactly_so_many_numbers() -> None:
    described: ParameterOutput = {**parameter("vector"), "vector_dim": 3}

    assert parameter_schema(described) == {
        "type": "array",
        "items": {"type": "number"},
        "minItems": 3,
        "maxItems": 3,
    }


def test_a_list_says_what_is_in_it() -> None:
    described: ParameterOutput = {**parameter("list"), "item_kind": "bool"}

    assert parameter_schema(described) == {"type": "array", "items": {"type": "boolean"}}


def test_a_kind_of_a_later_server_takes_anything() -> None:
    assert parameter_schema(parameter("polygon")) == {}
