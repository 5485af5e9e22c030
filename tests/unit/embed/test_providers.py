"""Mock and remote embedders, vector cache."""

import math
import pickle

import numpy as np
import pytest

from omnigraph.embed.profiles import parse_profile
from omnigraph.embed.providers import MockEmbedder, RemoteEmbedder, Vector, make_cache, split_texts
from omnigraph.model.limits import REQUEST_BYTES_MAX, REQUEST_TEXTS_MAX
from omnigraph.model.ports import Embedder
from omnigraph.model.runtime import SystemClock

ROOM_FOR_TWO = 2 * (300 + 4 + 4 * 4)


def made(number: float) -> Vector:
    return np.full(4, number, np.float32)


def test_a_vector_is_found_by_text_and_length() -> None:
    cache = make_cache(10_000)
    cache.put(("a", 4), ("a", made(1)))

    found = cache.find(("a", 4))

    assert found is not None
    assert found[1].tolist() == [1, 1, 1, 1]
    assert cache.find(("a", 3)) is None
    assert cache.find(("b", 4)) is None


def test_a_cached_vector_takes_room_for_its_text_and_its_numbers() -> None:
    cache = make_cache(ROOM_FOR_TWO)
    for text in "abc":
        cache.put((text, 4), (text, made(1)))

    assert [cache.find((text, 4)) is not None for text in "abc"] == [False, True, True]


def test_the_vector_of_a_known_text_is_known() -> None:
    vector = MockEmbedder(model="m").embed("alpha", 4)

    assert [round(number, 7) for number in vector] == [-0.5420488, -0.4717994, 0.1609051, 0.6765338]


@pytest.mark.parametrize("dimension", [1, 2, 384])
@pytest.mark.parametrize("text", ["", "alpha", "größe 日本"])
def test_a_vector_has_the_requested_dimension_and_length_one(text: str, dimension: int) -> None:
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


def test_texts_are_split_into_full_requests() -> None:
    texts = [str(number) for number in range(2 * REQUEST_TEXTS_MAX + 1)]

    batches = list(split_texts(texts))

    assert [len(batch) for batch in batches] == [REQUEST_TEXTS_MAX, REQUEST_TEXTS_MAX, 1]
    assert [text for batch in batches for text in batch] == texts


def test_long_texts_go_out_in_smaller_requests() -> None:
    half = "ä" * (REQUEST_BYTES_MAX // 4)

    assert [len(batch) for batch in split_texts([half, half, "a"])] == [2, 1]


def test_a_text_that_is_too_long_goes_out_alone() -> None:
    long = "a" * (REQUEST_BYTES_MAX + 1)

    assert [len(batch) for batch in split_texts(["b", long, "c"])] == [1, 1, 1]


def test_no_texts_make_no_request() -> None:
    embedder = RemoteEmbedder(parse_profile({}), SystemClock())

    assert list(split_texts([])) == []
    assert embedder.embed_many([], 4).shape == (0, 4)


def test_an_embedder_is_pickled_without_its_connections() -> None:
    profile = parse_profile({"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_MODEL": "m"})

    travelled = pickle.loads(pickle.dumps(RemoteEmbedder(profile, SystemClock())))

    assert isinstance(travelled, RemoteEmbedder)
    assert travelled.model == "m"
