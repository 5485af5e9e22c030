"""Settings from the environment, tokens."""

from dataclasses import asdict, dataclass, replace

import pytest

from omnigraph.model.errors import InvalidValueError
from omnigraph.server.responses import HttpError
from omnigraph.server.settings import (
    Mode,
    StartupError,
    Tokens,
    decide_mode,
    digest,
    find_tokens,
    is_on,
    parse_bind,
    parse_bounds,
    parse_tokens,
)

PREFIX = "OMNIGRAPH_SERVER_BEARER_TOKEN"


@dataclass(frozen=True)
class Start:
    """What a server finds when it starts."""

    has_tokens: bool
    has_policy: bool
    is_unauthenticated: bool


NOTHING = Start(has_tokens=False, has_policy=False, is_unauthenticated=False)
FLAG = replace(NOTHING, is_unauthenticated=True)
TOKENS = replace(NOTHING, has_tokens=True)
POLICY = replace(NOTHING, has_policy=True)
BOTH = replace(POLICY, has_tokens=True)


@pytest.mark.parametrize(
    ("start", "mode"),
    [
        (FLAG, Mode.OPEN),
        (TOKENS, Mode.DEFAULT_DENY),
        (replace(TOKENS, is_unauthenticated=True), Mode.DEFAULT_DENY),
        (BOTH, Mode.POLICY),
        (replace(BOTH, is_unauthenticated=True), Mode.POLICY),
    ],
)
def test_a_server_starts_only_with_configured_access_control(start: Start, mode: Mode) -> None:
    assert decide_mode(**asdict(start)) is mode


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (NOTHING, "--unauthenticated"),
        (POLICY, "policy file is configured but no bearer tokens"),
        (
            replace(POLICY, is_unauthenticated=True),
            "policy file is configured but no bearer tokens",
        ),
    ],
)
def test_a_server_refuses_what_would_be_unsafe(start: Start, message: str) -> None:
    with pytest.raises(StartupError, match=message):
        decide_mode(**asdict(start))


@pytest.mark.parametrize("text", [None, "", "  ", "0", "false", "FALSE", " False "])
def test_a_switch_is_off(text: str | None) -> None:
    assert not is_on(text)


@pytest.mark.parametrize("text", ["1", "true", "yes", "no", "off"])
def test_a_switch_is_on_by_anything_else(text: str) -> None:
    assert is_on(text)


def test_one_token_and_a_file_of_tokens_are_used_together_and_json_is_not() -> None:
    environment = {PREFIX: "legacy", f"{PREFIX}S_FILE": "x", f"{PREFIX}S_JSON": '{"cyd": "three"}'}

    tokens, source = find_tokens(environment, file_text='{"ann": "one", "bob": "two"}')

    actors = [actor for _, actor in tokens.actor_by_digest]
    assert actors == ["default", "ann", "bob"]
    assert source == f"{PREFIX} and {PREFIX}S_FILE"


def test_tokens_come_from_json_if_there_is_no_file() -> None:
    tokens, source = find_tokens({f"{PREFIX}S_JSON": '{"cyd": "three"}'}, file_text=None)

    assert tokens.require_actor(b"Bearer three") == "cyd"
    assert source == f"{PREFIX}S_JSON"


def test_without_any_there_are_no_tokens() -> None:
    tokens, source = find_tokens({}, file_text=None)

    assert not tokens
    assert source == "none"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({PREFIX: "  "}, "is blank"),
        ({f"{PREFIX}S_JSON": ""}, "is not valid JSON"),
        ({f"{PREFIX}S_JSON": "{"}, "is not valid JSON"),
        ({f"{PREFIX}S_JSON": '["a", "b"]'}, "JSON object"),
        ({f"{PREFIX}S_JSON": '[["a", "b"]]'}, "JSON object"),
        ({f"{PREFIX}S_JSON": '{"ann": 1}'}, "JSON object"),
        ({f"{PREFIX}S_JSON": '{"ann": {"x": "y"}}'}, "JSON object"),
        ({f"{PREFIX}S_JSON": '{"ann": "one", "ann": "two"}'}, "two tokens"),
        ({PREFIX: "one", f"{PREFIX}S_JSON": '{"default": "two"}'}, "two tokens"),
        ({PREFIX: "one", f"{PREFIX}S_JSON": '{"ann": "one"}'}, "same token"),
        ({f"{PREFIX}S_AWS_SECRET": "arn:x", PREFIX: "one"}, "AWS secrets are not supported"),
    ],
)
def test_tokens_that_make_no_sense_keep_a_server_from_starting(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(StartupError, match=message):
        find_tokens(environment, file_text=None)


def test_bounds_have_defaults() -> None:
    bounds, warnings = parse_bounds({})

    assert (bounds.budget.requests_max, bounds.budget.bytes_max) == (16, 4294967296)
    assert not warnings


def test_bounds_are_taken_from_the_environment() -> None:
    bounds, warnings = parse_bounds(
        {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": " 3 ", "OMNIGRAPH_PER_ACTOR_BYTES_MAX": "1000"}
    )

    assert (bounds.budget.requests_max, bounds.budget.bytes_max) == (3, 1000)
    assert not warnings


def test_the_number_of_workers_is_bounded() -> None:
    assert parse_bounds({})[0].workers == 1
    assert parse_bounds({"OMNIGRAPH_WORKERS": "4"})[0].workers == 4

    bounds, warnings = parse_bounds({"OMNIGRAPH_WORKERS": "1000"})

    assert bounds.workers == 1
    assert "OMNIGRAPH_WORKERS" in warnings[0]


@pytest.mark.parametrize("text", ["abc", "-1", "0", "1.5", "²"])
def test_a_bound_that_is_not_a_number_is_warned_about_and_not_used(text: str) -> None:
    bounds, warnings = parse_bounds({"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": text})

    assert bounds.budget.requests_max == 16
    assert len(warnings) == 1
    assert "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX" in warnings[0]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_bind(text) == address


@pytest.mark.parametrize("text", ["", "8080", ":8080", "host:", "host:x", "host:70000", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(StartupError, match="HOST:PORT"):
        parse_bind(text)


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
def test_a_token_without_an_actor_is_refused(header: bytes) -> None:
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
