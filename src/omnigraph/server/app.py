"""The ASGI application: request id, token or host check, graph, route, body, then the handler.

Every request passes these steps in this order and is measured. Without tokens, requests from other
sites and rebound DNS names are rejected. Bodies are bounded by their route, and every exception
becomes a response. The module is plain ASGI for speed and does not know what a route does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from time import perf_counter
from urllib.parse import quote, urlsplit

from starlette.types import Receive, Scope, Send

from omnigraph.model.errors import GraphError, NotFoundError
from omnigraph.model.limits import BODY_BYTES_PER_S_MIN, BODY_S_MIN, STALLED_CLIENT_S_MAX
from omnigraph.server.context import Pool, RequestContext, Route, ServerContext
from omnigraph.server.requests import (
    IF_COMMIT,
    WRITE_OPTIONS,
    Body,
    JsonType,
    parse_arguments,
    require_json,
)
from omnigraph.server.responses import (
    AnyResponse,
    Header,
    HttpError,
    Response,
    StreamingResponse,
    bad_request,
    encode_headers,
    forbidden,
    graph_error_response,
    http_error_response,
    internal_error_response,
    not_found,
    timed_out,
    too_large,
)
from omnigraph.server.settings import StartupError
from omnigraph.server.startup import is_graph_id
from omnigraph.server.telemetry import Metrics, set_request_id

_GRAPHS = "/graphs/"
# The request id of a caller is used if it is short and has only safe characters.
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

DISCONNECT_CHECK_S = 0.5
"""Seconds that a request runs before the server checks whether its client is still connected."""


class Router:
    """Finds the route of a method and a path; the first match of the table wins."""

    def __init__(self, routes: Iterable[Route]) -> None:
        routes_by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            by_method = routes_by_path.setdefault(route.path, {})
            by_method[route.method] = route
            if route.method == "GET":
                by_method["HEAD"] = route
        self._table = [
            (re.compile(_PARAMETER.sub(r"(?P<\1>[^/]+)", path)), by_method)
            for path, by_method in routes_by_path.items()
        ]
        self._first_segments = frozenset(map(_first_segment, routes_by_path))

    def knows(self, path: str) -> bool:
        """Whether any route begins with the first segment of a path."""
        return _first_segment(path) in self._first_segments

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """The route and the path parameters; 404 for an unknown path, 405 for another method."""
        allowed: set[str] = set()
        for pattern, by_method in self._table:
            found = pattern.fullmatch(path)
            if found is None:
                continue
            if method in by_method:
                return by_method[method], found.groupdict()
            allowed.update(by_method)
        if not allowed:
            raise not_found("no such route")
        message = f"this path does not support {method}"
        headers = {"Allow": ", ".join(sorted(allowed))}
        raise HttpError(405, "method_not_allowed", message, headers=headers)


_PARAMETER = re.compile(r"\{(\w+)\}")


def _first_segment(path: str) -> str:
    # A request target may lack a slash: `OPTIONS *` addresses the server.
    return path.partition("/")[2].partition("/")[0]


class Application:
    """Handles requests: request ids, logs, tokens, graph lookup, and errors as responses.

    Public paths require no token.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        server: ServerContext,
        public_paths: frozenset[str],
        hosts: AllowedHosts,
        metrics: Metrics,
        new_id: Callable[[], str],
    ) -> None:
        self._router = Router(routes)
        self._server = server
        self._public_paths = public_paths
        self._hosts = hosts
        self._metrics = metrics
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        assert scope["type"] == "http", "uvicorn is configured for HTTP only"
        revision = self._server.revisions.enter()
        try:
            headers = read_headers(scope["headers"])
            given_id = headers.get(b"x-request-id", b"")
            is_safe = _REQUEST_ID.fullmatch(given_id) is not None
            request_id = given_id.decode("ascii") if is_safe else self._new_id()
            call = RequestContext(self._server, revision, request_id, headers)
            await self._handle(call, scope, receive, send)
        finally:
            self._server.revisions.leave(revision)

    async def _handle(
        self, call: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        began = perf_counter()
        set_request_id(call.request_id)
        # Routes are matched on the raw path: if it were decoded first, `a%2Fb` would become two
        # segments.
        method, path = scope["method"], scope["raw_path"].decode("latin-1")
        tracing = self._server.tracing.request(method, path, call.headers)
        with self._metrics.in_flight(), tracing as record_response:
            try:
                self._authenticate(path, call)
                call.route, call.path_parameters = self._router.find(method, path)
                response = await _respond(call.route, call, scope["query_string"], receive)
                await send_response(call, response, receive=receive, send=send)
            except Exception as error:  # noqa: BLE001  # the outermost handler
                response = self._error_response(call, error)
                if call.status:
                    # The status was sent, so the only option left is to truncate the response.
                    self._server.log.error("response truncated", error=error)
                else:
                    await send_response(call, response, receive=receive, send=send)
            route = "unmatched" if call.route is None else call.route.path
            record_response(route, call.status)
        seconds = perf_counter() - began
        self._metrics.observe_request(route, method, call.status, seconds)
        self._log(method, path, call, seconds)

    def _authenticate(self, path: str, call: RequestContext) -> None:
        """Determine the actor and the graph of a request."""
        if path in self._public_paths or not self._router.knows(path):
            return
        tokens = call.revision.tokens
        if tokens:
            call.actor = tokens.require_actor(call.headers.get(b"authorization"))
        else:
            # With a token no host check is needed, because a browser does not add a token by
            # itself.
            self._hosts.require(call.headers)
        if not path.startswith(_GRAPHS):
            return
        graph_id = path[len(_GRAPHS) :].partition("/")[0]
        if not is_graph_id(graph_id):
            raise bad_request(
                "a graph id has 1 to 64 letters, digits and hyphens, and is not a reserved word"
            )
        call.opened = call.revision.graphs.get(graph_id)
        if call.opened is None:
            missing = NotFoundError(kind="graph", name=graph_id, advice="")
            raise not_found(str(missing), cause=missing)
        self._server.log.event("graph routed", graph=graph_id)

    def _error_response(self, call: RequestContext, error: Exception) -> Response:
        match error:
            case HttpError():
                return http_error_response(error)
            case GraphError():
                response = graph_error_response(error)
                if response.status >= 500:
                    self._server.log.error("request failed", error=error)
                return response
            case _:
                self._server.log.error("unexpected failure", error=error)
                return internal_error_response(call.request_id)

    def _log(self, method: str, path: str, call: RequestContext, seconds: float) -> None:
        log = self._server.log
        if call.status < 500 and not log.is_debugging:
            return
        fields: dict[str, object] = {
            "method": method,
            "path": path,
            "status": call.status,
            "actor": call.actor,
            "ms": round(seconds * 1000, 3),
        }
        if call.status >= 500:
            log.error("request", error=None, **fields)
        else:
            log.debug("request", **fields)


async def _respond(
    route: Route, call: RequestContext, query_string: bytes, receive: Receive
) -> AnyResponse:
    """Validate the request, read its body and call the handler."""
    call.arguments = parse_arguments(query_string, route.query_parameters)
    # A read may be repeated anyway, so its key is harmless.
    for option in WRITE_OPTIONS if route.pool is Pool.WRITE else (IF_COMMIT,):
        if option.name.lower().encode() in call.headers and option not in route.parameters:
            raise bad_request(f"this route does not support the header {option.name}")
    call.body = await read_body(route.body, headers=call.headers, receive=receive)
    with _cancelling(call, receive):
        response = await route.respond(call)
    if route.successor is None:
        return response
    link = f'<{route.successor}>; rel="successor-version"'
    headers = encode_headers({"Deprecation": "true", "Link": link})
    return replace(response, headers=(*response.headers, *headers))


@contextmanager
def _cancelling(call: RequestContext, receive: Receive) -> Iterator[None]:
    """A block that cancels the call when the client disconnects before the block ends."""
    watching: list[asyncio.Task[None]] = []

    async def watch() -> None:
        await wait_for_disconnect(receive)
        call.cancelled.set()

    # Most responses are ready before a check of the connection is worth its cost.
    loop = asyncio.get_running_loop()
    timer = loop.call_later(DISCONNECT_CHECK_S, lambda: watching.append(loop.create_task(watch())))
    try:
        yield
    finally:
        timer.cancel()
        for each in watching:
            each.cancel()


async def read_body(
    body: Body[object], *, headers: Mapping[bytes, bytes], receive: Receive
) -> bytes:
    """The body of a request; 413 if it is too long, 415 if its declared type is not JSON."""
    if body.bytes_max == 0:
        await _require_no_body(headers, receive)
        return b""
    # A request whose declared length is too large is rejected before its body is sent.
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and (len(length) > _DIGITS_MAX or int(length) > body.bytes_max):
        raise _too_large(body.bytes_max)
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    if body.json_type is JsonType.ALWAYS:
        require_json(content_type)
    received = await _receive_all(receive, bytes_max=body.bytes_max)
    if body.json_type is JsonType.WITH_BODY and received:
        require_json(content_type)
    return received


async def _require_no_body(headers: Mapping[bytes, bytes], receive: Receive) -> None:
    """Raise 400 for a body with content; `{}` has none, and some clients always send it."""
    length = headers.get(b"content-length", b"0")
    if length == b"0" and b"transfer-encoding" not in headers:
        return
    if length != b"2" or await _receive_all(receive, bytes_max=2) != b"{}":
        raise bad_request("this route takes no body; nothing was changed")


_DIGITS_MAX = 15


async def _receive_all(receive: Receive, *, bytes_max: int) -> bytes:
    loop = asyncio.get_running_loop()
    began = loop.time()
    pieces: list[bytes] = []
    size, has_more = 0, True
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
            f"the body arrived too slowly; nothing was changed; send it within {BODY_S_MIN:.0f} "
            f"seconds, or at {BODY_BYTES_PER_S_MIN:,} bytes per second or more"
        ) from error
    if message["type"] == "http.disconnect":
        raise bad_request("the request ended before its body was complete")
    return message.get("body", b""), message.get("more_body", False)


