"""The `omnigraph-server` command: flags and environment in, a running server out.

Refuses what is unsafe before any graph is opened. Exits with 0 when it was told to end, 1 when it
could not start or did not end in time, 2 when the command line was wrong.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from socket import socket

import click

import omnigraph
from omnigraph.embed.providers import find_embedder
from omnigraph.engine.read.access import TraversalMode
from omnigraph.engine.read.budget import Allowance
from omnigraph.engine.settings import Settings, make_settings
from omnigraph.model.errors import GraphError
from omnigraph.model.observer import Observer
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.gate import DefaultDenyGate, open_gate
from omnigraph.server.admission import Admission
from omnigraph.server.app import Doors, Frame, make_app
from omnigraph.server.boot import Source, open_sources
from omnigraph.server.calls import Means
from omnigraph.server.jobs import Jobs
from omnigraph.server.kept_answers import KeptAnswers
from omnigraph.server.limits import SERVER_WAITING_MAX, SHUTDOWN_S_MAX
from omnigraph.server.listening import answer_until_told, listen, url_of
from omnigraph.server.logs import Log, open_log, parse_level
from omnigraph.server.metrics import Metrics
from omnigraph.server.probes import make_probes
from omnigraph.server.routes.table import make_routes
from omnigraph.server.served import DEFAULT_ID, Judge, ServedGraphs
from omnigraph.server.settings import (
    TOKENS_FILE,
    BootError,
    Bounds,
    Mode,
    decide_mode,
    find_tokens,
    is_on,
    parse_bind,
    parse_bounds,
)
from omnigraph.server.tokens import Tokens
from omnigraph.server.tracing import NoTracing, TracedObserver, Tracing
from omnigraph.server.workers import Workers

# Where OpenTelemetry's own variables say that spans go.
TRACES_GO_TO = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

REQUEST_ID_BYTES = 8

PUBLIC_PATHS = frozenset({"/healthz", "/openapi.json"})


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line says."""

    store: str | None
    bind: str
    is_unauthenticated: bool
    is_every_graph_needed: bool
    policy: str | None
    server_policy: str | None
    queries: str | None


@dataclass(frozen=True, slots=True)
class Gates:
    """Who decides: about the graph, and about the server itself."""

    graph: Judge | None
    server: Judge | None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(omnigraph.__version__, message="omnigraph-server %(version)s")
@click.option("--store", metavar="URI", help="Serve one graph, under the id `default`.")
@click.option("--cluster", metavar="DIR|URI", help="Serve what a cluster has applied.")
@click.option("--bind", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True)
@click.option("--unauthenticated", is_flag=True, help="Let everybody do everything.")
@click.option("--require-all-graphs", is_flag=True, help="Do not start without one of them.")
@click.option("--policy", metavar="FILE", help="Who may do what with the graph of --store.")
@click.option("--server-policy", metavar="FILE", help="Who may list the graphs.")
@click.option("--queries", metavar="PATH", help="Stored queries: a .gq file, or a folder of them.")
def serve(  # noqa: PLR0913  # one argument a flag
    *,
    store: str | None,
    cluster: str | None,
    bind: str,
    unauthenticated: bool,
    require_all_graphs: bool,
    policy: str | None,
    server_policy: str | None,
    queries: str | None,
) -> int:
    """Serve graphs over HTTP."""
    environment = os.environ
    if cluster is not None:
        raise BootError("this build cannot boot from a cluster yet; use --store for one graph")
    if store is None:
        raise BootError("omnigraph-server boots from a cluster, or with --store from one graph")
    flags = Flags(
        store=store,
        bind=bind,
        is_unauthenticated=unauthenticated or is_on(environment.get("OMNIGRAPH_UNAUTHENTICATED")),
        is_every_graph_needed=require_all_graphs
        or is_on(environment.get("OMNIGRAPH_REQUIRE_ALL_GRAPHS")),
        policy=policy,
        server_policy=server_policy,
        queries=queries,
    )
    return _run(flags, environment)


