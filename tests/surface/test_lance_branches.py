"""Lance's own branches: where they live, how they are opened, what deleting one leaves."""

from pathlib import Path

import lance
import pytest
from lance import LanceDataset

from tests.support.lance_probes import (
    ArrowInvalid,
    Stage,
    append,
    apply,
    contents,
    create_table,
    create_two_fragments,
    files_of,
    head,
    keyed_rows,
    publish,
    stage_append,
    stage_delete,
    stage_overwrite,
    stage_upsert,
)

FORKED = {"a": 1, "b": 2, "c": 3, "d": 4}


def fork(uri: str, name: str, *, version: int) -> str:
    """Create a branch of main and return the place where it is opened."""
    return lance.dataset(uri).create_branch(name, version).uri


def branch_names(uri: str) -> set[str]:
    return set(lance.dataset(uri).branches.list())


def test_a_branch_lives_below_tree_under_its_name(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)

    branch = fork(uri, "team/feature", version=2)

    assert branch == f"{uri}/tree/team/feature"
    written = files_of(uri) - before
    assert "_refs/branches/team%2Ffeature.json" in written
    assert {path for path in written if not path.startswith("tree/team/feature/")} == {
        "_refs/branches/team%2Ffeature.json"
    }


def test_creating_a_branch_moves_nothing(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    branch = fork(uri, "feature", version=1)

    assert head(uri) == 2
    assert head(branch) == 1
    assert contents(branch) == {"a": 1, "b": 2}


def test_creating_a_branch_costs_the_same_whatever_the_rows(tmp_path: Path) -> None:
    few = lance.dataset(create_table(tmp_path / "few", keyed_rows(a=1)))
    numbered = {f"k{number}": number for number in range(20_000)}
    many = lance.dataset(create_table(tmp_path / "many", keyed_rows(**numbered)))

    costs = []
    for table in (few, many):
        table.io_stats_incremental()
        table.create_branch("feature", 1)
        costs.append(table.io_stats_incremental())

    assert costs[0].read_iops == costs[1].read_iops
    assert costs[0].write_iops == costs[1].write_iops
    assert costs[1].read_bytes + costs[1].written_bytes < 2_000


def test_versions_continue_from_the_fork_on_both_sides(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)

    append(uri, ours=5)
    append(branch, theirs=6)
    append(branch, more=7)

    assert (head(uri), head(branch)) == (3, 4)
    assert contents(uri) == FORKED | {"ours": 5}
    assert contents(branch) == FORKED | {"theirs": 6, "more": 7}


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (stage_append(z=9), FORKED | {"z": 9}),
        (stage_upsert(a=9), FORKED | {"a": 9}),
        (stage_delete("object_id IN ('a', 'b')"), {"c": 3, "d": 4}),
        (stage_overwrite(z=9), {"z": 9}),
    ],
    ids=["append", "upsert", "delete", "overwrite"],
)
def test_a_branch_is_written_by_its_place_and_main_does_not_notice(
    tmp_path: Path, stage: Stage, expected: dict[str, int]
) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)

    version = apply(branch, stage(lance.dataset(branch)))

    assert version == 3
    assert contents(branch) == expected
    assert contents(uri) == FORKED
    assert head(uri) == 2


def test_the_fence_of_a_branch_is_its_own(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)
    on_main, on_branch = lance.dataset(uri), lance.dataset(branch)

    publish(on_main, new=10)
    publish(on_branch, new=20)

    assert (contents(uri)["new"], contents(branch)["new"]) == (10, 20)


def test_files_staged_on_a_branch_lie_below_the_branch(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)
    before = files_of(uri)

    stage_append(z=9)(lance.dataset(branch))

    (written,) = files_of(uri) - before
    assert written.startswith("tree/feature/data/")


def test_a_branch_at_a_version_is_opened_by_its_place(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)
    append(branch, z=9)

    assert contents(branch, version=2) == FORKED
    assert contents(branch, version=3) == FORKED | {"z": 9}


