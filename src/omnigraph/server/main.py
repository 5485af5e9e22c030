"""The `omnigraph-server` program: flags, environment, listening socket and signals.

Unsafe configurations are rejected before any graph is opened. Exits with 0 after a requested stop,
1 if the start or the stop failed and 2 if the command line was wrong. SIGINT and SIGTERM stop the
server after the requests in progress, and SIGHUP reloads. Size and time of request headers are
bounded, because their sender is not authenticated yet. With several workers the program starts
itself again for each of them and supervises them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from secrets import token_hex
from shlex import quote
from stat import S_IMODE, S_IRWXO, S_IWGRP
from tempfile import TemporaryDirectory
from threading import Thread

import click
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import omnigraph
from omnigraph.http.responses import ReloadOutput
from omnigraph.model.errors import GraphError
from omnigraph.model.limits import (
    IDLE_CONNECTION_S_MAX,
    REQUEST_HEAD_BYTES_MAX,
    REQUEST_HEAD_S_MAX,
    SERVER_PROCESSES_MAX,
    SERVER_WAITING_MAX,
    SHUTDOWN_S_MAX,
    STALLED_CLIENT_S_MAX,
)
from omnigraph.model.ports import Observer
from omnigraph.server.admission import Admission, Workers
from omnigraph.server.app import AllowedHosts, Application, parse_hosts
from omnigraph.server.context import ServerContext
from omnigraph.server.jobs import IN_MEMORY, JobRecords, Jobs
from omnigraph.server.lifecycle import RevisionBuilder, RevisionHolder, reload_output
from omnigraph.server.peers import Confirm, Membership, WorkerGroup
from omnigraph.server.responses import ResponseCache
from omnigraph.server.routes.table import make_routes
from omnigraph.server.settings import (
    TOKENS_FILE,
    Mode,
    StartupError,
    Tokens,
    find_tokens,
    is_on,
    parse_bind,
    parse_bounds,
)
from omnigraph.server.startup import Store
from omnigraph.server.supervisor import Supervisor
from omnigraph.server.telemetry import (
    Log,
    Metrics,
    NoTracing,
    TracedObserver,
    Tracing,
    open_log,
    parse_level,
)
from omnigraph.storage.environment import expand_home

_BACKLOG = 2048
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\ncontent-length: 72\r\nconnection: close\r\n\r\n"
    b'{"error":"the headers of the request are too long","code":"bad_request"}'
)


def url_of(listening: socket.socket) -> str:
    """The URL at which clients reach a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve_until_signal(
    app: ASGIApp,
    listening: socket.socket,
    *,
    on_hangup: Callable[[], None],
    on_serving: Callable[[], None],
) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress are completed.

    SIGHUP calls `on_hangup` in a separate thread; signals that arrive while it runs are coalesced.
    `on_serving` is called once signals stop the server as described.
    """
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=IDLE_CONNECTION_S_MAX,
        timeout_graceful_shutdown=int(SHUTDOWN_S_MAX),
        # Called by the first tick of the server's loop, and then every `timeout_notify` seconds.
        callback_notify=_call_once(on_serving),
    )
    # Uvicorn raises the signal that stopped it again, which by default would kill this process; but
    # a requested stop is not a failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    hang_up = _start_following(on_hangup)
    signal.signal(signal.SIGHUP, lambda *_: hang_up())
    uvicorn.Server(config).run(sockets=[listening])


def _call_once(function: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    calls = iter((function,))

    async def call() -> None:
        next(calls, lambda: None)()

    return call


def _start_following(on_hangup: Callable[[], None]) -> Callable[[], None]:
    """A function that returns at once and lets another thread call `on_hangup`."""
    # `SimpleQueue` is reentrant, so a signal handler may interrupt another `put`.
    hangups: SimpleQueue[None] = SimpleQueue()
    Thread(target=_follow, args=(hangups, on_hangup), daemon=True).start()
    return partial(hangups.put, None)


def _follow(hangups: SimpleQueue[None], on_hangup: Callable[[], None]) -> None:
    while True:
        hangups.get()
        while not hangups.empty():
            hangups.get()
        on_hangup()


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with bounds on the size of headers and on the wait for them.

    It is a subclass because uvicorn accepts only a class of its protocol. Without the bounds,
    uvicorn would hold any amount of headers and wait for the rest without a limit.
    """

    _head_bytes = 0
    _is_in_head = False
    _is_incomplete = False
    _deadline: asyncio.TimerHandle | None = None
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the deadline for the first headers."""
        super().connection_made(transport)
        self._wait(REQUEST_HEAD_S_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self._end_waiting()
        self._end_patience()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the check that the client reads its response."""
        super().pause_writing()
        self._be_patient(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop that check, because the client has read enough."""
        self._end_patience()
        super().resume_writing()

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        self._is_in_head = self._is_incomplete = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the headers are complete; the body is bounded by its route."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._is_incomplete = False
        super().on_message_complete()

    def data_received(self, received: bytes) -> None:
        """Count the bytes of the headers, and set or clear the deadline."""
        self._head_bytes += len(received)
        super().data_received(received)
        if not self._is_incomplete:
            self._end_waiting()
        elif not self._is_in_head:
            self._wait(STALLED_CLIENT_S_MAX)
        elif self._head_bytes > REQUEST_HEAD_BYTES_MAX:
            self.transport.write(_TOO_LONG)
            self.transport.close()
        elif self._deadline is None:
            # The deadline covers all headers, so a client cannot extend it by sending a byte at a
            # time.
            self._wait(REQUEST_HEAD_S_MAX)

    def _wait(self, seconds: float) -> None:
        self._end_waiting()
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.abort()

    def _be_patient(self, unsent_bytes: int) -> None:
        self._end_patience()
        self._patience = self.loop.call_later(
            STALLED_CLIENT_S_MAX, self._look_whether_it_takes, unsent_bytes
        )

    def _look_whether_it_takes(self, unsent_before: int) -> None:
        self._patience = None
        unsent = self.transport.get_write_buffer_size()
        if unsent >= unsent_before:
            # `close` would wait for the client to receive data that it does not read.
            self.transport.abort()
        else:
            self._be_patient(unsent)

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _end_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


# OpenTelemetry's variables that name the destination of spans.
TRACES_GO_TO = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

REQUEST_ID_BYTES = 8

MOUNTED_SECRETS = "/run/secrets"
"""The mount point of secrets in containers; the orchestrator sets their file mode."""

PUBLIC_PATHS = frozenset({"/healthz", "/openapi.json"})


@dataclass(frozen=True, slots=True)
class Flags:
    """The parsed command line; `source` is one graph's storage, or a cluster location."""

    source: Store | str
    bind: str
    is_unauthenticated: bool
    is_every_graph_needed: bool
    agents_write_main: bool
    hosts: AllowedHosts
    workers: int | None
    """The number of worker processes; None if the environment decides."""
    membership: Membership | None
    """Set in a worker process."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(omnigraph.__version__, message="omnigraph-server %(version)s")
@click.option("--store", metavar="URI", help="Serve one graph, under the id `default`.")
@click.option("--cluster", metavar="DIR|URI", help="Serve the applied state of a cluster.")
@click.option("--bind", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True)
@click.option("--unauthenticated", is_flag=True, help="Allow every action to every caller.")
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="With --unauthenticated: also accept this host name. May be repeated.",
)
@click.option("--require-all-graphs", is_flag=True, help="Do not start unless every graph opens.")
@click.option("--policy", metavar="FILE", help="The policy of the graph of --store.")
@click.option("--server-policy", metavar="FILE", help="The policy of the server itself.")
@click.option(
    "--queries", metavar="PATH", help="Stored queries: a .gq file or a directory of them."
)
@click.option("--mcp-allow-main", is_flag=True, help="Allow agents to write to `main` on request.")
@click.option(
    "--workers",
    type=click.IntRange(1, SERVER_PROCESSES_MAX),
    metavar="N",
    help="Serve with this number of processes.  [default: 1]",
)
# Given by the server itself when it starts a worker.
@click.option("--join", hidden=True)
def serve(  # noqa: PLR0913  # one argument per flag
    *,
    store: str | None,
    cluster: str | None,
    bind: str,
    unauthenticated: bool,
    allow_host: tuple[str, ...],
    require_all_graphs: bool,
    policy: str | None,
    server_policy: str | None,
    queries: str | None,
    mcp_allow_main: bool,
    workers: int | None,
    join: str | None,
) -> int:
    """Serve graphs over HTTP."""
    environment = os.environ
    listed_hosts = environment.get("OMNIGRAPH_ALLOW_HOSTS", "").split(",")
    flags = Flags(
        source=_find_source(
            store,
            cluster,
            {"--policy": policy, "--server-policy": server_policy, "--queries": queries},
        ),
        bind=bind,
        is_unauthenticated=unauthenticated or is_on(environment.get("OMNIGRAPH_UNAUTHENTICATED")),
        is_every_graph_needed=require_all_graphs
        or is_on(environment.get("OMNIGRAPH_REQUIRE_ALL_GRAPHS")),
        agents_write_main=mcp_allow_main,
        hosts=parse_hosts((*allow_host, *(each for each in listed_hosts if each.strip()))),
        workers=workers,
        membership=None if join is None else _join(join),
    )
    return _run(flags, environment)


def main() -> None:
    """Run the server and exit."""
    try:
        sys.exit(serve.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (StartupError, GraphError) as error:
        _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted")


def _find_source(
    store: str | None, cluster: str | None, files: Mapping[str, str | None]
) -> Store | str:
    """What to serve: the storage of one graph with its files, or the location of a cluster."""
    if cluster is not None:
        given = [flag for flag, path in {"--store": store, **files}.items() if path is not None]
        if given:
            raise StartupError(
                f"{given[0]} does not go with --cluster, which has its own applied graphs, "
                "queries and policies"
            )
        return cluster
    if store is None:
        raise StartupError(
            "omnigraph-server boots from a cluster, named by --cluster DIR|URI, or from one graph, "
            "named by --store URI"
        )
    return Store(store, files["--policy"], files["--server-policy"], files["--queries"])


def _run(flags: Flags, environment: Mapping[str, str]) -> int:
    level = parse_level(environment.get("OMNIGRAPH_LOG") or environment.get("RUST_LOG", ""))
    member = flags.membership
    log = open_log(sys.stdout.buffer, level, {} if member is None else {"worker": member.number})
    bounds, warnings = parse_bounds(environment)
    worker_count = bounds.workers if flags.workers is None else flags.workers
    is_parent = worker_count > 1 and member is None
    for each in warnings if member is None else ():
        log.warning("setting ignored", problem=each)
    tracing, end_tracing = _open_tracing({} if is_parent else environment, log)
    metrics = Metrics()
    builder = RevisionBuilder(
        source=flags.source,
        is_unauthenticated=flags.is_unauthenticated,
        is_every_graph_needed=flags.is_every_graph_needed,
        environment=environment,
        bounds=bounds,
        read_tokens=lambda: _read_tokens(environment, log),
        observer_of=lambda id: _observe(metrics.observer_of(id), tracing),
        log=log,
    )
    if member is not None and not member.wait_for_turn():
        return 1
    # Access control is decided, and the address bound, before any graph is opened.
    plan, tokens = builder.plan()
    if member is None:
        _warn_about(plan.mode, log)
    listening = _listen(flags.bind) if member is None else member.listening
    if is_parent:
        return _supervise(worker_count, listening, log)
    prepared = builder.open(plan, tokens, before={})
    revisions = RevisionHolder(prepared.revision)

    def reload_here(confirm: Confirm) -> ReloadOutput:
        done = revisions.reload(
            builder.prepare_again, lambda found: confirm(reload_output(found)), log
        )
        return reload_output(done)

    reload = partial(reload_here, lambda _: None) if member is None else member.group.reload
    records = (
        JobRecords(IN_MEMORY, worker=0)
        if member is None
        else JobRecords(member.group.jobs, worker=member.number)
    )
    server = ServerContext(
        revisions=revisions,
        reload=reload,
        reads=_open_workers("read", bounds.running_reads_max),
        writes=_open_workers("write", bounds.running_writes_max),
        admission=Admission(bounds.budget),
        cache=ResponseCache(),
        jobs=Jobs(records, new_id=_new_id, log=log),
        tracing=tracing,
        log=log,
    )
    is_metrics_public = is_on(environment.get("OMNIGRAPH_METRICS_PUBLIC"))
    app = Application(
        make_routes(
            version=omnigraph.__version__,
            source_version=environment.get("OMNIGRAPH_SOURCE_VERSION") or None,
            metrics=metrics,
            group=None if member is None else member.group,
            is_authenticated=bool(tokens),
            agents_write_main=flags.agents_write_main,
        ),
        server=server,
        public_paths=PUBLIC_PATHS | ({"/metrics"} if is_metrics_public else frozenset()),
        hosts=flags.hosts,
        metrics=metrics,
        new_id=_new_id,
    )
    started = {
        "url": url_of(listening),
        "graphs": sorted(prepared.revision.graphs),
        "mode": plan.mode,
        "version": omnigraph.__version__,
    }
    if member is not None:
        member.listen(partial(metrics.encode, hidden=frozenset()), reload_here)
    serve_until_signal(
        app,
        listening,
        on_hangup=partial(_reload_on_signal, reload),
        on_serving=partial(log.event, "listening", **started)
        if member is None
        else partial(member.announce, started),
    )
    is_done = server.close(within_s=SHUTDOWN_S_MAX)
    end_tracing()
    log.event("ended")
    if not is_done:
        # Python would wait for the threads forever. Their unpublished writes stay invisible.
        log.warning("stopped with calls in progress")
        os._exit(1)
    return 0


def _supervise(count: int, listening: socket.socket, log: Log) -> int:
    """Serve with worker processes; the exit code."""
    with TemporaryDirectory(prefix="omnigraph-") as folder:
        group = WorkerGroup(Path(folder), count)

        def command(number: int, listening_fd: int, parent_fd: int) -> list[str]:
            joined = f"{number}:{count}:{listening_fd}:{parent_fd}:{folder}"
            return [sys.executable, *sys.orig_argv[1:], "--join", joined]

        supervisor = Supervisor(
            group,
            command,
            listening,
            reload=_start_following(partial(_reload_all, group, log)),
            log=log,
        )
        exit_code = supervisor.run(lambda started: log.event("listening", **started, workers=count))
    log.event("ended")
    return exit_code


def _reload_all(group: WorkerGroup, log: Log) -> None:
    try:
        group.reload()
    except StartupError as error:
        log.warning("reload refused", reason=str(error))


def _join(text: str) -> Membership:
    """The membership of a worker process, as `_supervise` encodes it."""
    number, count, listening_fd, parent_fd, folder = text.split(":", maxsplit=4)
    listening, parent = (socket.socket(fileno=int(each)) for each in (listening_fd, parent_fd))
    for each in (listening, parent):
        # The parent must see the end of this process, whatever other programs it has started.
        each.set_inheritable(False)
    return Membership(WorkerGroup(Path(folder), int(count)), int(number), listening, parent)


def _reload_on_signal(reload: Callable[[], object]) -> None:
    # A signal has no caller to report to; the log has the reason for a failed reload.
    with suppress(StartupError):
        reload()


def _open_workers(name: str, running_max: int) -> Workers:
    return Workers(name=name, running_max=running_max, waiting_max=SERVER_WAITING_MAX)


def _new_id() -> str:
    return token_hex(REQUEST_ID_BYTES)


def _read_tokens(environment: Mapping[str, str], log: Log) -> Tokens:
    path = environment.get(TOKENS_FILE, "").strip()
    try:
        text = _read_secret(expand_home(path)) if path else None
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"{TOKENS_FILE} cannot be read: {error}") from error
    tokens, source = find_tokens(environment, file_text=text)
    log.event("bearer tokens", source=source, count=len(tokens.actor_by_digest))
    return tokens


def _read_secret(path: Path) -> str:
    """The text of a file of tokens; `StartupError` if other users of this machine can access it."""
    mode = S_IMODE(path.stat().st_mode)
    # The group may read it, as an orchestrator may mount a secret for a group.
    is_mounted = path.is_relative_to(MOUNTED_SECRETS)
    if mode & (S_IRWXO | S_IWGRP) and not is_mounted:
        raise StartupError(
            f"{TOKENS_FILE}: other users can access {path} (mode {mode:03o}); run "
            f"`chmod 600 {quote(str(path))}` and start again"
        )
    return path.read_text(encoding="utf-8")


def _open_tracing(environment: Mapping[str, str], log: Log) -> tuple[Tracing, Callable[[], None]]:
    """The tracing backend, and a function that flushes its last spans."""
    if not any(environment.get(each) for each in TRACES_GO_TO):
        return NoTracing(), lambda: None
    if find_spec("opentelemetry") is None:
        log.warning("traces are not sent", problem="the extra `telemetry` is not installed")
        return NoTracing(), lambda: None
    # Imported by name, because OpenTelemetry is optional and slow to import.
    made: tuple[Tracing, Callable[[], None]] = import_module("omnigraph.server.otel").open_tracing(
        version=omnigraph.__version__
    )
    return made


def _observe(counting: Observer, tracing: Tracing) -> Observer:
    return counting if isinstance(tracing, NoTracing) else TracedObserver(counting, tracing)


def _warn_about(mode: Mode, log: Log) -> None:
    match mode:
        case Mode.OPEN:
            log.warning("open mode", meaning="every caller may perform every action")
        case Mode.DEFAULT_DENY:
            log.warning("default-deny mode", meaning="callers with a token may only read")
        case Mode.POLICY:
            pass


def _listen(bind: str) -> socket.socket:
    """A listening socket; connections queue until they are accepted."""
    host, port = parse_bind(bind)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise StartupError(f"cannot listen at {bind}: {error.strerror or error}") from error


def _fail(message: str) -> None:
    click.echo(f"Error: {message}", err=True)
    sys.exit(1)
