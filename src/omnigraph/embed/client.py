"""One HTTP request to an embedding provider, with bounded retries.

A timeout, a cut response, a failed connection, status 429 and 5xx are retried; any other failure is
final. The key appears in no message. Safe to share between threads.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from omnigraph.embed.formats import ProviderRequest, find_reason
from omnigraph.embed.profiles import DEADLINE_VARIABLE, EmbeddingProfile
from omnigraph.http import transport
from omnigraph.http.retries import Attempts, Exhausted
from omnigraph.model.errors import EmbeddingError
from omnigraph.model.limits import (
    EMBED_PIECE_BYTES,
    EMBED_RESPONSE_BYTES_MAX,
    FOREIGN_REASON_CHARACTERS_MAX,
)
from omnigraph.model.runtime import Clock

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt that may be retried after at least `wait_s` seconds."""

    reason: str
    wait_s: float


class ProviderClient:
    """The connections to one provider, and the key that is sent to it."""

    def __init__(self, profile: EmbeddingProfile, headers: dict[str, str], *, clock: Clock) -> None:
        self._profile, self._clock = profile, clock
        parts = urlsplit(profile.base_url)
        address = transport.Address(f"{parts.scheme}://{parts.netloc}", parts.path)
        self._pool = transport.ConnectionPool(
            address, headers={"Content-Type": transport.JSON, **headers}
        )

    def send(self, request: ProviderRequest) -> bytes:
        """Send a request and return the body of the response.

        Raises `EmbeddingError` if a failure is final, or if the attempts or the time are used up.
        """
        attempts = Attempts(self._profile.retry, self._clock)
        while True:
            outcome = self._attempt(request, timeout_s=attempts.timeout_s())
            if isinstance(outcome, bytes):
                return outcome
            wait_s = self._next_wait(outcome, attempts)
            _LOG.warning(
                "the embedding provider (%s) %s; retrying in %g s",
                self._profile.kind.value,
                outcome.reason,
                wait_s,
            )
            self._clock.sleep(wait_s)

    def _next_wait(self, failure: _Failure, attempts: Attempts) -> float:
        """The wait before the next attempt; raises `EmbeddingError` if there is none."""
        wait_s = attempts.next_wait(retry_after_s=failure.wait_s)
        if wait_s is Exhausted.ATTEMPTS:
            times = "" if attempts.count == 1 else f", {attempts.count} times"
            raise self._error(f"{failure.reason}{times}")
        if failure.wait_s > self._profile.retry.wait_s_max:
            raise self._error(f"{failure.reason} and requests a wait of {failure.wait_s:,.0f} s")
        if wait_s is Exhausted.DEADLINE:
            raise self._error(
                f"{failure.reason}, and there is no time for another attempt; to allow more, set "
                f"{DEADLINE_VARIABLE}"
            )
        return wait_s

    def _attempt(self, request: ProviderRequest, *, timeout_s: float) -> bytes | _Failure:
        ends_at = self._clock.monotonic() + timeout_s
        target = f"{self._pool.address.prefix}{request.path}"
        try:
            with self._pool.send(
                "POST", target, body=request.body, headers={}, timeout_s=timeout_s
            ) as response:
                content = self._read(response, ends_at=ends_at)
        except transport.UntrustedServerError as error:
            raise self._error(f"has an invalid certificate: {error}") from error
        except transport.NotSentError as error:
            return _Failure(f"could not be reached: {error}", 0)
        except transport.ResponseTimeoutError:
            return _Failure(f"did not respond within {timeout_s:.3g} s", 0)
        except transport.ConnectionLostError as error:
            return _Failure(f"did not send a complete response: {error}", 0)
        return self._check_status(response, content)

    def _check_status(self, response: transport.Response, content: bytes) -> bytes | _Failure:
        status = response.status
        if 200 <= status < 300:
            return content
        phrase = f" ({HTTPStatus(status).phrase})" if status in tuple(HTTPStatus) else ""
        reason = f"responded with status {status}{phrase}"
        if status in (401, 403):
            # The provider's message is left out because some repeat a part of the key.
            keys = " or ".join(self._profile.key_variables)
            raise self._error(f"{reason}; check the key in {keys}")
        message = find_reason(content)
        if message is not None:
            reason = f"{reason}: {self.redact(message)}"
        if status == 429 or status >= 500:
            return _Failure(reason, response.retry_after_s(self._clock.now()))
        raise self._error(reason)

    def _read(self, response: transport.Response, *, ends_at: float) -> bytes:
        """Read a whole response; raises if it takes too long or is larger than any valid one."""
        chunks: list[bytes] = []
        size = 0
        while chunk := response.stream.read1(EMBED_PIECE_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > EMBED_RESPONSE_BYTES_MAX:
                raise self._error(
                    f"sent a response of more than {EMBED_RESPONSE_BYTES_MAX:,} bytes"
                )
            # The timeout of the connection applies to each chunk separately.
            if self._clock.monotonic() > ends_at:
                raise transport.ResponseTimeoutError
        return b"".join(chunks)

    def redact(self, text: str) -> str:
        """A text from the provider without the key, on one line of bounded length."""
        key = self._profile.api_key
        shown = " ".join((text if key is None else text.replace(key, "(the key)")).split())
        shown = "".join(character for character in shown if character.isprintable())
        if len(shown) > FOREIGN_REASON_CHARACTERS_MAX:
            return f"{shown[:FOREIGN_REASON_CHARACTERS_MAX]}…"
        return shown

    def _error(self, problem: str) -> EmbeddingError:
        reason = f"the embedding provider ({self._profile.kind}) {problem}"
        return EmbeddingError(action="embed texts", reason=reason)
