"""Embedding profiles: provider, model, key and retry policy, from an environment mapping.

The environment is an argument. A profile is valid except that its key may be missing until a text
is embedded. The key appears in no message and in no printed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from urllib.parse import urlsplit

from omnigraph.http.retries import RetryPolicy
from omnigraph.model.errors import EmbeddingError
from omnigraph.model.limits import (
    ATTEMPTS,
    BACKOFF_MS,
    CONFIGURED_MS_MAX,
    DEADLINE_MS,
    EMBED_ATTEMPTS_MAX,
    TIMEOUT_MS,
    WAIT_S_MAX,
)

MOCK_VARIABLE = "OMNIGRAPH_EMBEDDINGS_MOCK"
PROVIDER_VARIABLE = "OMNIGRAPH_EMBED_PROVIDER"
BASE_URL_VARIABLE = "OMNIGRAPH_EMBED_BASE_URL"
MODEL_VARIABLE = "OMNIGRAPH_EMBED_MODEL"
TIMEOUT_VARIABLE = "OMNIGRAPH_EMBED_TIMEOUT_MS"
ATTEMPTS_VARIABLE = "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"
BACKOFF_VARIABLE = "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS"
DEADLINE_VARIABLE = "OMNIGRAPH_EMBED_DEADLINE_MS"

CONFIGURING = "embed texts"
"""The action that errors name when a provider is not configured correctly."""

_YES = frozenset({"1", "true", "yes", "on"})


class ProviderKind(StrEnum):
    """The kinds of embedding providers."""

    OPENAI_COMPATIBLE = "openai-compatible"
    OPENAI = "openai"
    GEMINI = "gemini"
    MOCK = "mock"


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The defaults of a kind."""

    base_url: str
    model: str
    key_variables: tuple[str, ...]


_DEFAULTS: Mapping[ProviderKind, _Defaults] = MappingProxyType(
    {
        ProviderKind.OPENAI_COMPATIBLE: _Defaults(
            "https://openrouter.ai/api/v1",
            "openai/text-embedding-3-large",
            ("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
        ),
        ProviderKind.OPENAI: _Defaults(
            "https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)
        ),
        ProviderKind.GEMINI: _Defaults(
            "https://generativelanguage.googleapis.com/v1beta",
            "gemini-embedding-2",
            ("GEMINI_API_KEY",),
        ),
        ProviderKind.MOCK: _Defaults("", "", ()),
    }
)


@dataclass(frozen=True, slots=True)
class EmbeddingProfile:
    """The configuration of a provider.

    `key_variables` are the environment variables that were checked for its key.
    """

    kind: ProviderKind
    base_url: str
    model: str
    # The key is pickled with the profile for executors, but never printed.
    api_key: str | None = field(repr=False)
    key_variables: tuple[str, ...]
    retry: RetryPolicy


def make_profile(
    kind: str,
    *,
    base_url: str | None,
    model: str | None,
    api_key: str | None,
    retry: RetryPolicy,
) -> EmbeddingProfile:
    """Build the profile of a kind.

    Arguments that are None take the defaults of the kind, except that there is no default key.
    Raises `EmbeddingError` for an invalid value.
    """
    known = parse_kind(kind)
    defaults = _DEFAULTS[known]
    address = (base_url or defaults.base_url).rstrip("/")
    if known is not ProviderKind.MOCK and not is_plain_address(address):
        # The message leaves the address out, since it may contain a key.
        raise _refuse(
            "the address of the embedding provider is not a plain http:// or https:// URL; "
            f"set {BASE_URL_VARIABLE} to a URL such as https://host/v1, without a key in it"
        )
    key = (api_key or "").strip()
    if not (key.isascii() and (not key or key.isprintable())):
        raise _refuse("the key of the embedding provider contains characters that cannot be sent")
    return EmbeddingProfile(
        known, address, model or defaults.model, key or None, defaults.key_variables, retry
    )


def parse_profile(environment: Mapping[str, str]) -> EmbeddingProfile:
    """Parse the profile that an environment configures."""
    named = _find(environment, PROVIDER_VARIABLE) or ProviderKind.OPENAI_COMPATIBLE
    kind = ProviderKind.MOCK if is_mocked(environment) else parse_kind(named)
    keys = (_find(environment, name) for name in _DEFAULTS[kind].key_variables)
    return make_profile(
        kind,
        base_url=_find(environment, BASE_URL_VARIABLE),
        model=_find(environment, MODEL_VARIABLE),
        api_key=next(filter(None, keys), None),
        retry=parse_retry_policy(environment),
    )


def is_mocked(environment: Mapping[str, str]) -> bool:
    """Whether the environment selects the mock provider, whatever else it configures."""
    return environment.get(MOCK_VARIABLE, "").strip().lower() in _YES


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether the environment configures a provider: by its kind, its address or a key.

    A provider that is configured incorrectly counts as well, so that a write that needs it is
    rejected.
    """
    naming = (PROVIDER_VARIABLE, BASE_URL_VARIABLE)
    keys = _DEFAULTS[ProviderKind.OPENAI_COMPATIBLE].key_variables
    return is_mocked(environment) or any(_find(environment, name) for name in (*naming, *keys))


def parse_kind(name: str) -> ProviderKind:
    """Parse a provider kind; raises `EmbeddingError` if it is unknown."""
    if name not in tuple(ProviderKind):
        known = ", ".join(ProviderKind)
        raise _refuse(f"unknown embedding provider {name!r}; expected one of {known}")
    return ProviderKind(name)


def parse_retry_policy(environment: Mapping[str, str]) -> RetryPolicy:
    """Parse the timeout, attempts, backoff and deadline that an environment configures."""

    number = partial(_parse_number, environment)
    backoff_s = number(BACKOFF_VARIABLE, BACKOFF_MS, least=0, most=CONFIGURED_MS_MAX) / 1000
    deadline_ms = number(DEADLINE_VARIABLE, DEADLINE_MS, least=0, most=CONFIGURED_MS_MAX)
    return RetryPolicy(
        timeout_s=number(TIMEOUT_VARIABLE, TIMEOUT_MS, least=1, most=CONFIGURED_MS_MAX) / 1000,
        attempts_max=number(ATTEMPTS_VARIABLE, ATTEMPTS, least=1, most=EMBED_ATTEMPTS_MAX),
        deadline_s=deadline_ms / 1000 if deadline_ms else None,
        backoff_s=backoff_s,
        backoff_factor=2,
        wait_s_max=max(WAIT_S_MAX, backoff_s),
        jitter=0,
    )


def _find(environment: Mapping[str, str], name: str) -> str | None:
    """The value of a variable; None if it is unset or blank."""
    return environment.get(name, "").strip() or None


def _parse_number(
    environment: Mapping[str, str], name: str, default: int, *, least: int, most: int
) -> int:
    text = _find(environment, name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise _refuse(f"{name} must be a whole number from {least:,} to {most:,}, not {text!r}")
    return int(text)


def is_plain_address(address: str) -> bool:
    """Whether an address can be used for requests, and no part of it can be a key."""
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_good and not parts.query and not parts.fragment and "@" not in parts.netloc


def _refuse(reason: str) -> EmbeddingError:
    return EmbeddingError(action=CONFIGURING, reason=reason)
