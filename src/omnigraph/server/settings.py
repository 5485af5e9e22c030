"""Server settings parsed from the environment, and bearer tokens.

The environment and the content of token files are arguments. An invalid value is replaced by its
default with a warning, unless the default would be unsafe. Only the SHA-256 digest of a token is
held, and a presented token is compared with every digest in constant time.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import (
    ACTOR_BYTES_MAX,
    ACTOR_REQUESTS_MAX,
    QUERY_BYTES_MAX,
    QUERY_SECONDS_MAX,
    SERVER_PROCESSES_MAX,
    SERVER_READS_MAX,
    SERVER_WRITES_MAX,
)
from omnigraph.server.admission import Budget
from omnigraph.server.responses import unauthorized

_SCHEME = b"Bearer "


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """The actor of each known token; empty if no token is required."""

    actor_by_digest: tuple[tuple[bytes, str], ...]

    def __bool__(self) -> bool:
        return bool(self.actor_by_digest)

    def require_actor(self, header: bytes | None) -> str:
        """The actor of an `Authorization` header; 401 unless it is `Bearer` with a known token."""
        if header is None or not header.startswith(_SCHEME):
            raise unauthorized("missing bearer token")
        presented = digest(header[len(_SCHEME) :])
        found = None
        for stored, actor in self.actor_by_digest:
            # No early exit: the time must not reveal which token matched, or whether one did.
            if hmac.compare_digest(stored, presented):
                found = actor
        if found is None:
            raise unauthorized("invalid bearer token")
        return found


def digest(token: bytes) -> bytes:
    """The digest that is held instead of a token."""
    return sha256(token).digest()


def parse_tokens(named: Iterable[tuple[str, str]]) -> Tokens:
    """The tokens of actors; blank and repeated tokens are rejected."""
    actor_by_digest: dict[bytes, str] = {}
    actors: set[str] = set()
    for given_actor, given_token in named:
        actor, token = given_actor.strip(), given_token.strip()
        if not actor:
            raise _refused("an actor has a blank name")
        if not token:
            raise _refused(f"the token of actor '{actor}' is blank")
        if actor in actors:
            raise _refused(f"actor '{actor}' has two tokens")
        hashed = digest(token.encode())
        if hashed in actor_by_digest:
            raise _refused(f"actors '{actor_by_digest[hashed]}' and '{actor}' have the same token")
        actors.add(actor)
        actor_by_digest[hashed] = actor
    return Tokens(tuple(actor_by_digest.items()))


def _refused(problem: str) -> InvalidValueError:
    # The value is omitted on purpose: it may be a token.
    return InvalidValueError(
        subject="bearer tokens", expected="one token per actor", value=None, problem=problem
    )


TOKEN = "OMNIGRAPH_SERVER_BEARER_TOKEN"
TOKENS_FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
TOKENS_JSON = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
TOKENS_AWS_SECRET = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"

ACTOR_OF_ONE_TOKEN = "default"
"""The actor of the token on a server with a single token."""

_OFF = frozenset({"", "0", "false"})


class Mode(StrEnum):
    """The access control of a server."""

    OPEN = "open"
    DEFAULT_DENY = "default_deny"
    POLICY = "policy"


class StartupError(Exception):
    """The server cannot start; no graph was opened."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits on concurrent work, and on the cost of one query, of each of the processes."""

    workers: int
    budget: Budget
    running_reads_max: int
    running_writes_max: int
    query_seconds_max: float
    query_bytes_max: int


def decide_mode(*, has_tokens: bool, has_policy: bool, is_unauthenticated: bool) -> Mode:
    """The access control of a server; `StartupError` if the combination is unsafe."""
    if has_tokens:
        return Mode.POLICY if has_policy else Mode.DEFAULT_DENY
    if has_policy:
        raise StartupError(
            "a policy file is configured but no bearer tokens, so callers cannot be identified; "
            f"set {TOKENS_FILE}, {TOKENS_JSON} or {TOKEN}"
        )
    if is_unauthenticated:
        return Mode.OPEN
    raise StartupError(
        f"neither bearer tokens nor a policy are configured; set {TOKENS_FILE}, {TOKENS_JSON} or "
        f"{TOKEN}, or pass --unauthenticated to allow every action to every caller"
    )


def is_on(text: str | None) -> bool:
    """Whether an environment switch is on: set, and not blank, `0` or `false`."""
    return text is not None and text.strip().lower() not in _OFF


def find_tokens(environment: Mapping[str, str], *, file_text: str | None) -> tuple[Tokens, str]:
    """The tokens that the environment configures, and the name of their source for the log.

    `file_text` is the content of the token file, if one is configured; it replaces the JSON
    variable.
    """
    if environment.get(TOKENS_AWS_SECRET, "").strip():
        raise StartupError(
            f"{TOKENS_AWS_SECRET} is set, but AWS secrets are not supported; unset it and "
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
        raise StartupError(str(error)) from error


def parse_bounds(environment: Mapping[str, str]) -> tuple[Bounds, tuple[str, ...]]:
    """The limits that the environment sets, and a warning for each invalid value."""
    warnings: list[str] = []

    def count(name: str, default: int) -> int:
        text = environment.get(name)
        if text is None or not text.strip():
            return default
        if text.strip().isascii() and text.strip().isdigit() and int(text) > 0:
            return int(text)
        warnings.append(f"{name} is not a positive number; the default {default} is used")
        return default

    workers = count("OMNIGRAPH_WORKERS", 1)
    if workers > SERVER_PROCESSES_MAX:
        warnings.append(f"OMNIGRAPH_WORKERS exceeds {SERVER_PROCESSES_MAX}; the default 1 is used")
        workers = 1
    bounds = Bounds(
        workers=workers,
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
    """Host and port of `host:port`; an IPv6 host is in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise StartupError(f"--bind expects HOST:PORT, as in 127.0.0.1:8080, not {text!r}")
    return host.strip("[]"), int(port)


def _parse_map(text: str, *, source: str) -> list[tuple[str, str]]:
    # Decoded as pairs, because an object would retain only the last of two tokens of one actor.
    try:
        parsed = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise StartupError(f"{source} is not valid JSON") from error
    if (
        not text.strip().startswith("{")
        or not isinstance(parsed, list)
        or not all(isinstance(each, str) for pair in parsed for each in pair)
    ):
        raise StartupError(f"{source} must be a JSON object of actors and their tokens")
    return parsed
