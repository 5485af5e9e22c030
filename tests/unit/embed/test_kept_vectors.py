"""Vectors that are kept: those that were used last, within a bound."""

import numpy as np

from omnigraph.embed.kept_vectors import KeptVectors, Vector

ROOM_FOR_TWO = 2 * (300 + 4 + 4 * 4)


def made(number: float) -> Vector:
    return np.full(4, number, np.float32)


def test_a_vector_is_found_by_text_and_length() -> None:
    kept = KeptVectors(10_000)
    kept.keep("a", made(1))

    found = kept.find("a", 4)

    assert found is not None
    assert found.tolist() == [1, 1, 1, 1]
    assert kept.find("a", 3) is None
    assert kept.find("b", 4) is None


def test_what_was_used_last_stays() -> None:
    kept = KeptVectors(ROOM_FOR_TWO)
    kept.keep("a", made(1))
    kept.keep("b", made(2))
    kept.find("a", 4)

    kept.keep("c", made(3))

    assert [kept.find(text, 4) is not None for text in "abc"] == [True, False, True]


def test_a_vector_that_is_kept_twice_takes_room_once() -> None:
    kept = KeptVectors(ROOM_FOR_TWO)
    for _ in range(10):
        kept.keep("a", made(1))

    kept.keep("b", made(2))

    assert kept.find("a", 4) is not None


def test_what_has_no_room_is_not_kept() -> None:
    kept = KeptVectors(100)

    kept.keep("a", made(1))

    assert kept.find("a", 4) is None
