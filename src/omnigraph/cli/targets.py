"""Resolution of flags, URI, profile and defaults to one graph, server or cluster.

Pure: it opens nothing and contacts no server. Explicit flags take precedence over a profile, and a
profile over the defaults. Addresses that contradict each other are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote, unquote

from omnigraph.cli.config import OperatorConfig, Profile
from omnigraph.cli.options import Flags
from omnigraph.cli.output import CommandError

_GRAPH_URL = re.compile(r"(.+)/graphs/([^/]+)")


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """A graph whose storage this process opens itself; `uri` is as given on the command line."""

    uri: str

    @property
    def is_local(self) -> bool:
        """Whether the storage is a folder on this machine."""
        return "://" not in self.uri or self.uri.lower().startswith("file://")

    @property
    def access(self) -> str:
        """The kind of access, for the announcement of a write."""
        return "direct, local" if self.is_local else "direct, remote"


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """A graph of a server; without `graph_id`, the server itself is treated as the graph."""

    base_url: str
    graph_id: str | None
    token: str | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        """The URL of the graph."""
        if self.graph_id is None:
            return self.base_url
        return f"{self.base_url}/graphs/{quote(self.graph_id, safe='')}"

    @property
    def is_local(self) -> bool:
        """False: destructive actions on a server need confirmation, wherever it runs."""
        return False

    @property
    def access(self) -> str:
        """The kind of access, for the announcement of a write."""
        return "served"


Target: TypeAlias = StoreTarget | ServedTarget


@dataclass(frozen=True, slots=True)
class ClusterScope:
    """A cluster, and one of its graphs if one was named."""

    root: str
    graph: str | None


Scope: TypeAlias = Target | ClusterScope


def resolve_scope(
    flags: Flags, *, uri: str | None, config: OperatorConfig, environment: Mapping[str, str]
) -> Scope | None:
    """The address of a command line; None if neither it nor the configuration has one."""
    places = {
        "a uri": uri,
        "--store": flags.store,
        "--server": flags.server,
        "--cluster": flags.cluster,
    }
    given = [name for name, value in places.items() if value is not None]
    if len(given) > 1:
        raise CommandError(f"{' and '.join(given)} are mutually exclusive; remove one of them")
    if flags.cluster is not None:
        return ClusterScope(config.root_by_cluster.get(flags.cluster, flags.cluster), flags.graph)
    if flags.server is not None:
        return make_server_scope(flags.server, graph=flags.graph, fallback=None, config=config)
    store = uri if uri is not None else flags.store
    if store is not None:
        if flags.graph is not None:
            raise CommandError(f"'{store}' is already a single graph; remove --graph {flags.graph}")
        return StoreTarget(store)
    name = active_profile(flags, environment)
    if name is not None:
        return scope_of_profile(name, graph=flags.graph, config=config)
    return scope_of_defaults(graph=flags.graph, config=config)


def active_profile(flags: Flags, environment: Mapping[str, str]) -> str | None:
    """The profile that applies if no address is given explicitly."""
    if flags.profile is not None:
        return flags.profile
    return environment.get("OMNIGRAPH_PROFILE") or None


def scope_of_profile(name: str, *, graph: str | None, config: OperatorConfig) -> Scope:
    """The address of a profile; an explicit graph takes precedence over the profile's."""
    profile = get_profile(name, config)
    (kind, value) = require_one_binding(name, profile)
    match kind:
        case "server":
            return make_server_scope(
                value, graph=graph, fallback=profile.default_graph, config=config
            )
        case "cluster":
            root = config.root_by_cluster.get(value, value)
            return ClusterScope(root, graph if graph is not None else profile.default_graph)
        case _:
            return _make_store_scope(value, graph if graph is not None else profile.default_graph)


def scope_of_defaults(*, graph: str | None, config: OperatorConfig) -> Target | None:
    """The default address, used if neither the command line nor a profile has one."""
    defaults = config.defaults
    if defaults.server is not None:
        return make_server_scope(
            defaults.server, graph=graph, fallback=defaults.default_graph, config=config
        )
    if defaults.store is not None:
        return _make_store_scope(defaults.store, graph)
    return None


def get_profile(name: str, config: OperatorConfig) -> Profile:
    """The profile of a name."""
    found = config.profiles.get(name)
    if found is None:
        raise CommandError(
            f"unknown profile '{name}'; {_named_or_none('profiles', config.profiles)}"
        )
    return found


def require_one_binding(name: str, profile: Profile) -> tuple[str, str]:
    """The kind and value of the single address of a profile."""
    match profile.bindings:
        case [(kind, value)]:
            return kind, value
        case []:
            raise CommandError(
                f"profile '{name}' has no target; add one of server, cluster and store"
            )
        case several:
            raise CommandError(
                f"profile '{name}' binds {len(several)} scopes "
                f"({', '.join(kind for kind, _ in several)}); keep one"
            )


