"""One run of one command: its flags, the configuration, and the graph that they lead to.

Every command gets one. Promises that opening imports the engine or the client only then, and that
what is wrong with an address is told before anything is touched.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.applied_clusters import find_graph_uri
from omnigraph.cli.config import CONFIG_FILE, Format, OperatorConfig, find_home, read_config
from omnigraph.cli.confirmation import Consent, decide_consent, is_agreed
from omnigraph.cli.credentials import CREDENTIALS_FILE, find_token, read_token, servers_at
from omnigraph.cli.flags import Flags
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.scopes import (
    ClusterScope,
    Scope,
    ServerScope,
    StoreScope,
    is_http,
    require_cluster_scope,
    require_data_scope,
    require_direct_scope,
    require_served_scope,
    resolve_scope,
)
from omnigraph.cli.targets import ServedTarget, StoreTarget, Target
from omnigraph.model.errors import GraphError

if TYPE_CHECKING:
    from omnigraph.client.calls import GraphCalls
    from omnigraph.client.remote import RemoteGraph
    from omnigraph.client.servers import ServedGraph
    from omnigraph.engine.graph import Graph


class Invocation:
    """What a command knows about its caller."""

    def __init__(self, *, flags: Flags, environment: Mapping[str, str]) -> None:
        self.flags = flags
        self.environment = environment
        self.reached: Target | None = None
        """What was opened or asked, for whoever explains an error afterwards."""
        self.is_writing = False
        """Whether it was opened to be changed."""

    @cached_property
    def home(self) -> Path:
        """The folder of the configuration and the credentials, which need not exist."""
        return find_home(self.environment)

    @cached_property
    def config(self) -> OperatorConfig:
        """The configuration, read when first asked for; keys that nobody knows are told then."""
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
        """In whose name this process writes when it opens storage itself."""
        return self.flags.actor if self.flags.actor is not None else self.config.actor

    @property
    def reached_servers(self) -> list[str]:
        """The names that the server that was asked has in the configuration."""
        if not isinstance(self.reached, ServedTarget):
            return []
        return servers_at(self.reached.url, self.config.url_by_server)

    def target(self, uri: str | None) -> Target:
        """The graph of a command that works on rows; `uri` is its positional or `--uri`."""
        match require_data_scope(self._resolve(uri)):
            case StoreScope(uri=store):
                return StoreTarget(store)
            case ServerScope() as scope:
                return self.served_graph(scope)

    def direct_target(self, uri: str | None) -> StoreTarget:
        """The graph of a command that works in storage."""
        match require_direct_scope(self._resolve(uri)):
            case StoreScope(uri=store):
                return StoreTarget(store)
            case ClusterScope() as scope:
                return StoreTarget(find_graph_uri(scope, self.environment))

    def cluster_scope(self) -> ClusterScope:
        """The cluster of a command that works on what was applied."""
        return require_cluster_scope(self._resolve(None))

    def find_cluster_scope(self) -> ClusterScope | None:
        """The cluster that is named, if what is named is one."""
        scope = self._resolve(None)
        return scope if isinstance(scope, ClusterScope) else None

    def server_target(self, uri: str | None) -> ServedTarget:
        """The server of a command that only a server answers; a graph is not asked for."""
        flags = self.flags
        if uri is not None and is_http(uri) and flags.server is None:
            # Here a url says what `--server` says.
            flags, uri = replace(flags, server=uri), None
        scope = resolve_scope(flags, uri=uri, config=self.config, environment=self.environment)
        target = self.reached = self._with_token(require_served_scope(scope))
        return target

    def served_graph(self, scope: ServerScope) -> ServedTarget:
        """A graph of a server; without one that is named, the server must not have a choice."""
        target = self._with_token(scope)
        if target.graph_id is None:
            _require_no_choice(target)
        return target

    def open(self, target: Target, *, read_only: bool) -> AbstractContextManager[GraphCalls]:
        """Open the graph of a target; the end of the block closes it."""
        match target:
            case StoreTarget():
                return self.open_direct(target, read_only=read_only)
            case ServedTarget():
                return self.open_served(target, read_only=read_only)

    def open_direct(self, target: StoreTarget, *, read_only: bool) -> AbstractContextManager[Graph]:
        """Open the graph in its storage, in the name of the actor."""
        self.reached, self.is_writing = target, not read_only
        return omnigraph.open(target.uri, read_only=read_only, actor=self.actor)

    def open_served(
        self, target: ServedTarget, *, read_only: bool
    ) -> AbstractContextManager[RemoteGraph]:
        """Open a graph of a server; who writes there is not this command line's to say."""
        if not read_only:
            self._require_no_actor()
        self.reached, self.is_writing = target, not read_only
        return omnigraph.connect(target.base_url, graph=target.graph_id, token=target.token)

    def announce(self, verb: str, target: Target) -> None:
        """Say on standard error where a write goes, unless told to be quiet."""
        if not self.flags.is_quiet:
            click.echo(f"omnigraph {verb} → {target.uri} ({target.access})", err=True)

    def confirm(self, deed: str, target: Target, *, is_json: bool) -> None:
        """Come back only if `deed` ("delete branch 'x'") may be done on the target."""
        consent = decide_consent(
            is_local=target.is_local,
            is_yes=self.flags.is_yes,
            is_json=is_json,
            is_terminal=sys.stdin.isatty(),
        )
        match consent:
            case Consent.GIVEN:
                return
            case Consent.MISSING:
                raise CommandError(
                    f"this would {deed} on {target.uri}, for good; nothing was done; to go "
                    "ahead, repeat the command with --yes"
                )
            case Consent.ASK:
                click.echo(
                    f"This will {deed} on {target.uri}. Go ahead? [y/N] ", err=True, nl=False
                )
                if not is_agreed(sys.stdin.readline()):
                    raise CommandError("not confirmed; nothing was done")

    def output_format(
        self, *, is_json: bool, chosen: str | None, of_alias: Format | None
    ) -> Format:
        """How to print rows: `--json`, else `--format`, else the alias's, else the default."""
        if is_json:
            return Format.JSON
        if chosen is not None:
            return Format(chosen)
        return of_alias or self.config.defaults.output or Format.TABLE

    def _resolve(self, uri: str | None) -> Scope | None:
        return resolve_scope(self.flags, uri=uri, config=self.config, environment=self.environment)

    def _with_token(self, scope: ServerScope) -> ServedTarget:
        target = ServedTarget(base_url=scope.url, graph_id=scope.graph, token=None)
        token = find_token(
            target.url,
            url_by_server=self.config.url_by_server,
            environment=self.environment,
            read_stored=lambda server: read_token(self.credentials_path, server),
        )
        return replace(target, token=token)

    def _require_no_actor(self) -> None:
        if self.flags.actor is not None:
            raise CommandError(
                "--as does not apply to a write by a server: the server resolves identity from "
                "the token; leave out --as"
            )


def list_served(target: ServedTarget) -> list[ServedGraph]:
    """The graphs of a server."""
    # By its name, because most commands ask no server.
    part = import_module("omnigraph.client.servers")
    served: list[ServedGraph] = part.list_graphs(target.base_url, token=target.token)
    return served


def _require_no_choice(target: ServedTarget) -> None:
    """Refuse to go on without a graph if the server says that it has some."""
    try:
        served = list_served(target)
    except GraphError:
        # Who may not list graphs, or reaches no server, is told so by what comes next.
        return
    if served:
        ids = ", ".join(sorted(each.graph_id for each in served))
        raise CommandError(
            f"no graph is selected; {target.base_url} serves: {ids}; choose one with --graph <id>"
        )
