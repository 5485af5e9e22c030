"""Bearer tokens: kept as digests, and refused when they could be confused."""

import pytest

from omnigraph.model.errors import InvalidValueError
from omnigraph.server.problems import HttpError
from omnigraph.server.tokens import Tokens, digest, parse_tokens


def test_a_token_is_hashed_as_sha_256_has_it() -> None:
    hashed = digest(b"abc").hex()

    assert hashed == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_holder_of_a_token_is_known() -> None:
    tokens = parse_tokens([("ann", "one"), ("bob", "two")])

    actors = [tokens.require_actor(b"Bearer one"), tokens.require_actor(b"Bearer two")]

    assert actors == ["ann", "bob"]


def test_names_and_tokens_are_trimmed() -> None:
    tokens = parse_tokens([("  ann ", " one\n")])

    assert tokens.require_actor(b"Bearer one") == "ann"


@pytest.mark.parametrize(
    "header",
    [None, b"", b"Basic one", b"bearer one", b"BEARER one", b"Bearer", b"one", b"Bearer\tone"],
)
def test_a_header_of_another_kind_is_no_token(header: bytes | None) -> None:
    tokens = parse_tokens([("ann", "one")])

    with pytest.raises(HttpError, match=r"^missing bearer token$") as refused:
        tokens.require_actor(header)

    assert refused.value.status == 401


@pytest.mark.parametrize(
    "header", [b"Bearer ", b"Bearer two", b"Bearer  one", b"Bearer one ", b"Bearer onetwo"]
)
def test_a_token_that_nobody_has_is_refused(header: bytes) -> None:
    tokens = parse_tokens([("ann", "one")])

    with pytest.raises(HttpError, match=r"^invalid bearer token$") as refused:
        tokens.require_actor(header)

    assert refused.value.status == 401


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ([("", "one")], "blank name"),
        ([("  ", "one")], "blank name"),
        ([("ann", "")], "is blank"),
        ([("ann", " \t")], "is blank"),
        ([("ann", "one"), (" ann", "two")], "two tokens"),
        ([("ann", "one"), ("bob", "one ")], "same token"),
    ],
)
def test_tokens_that_could_be_confused_are_refused(
    named: list[tuple[str, str]], problem: str
) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        parse_tokens(named)


def test_a_refusal_does_not_repeat_the_token() -> None:
    with pytest.raises(InvalidValueError) as refused:
        parse_tokens([("ann", "s3cret"), ("bob", "s3cret")])

    assert "s3cret" not in str(refused.value)


def test_tokens_hold_no_plain_text() -> None:
    tokens = parse_tokens([("ann", "s3cret")])

    held = repr(tokens.actor_by_digest) + repr(tokens)

    assert "s3cret" not in held


def test_no_tokens_are_none() -> None:
    assert not Tokens(())
