"""The configuration: what each key means, what is refused, and what is passed over with a word."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnigraph.cli.config import (
    Alias,
    CellLayout,
    Defaults,
    Format,
    Profile,
    find_home,
    parse_config,
)
from omnigraph.cli.output import CommandError


def test_without_a_file_nothing_is_set() -> None:
    config, unknown = parse_config(None)

    assert config.actor is None
    assert config.defaults == Defaults(
        output=None,
        column_width_max=80,
        cell_layout=CellLayout.TRUNCATE,
        server=None,
        store=None,
        default_graph=None,
    )
    assert not config.url_by_server
    assert not config.root_by_cluster
    assert not config.profiles
    assert not config.aliases
    assert unknown == ()


def test_every_key_is_read() -> None:
    config, unknown = parse_config(
        {
            "operator": {"actor": "ann"},
            "defaults": {
                "output": "csv",
                "table_max_column_width": 20,
                "table_cell_layout": "wrap",
                "server": "prod",
                "default_graph": "g",
            },
            "servers": {"prod": {"url": "https://prod"}},
            "clusters": {"brain": {"root": "s3://bucket/brain"}},
            "profiles": {"p": {"cluster": "brain", "default_graph": "g"}},
            "aliases": {
                "who": {
                    "server": "prod",
                    "graph": "g",
                    "query": "find",
                    "args": ["name"],
                    "params": {"limit": 3},
                    "format": "kv",
                }
            },
        }
    )

    assert config.actor == "ann"
    assert config.defaults == Defaults(Format.CSV, 20, CellLayout.WRAP, "prod", None, "g")
    assert config.url_by_server == {"prod": "https://prod"}
    assert config.root_by_cluster == {"brain": "s3://bucket/brain"}
    assert config.profiles == {"p": Profile(None, "brain", None, "g")}
    assert config.aliases == {"who": Alias("prod", "g", "find", ("name",), {"limit": 3}, Format.KV)}
    assert unknown == ()


def test_unknown_keys_are_reported_with_their_place() -> None:
    _, unknown = parse_config(
        {
            "colour": 1,
            "operator": {"actor": "ann", "color": "red"},
            "servers": {"prod": {"url": "https://prod", "token": "secret"}},
            "profiles": {"p": {"store": "g", "branch": "b"}},
        }
    )

    assert unknown == ("colour", "operator.color", "servers.prod.token", "profiles.p.branch")


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ([], "`the file` must be a mapping"),
        ({"operator": "ann"}, "`operator` must be a mapping"),
        ({"operator": {"actor": 7}}, "`operator.actor` must be text"),
        ({"operator": {7: "ann"}}, "the key 7 must be text"),
        ({"defaults": {"output": "xml"}}, "one of table, kv, csv, jsonl, json"),
        ({"defaults": {"output": ["csv"]}}, "one of table, kv, csv, jsonl, json"),
        ({"defaults": {"table_max_column_width": 0}}, "positive number"),
        ({"defaults": {"table_max_column_width": True}}, "positive number"),
        ({"defaults": {"server": "a", "store": "b"}}, "has both `server` and `store`"),
        ({"defaults": {"store": "b", "default_graph": "g"}}, "already a single graph"),
        ({"servers": {"prod": {}}}, "`servers.prod` needs `url`"),
        ({"clusters": {"brain": None}}, "`clusters.brain` needs `root`"),
        ({"aliases": {"who": {"server": "prod"}}}, "`aliases.who` needs `query`"),
        ({"aliases": {"who": {"server": "p", "query": "q", "args": "a"}}}, "a list of strings"),
        ({"aliases": {"who": {"server": "p", "query": "q", "params": []}}}, "a mapping"),
    ],
)
def test_a_value_of_another_shape_is_refused_with_its_place(tree: object, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        parse_config(tree)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/ann"}, "/home/ann/.omnigraph"),
        ({"HOME": "/home/ann", "OMNIGRAPH_HOME": ""}, "/home/ann/.omnigraph"),
        ({"HOME": "/home/ann", "OMNIGRAPH_HOME": "~/og"}, "/home/ann/og"),
        ({"HOME": "/home/ann", "OMNIGRAPH_HOME": "~"}, "/home/ann"),
        ({"HOME": "/home/ann", "OMNIGRAPH_HOME": "/etc/og"}, "/etc/og"),
        ({"HOME": "/home/ann", "OMNIGRAPH_HOME": "~ann/og"}, "~ann/og"),
    ],
)
def test_the_folder_of_the_configuration_is_found(
    environment: Mapping[str, str], expected: str
) -> None:
    assert find_home(environment) == Path(expected)
