"""Providers as an environment describes them, and what is refused about it without a key shown."""

import pickle

import pytest

from omnigraph.embed.profiles import (
    EmbeddingProfile,
    ProviderKind,
    is_configured,
    make_profile,
    parse_profile,
    parse_retry_policy,
)
from omnigraph.embed.providers import MockEmbedder, find_embedder
from omnigraph.errors import EmbeddingError
from omnigraph.http.retries import RetryPolicy

SECRET = "sk-never-shown"


@pytest.mark.parametrize(
    ("provider", "base_url", "model", "variables"),
    [
        (
            None,
            "https://openrouter.ai/api/v1",
            "openai/text-embedding-3-large",
            ("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
        ),
        ("openai", "https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)),
        (
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            "gemini-embedding-2",
            ("GEMINI_API_KEY",),
        ),
    ],
)
def test_a_provider_without_settings_uses_its_defaults(
    provider: str | None, base_url: str, model: str, variables: tuple[str, ...]
) -> None:
    environment = {} if provider is None else {"OMNIGRAPH_EMBED_PROVIDER": provider}

    profile = parse_profile(environment)

    assert profile == EmbeddingProfile(
        ProviderKind(provider or "openai-compatible"),
        base_url,
        model,
        None,
        variables,
        RetryPolicy(
            timeout_s=30.0,
            attempts_max=4,
            deadline_s=60.0,
            backoff_s=0.2,
            backoff_factor=2,
            wait_s_max=60.0,
            jitter=0,
        ),
    )


def test_everything_about_a_provider_can_be_set() -> None:
    environment = {
        "OMNIGRAPH_EMBED_PROVIDER": "openai",
        "OMNIGRAPH_EMBED_BASE_URL": "http://localhost:8080/v2//",
        "OMNIGRAPH_EMBED_MODEL": "mini",
        "OMNIGRAPH_EMBED_TIMEOUT_MS": "5",
        "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "1",
        "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "0",
        "OMNIGRAPH_EMBED_DEADLINE_MS": "0",
        "OPENAI_API_KEY": f" {SECRET}\n",
    }

    profile = parse_profile(environment)

    assert (profile.base_url, profile.model) == ("http://localhost:8080/v2", "mini")
    assert profile.api_key == SECRET
    retry = profile.retry
    assert (retry.timeout_s, retry.attempts_max) == (0.005, 1)
    assert (retry.backoff_s, retry.deadline_s) == (0.0, None)


@pytest.mark.parametrize(
    ("provider", "key"),
    [("openai-compatible", "router"), ("openai", "openai"), ("gemini", "gemini")],
)
def test_each_provider_has_its_own_key(provider: str, key: str) -> None:
    environment = {
        "OMNIGRAPH_EMBED_PROVIDER": provider,
        "OPENROUTER_API_KEY": "router",
        "OPENAI_API_KEY": "openai",
        "GEMINI_API_KEY": "gemini",
    }

    assert parse_profile(environment).api_key == key


def test_a_compatible_provider_takes_the_key_of_openai_if_it_has_no_other() -> None:
    assert parse_profile({"OPENROUTER_API_KEY": " ", "OPENAI_API_KEY": "k"}).api_key == "k"


@pytest.mark.parametrize("yes", ["1", "true", "YES", "on"])
def test_the_built_in_provider_wins_over_all_others(yes: str) -> None:
    environment = {
        "OMNIGRAPH_EMBEDDINGS_MOCK": yes,
        "OMNIGRAPH_EMBED_PROVIDER": "cohere",
        "OMNIGRAPH_EMBED_MODEL": "m",
    }

    assert find_embedder(environment) == MockEmbedder("m")
    assert find_embedder({"OMNIGRAPH_EMBED_PROVIDER": "mock"}) == MockEmbedder("")


@pytest.mark.parametrize("no", ["", "0", "no", "maybe"])
def test_the_built_in_provider_is_not_taken_by_mistake(no: str) -> None:
    assert parse_profile({"OMNIGRAPH_EMBEDDINGS_MOCK": no}).kind == "openai-compatible"


def test_a_profile_of_others_is_filled_up_as_usual() -> None:
    profile = make_profile(
        "gemini",
        base_url=None,
        model="models/x",
        api_key=SECRET,
        retry=parse_retry_policy({}),
    )

    assert profile.base_url == "https://generativelanguage.googleapis.com/v1beta"
    assert (profile.model, profile.api_key) == ("models/x", SECRET)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OMNIGRAPH_EMBED_PROVIDER", "cohere", "unknown embedding provider 'cohere'"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "0", "must be a whole number from 1 to 86,400,000, not '0'"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "1.5", "OMNIGRAPH_EMBED_TIMEOUT_MS"),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "0", "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "many", "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"),
        ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "-1", "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", "9" * 30, "OMNIGRAPH_EMBED_DEADLINE_MS"),
    ],
)
def test_an_invalid_setting_is_reported_when_a_text_is_embedded(
    name: str, value: str, message: str
) -> None:
    embedder = find_embedder({name: value, "OPENAI_API_KEY": SECRET})

    for call in (
        lambda: embedder.embed("a", 4),
        lambda: embedder.embed_many(["a"], 4),
        lambda: embedder.model,
    ):
        with pytest.raises(EmbeddingError, match=message):
            call()


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8080",
        "ftp://host/v1",
        "https://",
        "https://host:0/v1",
        "https://host:x/v1",
        f"https://{SECRET}@host/v1",
        f"https://host/v1?key={SECRET}",
        f"https://host/v1#{SECRET}",
    ],
)
def test_an_invalid_address_is_refused_without_being_shown(address: str) -> None:
    environment = {"OMNIGRAPH_EMBED_BASE_URL": address, "OPENAI_API_KEY": SECRET}

    with pytest.raises(EmbeddingError, match="OMNIGRAPH_EMBED_BASE_URL") as refused:
        parse_profile(environment)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("key", ["kéy", "two\nlines"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_repeated(key: str) -> None:
    with pytest.raises(EmbeddingError, match="cannot be sent") as refused:
        parse_profile({"OPENAI_API_KEY": key})

    assert key not in str(refused.value)


@pytest.mark.parametrize(
    ("provider", "named"),
    [
        ("openai-compatible", "OPENROUTER_API_KEY or OPENAI_API_KEY"),
        ("openai", "set OPENAI_API_KEY"),
        ("gemini", "set GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_is_reported_with_its_variables(provider: str, named: str) -> None:
    embedder = find_embedder({"OMNIGRAPH_EMBED_PROVIDER": provider})

    with pytest.raises(EmbeddingError, match=named):
        embedder.embed("a", 4)


def test_a_key_travels_and_is_never_shown() -> None:
    profile = parse_profile({"OPENAI_API_KEY": SECRET})
    embedder = find_embedder({"OPENAI_API_KEY": SECRET})

    travelled = pickle.loads(pickle.dumps(profile))

    assert travelled == profile
    assert travelled.api_key == SECRET
    assert SECRET not in f"{profile!r} {embedder!r} {embedder}"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OPENAI_API_KEY": " ", "OMNIGRAPH_EMBEDDINGS_MOCK": "0"}, False),
        ({"OMNIGRAPH_EMBED_MODEL": "m", "OMNIGRAPH_EMBED_TIMEOUT_MS": "5"}, False),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}, True),
        ({"OPENROUTER_API_KEY": SECRET}, True),
        ({"OPENAI_API_KEY": SECRET}, True),
        ({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, True),
        ({"OMNIGRAPH_EMBED_PROVIDER": "cohere"}, True),
        ({"OMNIGRAPH_EMBED_BASE_URL": "http://localhost:11434/v1"}, True),
    ],
)
def test_a_provider_is_configured_by_its_name_its_address_or_a_key(
    environment: dict[str, str],
    expected: bool,  # noqa: FBT001
) -> None:
    assert is_configured(environment) is expected
