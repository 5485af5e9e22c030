"""The `omnigraph-server` command: flags and environment in, a running server out.

Refuses what is unsafe before any graph is opened. Exits with 0 when it was told to end, 1 when it
could not start or did not end in time, 2 when the command line was wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from socket import socket

import click

import omnigraph
from omnigraph.model.errors import GraphError
from omnigraph.model.observer import Observer
from omnigraph.server.admission import Admission
from omnigraph.server.app import Frame, make_app
from omnigraph.server.calls import Means
from omnigraph.server.jobs import Jobs
from omnigraph.server.kept_answers import KeptAnswers
from omnigraph.server.limits import SERVER_WAITING_MAX, SHUTDOWN_S_MAX
from omnigraph.server.listening import answer_until_told, listen, url_of
from omnigraph.server.logs import Log, open_log, parse_level
from omnigraph.server.metrics import Metrics
from omnigraph.server.plans import Store
from omnigraph.server.preparing import Preparing
from omnigraph.server.probes import make_probes
from omnigraph.server.reloading import Reloader
from omnigraph.server.routes.table import make_routes
from omnigraph.server.serving import Serving
from omnigraph.server.settings import (
    TOKENS_FILE,
    BootError,
    Mode,
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
    """What the command line says: what is served is one graph's storage, or a cluster."""

    served: Store | str
    bind: str
    is_unauthenticated: bool
    is_every_graph_needed: bool
    agents_write_main: bool


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
@click.option("--mcp-allow-main", is_flag=True, help="Let agents write to `main` if they say so.")
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
    mcp_allow_main: bool,
) -> int:
    """Serve graphs over HTTP."""
    environment = os.environ
    flags = Flags(
        served=_find_served(
            store,
            cluster,
            {"--policy": policy, "--server-policy": server_policy, "--queries": queries},
        ),
        bind=bind,
        is_unauthenticated=unauthenticated or is_on(environment.get("OMNIGRAPH_UNAUTHENTICATED")),
        is_every_graph_needed=require_all_graphs
        or is_on(environment.get("OMNIGRAPH_REQUIRE_ALL_GRAPHS")),
        agents_write_main=mcp_allow_main,
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


def _find_served(
    store: str | None, cluster: str | None, files: Mapping[str, str | None]
) -> Store | str:
    """What is to be served: the storage of a graph with its files, or the place of a cluster."""
    if cluster is not None:
        given = [flag for flag, path in {"--store": store, **files}.items() if path is not None]
        if given:
            raise BootError(
                f"{given[0]} does not go with --cluster, which has its own graphs, queries and "
                "policies: those that were applied"
            )
        return cluster
    if store is None:
        raise BootError(
            "omnigraph-server boots from a cluster, named by --cluster DIR|URI, or from one graph, "
            "named by --store URI"
        )
    return Store(store, files["--policy"], files["--server-policy"], files["--queries"])


def _run(flags: Flags, environment: Mapping[str, str]) -> int:
    level = parse_level(environment.get("OMNIGRAPH_LOG") or environment.get("RUST_LOG", ""))
    log = open_log(sys.stdout.buffer, level)
    bounds, warnings = parse_bounds(environment)
    for each in warnings:
        log.warning("setting ignored", problem=each)
    tracing, end_tracing = _open_tracing(environment, log)
    metrics = Metrics()
    preparing = Preparing(
        served=flags.served,
        is_unauthenticated=flags.is_unauthenticated,
        is_every_graph_needed=flags.is_every_graph_needed,
        environment=environment,
        bounds=bounds,
        read_tokens=lambda: _read_tokens(environment, log),
        observer_of=lambda id: _observe(metrics.observer_of(id), tracing),
        log=log,
    )
    # Who is let in is decided, and the address taken, before any graph is opened.
    planned = preparing.plan()
    _warn_of(planned.plan.mode, log)
    listening = _listen(flags.bind)
    prepared = preparing.open(planned, before={})
    serving = Serving(prepared.revision)
    reloader = Reloader(serving, prepare=preparing.prepare_again, log=log)
    means = Means(
        serving=serving,
        reload=reloader.reload,
        reads=_open_workers("read", bounds.running_reads_max),
        writes=_open_workers("write", bounds.running_writes_max),
        admission=Admission(bounds.budget),
        answers=KeptAnswers(),
        jobs=Jobs(new_id=_new_id, log=log),
        tracing=tracing,
        log=log,
    )
    tokens = prepared.revision.tokens
    app = _assemble(flags, means, tokens=tokens, environment=environment, metrics=metrics)
    log.event(
        "listening",
        url=url_of(listening),
        graphs=sorted(prepared.revision.graphs),
        mode=planned.plan.mode,
        version=omnigraph.__version__,
    )
    answer_until_told(app, listening, on_hangup=partial(_reload, reloader))
    is_done = means.close(within_s=SHUTDOWN_S_MAX)
    end_tracing()
    log.event("ended")
    return 0 if is_done else _abandon(log)


def _assemble(
    flags: Flags,
    means: Means,
    *,
    tokens: Tokens,
    environment: Mapping[str, str],
    metrics: Metrics,
) -> Frame:
    """The application, of its routes and its doors."""
    routes = make_routes(
        version=omnigraph.__version__,
        is_authenticated=bool(tokens),
        agents_write_main=flags.agents_write_main,
    )
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
        public_paths=public_paths,
        metrics=metrics,
        new_id=_new_id,
    )


def _reload(reloader: Reloader) -> None:
    # A signal asks and waits for no answer; why a reload was refused is in the log.
    with suppress(BootError):
        reloader.reload()


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
