"""Where a served graph is: the url of its server, its id, and the paths of its routes.

Every name becomes one part of a path, percent-encoded: the branch `a/b` is `a%2Fb`, and no path
holds `//`. Knows no sockets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlencode, urlsplit

from omnigraph.model.errors import InvalidNameError, InvalidValueError

DEFAULT_GRAPH_ID = "default"
"""The id of the graph of a server that was started for one graph alone."""

_GRAPH_ID = re.compile(r"[a-zA-Z0-9-]{1,64}", re.ASCII)
# Names, and numbers of either version of the protocol; what a name means is for the network.
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|[0-9a-f.]*:[0-9a-f:.]*", re.ASCII)
_SEGMENT = re.compile(r"(?!\.{1,2}$)([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_IN_URL = re.compile(r"(?P<prefix>.*)/graphs/(?P<id>[^/]+)")


@dataclass(frozen=True, slots=True)
class Address:
    """A server: scheme, host and port as one url, and the path that its routes begin with."""

    origin: str
    prefix: str

    @property
    def url(self) -> str:
        """Both, without a slash at the end."""
        return f"{self.origin}{self.prefix}"

    def target(self, parts: Iterable[str], arguments: Iterable[tuple[str, str]]) -> str:
        """What a request names: the path of these parts, and what follows `?`."""
        path = self.prefix + "".join(f"/{quote(part, safe='')}" for part in parts)
        following = urlencode(list(arguments), quote_via=quote, safe="")
        return f"{path}?{following}" if following else path


def parse_address(url: str) -> Address:
    """The server that a url names."""
    if not isinstance(url, str):
        raise _refuse(url, f"a text is needed, not a {type(url).__name__}")
    try:
        split = urlsplit(url.strip())
        port = split.port
    except ValueError as error:
        raise _refuse(url, "it is no url") from error
    if split.scheme not in ("http", "https") or not split.hostname:
        raise _refuse(url, "say http://host:port or https://host:port")
    if split.username is not None or split.password is not None:
        # Not shown: somebody's password is in it.
        raise _refuse("(hidden)", "a url holds no name and no password; give a token instead")
    if split.query or split.fragment:
        raise _refuse(url, "a url of a server ends with its path")
    if _HOST.fullmatch(split.hostname) is None:
        raise _refuse(url, f"{split.hostname!r} is no host; say http://host:port")
    if any(not _SEGMENT.fullmatch(part) for part in split.path.split("/")):
        raise _refuse(url, "its path holds characters that have to be percent-encoded")
    host = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
    origin = f"{split.scheme}://{host}" + ("" if port is None else f":{port}")
    parts = [part for part in split.path.split("/") if part]
    return Address(origin, "".join(f"/{part}" for part in parts))


def parse_graph_address(url: str, graph_id: str | None) -> tuple[Address, str]:
    """The server and the id of the graph that a url and an id mean together.

    A url may name the graph itself; without any id it is the graph of a server for one alone.
    """
    address = parse_address(url)
    named = _IN_URL.fullmatch(address.prefix)
    if named is not None:
        address, in_url = Address(address.origin, named["prefix"]), unquote(named["id"])
        if graph_id is not None and graph_id != in_url:
            raise _refuse(url, f"it names the graph '{in_url}', and not '{graph_id}'")
        graph_id = in_url
    if graph_id is None:
        graph_id = DEFAULT_GRAPH_ID
    if not isinstance(graph_id, str) or _GRAPH_ID.fullmatch(graph_id) is None:
        rule = "it has 1 to 64 letters, digits and hyphens"
        raise InvalidNameError(kind="graph", name=str(graph_id), rule=rule)
    return address, graph_id


def _refuse(url: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject="url", expected="the url of a server", value=url, problem=problem
    )
