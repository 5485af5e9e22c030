"""The exact requests to providers, and how their responses are parsed."""

import numpy as np
import orjson
import pytest

from omnigraph.embed.formats import (
    GeminiFormat,
    MalformedResponseError,
    OpenAiFormat,
    Purpose,
    find_reason,
    make_vectors,
)

OPENAI = OpenAiFormat("m")
GEMINI = GeminiFormat("m/1")


@pytest.mark.parametrize("purpose", Purpose)
def test_an_openai_request_contains_all_texts(purpose: Purpose) -> None:
    question = OPENAI.request(["a", "b"], 4, purpose)

    assert question.path == "/embeddings"
    assert orjson.loads(question.body) == {"model": "m", "input": ["a", "b"], "dimensions": 4}
    assert OPENAI.headers("k") == {"Authorization": "Bearer k"}


@pytest.mark.parametrize(
    ("purpose", "task"),
    [(Purpose.QUERY, "RETRIEVAL_QUERY"), (Purpose.DOCUMENT, "RETRIEVAL_DOCUMENT")],
)
def test_a_gemini_request_states_the_purpose_of_a_text(purpose: Purpose, task: str) -> None:
    question = GEMINI.request(["a"], 4, purpose)

    assert question.path == "/models/m%2F1:embedContent"
    assert orjson.loads(question.body) == {
        "model": "models/m/1",
        "content": {"parts": [{"text": "a"}]},
        "taskType": task,
        "outputDimensionality": 4,
    }
    assert GEMINI.headers("k") == {"x-goog-api-key": "k"}


def test_a_gemini_request_contains_several_texts() -> None:
    question = GEMINI.request(["a", "b"], 4, Purpose.DOCUMENT)

    assert question.path == "/models/m%2F1:batchEmbedContents"
    requests = orjson.loads(question.body)["requests"]
    assert [each["content"]["parts"][0]["text"] for each in requests] == ["a", "b"]
    assert {each["outputDimensionality"] for each in requests} == {4}


def test_vectors_are_put_in_the_order_of_their_texts() -> None:
    entries = [{"index": 2, "embedding": "c"}, {"index": 0, "embedding": "a"}]
    content = orjson.dumps({"data": [*entries, {"index": 1, "embedding": "b"}]})

    assert OPENAI.read(content, count=3) == ["a", "b", "c"]


def test_vectors_without_a_number_are_in_order_already() -> None:
    content = orjson.dumps({"data": [{"embedding": "a"}, {"embedding": "b"}]})

    assert OPENAI.read(content, count=2) == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"data": {}}',
        b'{"data": []}',
        b'{"data": [1, 2]}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 0}, {"index": 0}]}',
        b'{"data": [{"index": 1}, {"index": 2}]}',
        b'{"data": [{"index": "0"}, {"index": 1}]}',
        b'{"data": [{"index": [0]}, {"index": 1}]}',
        b'{"data": [{"index": false}, {"index": true}]}',
        b'{"data": [{"index": 0}, {"index": 1}, {"index": 2}]}',
    ],
)
def test_a_response_for_other_texts_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        OPENAI.read(content, count=2)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"embeddings": []}', b'{"embeddings": [1, 2]}'])
def test_a_gemini_response_for_other_texts_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        GEMINI.read(content, count=2)


def test_an_error_inside_a_successful_response_is_reported() -> None:
    with pytest.raises(MalformedResponseError, match="no such model"):
        OPENAI.read(b'{"error": {"message": "no such model"}}', count=1)


def test_vectors_have_length_one_in_single_precision() -> None:
    made = make_vectors([[3, 4], [0.0, -1e-30]], 2)

    assert made.dtype == np.float32
    assert made.tolist() == [[np.float32(0.6), np.float32(0.8)], [0.0, -1.0]]


@pytest.mark.parametrize(
    "reply",
    [
        None,
        "AAAA",
        {},
        [1.0],
        [1.0, 2.0, 3.0],
        [0, 0],
        [1.0, None],
        ["1", "2"],
        [True, False],
        [[1.0], [2.0]],
        [[1.0], 2.0],
        [1e300, 1e300],
        [10**400, 1],
    ],
)
def test_a_value_that_is_not_a_vector_of_that_length_is_malformed(reply: object) -> None:
    with pytest.raises(MalformedResponseError):
        make_vectors([[1.0, 0.0], reply], 2)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"error": {"message": "too long"}}', "too long"),
        (b'{"error": "too long"}', "too long"),
        (b'{"message": "too long"}', "too long"),
        (b'{"error": {"code": 5}}', None),
        (b"<html>", None),
        (b"[]", None),
    ],
)
def test_the_reason_of_a_refusal_is_found(content: bytes, reason: str | None) -> None:
    assert find_reason(content) == reason
