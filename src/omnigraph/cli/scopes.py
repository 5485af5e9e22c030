"""From flags, a uri, a profile and defaults to the one place that a command line means.

Pure. What is typed outright comes before a profile, which comes before the defaults; two places
that contradict each other are refused. Asks no server and opens nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from omnigraph.cli.config import OperatorConfig, Profile
from omnigraph.cli.flags import Flags
from omnigraph.cli.refusals import CommandError

_GRAPH_URL = re.compile(r"(.+)/graphs/([^/]+)")


@dataclass(frozen=True, slots=True)
class StoreScope:
    """The storage of one graph."""

    uri: str


@dataclass(frozen=True, slots=True)
class ServerScope:
    """A server, and one of its graphs if one was named."""

    url: str
    graph: str | None


@dataclass(frozen=True, slots=True)
class ClusterScope:
    """A cluster, and one of its graphs if one was named."""

    root: str
    graph: str | None


Scope: TypeAlias = StoreScope | ServerScope | ClusterScope


def resolve_scope(
    flags: Flags, *, uri: str | None, config: OperatorConfig, environment: Mapping[str, str]
) -> Scope | None:
    """The place that a command line means; None if it and the configuration name none."""
    _require_one_place(flags, uri)
    if flags.cluster is not None:
        return ClusterScope(config.root_by_cluster.get(flags.cluster, flags.cluster), flags.graph)
    if flags.server is not None:
        return make_server_scope(flags.server, graph=flags.graph, fallback=None, config=config)
    store = uri if uri is not None else flags.store
    if store is not None:
        if flags.graph is not None:
            raise CommandError(
                f"'{store}' is already a single graph; leave out --graph {flags.graph}"
            )
        return StoreScope(store)
    name = active_profile(flags, environment)
    if name is not None:
        return scope_of_profile(name, graph=flags.graph, config=config)
    return scope_of_defaults(graph=flags.graph, config=config)


def active_profile(flags: Flags, environment: Mapping[str, str]) -> str | None:
    """The profile that counts where nothing is typed outright."""
    if flags.profile is not None:
        return flags.profile
    return environment.get("OMNIGRAPH_PROFILE") or None


def scope_of_profile(name: str, *, graph: str | None, config: OperatorConfig) -> Scope:
    """What a profile binds, with the graph that was typed before the profile's own."""
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


def scope_of_defaults(
    *, graph: str | None, config: OperatorConfig
) -> StoreScope | ServerScope | None:
    """What holds where neither the command line nor a profile says."""
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
    """The kind and value of the one thing that a profile binds."""
    match profile.bindings:
        case [(kind, value)]:
            return kind, value
        case []:
            raise CommandError(
                f"profile '{name}' binds no scope; give it one of server, cluster and store"
            )
        case several:
            raise CommandError(
                f"profile '{name}' binds {len(several)} scopes "
                f"({', '.join(kind for kind, _ in several)}); leave it one"
            )


def make_server_scope(
    server: str, *, graph: str | None, fallback: str | None, config: OperatorConfig
) -> ServerScope:
    """A server by its name or url; `fallback` is its graph where neither url nor `graph` say."""
    url = find_url(server, config)
    found = _GRAPH_URL.fullmatch(url)
    if found is None:
        return ServerScope(url, graph if graph is not None else fallback)
    named = unquote(found[2])
    if graph is not None and graph != named:
        raise CommandError(
            f"'{url}' is already a single graph; leave out --graph {graph}, or give the url "
            f"{found[1]}"
        )
    return ServerScope(found[1], named)


def find_url(server: str, config: OperatorConfig) -> str:
    """The url of a server, without a slash at its end."""
    url = server if "://" in server else config.url_by_server.get(server)
    if url is None:
        raise CommandError(
            f"unknown server '{server}'; {_named_or_none('servers', config.url_by_server)}; or "
            "give its url, as in --server http://localhost:8080"
        )
    if not is_http(url):
        raise CommandError(
            f"'{url}' is no url of a server, which begins with http:// or https://; a graph's "
            "storage is named by --store"
        )
    if "@" in url.partition("://")[2].partition("/")[0]:
        # Not shown: somebody's password may be in it, and errors end up in logs.
        raise CommandError(
            "a url of a server holds no name and no password; leave them out and keep a token "
            "with `omnigraph login`"
        )
    return url.rstrip("/")


