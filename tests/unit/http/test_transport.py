"""How urls, graph ids and names become the paths of requests."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidNameError, InvalidValueError
from omnigraph.http.transport import parse_address, parse_graph_address


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://host:80", "/graphs/g/branches/a%2Fb%20c"),
        ("http://host:80/", "/graphs/g/branches/a%2Fb%20c"),
        ("http://host:80//", "/graphs/g/branches/a%2Fb%20c"),
        ("http://host:80/under/", "/under/graphs/g/branches/a%2Fb%20c"),
        ("http://host:80//under//it//", "/under/it/graphs/g/branches/a%2Fb%20c"),
    ],
)
def test_every_name_is_one_part_of_a_path(url: str, path: str) -> None:
    address = parse_address(url)

    target = address.target(("graphs", "g", "branches", "a/b c"), ())

    assert target == path
    assert "//" not in target


def test_values_behind_the_question_mark_are_encoded() -> None:
    target = parse_address("http://host").target(("diff",), [("old", "a&b=c d/e"), ("new", "ü")])

    assert target == "/diff?old=a%26b%3Dc%20d%2Fe&new=%C3%BC"


@pytest.mark.parametrize(
    ("url", "graph", "found"),
    [
        ("http://h:1", None, ("http://h:1", "default")),
        ("http://h:1", "sales", ("http://h:1", "sales")),
        ("http://h:1/graphs/sales", None, ("http://h:1", "sales")),
        ("http://h:1/graphs/sales/", "sales", ("http://h:1", "sales")),
        ("https://h/under/graphs/sales", None, ("https://h/under", "sales")),
        ("http://[::1]:8080", None, ("http://[::1]:8080", "default")),
    ],
)
def test_a_url_may_name_the_graph(url: str, graph: str | None, found: tuple[str, str]) -> None:
    address, graph_id = parse_graph_address(url, graph)

    assert (address.url, graph_id) == found


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:80",
        "ftp://host",
        "http://",
        "http://h?x=1",
        "http://h#x",
        "http://h:x",
        "http://exa mple",
        "http://a..b",
        "http://a%41",
        "http://ä",
        "http://h/a b",
        "http://h/../x",
        "http://h:99999",
        "http://[::1",
        "http://-\x00",
    ],
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidValueError, match="url"):
        parse_address(url)


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_address("http://ann:geheim@host")

    assert "geheim" not in str(caught.value)
    assert "geheim" not in str(vars(caught.value))


def test_two_graphs_in_one_address_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="names the graph 'a'"):
        parse_graph_address("http://h/graphs/a", "b")


@pytest.mark.parametrize("graph", ["", "a/b", "..", "a b", "x" * 65])
def test_what_no_graph_can_be_called_is_refused(graph: str) -> None:
    with pytest.raises(InvalidNameError):
        parse_graph_address("http://h", graph)
