"""The ASGI application: request id, bearer token or host check, graph, body, then the route.

Every request passes these steps in this order and is measured. Without tokens, requests from other
sites and rebound DNS names are rejected. Bodies are bounded by their route, and every exception
becomes a response. The module is plain ASGI for speed and does not know what a route does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from threading import Event
from time import perf_counter
from urllib.parse import quote, urlsplit

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Route as Mounted
from starlette.types import Receive, Scope, Send

import omnigraph
from omnigraph.model.errors import GraphError, NotFoundError
from omnigraph.model.limits import BODY_BYTES_PER_S_MIN, BODY_S_MIN, STALLED_CLIENT_S_MAX
from omnigraph.server.context import Body, RequestContext, Route, ServerContext, parse_arguments
from omnigraph.server.lifecycle import Revision
from omnigraph.server.requests import require_json
from omnigraph.server.responses import (
    Header,
    HttpError,
    Response,
    StreamingResponse,
    answer_graph_error,
    answer_http_error,
    bad_request,
    forbidden,
    internal_error,
    not_found,
    timed_out,
    too_large,
)
from omnigraph.server.routes.operations import OPERATIONS
from omnigraph.server.startup import ServedGraph, is_graph_id
from omnigraph.server.telemetry import Metrics, set_request_id


async def read_body(route: Route, *, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """The body of a request; 413 if it is too long, 415 if its declared type is not JSON."""
    if route.body is Body.NONE:
        return b""
    _require_length(route, headers)
    if route.body is Body.JSON:
        require_json(_content_type(headers))
    body = await _receive_all(receive, bytes_max=route.bytes_max)
    if route.body is Body.OPTIONAL_JSON and body:
        require_json(_content_type(headers))
    return body


def _require_length(route: Route, headers: Mapping[bytes, bytes]) -> None:
    # A request whose declared length is too large is rejected before its body is sent.
    said = headers.get(b"content-length", b"0")
    if said.isdigit() and (len(said) > _DIGITS_MAX or int(said) > route.bytes_max):
        raise _too_large(route.bytes_max)


_DIGITS_MAX = 15


def _content_type(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"content-type", b"").decode("latin-1")


async def _receive_all(receive: Receive, *, bytes_max: int) -> bytes:
    loop = asyncio.get_running_loop()
    began = loop.time()
    body, has_more = await _receive(receive, until=began + BODY_S_MIN)
    if len(body) > bytes_max:
        raise _too_large(bytes_max)
    if not has_more:
        return body
    pieces, size = [body], len(body)
    while has_more:
        until = began + BODY_S_MIN + size / BODY_BYTES_PER_S_MIN
        piece, has_more = await _receive(receive, until=until)
        size += len(piece)
        if size > bytes_max:
            raise _too_large(bytes_max)
        pieces.append(piece)
    return b"".join(pieces)


async def _receive(receive: Receive, *, until: float) -> tuple[bytes, bool]:
    """The next piece of a body, and whether more follow; 408 if it does not arrive in time."""
    try:
        async with asyncio.timeout_at(until):
            message = await receive()
    except TimeoutError as error:
        raise timed_out(
            f"the body came too slowly; nothing was done; send it within {BODY_S_MIN:.0f} seconds, "
            f"or at {BODY_BYTES_PER_S_MIN:,} bytes a second and more"
        ) from error
    if message["type"] == "http.disconnect":
        raise bad_request("the request ended before its body did")
    return message.get("body", b""), message.get("more_body", False)


def _too_large(bytes_max: int) -> HttpError:
    return too_large(f"the body is longer than the {bytes_max:,} bytes that are allowed here")


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

# Responses describe a graph that changes, and may be specific to a token's actor.
_EVERYWHERE: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(slots=True)
class Exchange:
    """The state of one request, filled in as it passes through the middleware."""

    request_id: str
    headers: Mapping[bytes, bytes]
    revision: Revision
    actor: str | None = None
    served: ServedGraph | None = None
    route: str = "unmatched"
    status: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether the status was sent, after which no other response is possible."""
        return self.status != 0

    async def send(
        self, answer: Response | StreamingResponse, *, receive: Receive, send: Send
    ) -> None:
        """Send a response; a stream ends early when its client disconnects."""
        match answer:
            case Response(body=body):
                length: tuple[Header, ...] = ((b"content-length", b"%d" % len(body)),)
                await self._start(answer, length, send)
                await send({"type": "http.response.body", "body": body})
            case StreamingResponse(pieces=pieces):
                # An iterator that is abandoned would be closed only at the next garbage collection.
                async with aclosing(pieces), _watching(receive) as has_gone:
                    await self._start(answer, (), send)
                    async for piece in pieces:
                        await _send_piece(piece, send)
                        if has_gone():
                            return
                    await send({"type": "http.response.body", "body": b""})

    def _tell_actor(self) -> tuple[Header, ...]:
        if self.actor is None:
            return ()
        return ((b"omnigraph-actor", quote(self.actor).encode("ascii")),)

    async def _start(
        self, answer: Response | StreamingResponse, length: tuple[Header, ...], send: Send
    ) -> None:
        self.status = answer.status
        headers = [
            (b"content-type", answer.content_type),
            *length,
            (b"x-request-id", self.request_id.encode("ascii")),
            *_EVERYWHERE,
            *self._tell_actor(),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})


