"""Every command: location, help, capability."""

import re
from importlib import import_module

import pytest

from omnigraph.cli.command import Command
from omnigraph.cli.options import Flags, GlobalOption
from omnigraph.cli.output import CommandError
from omnigraph.cli.registry import (
    ENTRIES,
    Capability,
    Entry,
    applicable_flags,
    find_entry,
    list_names,
    require_applicable,
    summary_of,
)
from tests.support.source_tree import read_document

ENTRY_BY_NAME = {each.name: each for each in ENTRIES}
QUERY = ENTRY_BY_NAME["query"]
GRAPHS_LIST = ENTRY_BY_NAME["graphs list"]
INIT = ENTRY_BY_NAME["init"]
OPTIMIZE = ENTRY_BY_NAME["optimize"]
POLICY_TEST = ENTRY_BY_NAME["policy test"]
CLUSTER_PLAN = ENTRY_BY_NAME["cluster plan"]
VERSION = ENTRY_BY_NAME["version"]
ALIAS = ENTRY_BY_NAME["alias"]

SERVER = Flags(server="prod")
CLUSTER = Flags(cluster="./brain")
GRAPH = Flags(graph="g")


@pytest.mark.parametrize(
    ("entry", "server", "cluster", "graph"),
    [
        (QUERY, True, False, True),
        (GRAPHS_LIST, True, False, True),
        (INIT, False, False, False),
        (OPTIMIZE, False, True, True),
        (POLICY_TEST, False, True, True),
        (CLUSTER_PLAN, False, False, False),
        (VERSION, False, False, False),
    ],
    ids=lambda value: value.name if isinstance(value, Entry) else str(value),
)
def test_a_flag_that_a_command_cannot_follow_is_refused(
    entry: Entry, *, server: bool, cluster: bool, graph: bool
) -> None:
    applies = {
        "--server": _is_let_through(entry, SERVER),
        "--cluster": _is_let_through(entry, CLUSTER),
        "--graph": _is_let_through(entry, GRAPH),
    }

    assert applies == {"--server": server, "--cluster": cluster, "--graph": graph}


@pytest.mark.parametrize(
    ("entry", "flags", "parts"),
    [
        (
            OPTIMIZE,
            SERVER,
            [
                "`optimize`",
                "direct (storage-native)",
                "--server does not apply",
                "a storage URI",
                "--cluster <dir> --graph <id>",
            ],
        ),
        (INIT, CLUSTER, ["`init`", "direct (storage-native)", "--cluster does not apply", "URI"]),
        (QUERY, CLUSTER, ["`query`", "a data command", "--cluster does not apply"]),
        (GRAPHS_LIST, CLUSTER, ["`graphs list`", "a served command", "--cluster does not apply"]),
        (CLUSTER_PLAN, SERVER, ["`cluster plan`", "cluster control", "--config <dir>"]),
        (POLICY_TEST, SERVER, ["`policy test`", "cluster control", "--cluster <dir|uri>"]),
        (VERSION, GRAPH, ["`version`", "a local command", "--graph does not apply"]),
    ],
)
def test_a_refusal_names_the_command_the_flag_and_what_to_use(
    entry: Entry, flags: Flags, parts: list[str]
) -> None:
    with pytest.raises(CommandError) as refused:
        require_applicable(entry, flags)

    said = str(refused.value)
    assert [part for part in parts if part not in said] == []
    assert said == said.strip()


@pytest.mark.parametrize(
    ("spelling", "flags"),
    [
        ("--server", SERVER),
        ("--graph", GRAPH),
        ("--cluster", CLUSTER),
        ("--store", Flags(store="g")),
        ("--profile", Flags(profile="p")),
        ("--as", Flags(actor="ann")),
    ],
)
def test_an_alias_takes_no_address_from_the_command_line(spelling: str, flags: Flags) -> None:
    with pytest.raises(CommandError, match="the alias binding owns addressing") as refused:
        require_applicable(ALIAS, flags)

    assert spelling in str(refused.value)


def test_help_shows_the_flags_that_the_guard_lets_through() -> None:
    shown = {each.name: applicable_flags(each) for each in (QUERY, OPTIMIZE, INIT, VERSION)}

    assert {"--server", "--graph", "--store", "--profile"} <= shown["query"]
    assert "--cluster" not in shown["query"]
    assert {"--cluster", "--graph"} <= shown["optimize"]
    assert "--server" not in shown["optimize"]
    assert not {"--server", "--cluster", "--graph"} & shown["init"]
    assert not shown["version"]


def test_the_first_page_names_the_commands_that_no_server_runs() -> None:
    found = re.search(r"storage themselves do not: (.*?)\.", read_document("README.md"), re.DOTALL)
    assert found is not None

    flags = {each.name: applicable_flags(each) for each in ENTRIES}
    without_server = {
        name for name, shown in flags.items() if "--store" in shown and "--server" not in shown
    }
    assert set(re.findall(r"`([^`]+)`", found[1])) == without_server


def test_help_shows_the_actor_of_cluster_changes() -> None:
    taking = {each.name for each in ENTRIES if "--as" in applicable_flags(each)}

    assert {each for each in taking if each.startswith("cluster ")} == {
        "cluster apply",
        "cluster approve",
        "cluster import",
        "cluster refresh",
    }


def _is_let_through(entry: Entry, flags: Flags) -> bool:
    try:
        require_applicable(entry, flags)
    except CommandError:
        return False
    return True


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_command_is_where_the_table_says(entry: Entry) -> None:
    module, _, name = entry.location.partition(":")

    command = getattr(import_module(f"omnigraph.cli.commands.{module}"), name)

    assert isinstance(command, Command)
    assert command.help
    written = [
        option
        for parameter in command.params
        if not isinstance(parameter, GlobalOption)
        for option in parameter.opts
    ]
    shared = {
        option
        for parameter in command.params
        if isinstance(parameter, GlobalOption)
        for option in parameter.opts
    }
    assert len(shared) == 8
    assert not shared & set(written)


def test_names_are_unique_and_no_command_is_a_group() -> None:
    paths = [entry.path for entry in ENTRIES]

    assert len(set(paths)) == len(paths)
    assert [path for path in paths if list_names(path)] == []


def test_every_group_has_a_summary() -> None:
    groups = [(name,) for name in list_names(()) if find_entry((name,)) is None]

    assert groups
    assert all(summary_of(group) for group in groups)


def test_hidden_commands_are_found_and_not_listed() -> None:
    assert find_entry(("ingest",)) is not None
    assert "ingest" not in list_names(())
    assert "get" not in list_names(("schema",))


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        (
            Capability.DATA,
            "query mutate load ingest export snapshot schema-show schema-apply branch-create "
            "branch-list branch-delete branch-merge commit-list commit-show",
        ),
        (Capability.SERVED, "graphs-list"),
        (Capability.DIRECT, "init optimize repair cleanup schema-plan lint"),
        (Capability.CONTROL, "policy-validate policy-test policy-explain"),
        (Capability.LOCAL, "alias embed login logout profile-list profile-show version"),
    ],
)
def test_commands_are_able_to_do_what_is_published(capability: Capability, names: str) -> None:
    able = {entry.name for entry in ENTRIES if entry.capability is capability}

    assert {name.replace("-", " ") for name in names.split()} <= able


def test_only_maintenance_lint_policy_and_queries_accept_a_cluster() -> None:
    taking = {entry.path[0] for entry in ENTRIES if entry.takes_cluster}

    assert taking == {
        "optimize",
        "repair",
        "cleanup",
        "doctor",
        "lint",
        "policy",
        "queries",
    }
