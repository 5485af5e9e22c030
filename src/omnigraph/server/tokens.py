"""Bearer tokens: who is asking.

A token is kept as its SHA-256 and nothing else. What is presented is compared with every stored
digest in constant time, so that an answer's time tells nothing. Reads no environment.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from omnigraph.model.errors import InvalidValueError
from omnigraph.server.problems import unauthorized

_SCHEME = b"Bearer "


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """Who the holder of each known token is; empty if nobody has to show one."""

    actor_by_digest: tuple[tuple[bytes, str], ...]

    def __bool__(self) -> bool:
        return bool(self.actor_by_digest)

    def require_actor(self, header: bytes | None) -> str:
        """Who presents a header `Authorization`; 401 unless it is `Bearer` and a known token."""
        if header is None or not header.startswith(_SCHEME):
            raise unauthorized("missing bearer token")
        presented = digest(header[len(_SCHEME) :])
        found = None
        for stored, actor in self.actor_by_digest:
            # No early exit: the time must not tell which token it was, or that it was one.
            if hmac.compare_digest(stored, presented):
                found = actor
        if found is None:
            raise unauthorized("invalid bearer token")
        return found


def digest(token: bytes) -> bytes:
    """What is kept of a token."""
    return sha256(token).digest()


def parse_tokens(named: Iterable[tuple[str, str]]) -> Tokens:
    """Tokens of actors; refuses blank and repeated ones."""
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
    # The value is left out on purpose: it may be a token.
    return InvalidValueError(
        subject="bearer tokens", expected="one token an actor", value=None, problem=problem
    )