def make_server_scope(
    server: str, *, graph: str | None, fallback: str | None, config: OperatorConfig
) -> ServedTarget:
    """A server by name or URL; `fallback` is its graph if neither the URL nor `graph` names one."""
    url = find_url(server, config)
    found = _GRAPH_URL.fullmatch(url)
    if found is None:
        return ServedTarget(url, graph if graph is not None else fallback)
    named = unquote(found[2])
    if graph is not None and graph != named:
        raise CommandError(
            f"'{url}' is the url of a single graph; remove --graph {graph}, or use the url "
            f"{found[1]}"
        )
    return ServedTarget(found[1], named)


def find_url(server: str, config: OperatorConfig) -> str:
    """The URL of a server, without a trailing slash."""
    url = server if "://" in server else config.url_by_server.get(server)
    if url is None:
        raise CommandError(
            f"unknown server '{server}'; {_named_or_none('servers', config.url_by_server)}; or "
            "use its url, as in --server http://localhost:8080"
        )
    if not is_http(url):
        raise CommandError(
            f"'{url}' is not the url of a server, which begins with http:// or https://; a graph's "
            "storage is named by --store"
        )
    if "@" in url.partition("://")[2].partition("/")[0]:
        # The URL is not shown: it may contain a password, and errors may be logged.
        raise CommandError(
            "the url of a server must not contain a user name or password; store a token "
            "with `omnigraph login`"
        )
    return url.rstrip("/")


def is_http(uri: str) -> bool:
    """Whether a URI is that of a server, not of storage."""
    return uri.lower().startswith(("http://", "https://"))


def require_data_scope(scope: Scope | None) -> Target:
    """The scope of a command that works on rows; `CommandError` if there is none."""
    match scope:
        case None:
            raise CommandError(
                "no graph is specified; use one of: --store <uri>, --server <name|url> --graph "
                "<id>, --profile <name>, or `defaults` in the configuration (a uri as an argument, "
                "where the command takes one)"
            )
        case ClusterScope():
            raise CommandError(
                "a cluster is not valid for graph data commands; use --server <name|url> of the "
                "server that serves it, or --store <uri>"
            )
        case StoreTarget(uri=uri) if is_http(uri):
            raise CommandError(f"'{uri}' is a server; use --server {uri}")
        case StoreTarget() | ServedTarget():
            return scope


def require_direct_scope(scope: Scope | None) -> StoreTarget | ClusterScope:
    """The scope of a command that works on storage; `CommandError` if there is none."""
    match scope:
        case None:
            raise CommandError(
                "no graph is specified; name its storage: a folder or s3://bucket/prefix, as an "
                "argument or by --store; or a cluster that has it, where the command takes one"
            )
        case ServedTarget(base_url=uri):
            raise CommandError(_direct_refusal(uri))
        case StoreTarget(uri=uri) if is_http(uri):
            raise CommandError(_direct_refusal(uri))
        case StoreTarget() | ClusterScope():
            return scope


def require_served_scope(scope: Scope | None) -> ServedTarget:
    """The scope of a command that needs a server; `CommandError` if there is none."""
    match scope:
        case ServedTarget():
            return scope
        case None:
            raise CommandError(
                "no server is specified; pass --server <name|url>, or set `defaults.server` in the "
                "configuration"
            )
        case StoreTarget(uri=uri):
            raise CommandError(
                f"'{uri}' is one graph's storage, but this command needs a remote multi-graph "
                "server; use --server <name|url>"
            )
        case ClusterScope():
            raise CommandError(
                "this command needs a remote multi-graph server, not the storage of a cluster; use "
                "--server <name|url>"
            )


def require_cluster_scope(scope: Scope | None) -> ClusterScope:
    """The scope of a command on the applied state; `CommandError` if there is none."""
    match scope:
        case ClusterScope():
            return scope
        case None:
            raise CommandError(
                "no cluster is specified; pass --cluster <dir|uri|name>, or use a profile of one"
            )
        case StoreTarget(uri=uri) | ServedTarget(base_url=uri):
            raise CommandError(
                f"this command needs a cluster, and {uri} is not one; use --cluster <dir|uri|name>"
            )


def _make_store_scope(uri: str, graph: str | None) -> StoreTarget:
    if graph is not None:
        raise CommandError(
            f"graph '{graph}' does not apply to a store scope: '{uri}' is a single graph; remove it"
        )
    return StoreTarget(uri)


def _direct_refusal(uri: str) -> str:
    return (
        f"this command needs direct storage access, and {uri} is a remote server; name the "
        "graph's storage: a folder or s3://bucket/prefix"
    )


def _named_or_none(kind: str, named: Mapping[str, object]) -> str:
    if not named:
        return f"the configuration has no {kind}"
    return f"{kind} of the configuration: {', '.join(sorted(named))}"
