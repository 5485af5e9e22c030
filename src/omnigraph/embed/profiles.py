"""Which provider makes vectors, by which model, with whose key, and how long one waits for it.

The environment is given, not read. What exists can be asked, but for the key, which may be missing
until a text is to be embedded. A key is in no message and in nothing that is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from urllib.parse import urlsplit

from omnigraph.embed.limits import (
    ATTEMPTS,
    ATTEMPTS_MAX,
    BACKOFF_MS,
    DEADLINE_MS,
    PATIENCE_MS_MAX,
    TIMEOUT_MS,
)
from omnigraph.model.errors import EmbeddingError

MOCK_VARIABLE = "OMNIGRAPH_EMBEDDINGS_MOCK"
PROVIDER_VARIABLE = "OMNIGRAPH_EMBED_PROVIDER"
BASE_URL_VARIABLE = "OMNIGRAPH_EMBED_BASE_URL"
MODEL_VARIABLE = "OMNIGRAPH_EMBED_MODEL"
TIMEOUT_VARIABLE = "OMNIGRAPH_EMBED_TIMEOUT_MS"
ATTEMPTS_VARIABLE = "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"
BACKOFF_VARIABLE = "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS"
DEADLINE_VARIABLE = "OMNIGRAPH_EMBED_DEADLINE_MS"

CONFIGURING = "embed texts"
"""What cannot be done, as errors say, when a provider is not configured as it should be."""

_YES = frozenset({"1", "true", "yes", "on"})


class ProviderKind(StrEnum):
    """A way to ask for vectors."""

    OPENAI_COMPATIBLE = "openai-compatible"
    OPENAI = "openai"
    GEMINI = "gemini"
    MOCK = "mock"


@dataclass(frozen=True, slots=True)
class _Usual:
    """What a kind is asked by unless somebody says otherwise."""

    base_url: str
    model: str
    key_variables: tuple[str, ...]


_USUAL: Mapping[ProviderKind, _Usual] = MappingProxyType(
    {
        ProviderKind.OPENAI_COMPATIBLE: _Usual(
            "https://openrouter.ai/api/v1",
            "openai/text-embedding-3-large",
            ("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
        ),
        ProviderKind.OPENAI: _Usual(
            "https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)
        ),
        ProviderKind.GEMINI: _Usual(
            "https://generativelanguage.googleapis.com/v1beta",
            "gemini-embedding-2",
            ("GEMINI_API_KEY",),
        ),
        ProviderKind.MOCK: _Usual("", "", ()),
    }
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt may take, how many there are, how far apart, and all of them together.

    Without a deadline only their number ends them.
    """

    timeout_s: float
    attempts_max: int
    backoff_s: float
    deadline_s: float | None


@dataclass(frozen=True, slots=True)
class EmbeddingProfile:
    """A provider as it is asked; `key_variables` is where its key was looked for."""

    kind: ProviderKind
    base_url: str
    model: str
    # Pickled with the rest for executors, and no part of what is printed.
    api_key: str | None = field(repr=False)
    key_variables: tuple[str, ...]
    patience: Patience


def make_profile(
    kind: str,
    *,
    base_url: str | None,
    model: str | None,
    api_key: str | None,
    patience: Patience,
) -> EmbeddingProfile:
    """The profile of a kind by its name; what is None is as usual for it, and a key is missing."""
    known = parse_kind(kind)
    usual = _USUAL[known]
    address = (base_url or usual.base_url).rstrip("/")
    if known is not ProviderKind.MOCK:
        _require_address(address)
    key = (api_key or "").strip()
    if not (key.isascii() and (not key or key.isprintable())):
        raise _refuse("the key of the embedding provider has characters that cannot be sent")
    return EmbeddingProfile(
        known, address, model or usual.model, key or None, usual.key_variables, patience
    )


def parse_profile(environment: Mapping[str, str]) -> EmbeddingProfile:
    """The profile that the environment of a program describes."""
    named = _find(environment, PROVIDER_VARIABLE) or ProviderKind.OPENAI_COMPATIBLE
    kind = ProviderKind.MOCK if is_mocked(environment) else parse_kind(named)
    keys = (_find(environment, name) for name in _USUAL[kind].key_variables)
    return make_profile(
        kind,
        base_url=_find(environment, BASE_URL_VARIABLE),
        model=_find(environment, MODEL_VARIABLE),
        api_key=next(filter(None, keys), None),
        patience=parse_patience(environment),
    )


def is_mocked(environment: Mapping[str, str]) -> bool:
    """Whether the environment wants the built-in provider, whatever else is configured."""
    return environment.get(MOCK_VARIABLE, "").strip().lower() in _YES


def parse_kind(name: str) -> ProviderKind:
    """The kind of a name."""
    if name not in tuple(ProviderKind):
        known = ", ".join(ProviderKind)
        raise _refuse(f"unknown embedding provider {name!r}; it is one of {known}")
    return ProviderKind(name)


def parse_patience(environment: Mapping[str, str]) -> Patience:
    """How long to wait for a provider, as the environment says."""
    deadline_ms = _parse_count(
        environment, DEADLINE_VARIABLE, DEADLINE_MS, least=0, most=PATIENCE_MS_MAX
    )
    return Patience(
        timeout_s=_parse_count(
            environment, TIMEOUT_VARIABLE, TIMEOUT_MS, least=1, most=PATIENCE_MS_MAX
        )
        / 1000,
        attempts_max=_parse_count(
            environment, ATTEMPTS_VARIABLE, ATTEMPTS, least=1, most=ATTEMPTS_MAX
        ),
        backoff_s=_parse_count(
            environment, BACKOFF_VARIABLE, BACKOFF_MS, least=0, most=PATIENCE_MS_MAX
        )
        / 1000,
        deadline_s=deadline_ms / 1000 if deadline_ms else None,
    )


def _find(environment: Mapping[str, str], name: str) -> str | None:
    """The value of a variable; one that is set to nothing is not set."""
    return environment.get(name, "").strip() or None


def _parse_count(
    environment: Mapping[str, str], name: str, usual: int, *, least: int, most: int
) -> int:
    text = _find(environment, name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise _refuse(f"{name} is {text!r}, and no whole number from {least:,} to {most:,}")
    return int(text)


def is_plain_address(address: str) -> bool:
    """Whether requests can be sent there, and nothing in it can be a key."""
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_good and not parts.query and not parts.fragment and "@" not in parts.netloc


def _require_address(address: str) -> None:
    """Raise unless requests can be sent there; the message does not repeat what may hold a key."""
    if not is_plain_address(address):
        raise _refuse(
            "the address of the embedding provider is no plain http:// or https:// one; "
            f"set {BASE_URL_VARIABLE} to one like https://host/v1, without a key in it"
        )


def _refuse(reason: str) -> EmbeddingError:
    return EmbeddingError(action=CONFIGURING, reason=reason)
