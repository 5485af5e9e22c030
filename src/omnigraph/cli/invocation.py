"""One run of a command: flags, configuration, target, confirmation and the graph that it opens.

Every error about an address is raised before anything is opened. The engine, the client and the
control plane are imported only when a graph or a cluster is opened. Destructive actions on a graph
that is not local require confirmation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from enum import Enum, auto
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.config import CONFIG_FILE, Format, OperatorConfig, find_home, read_config
from omnigraph.cli.credentials import CREDENTIALS_FILE, find_token, read_token, servers_at
from omnigraph.cli.options import Flags
from omnigraph.cli.output import (
    CommandError,
    Terminal,
    print_json,
    print_line,
    show_waiting,
    standard_output,
)
from omnigraph.cli.targets import (
    ClusterScope,
    Scope,
    ServedTarget,
    StoreTarget,
    Target,
    is_http,
    require_cluster_scope,
    require_data_scope,
    require_direct_scope,
    require_served_scope,
    resolve_scope,
)
from omnigraph.cluster.resources import StoppedError
from omnigraph.model.errors import GraphError
from omnigraph.model.runtime import lazy_module
from omnigraph.model.source import Severity
from omnigraph.storage.environment import expand_home, make_storage_options

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph, RemoteGraph, ServedGraph
    from omnigraph.cluster import catalog, context
    from omnigraph.engine.graph import Graph
else:
    # Maintenance of a graph that is named by its storage does not need the control plane.
    catalog = lazy_module("omnigraph.cluster.catalog")
    context = lazy_module("omnigraph.cluster.context")


class Consent(Enum):
    """Whether a destructive action may proceed."""

    GIVEN = auto()
    PROMPT = auto()
    MISSING = auto()


def decide_consent(*, is_local: bool, is_yes: bool, is_json: bool, is_terminal: bool) -> Consent:
    """Whether to proceed: local graphs need no consent, others `--yes` or a confirmation."""
    if is_local or is_yes:
        return Consent.GIVEN
    # A script has no user to confirm, and would wait forever.
    return Consent.PROMPT if is_terminal and not is_json else Consent.MISSING


def is_agreed(reply: str) -> bool:
    """Whether the reply to the confirmation prompt is yes."""
    return reply.strip().lower() in ("y", "yes")


def open_applied(root: str, environment: Mapping[str, str]) -> context.Cluster:
    """The cluster at a folder or URI, with the storage that its configuration names."""
    if is_http(root):
        raise CommandError(
            f"'{root}' is a server; name a cluster by its folder or by the uri of its storage"
        )
    if "://" not in root and not expand_home(root).is_dir():
        raise CommandError(
            f"there is no cluster '{root}': --cluster takes a folder with cluster.yaml, the uri of "
            "a cluster's storage, or a name under `clusters:` in the configuration"
        )
    options = make_storage_options(environment, {})
    with translate_findings():
        return context.open_cluster(
            root, context.make_context(storage_options=options, durability="full")
        )


def find_graph_uri(scope: ClusterScope, environment: Mapping[str, str]) -> str:
    """The URI of the graph of a scope; without an id, of the only applied graph."""
    cluster = open_applied(scope.root, environment)
    with translate_findings():
        return catalog.get_graph_uri(cluster, scope.graph)


@contextmanager
def translate_findings() -> Iterator[None]:
    """A block in which an error of the control plane becomes a `CommandError`."""
    try:
        yield
    except StoppedError as error:
        errors = [each for each in error.findings if each.severity is Severity.ERROR]
        match errors:
            case [only]:
                raise CommandError(only.message) from error
            case _:
                lines = [f"{each.path}: {each.message}" for each in errors]
                raise CommandError("\n  ".join(["the cluster cannot be used:", *lines])) from error


class Invocation:
    """The flags, configuration, target and output of one command."""

    def __init__(
        self, *, flags: Flags, uri: str | None, is_json: bool, environment: Mapping[str, str]
    ) -> None:
        self.flags = flags
        self.uri = uri
        """The positional argument or `--uri` of a command that takes one."""
        self.is_json = is_json
        self.environment = environment
        self.reached: Target | None = None
        """The graph or server that was opened or contacted, for explaining an error."""
        self.is_writing = False
        """Whether it was opened for writing."""

    @cached_property
    def home(self) -> Path:
        """The folder of the configuration and the credentials, which need not exist."""
        return find_home(self.environment)

    @cached_property
    def config(self) -> OperatorConfig:
        """The configuration, read on first use; unknown keys are reported then."""
        config, unknown = read_config(self.config_path)
        for key in unknown:
            click.echo(f"warning: unknown key `{key}` in {self.config_path} is ignored", err=True)
        return config

    @property
    def config_path(self) -> Path:
        """The file of the configuration, which need not exist."""
        return self.home / CONFIG_FILE

    @property
    def credentials_path(self) -> Path:
        """The file of tokens, which need not exist."""
        return self.home / CREDENTIALS_FILE

    @property
    def actor(self) -> str | None:
        """The actor of writes when this process opens storage itself."""
        return self.flags.actor if self.flags.actor is not None else self.config.actor

    @property
    def reached_servers(self) -> list[str]:
        """The names in the configuration of the server that was contacted."""
        if not isinstance(self.reached, ServedTarget):
            return []
        return servers_at(self.reached.uri, self.config.url_by_server)

    def target(self) -> Target:
        """The graph of a command on rows."""
        match require_data_scope(self._resolve()):
            case StoreTarget() as store:
                return store
            case ServedTarget() as server:
                return self.served_graph(server)

    def direct_target(self) -> StoreTarget:
        """The graph of a command that works on storage."""
        match require_direct_scope(self._resolve()):
            case StoreTarget() as store:
                return store
            case ClusterScope() as scope:
                return StoreTarget(find_graph_uri(scope, self.environment))

    def cluster_scope(self) -> ClusterScope:
        """The cluster of a command that works on the applied state."""
        return require_cluster_scope(self._resolve())

    def find_cluster_scope(self) -> ClusterScope | None:
        """The named cluster; None if the address is not a cluster."""
        scope = self._resolve()
        return scope if isinstance(scope, ClusterScope) else None

    def server_target(self) -> ServedTarget:
        """The server of a command that needs a server; no graph is required."""
        flags, uri = self.flags, self.uri
        if uri is not None and is_http(uri) and flags.server is None:
            # Here a URL means the same as `--server`.
            flags, uri = replace(flags, server=uri), None
        scope = resolve_scope(flags, uri=uri, config=self.config, environment=self.environment)
        target = self.reached = self._with_token(require_served_scope(scope))
        return target

    def served_graph(self, server: ServedTarget) -> ServedTarget:
        """A graph of a server; `CommandError` if none is named and the server lists graphs."""
        target = self._with_token(server)
        if target.graph_id is None:
            _require_no_choice(target)
        return target

    def open_to_read(self) -> AbstractContextManager[AnyGraph]:
        """Open the graph of a command that only reads."""
        return self.open(self.target(), read_only=True)

    def open_to_write(self, verb: str, target: Target) -> AbstractContextManager[AnyGraph]:
        """Open the graph of a target for writing, and print the target of the write."""
        self.announce(verb, target)
        return self.open(target, read_only=False)

    def open(self, target: Target, *, read_only: bool) -> AbstractContextManager[AnyGraph]:
        """Open the graph of a target; the end of the block closes it."""
        match target:
            case StoreTarget():
                return self.open_direct(target, read_only=read_only)
            case ServedTarget():
                return self.open_served(target, read_only=read_only)

    def open_direct(self, target: StoreTarget, *, read_only: bool) -> AbstractContextManager[Graph]:
        """Open the graph in its storage, as the actor."""
        self.reached, self.is_writing = target, not read_only
        return omnigraph.open(target.uri, read_only=read_only, actor=self.actor)

    def open_served(
        self, target: ServedTarget, *, read_only: bool
    ) -> AbstractContextManager[RemoteGraph]:
        """Open a graph of a server; the server determines the actor of writes from the token."""
        if not read_only and self.flags.actor is not None:
            raise CommandError(
                "--as does not apply to a write through a server, which derives the actor from the "
                "token; remove --as"
            )
        self.reached, self.is_writing = target, not read_only
        return omnigraph.connect(target.base_url, graph=target.graph_id, token=target.token)

    def announce(self, verb: str, target: Target) -> None:
        """Print the target of a write to standard error, unless `--quiet`."""
        if not self.flags.is_quiet:
            click.echo(f"omnigraph {verb} → {target.uri} ({target.access})", err=True)

    def confirm(self, action: str, target: Target, *, confirms_locally: bool = False) -> None:
        """Return only if the action `action` ("delete branch 'x'") may proceed on the target.

        A local graph needs no confirmation, unless `confirms_locally`. Raises `CommandError`
        otherwise.
        """
        consent = decide_consent(
            is_local=target.is_local and not confirms_locally,
            is_yes=self.flags.is_yes,
            is_json=self.is_json,
            is_terminal=sys.stdin.isatty(),
        )
        match consent:
            case Consent.GIVEN:
                return
            case Consent.MISSING:
                raise CommandError(
                    f"this would {action} on {target.uri}, permanently; nothing was done; to "
                    "proceed, repeat the command with --yes"
                )
            case Consent.PROMPT:
                click.echo(
                    f"This will {action} on {target.uri}. Proceed? [y/N] ", err=True, nl=False
                )
                if not is_agreed(sys.stdin.readline()):
                    raise CommandError("not confirmed; nothing was done")

    def print_output(
        self, payload: Mapping[str, object] | list[object], lines: Iterable[str]
    ) -> None:
        """Print a payload as JSON if the command line requests it, or else lines of text."""
        if self.is_json:
            print_json(payload)
            return
        for line in lines:
            print_line(line)

    def waiting(self, action: str) -> AbstractContextManager[None]:
        """A block that shows a message with the elapsed time on a terminal while it takes long."""
        return show_waiting(action, self.environment)

    @property
    def terminal(self) -> Terminal:
        """The terminal properties of standard output now."""
        return standard_output(self.environment)

    def output_format(self, *, chosen: str | None, of_alias: Format | None) -> Format:
        """The format of rows: `--json`, else `--format`, else the alias's, else the default."""
        if self.is_json:
            return Format.JSON
        if chosen is not None:
            return Format(chosen)
        return of_alias or self.config.defaults.output or Format.TABLE

    def _resolve(self) -> Scope | None:
        return resolve_scope(
            self.flags, uri=self.uri, config=self.config, environment=self.environment
        )

    def _with_token(self, target: ServedTarget) -> ServedTarget:
        token = find_token(
            target.uri,
            url_by_server=self.config.url_by_server,
            environment=self.environment,
            read_stored=lambda server: read_token(self.credentials_path, server),
        )
        return replace(target, token=token)


def list_server_graphs(target: ServedTarget) -> list[ServedGraph]:
    """The graphs of a server."""
    # Imported by name, because most commands contact no server.
    part = import_module("omnigraph.client.remote")
    found: list[ServedGraph] = part.list_graphs(target.base_url, token=target.token)
    return found


def _require_no_choice(target: ServedTarget) -> None:
    """Raise if the server lists any graphs, because none was selected."""
    try:
        graphs = list_server_graphs(target)
    except GraphError:
        # If listing is not permitted or the server is unreachable, the next request reports it.
        return
    if graphs:
        ids = ", ".join(sorted(each.graph_id for each in graphs))
        raise CommandError(
            f"no graph is selected; {target.base_url} serves: {ids}; choose one with --graph <id>"
        )
