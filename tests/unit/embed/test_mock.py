"""Vectors without a model: bit for bit those of other implementations."""

import math

import numpy as np
import pytest

from omnigraph.embed.mock import MockEmbedder
from omnigraph.model.embedding import Embedder


def test_the_vector_of_a_known_text_is_known() -> None:
    vector = MockEmbedder(model="m").embed("alpha", 4)

    assert [round(number, 7) for number in vector] == [-0.5420488, -0.4717994, 0.1609051, 0.6765338]


@pytest.mark.parametrize("dimension", [1, 2, 384])
@pytest.mark.parametrize("text", ["", "alpha", "größe 日本"])
def test_a_vector_has_the_dimension_asked_for_and_length_one(text: str, dimension: int) -> None:
    vector = MockEmbedder(model="").embed(text, dimension)

    assert len(vector) == dimension
    assert math.hypot(*vector) == pytest.approx(1, rel=1e-6)
    assert np.array(vector, np.float32).tolist() == list(vector)


def test_the_same_text_has_the_same_vector_under_every_model() -> None:
    one: Embedder = MockEmbedder(model="one")
    other: Embedder = MockEmbedder(model="other")

    assert one.embed("alpha", 8) == other.embed("alpha", 8)
    assert one.model == "one"


def test_another_text_has_another_vector() -> None:
    embedder = MockEmbedder(model="")

    assert embedder.embed("alpha", 8) != embedder.embed("beta", 8)