def is_http(uri: str) -> bool:
    """Whether a uri is one of a server, not of storage."""
    return uri.lower().startswith(("http://", "https://"))


def require_data_scope(scope: Scope | None) -> StoreScope | ServerScope:
    """The scope of a command that works on rows, or why there is none."""
    match scope:
        case None:
            raise CommandError(_NOWHERE)
        case ClusterScope():
            raise CommandError(
                "a cluster is not valid for graph data commands; use --server <name|url> of the "
                "server that serves it, or --store <uri>"
            )
        case StoreScope(uri=uri) if is_http(uri):
            raise CommandError(f"'{uri}' is a server; use --server {uri}")
        case StoreScope() | ServerScope():
            return scope


def require_direct_scope(scope: Scope | None) -> StoreScope | ClusterScope:
    """The scope of a command that works in storage, or why there is none."""
    match scope:
        case None:
            raise CommandError(
                "no graph is named; give its storage: a folder or s3://bucket/prefix, as an "
                "argument or by --store; or a cluster that has it, where the command takes one"
            )
        case ServerScope(url=uri):
            raise CommandError(_direct_refusal(uri))
        case StoreScope(uri=uri) if is_http(uri):
            raise CommandError(_direct_refusal(uri))
        case StoreScope() | ClusterScope():
            return scope


def require_served_scope(scope: Scope | None) -> ServerScope:
    """The scope of a command that only a server answers, or why there is none."""
    match scope:
        case ServerScope():
            return scope
        case None:
            raise CommandError(
                "no server is named; give --server <name|url>, or set `defaults.server` in the "
                "configuration"
            )
        case StoreScope(uri=uri):
            raise CommandError(
                f"'{uri}' is one graph's storage, and this asks a remote multi-graph server; use "
                "--server <name|url>"
            )
        case ClusterScope():
            raise CommandError(
                "this asks a remote multi-graph server, not a cluster's storage; use "
                "--server <name|url>"
            )


def require_cluster_scope(scope: Scope | None) -> ClusterScope:
    """The scope of a command that works on what was applied, or why there is none."""
    match scope:
        case ClusterScope():
            return scope
        case None:
            raise CommandError(
                "no cluster is named; give --cluster <dir|uri|name>, or a profile with `cluster:`"
            )
        case StoreScope(uri=uri) | ServerScope(url=uri):
            raise CommandError(
                f"this works on a cluster, and {uri} is none; use --cluster <dir|uri|name>"
            )


_NOWHERE = (
    "no graph is named; use one of: --store <uri>, --server <name|url> --graph <id>, "
    "--profile <name>, or `defaults` in the configuration (a uri as an argument, where the "
    "command takes one)"
)


def _require_one_place(flags: Flags, uri: str | None) -> None:
    places = {
        "a uri": uri,
        "--store": flags.store,
        "--server": flags.server,
        "--cluster": flags.cluster,
    }
    given = [name for name, value in places.items() if value is not None]
    if len(given) > 1:
        raise CommandError(f"{' and '.join(given)} are mutually exclusive; leave one of them")


def _make_store_scope(uri: str, graph: str | None) -> StoreScope:
    if graph is not None:
        raise CommandError(
            f"graph '{graph}' does not apply to a store scope: '{uri}' is one graph; leave it out"
        )
    return StoreScope(uri)


def _direct_refusal(uri: str) -> str:
    return (
        f"this command needs direct storage access, and {uri} is a remote server; name the "
        "graph's storage: a folder or s3://bucket/prefix"
    )


def _named_or_none(kind: str, named: Mapping[str, object]) -> str:
    if not named:
        return f"the configuration has no {kind}"
    return f"{kind} of the configuration: {', '.join(sorted(named))}"
