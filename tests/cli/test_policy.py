"""`omnigraph policy …`: what a policy says before anybody is held to it."""

from pathlib import Path

import pytest

from tests.support.commands import invoke_command
from tests.support.policies import TEAM

CASES = """
version: 1
cases:
  - {id: draft, actor: bruno, action: change, branch: feature, expect: allow}
  - {id: main, actor: bruno, action: change, branch: main, expect: deny}
"""
SERVER = """
version: 1
groups: {ops: [andrew]}
rules:
  - {id: list, allow: {actors: {group: ops}, actions: [graph_list]}}
"""


@pytest.fixture
def team(tmp_path: Path) -> Path:
    path = tmp_path / "team.yaml"
    path.write_text(TEAM)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the policies `team` and `server`."""
    made = tmp_path / "policies"
    made.mkdir()
    (made / "team.yaml").write_text(TEAM)
    (made / "server.yaml").write_text(SERVER)
    return made


def test_a_valid_policy_is_counted(team: Path) -> None:
    ended = invoke_command("policy", "validate", "--config", team)

    assert (ended.code, ended.out) == (0, "policy valid: bundle 'team' [3 actors]\n")


def test_a_policy_with_a_mistake_is_refused(team: Path) -> None:
    team.write_text(TEAM.replace("group: readers", "group: absent"))

    ended = invoke_command("policy", "validate", "--config", team)

    assert ended.code == 1
    assert "there is no group 'absent'" in ended.err


def test_a_decision_is_explained_whatever_it_is(team: Path) -> None:
    command = ("policy", "explain", "--config", team, "--actor", "bruno", "--action", "change")

    denied = invoke_command(*command, "--branch", "main")
    allowed = invoke_command(*command, "--branch", "feature")

    assert (denied.code, allowed.code) == (0, 0)
    assert denied.out.splitlines()[:4] == [
        "decision: deny",
        "actor: bruno",
        "action: change",
        "branch: main",
    ]
    assert "message: policy denied action 'change'" in denied.out
    assert "decision: allow" in allowed.out
    assert "matched_rule: draft" in allowed.out


@pytest.mark.parametrize("action", ["branch-merge", "branch_merge"])
def test_an_action_is_written_with_either_dash(team: Path, action: str) -> None:
    ended = invoke_command(
        "policy", "explain", "--config", team, "--actor", "bruno", "--action", action,
        "--branch", "feature", "--target-branch", "other",
    )  # fmt: skip

    assert "decision: allow" in ended.out
    assert "target_branch: other" in ended.out


def test_cases_that_hold_pass(team: Path, tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(CASES)

    ended = invoke_command("policy", "test", "--config", team, "--tests", tmp_path / "cases.yaml")

    assert (ended.code, ended.out) == (0, "policy tests passed: 2 cases\n")


def test_a_case_that_does_not_hold_is_named(team: Path, tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace("expect: deny", "expect: allow"))

    ended = invoke_command("policy", "test", "--config", team, "--tests", tmp_path / "cases.yaml")

    assert ended.code == 1
    assert "1 of 2 cases failed: main" in ended.err
    assert ended.err.endswith(
        f"omnigraph policy explain --config {team} --actor bruno --action change --branch main\n"
    )


def test_of_several_policies_one_is_named(folder: Path) -> None:
    ended = invoke_command("policy", "validate", "--config", folder)

    assert ended.code == 1
    assert "server, team" in ended.err


@pytest.mark.parametrize("flags", [("--graph", "team"), ("--bundle", "team")])
def test_a_policy_is_picked_by_name(folder: Path, flags: tuple[str, str]) -> None:
    ended = invoke_command("policy", "validate", "--config", folder, *flags)

    assert ended.out == "policy valid: bundle 'team' [3 actors]\n"


def test_the_policy_of_a_server_is_a_policy_too(folder: Path) -> None:
    command = ("policy", "explain", "--config", folder, "--bundle", "server")

    ended = invoke_command(*command, "--actor", "andrew", "--action", "graph_list")

    assert "decision: allow" in ended.out


def test_an_unknown_name_lists_the_known(folder: Path) -> None:
    ended = invoke_command("policy", "validate", "--config", folder, "--bundle", "nope")

    assert ended.code == 1
    assert "server, team" in ended.err


def test_groups_beside_cedar_are_no_policy(folder: Path) -> None:
    (folder / "server.yaml").unlink()
    (folder / "team.yaml").write_text("version: 1\ngroups: {readers: [ann]}\n")
    (folder / "team.cedar").write_text(
        'permit(principal in Omnigraph::Group::"readers", '
        'action == Omnigraph::Action::"read", resource);'
    )

    ended = invoke_command("policy", "validate", "--config", folder)

    assert (ended.code, ended.out) == (0, "policy valid: bundle 'team'\n")


def test_without_a_policy_the_error_lists_the_options() -> None:
    ended = invoke_command("policy", "validate")

    assert ended.code == 1
    assert "--cluster <dir|uri|name>" in ended.err
    assert "--config PATH" in ended.err
