"""What a server is told by the environment, as values.

Pure: whoever starts the program reads the environment and the files that it names. A value that
cannot be read is replaced by its default with a warning, except where that would be unsafe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import QUERY_BYTES_MAX, QUERY_SECONDS_MAX
from omnigraph.server.admission import Budget
from omnigraph.server.limits import (
    ACTOR_BYTES_MAX,
    ACTOR_REQUESTS_MAX,
    SERVER_READS_MAX,
    SERVER_WRITES_MAX,
)
from omnigraph.server.tokens import Tokens, parse_tokens

TOKEN = "OMNIGRAPH_SERVER_BEARER_TOKEN"
TOKENS_FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
TOKENS_JSON = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
TOKENS_AWS_SECRET = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"

ACTOR_OF_ONE_TOKEN = "default"
"""Who holds the token of a server that has one token for everybody."""

_OFF = frozenset({"", "0", "false"})


class Mode(StrEnum):
    """Who may do what on a server at all."""

    OPEN = "open"
    DEFAULT_DENY = "default_deny"
    POLICY = "policy"


class BootError(Exception):
    """The server does not start; no graph was opened."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a server does at once, and how much one request may cost."""

    budget: Budget
    running_reads_max: int
    running_writes_max: int
    query_seconds_max: float
    query_bytes_max: int


def decide_mode(*, has_tokens: bool, has_policy: bool, is_unauthenticated: bool) -> Mode:
    """How a server runs, or why it must not."""
    if has_tokens:
        return Mode.POLICY if has_policy else Mode.DEFAULT_DENY
    if has_policy:
        raise BootError(
            "a policy file is configured but no bearer tokens are, so nobody could be told apart; "
            f"set {TOKENS_FILE}, {TOKENS_JSON} or {TOKEN}"
        )
    if is_unauthenticated:
        return Mode.OPEN
    raise BootError(
        f"neither bearer tokens nor a policy are configured; set {TOKENS_FILE}, {TOKENS_JSON} or "
        f"{TOKEN}, or say --unauthenticated if everybody who reaches this server may do everything"
    )


def is_on(text: str | None) -> bool:
    """Whether a switch of the environment is on: it is, unless unset, blank, `0` or `false`."""
    return text is not None and text.strip().lower() not in _OFF


def find_tokens(environment: Mapping[str, str], *, file_text: str | None) -> tuple[Tokens, str]:
    """The tokens that the environment names, and what the log calls where they come from.

    `file_text` is what is in the file of tokens, if one is named; it takes the place of the JSON.
    """
    if environment.get(TOKENS_AWS_SECRET, "").strip():
        raise BootError(
            f"{TOKENS_AWS_SECRET} is set, and this build cannot read AWS secrets; unset it and "
            f"use {TOKENS_FILE}"
        )
    named: list[tuple[str, str]] = []
    sources: list[str] = []
    if TOKEN in environment:
        named.append((ACTOR_OF_ONE_TOKEN, environment[TOKEN]))
        sources.append(TOKEN)
    if file_text is not None:
        named.extend(_parse_map(file_text, source=TOKENS_FILE))
        sources.append(TOKENS_FILE)
    elif TOKENS_JSON in environment:
        named.extend(_parse_map(environment[TOKENS_JSON], source=TOKENS_JSON))
        sources.append(TOKENS_JSON)
    try:
        return parse_tokens(named), " and ".join(sources) or "none"
    except InvalidValueError as error:
        raise BootError(str(error)) from error


def parse_bounds(environment: Mapping[str, str]) -> tuple[Bounds, tuple[str, ...]]:
    """The bounds that the environment names, and a warning for each that makes no sense."""
    warnings: list[str] = []

    def count(name: str, default: int) -> int:
        text = environment.get(name)
        if text is None or not text.strip():
            return default
        if text.strip().isascii() and text.strip().isdigit() and int(text) > 0:
            return int(text)
        warnings.append(f"{name} is no positive number; {default} is used")
        return default

    bounds = Bounds(
        budget=Budget(
            requests_max=count("OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX", ACTOR_REQUESTS_MAX),
            bytes_max=count("OMNIGRAPH_PER_ACTOR_BYTES_MAX", ACTOR_BYTES_MAX),
        ),
        running_reads_max=count("OMNIGRAPH_READS_MAX", SERVER_READS_MAX),
        running_writes_max=count("OMNIGRAPH_WRITES_MAX", SERVER_WRITES_MAX),
        query_seconds_max=float(count("OMNIGRAPH_QUERY_SECONDS_MAX", int(QUERY_SECONDS_MAX))),
        query_bytes_max=count("OMNIGRAPH_QUERY_BYTES_MAX", QUERY_BYTES_MAX),
    )
    return bounds, tuple(warnings)


def parse_bind(text: str) -> tuple[str, int]:
    """A host and a port, of `host:port`; an IPv6 host stands in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BootError(f"--bind wants HOST:PORT, as in 127.0.0.1:8080, not {text!r}")
    return host.strip("[]"), int(port)


def _parse_map(text: str, *, source: str) -> list[tuple[str, str]]:
    # As pairs, because an object would keep only the last of two tokens of one actor.
    try:
        parsed = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise BootError(f"{source} is no JSON") from error
    if (
        not text.strip().startswith("{")
        or not isinstance(parsed, list)
        or not all(isinstance(each, str) for pair in parsed for each in pair)
    ):
        raise BootError(f"{source} has to be a JSON object of actors and their tokens")
    return parsed
