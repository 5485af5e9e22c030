"""Texts of rows go out in requests that providers have room for."""

import pickle

from omnigraph.embed.limits import REQUEST_BYTES_MAX, REQUEST_TEXTS_MAX
from omnigraph.embed.profiles import parse_profile
from omnigraph.embed.remote import RemoteEmbedder, split_texts
from omnigraph.model.runtime import SystemClock


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


def test_an_embedder_travels_without_its_connections() -> None:
    profile = parse_profile({"OPENAI_API_KEY": "k", "OMNIGRAPH_EMBED_MODEL": "m"})

    travelled = pickle.loads(pickle.dumps(RemoteEmbedder(profile, SystemClock())))

    assert isinstance(travelled, RemoteEmbedder)
    assert travelled.model == "m"
