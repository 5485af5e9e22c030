"""Retrieval requests: arguments of callers, validated before anything is read."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import orjson

from omnigraph.engine.retrieval.results import QueryRequest, QueryVector, Request
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import BUDGET_TOKENS_MAX, FOUND_MAX, HOPS_MAX, VECTOR_NUMBERS_MAX
from omnigraph.model.names import require_text
from omnigraph.model.types import fits_f32, format_datetime, parse_datetime


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """The options of every retrieval: how to reach neighbours, and the token budget."""

    edges: tuple[str, ...] | None
    hops: int
    budget_tokens: int
    counted_by: str


def parse_options(arguments: Mapping[str, object]) -> RetrievalOptions:
    """Parse the options from arguments by name; `InvalidValueError` if one is not valid."""
    return RetrievalOptions(
        edges=_parse_names(arguments, "edges", least=0),
        hops=_parse_count(arguments, "hops", least=0, most=HOPS_MAX),
        budget_tokens=_parse_count(arguments, "budget_tokens", least=1, most=BUDGET_TOKENS_MAX),
        counted_by=_parse_text(arguments, "counted_by"),
    )


def parse_request(arguments: Mapping[str, object]) -> Request:
    """Parse a search request from arguments by name; `InvalidValueError` if one is not valid."""
    text, options = _parse_text(arguments, "text"), parse_options(arguments)
    words, vectors = (_parse_weight(arguments, each) for each in ("word_weight", "vector_weight"))
    if words == vectors == 0:
        raise InvalidValueError(
            subject="word_weight and vector_weight",
            expected="a positive number",
            value=(words, vectors),
            problem="with two zeros nothing is searched; make one of them positive",
        )
    return Request(
        text=text,
        types=_parse_names(arguments, "types", least=1),
        edges=options.edges,
        hops=options.hops,
        k=_parse_count(arguments, "k", least=1, most=FOUND_MAX),
        budget_tokens=options.budget_tokens,
        word_weight=words,
        vector_weight=vectors,
        counted_by=options.counted_by,
    )


def parse_query_request(arguments: Mapping[str, object]) -> QueryRequest:
    """Parse a query request from arguments by name; `InvalidValueError` if one is not valid.

    Whether the values fit the parameters of the query is checked when the query is compiled.
    """
    params, now, options = arguments.get("params"), arguments.get("now"), parse_options(arguments)
    if not isinstance(params, Mapping):
        raise InvalidValueError(
            subject="params",
            expected="object",
            value=params,
            problem=f"a JSON object is needed, not a {type(params).__name__}",
        )
    return QueryRequest(
        query=None if arguments.get("query") is None else _parse_text(arguments, "query"),
        name=_parse_text(arguments, "name"),
        params={name: _parse_param(params, name) for name in params},
        now=None if now is None else _parse_timestamp(now),
        edges=options.edges,
        hops=options.hops,
        budget_tokens=options.budget_tokens,
        counted_by=options.counted_by,
    )


def parse_vector(given: object) -> tuple[float, ...]:
    """Parse a vector of 32-bit floats; `InvalidValueError` if it is not valid."""
    numbers = given.tolist() if isinstance(given, np.ndarray) else given
    problem = None
    if not isinstance(numbers, Sequence) or isinstance(numbers, str | bytes):
        problem = f"a list of numbers is needed, not a {type(given).__name__}"
    elif not 1 <= len(numbers) <= VECTOR_NUMBERS_MAX:
        problem = f"it has {len(numbers):,} numbers; 1 to {VECTOR_NUMBERS_MAX:,} are allowed"
    elif not all(_is_f32(each) for each in numbers):
        problem = "it holds a value that is not a finite 32-bit number"
    if problem is not None:
        raise InvalidValueError(subject="vector", expected="numbers", value=given, problem=problem)
    stored: list[float] = np.array(numbers, np.float32).tolist()
    return tuple(stored)


def hash_query(request: Request | QueryRequest, vectors: Sequence[QueryVector]) -> str:
    """A hash that is equal for equal requests with equal vectors, whatever the graph."""
    content = {"request": request, "vectors": list(vectors)}
    return sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def describe_value(given: object) -> str:
    """A value as messages show it: None and short numbers verbatim, all else by its type."""
    is_short = isinstance(given, float) or (isinstance(given, int) and abs(given) < 2**64)
    return repr(given) if given is None or is_short else f"a {type(given).__name__}"


def _parse_text(arguments: Mapping[str, object], subject: str) -> str:
    given = arguments.get(subject)
    require_text(given, subject=subject)
    assert isinstance(given, str), "it was just checked"
    return given


def _parse_timestamp(given: object) -> str:
    """Parse a timestamp into the format of receipts."""
    require_text(given, subject="now")
    try:
        return format_datetime(parse_datetime(str(given)))
    except ValueError as error:
        raise InvalidValueError(
            subject="now", expected="a time", value=given, problem=str(error)
        ) from error


def _parse_param(params: Mapping[str, object], name: str) -> object:
    """Parse a parameter value into the form of receipts: a scalar or a tuple of scalars."""
    require_text(name, subject="params")
    given = params[name]
    values = given if isinstance(given, list | tuple) else (given,)
    if not all(_is_plain(each) for each in values):
        raise InvalidValueError(
            subject=f"param '{name}'",
            expected="a value that JSON has",
            value=None,
            problem="a text, a number, true, false, null or a list of them is needed",
        )
    return tuple(values) if values is given else given


def _is_plain(value: object) -> bool:
    match value:
        case None | bool() | float():
            return True
        case int():
            return -(2**63) <= value < 2**64
        case str():
            return value.encode(errors="ignore").decode() == value
        case _:
            return False


def _parse_names(
    arguments: Mapping[str, object], subject: str, *, least: int
) -> tuple[str, ...] | None:
    given = arguments.get(subject)
    if given is None:
        return None
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence):
        problem = f"a list of names is needed, not a {type(given).__name__}"
    elif len(names) < least:
        problem = "name at least one, or leave it out for all of them"
    else:
        for name in names:
            require_text(name, subject=subject)
        # Order and repetition have no meaning; without them equal requests have equal hashes.
        return tuple(sorted(set(names)))
    raise InvalidValueError(subject=subject, expected="names", value=given, problem=problem)


def _parse_count(arguments: Mapping[str, object], subject: str, *, least: int, most: int) -> int:
    given = arguments.get(subject)
    if isinstance(given, int) and not isinstance(given, bool) and least <= given <= most:
        return given
    raise InvalidValueError(
        subject=subject,
        expected="a whole number",
        value=given,
        problem=f"{describe_value(given)} is not a whole number from {least} to {most:,}",
    )


def _parse_weight(arguments: Mapping[str, object], subject: str) -> float:
    given = arguments.get(subject)
    if isinstance(given, int | float) and not isinstance(given, bool):
        weight = float(given) if abs(given) <= sys.float_info.max else math.inf
        if math.isfinite(weight) and weight >= 0:
            return weight
    raise InvalidValueError(
        subject=subject,
        expected="a number from 0",
        value=given,
        problem=f"{describe_value(given)} is not a number from 0",
    )


def _is_f32(given: object) -> bool:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return False
    try:
        return math.isfinite(given) and fits_f32(float(given))
    except OverflowError:
        return False
