"""The routes of one served graph: requests of every kind, with the terms that writes are on.

Knows the headers and the shapes of requests, not what their answers mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.client.asking import Asking, read_made
from omnigraph.client.exchanges import JSON, Request, Safety
from omnigraph.client.params import encode_body
from omnigraph.model.errors import ForbiddenError, InvalidValueError
from omnigraph.model.runtime import SystemRuntime
from omnigraph.wire.readings import list_of

T = TypeVar("T")

Make = Callable[[Mapping[str, object]], T]
"""Makes something of a body; what it lacks is a `KeyError`, `TypeError` or `ValueError`."""

Arguments = Mapping[str, str | None]
"""What follows `?`, by name; what is None is left out."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a write is asked for: the commit that the branch must be at, and the key that
    makes asking again safe."""

    headers: Mapping[str, str]
    is_conditional: bool


class Routes:
    """The routes of a graph."""

    def __init__(self, asking: Asking, graph_id: str) -> None:
        self.asking = asking
        self.graph_id = graph_id
        self._runtime = SystemRuntime()

    def __repr__(self) -> str:
        return f"Routes({self.uri!r})"

    @property
    def uri(self) -> str:
        """The url of the graph."""
        return f"{self.asking.url}/graphs/{self.graph_id}"

    def new_id(self) -> str:
        """An id that nobody else has."""
        return self._runtime.new_id()

    def get(self, deed: str, *parts: str, make: Make[T], arguments: Arguments | None = None) -> T:
        """What is made of the answer to a GET of these parts of a path."""
        return self.ask(self.request("GET", parts, deed, arguments=arguments), make)

    def post(
        self,
        deed: str,
        *parts: str,
        make: Make[T],
        body: Mapping[str, object],
        safety: Safety,
        terms: Terms | None = None,
        text: str | None = None,
    ) -> T:
        """What is made of the answer to a POST of a JSON body."""
        request = self.posting(deed, *parts, body=body, safety=safety, terms=terms, text=text)
        return self.ask(request, make)

    def delete(self, deed: str, *parts: str, terms: Terms | None = None) -> None:
        """Delete what is at these parts of a path."""
        self.ask(self.request("DELETE", parts, deed, safety=Safety.ONCE, terms=terms), _ignore)

    def ask(self, request: Request, make: Make[T]) -> T:
        """What is made of the JSON object that a request is answered with."""
        return self.asking.ask(request, lambda reply: read_made(reply, make))

    def posting(
        self,
        deed: str,
        *parts: str,
        body: Mapping[str, object],
        safety: Safety,
        terms: Terms | None = None,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Request:
        """A POST of a JSON body, to be sent."""
        return self.request(
            "POST",
            parts,
            deed,
            safety=safety,
            body=encode_body(body),
            headers={"Content-Type": JSON, **(headers or {})},
            terms=terms,
            text=text,
        )

    def request(  # noqa: PLR0913  # all that a request has
        self,
        method: str,
        parts: tuple[str, ...],
        deed: str,
        *,
        safety: Safety = Safety.READ,
        arguments: Arguments | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        terms: Terms | None = None,
        text: str | None = None,
    ) -> Request:
        """A request of this graph."""
        given = arguments or {}
        return Request(
            method,
            ("graphs", self.graph_id, *parts),
            deed,
            safety=safety,
            arguments=tuple((name, value) for name, value in given.items() if value is not None),
            body=body,
            headers={**(headers or {}), **(terms.headers if terms is not None else {})},
            text=text,
            is_conditional=terms is not None and terms.is_conditional,
        )

    def keyed(self, if_commit: str | None, idempotency_key: str | None) -> Terms:
        """Terms with a key: the caller's, or one that is made so that a lost answer can be had."""
        key = f"client-{self.new_id()}" if idempotency_key is None else idempotency_key
        headers = {"Idempotency-Key": _require_header(key, "idempotency_key")}
        return Terms({**headers, **_condition(if_commit)}, if_commit is not None)

    def conditional(self, if_commit: str | None) -> Terms:
        """Terms of a write that has no key."""
        return Terms(_condition(if_commit), if_commit is not None)


def text_field(name: str) -> Make[str]:
    """Makes a text of one field."""
    return lambda body: str(body[name])


def list_field(name: str, make: Make[T]) -> Make[list[T]]:
    """Makes a list of one field that holds objects."""
    return lambda body: [make(each) for each in list_of(body[name])]


def require_no_actor(actor: str | None, *, action: str) -> None:
    """Raise if a call speaks for somebody: a server knows who asks by the token."""
    if actor is not None:
        raise ForbiddenError(
            actor=actor,
            action=action,
            reason="a server knows who asks by the token; connect with the token of that actor",
        )


def require_no_session(spark: object) -> None:
    """Raise if a call brings a Spark session: a server has its own."""
    if spark is not None:
        raise InvalidValueError(
            subject="spark",
            expected="None",
            value=type(spark).__name__,
            problem='a session cannot be sent to a server, which has its own; use engine="spark" '
            "without one, or open the graph by its uri",
        )


def _ignore(body: Mapping[str, object]) -> None:
    del body


def _condition(if_commit: str | None) -> dict[str, str]:
    if if_commit is None:
        return {}
    return {"Omnigraph-If-Graph-Commit": _require_header(if_commit, "if_commit")}


def _require_header(given: object, subject: str) -> str:
    """A text that a header can hold."""
    if isinstance(given, str) and given.strip() and given.isascii() and given.isprintable():
        return given
    raise InvalidValueError(
        subject=subject,
        expected="a short text",
        value=given,
        problem="what is sent in a header is a text of printable ASCII characters",
    )
