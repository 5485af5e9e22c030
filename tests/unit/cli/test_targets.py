"""Where a command line leads: what is typed before a profile, a profile before the defaults."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from omnigraph.cli.config import OperatorConfig, parse_config
from omnigraph.cli.options import Flags
from omnigraph.cli.output import CommandError
from omnigraph.cli.targets import (
    ClusterScope,
    Scope,
    ServedTarget,
    StoreTarget,
    require_cluster_scope,
    require_data_scope,
    require_direct_scope,
    require_served_scope,
    resolve_scope,
)

PLACES = {
    "servers": {"prod": {"url": "https://prod.example/"}, "dev": {"url": "http://dev:8080"}},
    "clusters": {"brain": {"root": "/srv/brain"}},
    "profiles": {
        "served": {"server": "prod", "default_graph": "main-graph"},
        "literal": {"server": "http://h:1"},
        "stored": {"store": "/srv/g"},
        "clustered": {"cluster": "brain", "default_graph": "g"},
        "empty": {"default_graph": "g"},
        "torn": {"server": "prod", "store": "/srv/g"},
        "narrow": {"store": "/srv/g", "default_graph": "g"},
        "gone": {"server": "nowhere"},
    },
}


@pytest.mark.parametrize(
    ("flags", "uri", "expected"),
    [
        ({"store": "g"}, None, StoreTarget("g")),
        ({}, "g", StoreTarget("g")),
        ({"store": ""}, None, StoreTarget("")),
        ({"server": "prod"}, None, ServedTarget("https://prod.example", None)),
        ({"server": "prod", "graph": "k"}, None, ServedTarget("https://prod.example", "k")),
        ({"server": "http://h:1//", "graph": "k"}, None, ServedTarget("http://h:1", "k")),
        ({"server": "http://h:1/graphs/a%20b"}, None, ServedTarget("http://h:1", "a b")),
        ({"server": "http://h/x/graphs/k", "graph": "k"}, None, ServedTarget("http://h/x", "k")),
        ({"cluster": "brain", "graph": "k"}, None, ClusterScope("/srv/brain", "k")),
        ({"cluster": "./other"}, None, ClusterScope("./other", None)),
        ({"profile": "served"}, None, ServedTarget("https://prod.example", "main-graph")),
        ({"profile": "served", "graph": "k"}, None, ServedTarget("https://prod.example", "k")),
        ({"profile": "literal"}, None, ServedTarget("http://h:1", None)),
        ({"profile": "stored"}, None, StoreTarget("/srv/g")),
        ({"profile": "clustered"}, None, ClusterScope("/srv/brain", "g")),
        ({"profile": "torn", "store": "g"}, None, StoreTarget("g")),
        ({}, None, None),
    ],
)
def test_a_command_line_names_one_place(
    flags: Mapping[str, str], uri: str | None, expected: Scope | None
) -> None:
    assert _resolve(_flags(flags), uri=uri) == expected


@pytest.mark.parametrize(
    ("flags", "uri", "problem"),
    [
        ({"store": "a", "server": "b"}, None, "mutually exclusive"),
        ({"store": "a"}, "b", "mutually exclusive"),
        ({"cluster": "a", "server": "b"}, None, "mutually exclusive"),
        ({"store": "g", "graph": "k"}, None, "already a single graph"),
        ({"graph": "k"}, "g", "already a single graph"),
        ({"server": "http://h/graphs/a", "graph": "b"}, None, "the url of a single graph"),
        ({"profile": "absent"}, None, "unknown profile 'absent'"),
        ({"profile": "empty"}, None, "has no target"),
        ({"profile": "torn"}, None, "binds 2 scopes"),
        ({"profile": "narrow"}, None, "does not apply to a store scope"),
        ({"profile": "stored", "graph": "k"}, None, "does not apply to a store scope"),
        ({"profile": "gone"}, None, "unknown server 'nowhere'"),
        ({"profile": ""}, None, "unknown profile ''"),
        ({"server": "staging"}, None, "unknown server 'staging'.*dev, prod"),
        ({"server": "s3://bucket/g"}, None, "not the url of a server.*--store"),
        ({"server": "http://ann:pw@h/x"}, None, "must not contain a user name or password"),
    ],
)
def test_places_that_contradict_each_other_are_refused(
    flags: Mapping[str, str], uri: str | None, problem: str
) -> None:
    with pytest.raises(CommandError, match=problem):
        _resolve(_flags(flags), uri=uri)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"OMNIGRAPH_PROFILE": "stored"}, StoreTarget("/srv/g")),
        ({"OMNIGRAPH_PROFILE": ""}, None),
        ({}, None),
    ],
)
def test_the_environment_may_name_the_profile(
    environment: Mapping[str, str], expected: Scope | None
) -> None:
    config, _ = parse_config(PLACES)

    scope = resolve_scope(Flags(), uri=None, config=config, environment=environment)

    assert scope == expected


@pytest.mark.parametrize(
    ("defaults", "graph", "expected"),
    [
        ({"server": "prod"}, None, ServedTarget("https://prod.example", None)),
        ({"server": "prod", "default_graph": "d"}, None, ServedTarget("https://prod.example", "d")),
        ({"server": "prod", "default_graph": "d"}, "k", ServedTarget("https://prod.example", "k")),
        ({"store": "/srv/g"}, None, StoreTarget("/srv/g")),
    ],
)
def test_the_defaults_hold_where_nothing_else_says(
    defaults: Mapping[str, str], graph: str | None, expected: Scope
) -> None:
    config, _ = parse_config({**PLACES, "defaults": defaults})

    assert _resolve(Flags(graph=graph), uri=None, config=config) == expected
    assert _resolve(Flags(profile="stored"), uri=None, config=config) == StoreTarget("/srv/g")


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        (None, "--store <uri>, --server <name|url> --graph <id>, --profile <name>"),
        (ClusterScope("/srv/brain", "g"), "not valid for graph data commands"),
        (StoreTarget("http://h:1"), "use --server http://h:1"),
        (StoreTarget("HTTPS://h"), "use --server HTTPS://h"),
    ],
)
def test_rows_are_reached_by_a_server_or_in_storage(scope: Scope | None, problem: str) -> None:
    with pytest.raises(CommandError) as refused:
        require_data_scope(scope)

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        (None, "name its storage"),
        (ServedTarget("http://h:1", None), "needs direct storage access"),
        (
            StoreTarget("http://h:1"),
            "needs direct storage access, and http://h:1 is a remote server",
        ),
    ],
)
def test_maintenance_needs_storage(scope: Scope | None, problem: str) -> None:
    with pytest.raises(CommandError) as refused:
        require_direct_scope(scope)

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        (None, "--server <name|url>"),
        (StoreTarget("g"), "remote multi-graph server"),
        (ClusterScope("g", None), "remote multi-graph server"),
    ],
)
def test_graphs_are_listed_by_a_server(scope: Scope | None, problem: str) -> None:
    with pytest.raises(CommandError) as refused:
        require_served_scope(scope)

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        (None, "--cluster <dir|uri|name>"),
        (StoreTarget("g"), "g is not one"),
        (ServedTarget("http://h:1", "k"), "http://h:1 is not one"),
    ],
)
def test_what_was_applied_is_in_a_cluster(scope: Scope | None, problem: str) -> None:
    with pytest.raises(CommandError) as refused:
        require_cluster_scope(scope)

    assert problem in str(refused.value)


def _resolve(
    flags: Flags, *, uri: str | None, config: OperatorConfig | None = None
) -> Scope | None:
    known = parse_config(PLACES)[0] if config is None else config
    return resolve_scope(flags, uri=uri, config=known, environment={})


def _flags(given: Mapping[str, str]) -> Flags:
    return replace(
        Flags(),
        server=given.get("server"),
        graph=given.get("graph"),
        profile=given.get("profile"),
        store=given.get("store"),
        cluster=given.get("cluster"),
    )