def test_a_branch_at_a_version_is_checked_out_from_main(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(fork(uri, "feature", version=2), z=9)

    newest = lance.dataset(uri).checkout_version(("feature", None))
    forked = lance.dataset(uri).checkout_version(("feature", 2))

    assert (newest.version, newest.count_rows()) == (3, 5)
    assert (forked.version, forked.count_rows()) == (2, 4)


def test_a_branch_cannot_be_named_in_open(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    fork(uri, "feature", version=2)

    with pytest.raises(OSError, match="version must be an integer or a string"):
        lance.dataset(uri, version=("feature", 2))  # type: ignore[arg-type]  # that is the point


def test_a_checked_out_branch_says_that_it_is_at_mains_place(tmp_path: Path) -> None:
    # So a commit by its `uri` would go to main; the place is what we remember.
    uri = create_two_fragments(tmp_path / "t")
    fork(uri, "feature", version=2)
    table = lance.dataset(uri).checkout_version(("feature", None))

    landed = LanceDataset.commit(table, stage_append(z=9)(table), max_retries=0)

    assert table.uri == uri
    assert landed.version == 3
    assert head(uri) == 2
    assert head(f"{uri}/tree/feature") == 3


def test_a_branch_does_not_have_the_versions_before_its_fork(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)

    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(branch, version=1)


def test_a_branch_may_fork_from_a_branch(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(fork(uri, "parent", version=2), z=9)

    child = lance.dataset(uri).create_branch("child", ("parent", 3))

    assert child.uri == f"{uri}/tree/child"
    assert contents(child.uri) == FORKED | {"z": 9}
    found = lance.dataset(uri).branches.list()["child"]
    assert (found["parent_branch"], found["parent_version"]) == ("parent", 3)


def test_names_may_be_ancestors_of_each_other(tmp_path: Path) -> None:
    # Nothing but our own rule keeps `a` and `a/b` apart.
    uri = create_two_fragments(tmp_path / "t")

    for name in ("team", "team/feature", "team/feature/part"):
        fork(uri, name, version=2)

    assert branch_names(uri) == {"team", "team/feature", "team/feature/part"}


@pytest.mark.parametrize(
    "name",
    ["main", "", "a b", "a//b", "/a", "a/", "..", "a/../b", "a.lock", "a#b", "a%b", "a\0b", "a\\b"],
)
def test_a_name_that_lance_refuses(tmp_path: Path, name: str) -> None:
    uri = create_two_fragments(tmp_path / "t")

    with pytest.raises(OSError, match="Ref is invalid"):
        fork(uri, name, version=2)


@pytest.mark.parametrize("name", ["a-b_c.d", "_a", "A", "1", "größe", "a/b/c", "__x__"])
def test_a_name_that_lance_accepts(tmp_path: Path, name: str) -> None:
    uri = create_two_fragments(tmp_path / "t")

    branch = fork(uri, name, version=2)

    assert contents(branch) == FORKED
    assert branch_names(uri) == {name}


@pytest.mark.parametrize("version", [1, 2])
def test_creating_a_branch_that_exists_fails_without_saying_so(
    tmp_path: Path, version: int
) -> None:
    # The message is an internal error or a missing manifest: ask `branches.list()` instead.
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)
    append(branch, z=9)

    with pytest.raises(OSError, match=r"internal error|was not found") as refusal:
        fork(uri, "feature", version=version)

    assert "exists" not in str(refusal.value)
    assert contents(branch) == FORKED | {"z": 9}


def test_checking_out_a_missing_branch_is_a_value_error(tmp_path: Path) -> None:
    table = lance.dataset(create_two_fragments(tmp_path / "t"))

    with pytest.raises(ValueError, match="Not found"):
        table.checkout_version(("nowhere", None))


def test_opening_the_place_of_a_missing_branch_is_a_value_error(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(f"{uri}/tree/nowhere")


def test_deleting_a_missing_branch_is_a_value_error(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")

    with pytest.raises(ValueError, match="Branch nowhere does not exist"):
        lance.dataset(uri).branches.delete("nowhere")


def test_deleting_a_branch_removes_all_of_it(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    before = files_of(uri)
    append(fork(uri, "team/feature", version=2), z=9)

    lance.dataset(uri).branches.delete("team/feature")

    assert files_of(uri) == before
    assert branch_names(uri) == set()


def test_a_branch_that_another_forked_from_cannot_be_deleted(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(fork(uri, "parent", version=2), z=9)
    lance.dataset(uri).create_branch("child", ("parent", 3))

    with pytest.raises(OSError, match="Ref conflict error"):
        lance.dataset(uri).branches.delete("parent")

    assert branch_names(uri) == {"parent", "child"}


def test_a_table_left_open_on_a_deleted_branch_fails_on_every_use(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)
    append(branch, z=9)
    table = lance.dataset(branch)
    lance.dataset(uri).branches.delete("feature")

    with pytest.raises(OSError, match="Not found"):
        _ = table.latest_version
    with pytest.raises(ArrowInvalid, match="Not found"):
        table.to_table()


def test_a_name_can_be_used_again_and_brings_nothing_back(tmp_path: Path) -> None:
    uri = create_two_fragments(tmp_path / "t")
    append(fork(uri, "feature", version=2), old=9)
    first = lance.dataset(uri).branches.list()["feature"]
    lance.dataset(uri).branches.delete("feature")

    branch = fork(uri, "feature", version=2)

    assert contents(branch) == FORKED
    second = lance.dataset(uri).branches.list()["feature"]
    assert first["branch_identifier"] != second["branch_identifier"]


def test_an_open_table_does_not_distinguish_a_recreated_branch(tmp_path: Path) -> None:
    # The version number alone does not identify a branch; the branch identifier does.
    uri = create_two_fragments(tmp_path / "t")
    table = lance.dataset(fork(uri, "feature", version=2))
    lance.dataset(uri).branches.delete("feature")

    append(fork(uri, "feature", version=1), new=9)

    assert table.version == table.latest_version == 2
    assert contents(f"{uri}/tree/feature") == {"a": 1, "b": 2, "new": 9}


def test_a_branch_whose_ref_was_never_written_can_be_neither_created_nor_deleted(
    tmp_path: Path,
) -> None:
    # Lance writes the branch's manifest and then its ref; a crash between the two leaves this.
    # Only removing the files below `tree/<name>` frees the name.
    uri = create_two_fragments(tmp_path / "t")
    branch = fork(uri, "feature", version=2)
    Path(uri, "_refs/branches/feature.json").unlink()

    assert branch_names(uri) == set()
    assert contents(branch) == FORKED
    with pytest.raises(OSError, match="internal error"):
        fork(uri, "feature", version=2)
    with pytest.raises(ValueError, match="does not exist"):
        lance.dataset(uri).branches.delete("feature")
