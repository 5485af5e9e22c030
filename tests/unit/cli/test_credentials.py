"""Tokens: the file's text, and which token goes to which url."""

from collections.abc import Mapping

import pytest

from omnigraph.cli.credentials import (
    find_token,
    parse_tokens,
    require_name,
    with_token,
    without_section,
)
from omnigraph.cli.output import CommandError

SERVERS = {
    "prod": "https://prod.example/",
    "prod-eu": "https://prod.example/eu",
    "dev": "http://dev:8080",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("[prod]\ntoken = abc\n", {"prod": "abc"}),
        ("[prod]\ntoken=abc", {"prod": "abc"}),
        ("# mine\n [ prod ] # here\n  token = 'a b' # there\n", {"prod": "a b"}),
        ('[a]\ntoken = "x#y"\n\n[b]\ntoken = z#w # end\n', {"a": "x#y", "b": "z#w"}),
        ("token = stray\n[a]\nuser = ann\ntoken =\n", {}),
        ("[a]\ntoken = one\ntoken = two\n", {"a": "two"}),
    ],
)
def test_tokens_are_read_from_their_sections(text: str, expected: Mapping[str, str]) -> None:
    assert parse_tokens(text) == expected


@pytest.mark.parametrize("token", ["abc", "a#b", "a b", "it's", 'say "x"', "ümlaut"])
def test_a_stored_token_is_read_back(token: str) -> None:
    assert parse_tokens(with_token("", "prod", token)) == {"prod": token}


def test_a_rewrite_leaves_other_sections_as_they_are() -> None:
    before = "# mine\n[a]\ntoken = one\n[b]\ntoken = 'two' # old\n[c]\ntoken = three\n"

    after = with_token(before, "b", "new")

    assert after == "# mine\n[a]\ntoken = one\n[c]\ntoken = three\n\n[b]\ntoken = new\n"
    assert without_section(after, "b").startswith("# mine\n[a]\ntoken = one\n[c]\ntoken = three\n")
    assert without_section(after, "absent") == after


@pytest.mark.parametrize(
    "token", ["a\nb", "a\x00b", "a\x85b", "a\u2028[dev]\u2028token=x", "a\udcff", "'\""]
)
def test_a_token_that_could_not_be_read_back_is_refused(token: str) -> None:
    with pytest.raises(CommandError, match="nothing was stored"):
        with_token("", "prod", token)


@pytest.mark.parametrize("name", ["", "a]b", "a b", "a\n[b", "é"])
def test_a_name_that_could_not_head_a_section_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="not a valid server name"):
        require_name(name)


@pytest.mark.parametrize(
    ("url", "environment", "stored", "expected"),
    [
        ("https://prod.example", {}, {"prod": "p"}, "p"),
        ("https://prod.example/", {}, {"prod": "p"}, "p"),
        ("https://prod.example/x", {}, {"prod": "p"}, "p"),
        ("https://prod.example/eu/x", {}, {"prod": "p", "prod-eu": "e"}, "e"),
        ("https://prod.example.evil", {}, {"prod": "p"}, None),
        ("https://other", {"OMNIGRAPH_TOKEN_PROD": "p"}, {"prod": "p"}, None),
        ("https://prod.example", {"OMNIGRAPH_TOKEN_PROD": " env "}, {"prod": "p"}, "env"),
        ("https://prod.example", {"OMNIGRAPH_TOKEN_PROD": "  "}, {"prod": "p"}, "p"),
        ("https://prod.example/eu", {"OMNIGRAPH_TOKEN_PROD_EU": "e"}, {}, "e"),
        ("https://prod.example", {"OMNIGRAPH_BEARER_TOKEN": "any"}, {"prod": "p"}, "p"),
        ("https://prod.example", {"OMNIGRAPH_BEARER_TOKEN": " any "}, {}, "any"),
        ("https://other", {"OMNIGRAPH_BEARER_TOKEN": "any"}, {}, "any"),
        ("https://other", {"OMNIGRAPH_BEARER_TOKEN": "  "}, {}, None),
    ],
)
def test_a_url_gets_the_token_of_its_server_and_of_no_other(
    url: str,
    environment: Mapping[str, str],
    stored: Mapping[str, str],
    expected: str | None,
) -> None:
    found = find_token(url, url_by_server=SERVERS, environment=environment, read_stored=stored.get)

    assert found == expected


@pytest.mark.parametrize("torn", ["http://", "https://", "http:", "", "/"])
def test_a_url_without_a_host_matches_no_server(torn: str) -> None:
    found = find_token(
        "https://other.example",
        url_by_server={"torn": torn},
        environment={"OMNIGRAPH_TOKEN_TORN": "secret"},
        read_stored={"torn": "secret"}.get,
    )

    assert found is None
