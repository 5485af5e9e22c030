"""What callers ask of a retrieval, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np
import orjson

from omnigraph.engine.retrieval.answers import QueryVector, Request
from omnigraph.engine.retrieval.limits import (
    BUDGET_TOKENS_MAX,
    FOUND_MAX,
    HOPS_MAX,
    VECTOR_NUMBERS_MAX,
)
from omnigraph.engine.settings import require_text
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import fits_f32


def parse_request(asked: Mapping[str, object]) -> Request:
    """The request that arguments make, by name; `InvalidValueError` if they make none."""
    text, counted_by = asked.get("text"), asked.get("counted_by")
    require_text(text, subject="text")
    require_text(counted_by, subject="counted_by")
    assert isinstance(text, str), "it was just looked at"
    assert isinstance(counted_by, str), "it was just looked at"
    words, vectors = (_parse_weight(asked, each) for each in ("word_weight", "vector_weight"))
    if words == vectors == 0:
        raise InvalidValueError(
            subject="word_weight and vector_weight",
            expected="a positive number",
            value=(words, vectors),
            problem="with two zeros nothing is looked for; make one of them positive",
        )
    return Request(
        text=text,
        types=_parse_names(asked, "types", least=1),
        edges=_parse_names(asked, "edges", least=0),
        hops=_parse_count(asked, "hops", least=0, most=HOPS_MAX),
        k=_parse_count(asked, "k", least=1, most=FOUND_MAX),
        budget_tokens=_parse_count(asked, "budget_tokens", least=1, most=BUDGET_TOKENS_MAX),
        word_weight=words,
        vector_weight=vectors,
        counted_by=counted_by,
    )


def parse_vector(given: object) -> tuple[float, ...]:
    """Numbers as a vector property holds them; `InvalidValueError` if they are none."""
    numbers = given.tolist() if isinstance(given, np.ndarray) else given
    problem = None
    if not isinstance(numbers, Sequence) or isinstance(numbers, str | bytes):
        problem = f"a list of numbers is needed, not a {type(given).__name__}"
    elif not 1 <= len(numbers) <= VECTOR_NUMBERS_MAX:
        problem = f"it has {len(numbers):,} numbers; 1 to {VECTOR_NUMBERS_MAX:,} are allowed"
    elif not all(_is_f32(each) for each in numbers):
        problem = "it holds something that is no finite number of 32 bits"
    if problem is not None:
        raise InvalidValueError(subject="vector", expected="numbers", value=given, problem=problem)
    stored: list[float] = np.array(numbers, np.float32).tolist()
    return tuple(stored)


def hash_query(request: Request, vectors: Sequence[QueryVector]) -> str:
    """A text that two queries share if they ask for the same, whatever graph they ask."""
    asked = {"request": request, "vectors": list(vectors)}
    return sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _parse_names(
    asked: Mapping[str, object], subject: str, *, least: int
) -> tuple[str, ...] | None:
    given = asked.get(subject)
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
        # Neither order nor repetition means anything, so one question has one hash.
        return tuple(sorted(set(names)))
    raise InvalidValueError(subject=subject, expected="names", value=given, problem=problem)


def _parse_count(asked: Mapping[str, object], subject: str, *, least: int, most: int) -> int:
    given = asked.get(subject)
    if isinstance(given, int) and not isinstance(given, bool) and least <= given <= most:
        return given
    raise InvalidValueError(
        subject=subject,
        expected="a whole number",
        value=given,
        problem=f"{given!r} is no whole number from {least} to {most:,}",
    )


def _parse_weight(asked: Mapping[str, object], subject: str) -> float:
    given = asked.get(subject)
    if isinstance(given, int | float) and not isinstance(given, bool):
        weight = float(given)
        if math.isfinite(weight) and weight >= 0:
            return weight
    raise InvalidValueError(
        subject=subject,
        expected="a number from 0",
        value=given,
        problem=f"{given!r} is no number from 0",
    )


def _is_f32(given: object) -> bool:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return False
    try:
        return math.isfinite(given) and fits_f32(float(given))
    except OverflowError:
        return False
