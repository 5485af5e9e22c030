"""`omnigraph policy …` on a cluster: what it has applied, and what its folder declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clusters import (
    PEOPLE,
    SERVER_POLICY,
    TEAM_POLICY,
    applied_cluster,
    knowledge_cluster,
    two_graph_cluster,
    write_config,
    write_files,
)
from tests.support.commands import Ended, invoke_command
from tests.support.policies import TEAM

CASES = """
version: 1
cases:
  - {id: draft, actor: bruno, action: change, branch: feature, expect: allow}
  - {id: main, actor: bruno, action: change, branch: main, expect: deny}
"""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster whose graph `knowledge` has the policy `team`."""
    return applied_cluster(knowledge_cluster(tmp_path_factory.mktemp("one")))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with a policy of its own, and one of its graph `a`; `b` has none."""
    return applied_cluster(several_policies(tmp_path_factory.mktemp("several")))


def several_policies(folder: Path) -> Path:
    write_files(folder, {"people.pg": PEOPLE, "team.yaml": TEAM, "server.yaml": SERVER_POLICY})
    return write_config(
        folder,
        {
            "graphs": {"a": {"schema": "people.pg"}, "b": {"schema": "people.pg"}},
            "policies": {
                "staff": {"file": "team.yaml", "applies_to": ["a"]},
                "listing": {"file": "server.yaml", "applies_to": ["cluster"]},
            },
        },
    )


def validate(*flags: str | Path) -> Ended:
    return invoke_command("policy", "validate", *flags)


def test_the_only_applied_policy_is_counted(one: Path) -> None:
    ended = validate("--cluster", one)

    assert (ended.code, ended.out) == (0, "policy valid: bundle 'team' [2 actors]\n")


def test_what_was_applied_counts_and_not_what_is_in_the_files(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"team.yaml": TEAM_POLICY.replace("bob", "bob, cid")})

    applied, declared = validate("--cluster", tmp_path), validate("--config", tmp_path)

    assert applied.out == "policy valid: bundle 'team' [2 actors]\n"
    assert declared.out == "policy valid: bundle 'team' [3 actors]\n"


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    write_files(tmp_path, {"team.yaml": TEAM_POLICY.replace("group: team", "group: absent")})

    ended = validate("--config", tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert "there is no group 'absent'" in ended.err


def test_an_applied_policy_that_was_modified_is_refused(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    [blob] = (tmp_path / "__cluster/resources/policy/team").iterdir()
    blob.write_text(TEAM_POLICY.replace("ann", "eve"))

    ended = validate("--cluster", tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert "does not match its name" in ended.err


def test_a_decision_of_an_applied_policy_is_explained(several: Path) -> None:
    command = ("policy", "explain", "--cluster", several, "--graph", "a", "--actor", "bruno")

    denied = invoke_command(*command, "--action", "change", "--branch", "main")
    allowed = invoke_command(*command, "--action", "change", "--branch", "feature")

    assert (denied.code, allowed.code) == (0, 0)
    assert "decision: deny" in denied.out
    assert "message: policy denied action 'change'" in denied.out
    assert "decision: allow" in allowed.out
    assert "matched_rule: draft" in allowed.out


def test_cases_are_run_against_an_applied_policy(several: Path, tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {"right.yaml": CASES, "wrong.yaml": CASES.replace("expect: deny", "expect: allow")},
    )
    run = ("policy", "test", "--cluster", several, "--graph", "a", "--tests")

    right = invoke_command(*run, tmp_path / "right.yaml")
    wrong = invoke_command(*run, tmp_path / "wrong.yaml")

    assert (right.code, right.out) == (0, "policy tests passed: 2 cases\n")
    assert wrong.code == 1
    assert "1 of 2 cases failed: main" in wrong.err
    assert f"omnigraph policy explain --cluster {several} --graph a --actor bruno" in wrong.err


@pytest.mark.parametrize("place", ["--cluster", "--config"])
def test_of_several_policies_all_are_listed(place: str, several: Path) -> None:
    ended = validate(place, several)

    assert (ended.code, ended.out) == (1, "")
    assert "listing, staff" in ended.err
    assert "--bundle NAME" in ended.err


@pytest.mark.parametrize("place", ["--cluster", "--config"])
@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--graph", "a"], "staff"),
        (["--graph", "b"], "listing"),
        (["--bundle", "listing"], "listing"),
        (["--graph", "a", "--bundle", "listing"], "listing"),
    ],
    ids=" ".join,
)
def test_the_policy_of_a_graph_comes_before_that_of_the_cluster(
    flags: list[str], name: str, place: str, several: Path
) -> None:
    ended = validate(place, several, *flags)

    assert ended.code == 0, ended.err
    assert f"bundle '{name}'" in ended.out


def test_the_policy_of_a_cluster_decides_about_the_server(several: Path) -> None:
    ended = invoke_command(
        "policy", "explain", "--cluster", several, "--bundle", "listing",
        "--actor", "ann", "--action", "graph-list",
    )  # fmt: skip

    assert "decision: allow" in ended.out


def test_a_graph_without_a_policy_lists_the_graphs_that_have_one(tmp_path: Path) -> None:
    applied_cluster(two_graph_cluster(tmp_path))

    for place in ("--cluster", "--config"):
        ended = validate(place, tmp_path, "--graph", "map")

        assert (ended.code, ended.out) == (1, "")
        assert "no policy applies to graph 'map'" in ended.err
        assert "team" in ended.err


def test_an_unknown_graph_or_policy_lists_the_known(several: Path) -> None:
    graph = validate("--cluster", several, "--graph", "nope")
    declared = validate("--config", several, "--graph", "nope")
    policy = validate("--cluster", several, "--bundle", "nope")

    assert "'nope' is not applied in cluster" in graph.err
    assert "declares no graph 'nope'; its graphs: a, b" in declared.err
    assert "there is no policy 'nope'; there is: listing, staff" in policy.err
    assert {each.code for each in (graph, declared, policy)} == {1}


def test_a_cluster_without_policies_is_reported(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg"}}})
    applied_cluster(tmp_path)

    assert "no policy is applied in cluster" in validate("--cluster", tmp_path).err
    assert "declares no policy" in validate("--config", tmp_path).err


def test_a_profile_of_a_cluster_names_its_policies(several: Path, tmp_path: Path) -> None:
    write_files(
        tmp_path, {"config.yaml": f"profiles: {{ p: {{ cluster: {several}, default_graph: a }} }}"}
    )

    ended = invoke_command("policy", "validate", "--profile", "p", home=tmp_path)

    assert "bundle 'staff'" in ended.out


def test_files_and_a_cluster_at_once_are_refused(one: Path) -> None:
    ended = validate("--cluster", one, "--config", one)

    assert ended.code == 1
    assert "mutually exclusive" in ended.err
