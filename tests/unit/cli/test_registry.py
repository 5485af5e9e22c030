"""The table of commands: every name leads to a command of ours that takes the global flags."""

from importlib import import_module

import pytest

from omnigraph.cli.capabilities import Capability
from omnigraph.cli.command import Command
from omnigraph.cli.flags import GlobalOption
from omnigraph.cli.registry import ENTRIES, Entry, find_entry, list_names, summary_of


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_command_is_where_the_table_says(entry: Entry) -> None:
    module, _, name = entry.location.partition(":")

    command = getattr(import_module(module), name)

    assert isinstance(command, Command)
    assert command.help
    spelled = [
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
    assert not shared & set(spelled)


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


def test_a_cluster_is_taken_by_upkeep_lint_policy_and_queries_only() -> None:
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
