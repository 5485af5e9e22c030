"""One HTTP request to an embedding provider, with bounded retries.

A timeout, a cut response, a failed connection, status 429 and 5xx are retried, with a wait that
doubles each time; any other failure is final. Redirects are not followed, so the key goes only to
the configured provider, and it appears in no message. Safe to share between threads.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from omnigraph.embed.formats import ProviderRequest, find_reason
from omnigraph.embed.profiles import DEADLINE_VARIABLE, EmbeddingProfile
from omnigraph.model.errors import EmbeddingError
from omnigraph.model.limits import (
    EMBED_CONNECT_S_MAX,
    EMBED_CONNECTIONS_MAX,
    EMBED_PIECE_BYTES,
    EMBED_RESPONSE_BYTES_MAX,
    REASON_CHARACTERS_MAX,
    WAIT_S_MAX,
)
from omnigraph.model.runtime import Clock

_LOG = logging.getLogger(__name__)
_LEAST_S = 0.001


@dataclass(frozen=True, slots=True)
class _Answer:
    """A response of any status."""

    status: int
    content: bytes
    retry_after: str | None


@dataclass(frozen=True, slots=True)
class _Setback:
    """A failed attempt that may be retried after at least `wait_s` seconds."""

    reason: str
    wait_s: float


class ProviderClient:
    """The connections to one provider, and the key that is sent to it."""

    def __init__(self, profile: EmbeddingProfile, headers: dict[str, str], *, clock: Clock) -> None:
        self._profile, self._clock = profile, clock
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "omnigraph-python",
            **headers,
        }
        parts = urlsplit(profile.base_url)
        self._path = parts.path
        self._pools = urllib3.PoolManager(
            num_pools=1, maxsize=EMBED_CONNECTIONS_MAX, block=False, retries=False
        )
        self._pool = self._pools.connection_from_url(f"{parts.scheme}://{parts.netloc}")

    def __repr__(self) -> str:
        # The headers are not shown because they contain the key.
        return f"ProviderClient({self._profile!r})"

    @property
    def connection_count(self) -> int:
        """The number of connections opened so far."""
        return self._pool.num_connections

    def ask(self, question: ProviderRequest) -> bytes:
        """Send a request and return the body of the response.

        Raises `EmbeddingError` if a failure is final, or if the attempts or the time are used up.
        """
        patience, clock = self._profile.patience, self._clock
        start = clock.monotonic()
        backoff_s = patience.backoff_s
        for attempt in range(1, patience.attempts_max + 1):
            left_s = _left(patience.deadline_s, clock.monotonic() - start)
            within_s = max(_LEAST_S, min(patience.timeout_s, left_s))
            outcome = self._attempt(question, within_s=within_s)
            if isinstance(outcome, bytes):
                return outcome
            wait_s = max(backoff_s, outcome.wait_s)
            self._require_worth(outcome, attempt, wait_s=wait_s, passed_s=clock.monotonic() - start)
            _LOG.warning(
                "the embedding provider (%s) %s; asking again in %g s",
                self._profile.kind.value,
                outcome.reason,
                wait_s,
            )
            clock.sleep(wait_s)
            backoff_s = min(2 * backoff_s, WAIT_S_MAX)
        raise AssertionError("the last attempt returns or raises")

    def _require_worth(
        self, setback: _Setback, attempt: int, *, wait_s: float, passed_s: float
    ) -> None:
        """Raise `EmbeddingError` unless an attempt is left, and time for it."""
        patience = self._profile.patience
        if attempt == patience.attempts_max:
            times = "" if attempt == 1 else f", {attempt} times"
            raise self._refuse(f"{setback.reason}{times}")
        if setback.wait_s > WAIT_S_MAX:
            raise self._refuse(f"{setback.reason} and asks to wait {setback.wait_s:,.0f} s")
        if wait_s >= _left(patience.deadline_s, passed_s):
            raise self._refuse(
                f"{setback.reason}, and the time for further attempts is over; for more, set "
                f"{DEADLINE_VARIABLE}"
            )

    def _attempt(self, question: ProviderRequest, *, within_s: float) -> bytes | _Setback:
        try:
            answer = self._send(question, within_s=within_s)
        except SSLError as error:
            raise self._refuse(f"cannot be trusted: {_explain(error)}") from error
        except (HTTPError, HTTPException, OSError) as error:
            return _Setback(_tell(error, within_s), 0)
        return self._judge(answer)

    def _judge(self, answer: _Answer) -> bytes | _Setback:
        status = answer.status
        if 200 <= status < 300:
            return answer.content
        told = f"answered {status}{_phrase(status)}"
        if status in (401, 403):
            # The provider's message is left out because some repeat a part of the key.
            keys = " or ".join(self._profile.key_variables)
            raise self._refuse(f"{told}; check the key in {keys}")
        said = self._quote(answer.content)
        if status == 429 or status >= 500:
            return _Setback(f"{told}{said}", self._parse_wait(answer.retry_after))
        raise self._refuse(f"{told}{said}")

    def _send(self, question: ProviderRequest, *, within_s: float) -> _Answer:
        start = self._clock.monotonic()
        response = self._pool.urlopen(
            "POST",
            f"{self._path}{question.path}",
            body=question.body,
            headers=self._headers,
            retries=False,
            redirect=False,
            assert_same_host=False,
            timeout=urllib3.Timeout(connect=min(within_s, EMBED_CONNECT_S_MAX), read=within_s),
            preload_content=False,
            decode_content=False,
        )
        content = None
        try:
            content = self._read(response, start=start, within_s=within_s)
        finally:
            if content is None:
                response.close()
            response.release_conn()
        return _Answer(response.status, content, response.headers.get("Retry-After"))

    def _read(self, response: BaseHTTPResponse, *, start: float, within_s: float) -> bytes:
        """Read a whole response; raises if it takes too long or is larger than any valid one."""
        pieces: list[bytes] = []
        size = 0
        while piece := response.read1(EMBED_PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > EMBED_RESPONSE_BYTES_MAX:
                raise self._refuse(
                    f"gave an answer of more than {EMBED_RESPONSE_BYTES_MAX:,} bytes"
                )
            # The timeout of the connection applies to each piece separately.
            if self._clock.monotonic() - start > within_s:
                raise ReadTimeoutError(self._pool, self._path, "the rest takes too long")
        return b"".join(pieces)

    def _parse_wait(self, text: str | None) -> float:
        """The wait in seconds that a `Retry-After` header requests, as a number or a date."""
        if text is None:
            return 0
        with suppress(ValueError):
            return max(0.0, float(text)) if text.strip().isascii() else 0
        with suppress(ValueError):
            when = parsedate_to_datetime(text)
            when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
            return max(0.0, (when - self._clock.now()).total_seconds())
        return 0

    def _quote(self, content: bytes) -> str:
        """The message of a provider as the end of a sentence: one line of bounded length."""
        said = find_reason(content)
        return "" if said is None else f": {self.hide(said)}"

    def hide(self, text: str) -> str:
        """A text from the provider, on one line and without the key."""
        key = self._profile.api_key
        shown = " ".join((text if key is None else text.replace(key, "(the key)")).split())
        shown = "".join(each for each in shown if each.isprintable())
        if len(shown) > REASON_CHARACTERS_MAX:
            return f"{shown[:REASON_CHARACTERS_MAX]}…"
        return shown

    def _refuse(self, deed: str) -> EmbeddingError:
        reason = f"the embedding provider ({self._profile.kind}) {deed}"
        return EmbeddingError(action="embed texts", reason=reason)


def _left(deadline_s: float | None, passed_s: float) -> float:
    return float("inf") if deadline_s is None else deadline_s - passed_s


def _tell(error: Exception, within_s: float) -> str:
    match error:
        # In urllib3 2.8 a refused connection is a subclass of a connect timeout.
        case NewConnectionError():
            return f"could not be reached: {_explain(error)}"
        case ConnectTimeoutError() | ReadTimeoutError():
            return f"did not answer within {within_s:.3g} s"
        case _:
            return f"did not answer to the end: {_explain(error)}"


def _phrase(status: int) -> str:
    return f" ({HTTPStatus(status).phrase})" if status in tuple(HTTPStatus) else ""


def _explain(error: BaseException) -> str:
    """The innermost reason of an error that urllib3 wraps, as a short text."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