def _too_large(bytes_max: int) -> HttpError:
    return too_large(f"the body exceeds the limit of {bytes_max:,} bytes")


# Responses describe a graph that changes, and may be specific to a token's actor.
_COMMON_HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


async def send_response(
    call: RequestContext, response: AnyResponse, *, receive: Receive, send: Send
) -> None:
    """Send a response; a stream ends early when its client disconnects."""
    match response:
        case Response(body=body):
            await _start(call, response, ((b"content-length", b"%d" % len(body)),), send)
            await send({"type": "http.response.body", "body": body})
        case StreamingResponse(pieces=pieces):
            # An iterator that is abandoned would be closed only at the next garbage collection.
            async with aclosing(pieces), _disconnection(receive) as is_disconnected:
                await _start(call, response, (), send)
                async for piece in pieces:
                    # Sending blocks while the client does not read, and the remaining rows are
                    # held meanwhile.
                    async with asyncio.timeout(STALLED_CLIENT_S_MAX):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if is_disconnected():
                        return
                await send({"type": "http.response.body", "body": b""})


async def _start(
    call: RequestContext, response: AnyResponse, length: tuple[Header, ...], send: Send
) -> None:
    call.status = response.status
    headers = [
        (b"content-type", response.content_type),
        *length,
        (b"x-request-id", call.request_id.encode("ascii")),
        *_COMMON_HEADERS,
        *(((b"omnigraph-actor", quote(call.actor).encode("ascii")),) if call.actor else ()),
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client disconnects; any other message is ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def _disconnection(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Yield a test whether the client has disconnected; sending to it then fails silently."""
    waiting = asyncio.ensure_future(wait_for_disconnect(receive))
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
                "without tokens, the Host header must be a loopback name; to allow this host, "
                f"start the server with --allow-host {host or 'NAME'}"
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._allows(_host_of(origin)):
            raise forbidden(
                "without tokens, requests from web pages of other sites are rejected; to allow "
                "this page, start the server with --allow-host and the host of the page"
            )

    def _allows(self, host: str | None) -> bool:
        return host is not None and (host in self.names or _is_loopback(host))


def parse_hosts(given: Iterable[str]) -> AllowedHosts:
    """The hosts that `--allow-host` names; `StartupError` for text that is not a host name."""
    names = []
    for text in given:
        name = _host_of(b"//" + text.strip().encode())
        if name is None or text.strip().lower().strip("[]") != name:
            raise StartupError(
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
