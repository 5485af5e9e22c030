"""The server as an ASGI application: what every request goes through on its way to a route.

In this order: an id and a log line, the bearer token, the graph, the body; then the route, which
asks for permission, for admission and for the engine. Pure ASGI, because each layer of a framework
costs as much as reading a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from time import perf_counter

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Route as Mounted
from starlette.types import Receive, Scope, Send

import omnigraph
from omnigraph.model.errors import GraphError, NotFoundError
from omnigraph.server.answers import Answer
from omnigraph.server.bodies import read_body
from omnigraph.server.calls import Call, Means
from omnigraph.server.exchanges import Exchange, find_request_id, read_headers, wait_until_gone
from omnigraph.server.logs import set_request_id
from omnigraph.server.metrics import Metrics
from omnigraph.server.problems import (
    HttpError,
    answer_graph_error,
    answer_http_error,
    answer_surprise,
    bad_request,
    not_found,
)
from omnigraph.server.routing import Route
from omnigraph.server.served import Served, is_graph_id
from omnigraph.server.serving import Revision

_EXCHANGE = "omnigraph.exchange"
_GRAPHS = "/graphs/"

WATCHED_AFTER_S = 0.5
"""How long a request runs before somebody looks whether its client is still there."""


def make_app(
    routes: Iterable[Route],
    *,
    means: Means,
    public_paths: frozenset[str],
    metrics: Metrics,
    new_id: Callable[[], str],
) -> Frame:
    """An application that answers these routes; public paths are for everybody."""
    mounted = [Mounted(each.path, Endpoint(each, means), methods=[each.method]) for each in routes]
    app = FastAPI(
        title="Omnigraph API",
        version=omnigraph.__version__,
        openapi_url=None,
        redirect_slashes=False,
        routes=[*mounted],
    )
    return Frame(
        app, mounted, means=means, public_paths=public_paths, metrics=metrics, new_id=new_id
    )


class Endpoint:
    """One route as ASGI sees it."""

    def __init__(self, route: Route, means: Means) -> None:
        self._route = route
        self._operation = route.operation
        self._means = means

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, ask the route, send its answer."""
        exchange: Exchange = scope[_EXCHANGE]
        exchange.route = self._route.path
        body = await read_body(self._route, headers=exchange.headers, receive=receive)
        cancelled = Event()
        call = Call(
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


@contextmanager
def _cancelling(cancelled: Event, receive: Receive) -> Iterator[None]:
    """A block whose event is set when the client goes away before the block ends."""
    watching: list[asyncio.Task[None]] = []

    async def watch() -> None:
        await wait_until_gone(receive)
        cancelled.set()

    # Most answers are there before it would pay to look who still waits for them.
    loop = asyncio.get_running_loop()
    timer = loop.call_later(WATCHED_AFTER_S, lambda: watching.append(loop.create_task(watch())))
    try:
        yield
    finally:
        timer.cancel()
        for each in watching:
            each.cancel()


class Frame:
    """What is around all routes: ids and logs, tokens, graphs, and errors as answers."""

    def __init__(
        self,
        app: FastAPI,
        mounted: Sequence[Mounted],
        *,
        means: Means,
        public_paths: frozenset[str],
        metrics: Metrics,
        new_id: Callable[[], str],
    ) -> None:
        self._app = app
        self._mounted = mounted
        self._means = means
        self._public_paths = public_paths
        self._metrics = metrics
        self._new_id = new_id
        self._first_parts = frozenset(_first_part(each.path) for each in mounted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request through."""
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
        # Routes are matched on what was sent: decoded first, `a%2Fb` would be two parts of a path.
        scope["path"] = scope["raw_path"].decode("latin-1")
        tracing = self._means.tracing.request(scope["method"], scope["path"], headers)
        with self._metrics.in_flight(), tracing as trace:
            try:
                self._enter(scope["path"], exchange)
                # Past the application's own middleware, which would cost more than all of this.
                await self._app.router(scope, receive, send)
            except HTTPException as error:
                refused = _refusal(error, allowed=self._methods_of(scope["path"]))
                await self._fail(exchange, refused, receive=receive, send=send)
            except Exception as error:  # noqa: BLE001  # the last who can make an answer of it
                await self._fail(exchange, error, receive=receive, send=send)
            trace.answered(route=exchange.route, status=exchange.status)
        self._finish(scope["method"], scope["path"], exchange, perf_counter() - began)

    def _enter(self, path: str, exchange: Exchange) -> None:
        """Find out who asks, and of which graph."""
        if path in self._public_paths or _first_part(path) not in self._first_parts:
            return
        tokens = exchange.revision.tokens
        if tokens:
            exchange.actor = tokens.require_actor(exchange.headers.get(b"authorization"))
        if path.startswith(_GRAPHS):
            exchange.served = self._find_graph(path, exchange.revision)

    def _find_graph(self, path: str, revision: Revision) -> Served:
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
            # The status is out, so all that can be done is to end the answer short of its end.
            self._means.log.error("answer cut short", error=error)
            return
        await exchange.send(answer, receive=receive, send=send)

    def _answer_error(self, exchange: Exchange, error: Exception) -> Answer:
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
                return answer_surprise(exchange.request_id)

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
    # Not every target has a slash: `OPTIONS *` asks about the server.
    return path.partition("/")[2].partition("/")[0]


def _refusal(error: HTTPException, *, allowed: Iterable[str]) -> HttpError:
    """What the router refuses, as one of our own errors."""
    if error.status_code == 405:
        # The router would tell the methods of one route, and a path may have several.
        headers = {"Allow": ", ".join(allowed)}
        return HttpError(
            status=405,
            code="method_not_allowed",
            message="this route has no such method",
            headers=headers,
        )
    return not_found("no such route")