async def _send_piece(piece: bytes, send: Send) -> None:
    # Sending blocks while the client does not read, and the remaining rows are held meanwhile.
    async with asyncio.timeout(STALLED_CLIENT_S_MAX):
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client disconnects; any other message is ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def _watching(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Yield a test whether the client has disconnected; sending to it then fails silently."""

    waiting = asyncio.ensure_future(wait_until_gone(receive))
    try:
        yield waiting.done
    finally:
        waiting.cancel()


def read_headers(sent: Sequence[Header]) -> dict[bytes, bytes]:
    """Headers by lower-case name; the last one of a repeated header.

    A repeated `Authorization` is dropped, because a proxy in front may have checked the other one.
    """
    headers = dict(sent)
    if len(headers) < len(sent) and [name for name, _ in sent].count(b"authorization") > 1:
        del headers[b"authorization"]
    return headers


def find_request_id(headers: Mapping[bytes, bytes]) -> str | None:
    """The request id that the caller sent, if it is short and has only safe characters."""
    given = headers.get(b"x-request-id")
    if given is None or _REQUEST_ID.fullmatch(given) is None:
        return None
    return given.decode("ascii")


_LOCALHOST = "localhost"


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The host names, besides those of the loopback interface, that a server accepts."""

    names: frozenset[str]

    def require(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise 403 unless `Host`, and `Origin` if it is present, name an allowed host."""
        host = _host_of(b"//" + headers.get(b"host", b""))
        if not self._allows(host):
            raise forbidden(
                "without tokens, only requests whose Host is a loopback name are answered; "
                f"start the server with --allow-host {host or 'NAME'} to answer this one"
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._allows(_host_of(origin)):
            raise forbidden(
                "without tokens, requests from web pages of other sites are refused; if the page "
                "is yours, start the server with --allow-host and the host of the page"
            )

    def _allows(self, host: str | None) -> bool:
        return host is not None and (host in self.names or _is_loopback(host))


def parse_hosts(given: Iterable[str]) -> AllowedHosts:
    """The hosts that `--allow-host` names; `ValueError` for text that is not a host name."""
    names = []
    for text in given:
        name = _host_of(b"//" + text.strip().encode())
        if name is None or text.strip().lower().strip("[]") != name:
            raise ValueError(
                f"--allow-host takes a host name without a scheme or port, as in "
                f"graphs.example.com, not {text!r}"
            )
        names.append(name)
    return AllowedHosts(frozenset(names))


def _host_of(address: bytes) -> str | None:
    """The host of a URL or of `//host:port`, in lower case; None if it has none."""
    try:
        parts = urlsplit(address.decode("latin-1"))
        # Accessing the port validates it.
        _ = parts.port
    except ValueError:
        return None
    if parts.path or parts.query or parts.username is not None:
        return None
    return parts.hostname or None


def _is_loopback(host: str) -> bool:
    if host == _LOCALHOST:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_EXCHANGE = "omnigraph.exchange"
_GRAPHS = "/graphs/"

WATCHED_AFTER_S = 0.5
"""Seconds that a request runs before the server checks whether its client is still connected."""


def make_app(
    routes: Iterable[Route],
    *,
    means: ServerContext,
    public_paths: frozenset[str],
    hosts: AllowedHosts,
    metrics: Metrics,
    new_id: Callable[[], str],
) -> RequestMiddleware:
    """An application for these routes; public paths require no token."""
    mounted = [Mounted(each.path, Endpoint(each, means), methods=[each.method]) for each in routes]
    app = FastAPI(
        title="Omnigraph API",
        version=omnigraph.__version__,
        openapi_url=None,
        redirect_slashes=False,
        routes=[*mounted],
    )
    return RequestMiddleware(
        app,
        mounted,
        means=means,
        public_paths=public_paths,
        hosts=hosts,
        metrics=metrics,
        new_id=new_id,
    )


class Endpoint:
    """One route as an ASGI endpoint."""

    def __init__(self, route: Route, means: ServerContext) -> None:
        self._route = route
        self._operation = route.operation
        self._means = means
        self._parameters = _parameters_of(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, call the route and send its response."""
        exchange: Exchange = scope[_EXCHANGE]
        exchange.route = self._route.path
        _require_known(parse_arguments(scope["query_string"]), self._parameters)
        body = await read_body(self._route, headers=exchange.headers, receive=receive)
        cancelled = Event()
        call = RequestContext(
            means=self._means,
            revision=exchange.revision,
            served=exchange.served,
            actor=exchange.actor,
            request_id=exchange.request_id,
            operation=self._operation,
            body=body,
            names=scope["path_params"],
            query_string=scope["query_string"],
            headers=exchange.headers,
            cancelled=cancelled,
        )
        with _cancelling(cancelled, receive):
            answer = await self._route.answer(call)
        await exchange.send(answer, receive=receive, send=send)


def _parameters_of(route: Route) -> frozenset[str]:
    """The query parameters that a route accepts, as listed in the OpenAPI document."""
    return frozenset(
        parameter.name
        for operation in OPERATIONS
        if (operation.method, operation.path) == (route.method, route.path)
        for parameter in operation.parameters
        if parameter.place == "query"
    )


def _require_known(given: Iterable[str], known: frozenset[str]) -> None:
    for name in given:
        if name not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise bad_request(f"unknown query parameter '{name}'; this route takes: {takes}")


@contextmanager
def _cancelling(cancelled: Event, receive: Receive) -> Iterator[None]:
    """A block whose event is set when the client disconnects before the block ends."""
    watching: list[asyncio.Task[None]] = []

    async def watch() -> None:
        await wait_until_gone(receive)
        cancelled.set()

    # Most responses are ready before a check of the connection is worth its cost.
    loop = asyncio.get_running_loop()
    timer = loop.call_later(WATCHED_AFTER_S, lambda: watching.append(loop.create_task(watch())))
    try:
        yield
    finally:
        timer.cancel()
        for each in watching:
            each.cancel()


class RequestMiddleware:
    """Wraps all routes: request ids, logs, tokens, graph lookup, and errors as responses."""

    def __init__(
        self,
        app: FastAPI,
        mounted: Sequence[Mounted],
        *,
        means: ServerContext,
        public_paths: frozenset[str],
        hosts: AllowedHosts,
        metrics: Metrics,
        new_id: Callable[[], str],
    ) -> None:
        self._app = app
        self._mounted = mounted
        self._means = means
        self._public_paths = public_paths
        self._hosts = hosts
        self._metrics = metrics
        self._new_id = new_id
        self._first_parts = frozenset(_first_part(each.path) for each in mounted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        assert scope["type"] == "http", "nothing else was asked of uvicorn"
        revision = self._means.serving.enter()
        try:
            await self._take_through(scope, receive, send, revision)
        finally:
            self._means.serving.leave(revision)

    async def _take_through(
        self, scope: Scope, receive: Receive, send: Send, revision: Revision
    ) -> None:
        began = perf_counter()
        headers = read_headers(scope["headers"])
        exchange = Exchange(find_request_id(headers) or self._new_id(), headers, revision)
        set_request_id(exchange.request_id)
        scope[_EXCHANGE] = exchange
        scope["app"] = self._app
        # Routes are matched on the raw path: if it were decoded first, `a%2Fb` would become two
        # segments.
        scope["path"] = scope["raw_path"].decode("latin-1")
        tracing = self._means.tracing.request(scope["method"], scope["path"], headers)
        with self._metrics.in_flight(), tracing as trace:
            try:
                self._enter(scope["path"], exchange)
                # The router is called directly, because FastAPI's own middleware costs more than
                # all of this.
                await self._app.router(scope, receive, send)
            except HTTPException as error:
                refused = _refusal(error, allowed=self._methods_of(scope["path"]))
                await self._fail(exchange, refused, receive=receive, send=send)
            except Exception as error:  # noqa: BLE001  # the outermost handler
                await self._fail(exchange, error, receive=receive, send=send)
            trace.answered(route=exchange.route, status=exchange.status)
        self._finish(scope["method"], scope["path"], exchange, perf_counter() - began)

    def _enter(self, path: str, exchange: Exchange) -> None:
        """Determine the actor and the graph of a request."""
        if path in self._public_paths or _first_part(path) not in self._first_parts:
            return
        tokens = exchange.revision.tokens
        if tokens:
            exchange.actor = tokens.require_actor(exchange.headers.get(b"authorization"))
        else:
            # With a token no host check is needed, because a browser does not add a token by
            # itself.
            self._hosts.require(exchange.headers)
        if path.startswith(_GRAPHS):
            exchange.served = self._find_graph(path, exchange.revision)

    def _find_graph(self, path: str, revision: Revision) -> ServedGraph:
        graph_id = path[len(_GRAPHS) :].partition("/")[0]
        if not is_graph_id(graph_id):
            raise bad_request(
                "a graph id has 1 to 64 letters, digits and hyphens, and is no reserved word"
            )
        served = revision.graphs.get(graph_id)
        if served is None:
            missing = NotFoundError(kind="graph", name=graph_id, advice="")
            raise not_found(str(missing), told=missing)
        self._means.log.event("graph routed", graph=graph_id)
        return served

    def _methods_of(self, path: str) -> list[str]:
        return sorted(
            method
            for route in self._mounted
            if route.path_regex.match(path)
            for method in route.methods or ()
        )

    async def _fail(
        self, exchange: Exchange, error: Exception, *, receive: Receive, send: Send
    ) -> None:
        answer = self._answer_error(exchange, error)
        if exchange.is_answered:
            # The status was sent, so the only option left is to truncate the response.
            self._means.log.error("answer cut short", error=error)
            return
        await exchange.send(answer, receive=receive, send=send)

    def _answer_error(self, exchange: Exchange, error: Exception) -> Response:
        match error:
            case HttpError():
                return answer_http_error(error)
            case GraphError():
                answer = answer_graph_error(error)
                if answer.status >= 500:
                    self._means.log.error("request failed", error=error)
                return answer
            case _:
                self._means.log.error("unexpected failure", error=error)
                return internal_error(exchange.request_id)

    def _finish(self, method: str, path: str, exchange: Exchange, seconds: float) -> None:
        status = exchange.status
        self._metrics.observe_request(exchange.route, method, status, seconds)
        if status < 500 and not self._means.log.is_debugging:
            return
        fields: dict[str, object] = {
            "method": method,
            "path": path,
            "status": status,
            "actor": exchange.actor,
            "ms": round(seconds * 1000, 3),
        }
        if status >= 500:
            self._means.log.error("request", error=None, **fields)
        else:
            self._means.log.debug("request", **fields)


def _first_part(path: str) -> str:
    # A request target may lack a slash: `OPTIONS *` addresses the server.
    return path.partition("/")[2].partition("/")[0]


def _refusal(error: HTTPException, *, allowed: Iterable[str]) -> HttpError:
    """An error of the router as an `HttpError`."""
    if error.status_code == 405:
        # The router would list the methods of one route, but a path may have several routes.
        headers = {"Allow": ", ".join(allowed)}
        return HttpError(
            status=405,
            code="method_not_allowed",
            message="this route has no such method",
            headers=headers,
        )
    return not_found("no such route")