def main() -> None:
    """Run the server and exit."""
    try:
        sys.exit(serve.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (BootError, GraphError) as error:
        _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted")


def _run(flags: Flags, environment: Mapping[str, str]) -> int:
    level = parse_level(environment.get("OMNIGRAPH_LOG") or environment.get("RUST_LOG", ""))
    log = open_log(sys.stdout.buffer, level)
    bounds, warnings = parse_bounds(environment)
    for each in warnings:
        log.warning("setting ignored", problem=each)
    tokens = _read_tokens(environment, log)
    mode = decide_mode(
        has_tokens=bool(tokens),
        has_policy=flags.policy is not None or flags.server_policy is not None,
        is_unauthenticated=flags.is_unauthenticated,
    )
    _warn_of(mode, log)
    gates = _open_gates(flags, mode)
    listening = _listen(flags.bind)
    metrics = Metrics()
    tracing, end_tracing = _open_tracing(environment, log)
    observer = _observe(metrics.observer_of(DEFAULT_ID), tracing)
    graphs = _open_graphs(
        flags, environment, gates=gates, bounds=bounds, observer=observer, log=log
    )
    means = Means(
        graphs=graphs,
        reads=_open_workers("read", bounds.running_reads_max),
        writes=_open_workers("write", bounds.running_writes_max),
        admission=Admission(bounds.budget),
        answers=KeptAnswers(),
        jobs=Jobs(new_id=_new_id, log=log),
        tracing=tracing,
        log=log,
    )
    app = _assemble(means, tokens=tokens, environment=environment, metrics=metrics)
    log.event(
        "listening",
        url=url_of(listening),
        graphs=sorted(graphs.by_id),
        mode=mode,
        version=omnigraph.__version__,
    )
    answer_until_told(app, listening)
    is_done = means.close(within_s=SHUTDOWN_S_MAX)
    end_tracing()
    log.event("ended")
    return 0 if is_done else _abandon(log)


def _assemble(
    means: Means, *, tokens: Tokens, environment: Mapping[str, str], metrics: Metrics
) -> Frame:
    """The application, of its routes and its doors."""
    routes = make_routes(version=omnigraph.__version__, is_authenticated=bool(tokens))
    probes = make_probes(
        version=omnigraph.__version__,
        source_version=environment.get("OMNIGRAPH_SOURCE_VERSION") or None,
        metrics=metrics,
    )
    is_metrics_public = is_on(environment.get("OMNIGRAPH_METRICS_PUBLIC"))
    public_paths = PUBLIC_PATHS | ({"/metrics"} if is_metrics_public else frozenset())
    return make_app(
        (*routes, *probes),
        means=means,
        doors=Doors(tokens, public_paths),
        metrics=metrics,
        new_id=_new_id,
    )


def _open_workers(name: str, running_max: int) -> Workers:
    return Workers(name=name, running_max=running_max, waiting_max=SERVER_WAITING_MAX)


def _new_id() -> str:
    return token_hex(REQUEST_ID_BYTES)


def _read_tokens(environment: Mapping[str, str], log: Log) -> Tokens:
    path = environment.get(TOKENS_FILE, "").strip()
    try:
        text = Path(path).read_text(encoding="utf-8") if path else None
    except (OSError, UnicodeDecodeError) as error:
        raise BootError(f"{TOKENS_FILE} cannot be read: {error}") from error
    tokens, source = find_tokens(environment, file_text=text)
    log.event("bearer tokens", source=source, count=len(tokens.actor_by_digest))
    return tokens


def _open_tracing(environment: Mapping[str, str], log: Log) -> tuple[Tracing, Callable[[], None]]:
    """Who is told of spans, and what hands over the last of them."""
    if not any(environment.get(each) for each in TRACES_GO_TO):
        return NoTracing(), lambda: None
    if find_spec("opentelemetry") is None:
        log.warning("traces are not sent", problem="the extra `telemetry` is not installed")
        return NoTracing(), lambda: None
    # By its name, because OpenTelemetry is an extra and takes a while to import.
    made: tuple[Tracing, Callable[[], None]] = import_module(
        "omnigraph.server.traces"
    ).open_tracing(version=omnigraph.__version__)
    return made


def _observe(counting: Observer, tracing: Tracing) -> Observer:
    return counting if isinstance(tracing, NoTracing) else TracedObserver(counting, tracing)


def _warn_of(mode: Mode, log: Log) -> None:
    match mode:
        case Mode.OPEN:
            log.warning("open mode", meaning="everybody who reaches this server may do everything")
        case Mode.DEFAULT_DENY:
            log.warning("default-deny mode", meaning="holders of tokens may read, and nothing else")
        case Mode.POLICY:
            pass


def _open_graphs(
    flags: Flags,
    environment: Mapping[str, str],
    *,
    gates: Gates,
    bounds: Bounds,
    observer: Observer,
    log: Log,
) -> ServedGraphs:
    assert flags.store is not None
    store = flags.store

    def settings() -> Settings:
        return replace(_graph_settings(store, environment, bounds=bounds), observer=observer)

    queries = None if flags.queries is None else Path(flags.queries)
    source = Source(DEFAULT_ID, settings, gates.graph, queries, is_managed=False)
    by_id = open_sources([source], is_every_one_needed=flags.is_every_graph_needed, log=log)
    return ServedGraphs(by_id, gates.server)


def _graph_settings(uri: str, environment: Mapping[str, str], *, bounds: Bounds) -> Settings:
    return replace(
        make_settings(uri, storage_options=None, durability="full"),
        embedder=find_embedder(environment),
        spark_package="omnigraph.spark",
        traversal=_parse_traversal(environment.get("OMNIGRAPH_TRAVERSAL_MODE", "auto")),
        allowance=Allowance(bounds.query_bytes_max, bounds.query_seconds_max, time.monotonic),
    )


def _parse_traversal(text: str) -> TraversalMode:
    if text not in tuple(TraversalMode):
        raise BootError(f"OMNIGRAPH_TRAVERSAL_MODE is {text!r}, none of auto, csr and indexed")
    return TraversalMode(text)


def _open_gates(flags: Flags, mode: Mode) -> Gates:
    """Who decides about the graph and about the server; a bad policy is a reason not to start."""
    match mode:
        case Mode.OPEN:
            return Gates(graph=None, server=None)
        case Mode.DEFAULT_DENY:
            return Gates(graph=DefaultDenyGate(), server=None)
        case Mode.POLICY:
            return Gates(
                graph=DefaultDenyGate()
                if flags.policy is None
                else open_gate(flags.policy, kind=BundleKind.GRAPH, graph_id=DEFAULT_ID),
                server=None
                if flags.server_policy is None
                else open_gate(flags.server_policy, kind=BundleKind.SERVER, graph_id=None),
            )


def _listen(bind: str) -> socket:
    host, port = parse_bind(bind)
    try:
        return listen(host, port)
    except OSError as error:
        raise BootError(f"cannot listen at {bind}: {error.strerror or error}") from error


def _abandon(log: Log) -> int:
    # Python would wait for the threads for ever. What they have not published, nobody sees.
    log.warning("ended with calls under way")
    os._exit(1)


def _fail(message: str) -> None:
    click.echo(f"Error: {message}", err=True)
    sys.exit(1)
