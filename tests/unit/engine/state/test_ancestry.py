"""What two heads of history have in common, for histories of every shape."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.state.ancestry import (
    as_ancestor,
    find_common_ancestors,
    find_past,
    find_shared_past,
    follow_first_parents,
    gather_ancestry,
    list_brought,
)
from omnigraph.engine.state.history import (
    Ancestor,
    Commit,
    CommitNotes,
    decode_commit,
    encode_commit,
)

History = Mapping[str, str]
"""The parents of each commit, as letters; the first one first."""


def ancestry(history: History) -> dict[str, Ancestor]:
    """Commits in the order in which they were made."""
    return {
        id: Ancestor(id, "main", number, tuple(parents))
        for number, (id, parents) in enumerate(history.items())
    }


LINE = {"a": "", "b": "a", "c": "b"}
FORK = {"a": "", "s": "a", "t": "a"}
MERGED = {"a": "", "s": "a", "t": "a", "m": "ts", "u": "m", "r": "s"}
CROSSED = {"a": "", "s": "a", "t": "a", "m": "st", "n": "ts"}
# A short way to `a` past `k`, which is nearer to both in truth.
SHORT_CUT = {"a": "", "k": "a", "l": "k", "x": "a", "t": "lx", "s": "k", "r": "s"}


@pytest.mark.parametrize(
    ("history", "source", "target", "last"),
    [
        (LINE, "c", "c", "c"),
        (LINE, "b", "c", "b"),
        (LINE, "c", "b", "b"),
        (FORK, "s", "t", "a"),
        (MERGED, "s", "u", "s"),
        (MERGED, "r", "u", "s"),
        (CROSSED, "m", "n", "st"),
        (SHORT_CUT, "r", "t", "k"),
    ],
)
def test_the_last_common_commits_are_those_that_come_before_no_other(
    history: History, source: str, target: str, last: str
) -> None:
    found = find_shared_past(source, target, known=ancestry(history))

    assert {each.id for each in found.last} == set(last)
    assert not {each.id for each in found.earlier} & set(last)


# A line `a`-`p`-`m`-`n` into which others came twice: `x` with `y`, then `z`, which is after `y`.
BROUGHT = {"a": "", "x": "a", "y": "x", "z": "y", "p": "a", "m": "py", "n": "mz"}


def test_whatever_a_merge_brought_is_known_by_the_first_that_did() -> None:
    found = follow_first_parents("n", known=ancestry(BROUGHT))

    assert [each.id for each in found.commits] == ["a", "p", "m", "n"]
    assert found.place_by_brought == {"x": 2, "y": 2, "z": 3}


def test_a_line_ends_where_knowledge_does() -> None:
    known = {id: each for id, each in ancestry(BROUGHT).items() if id not in "apx"}

    found = follow_first_parents("n", known=known)

    assert [each.id for each in found.commits] == ["m", "n"]
    assert found.place_by_brought == {"y": 0, "z": 1}


@pytest.mark.parametrize(("ids", "past"), [("a", ""), ("z", "axy"), ("zp", "axy"), ("zy", "axy")])
def test_the_past_of_commits_is_all_that_comes_before_them(ids: str, past: str) -> None:
    assert find_past(ids, known=ancestry(BROUGHT)) == set(past)


@pytest.mark.parametrize(
    ("source", "target", "last"),
    [("c", "c", "c"), ("b", "c", "b"), ("c", "b", "b"), ("r", "u", "s"), ("s", "u", "s")],
)
def test_the_newest_commits_prove_where_two_branches_parted(
    source: str, target: str, last: str
) -> None:
    history = LINE if source in LINE else MERGED
    known = {id: each for id, each in ancestry(history).items() if id != "a"}

    found = find_common_ancestors(source, target, source=known, target=known)

    assert found is not None
    assert [each.id for each in found.last] == [last]


@pytest.mark.parametrize(
    ("history", "source", "target"),
    [(FORK, "s", "t"), (CROSSED, "m", "n"), (SHORT_CUT, "r", "t")],
)
def test_the_newest_commits_prove_nothing_where_a_way_leads_past_them(
    history: History, source: str, target: str
) -> None:
    known = {id: each for id, each in ancestry(history).items() if id not in ("a", "k")}

    assert find_common_ancestors(source, target, source=known, target=known) is None


def test_the_newest_commits_prove_nothing_where_a_way_ends_at_the_first_commit() -> None:
    source = ancestry({"a": "", "b": "a", "c": "b", "s": "ac"})
    target = {id: source[id] for id in ("b", "c")}

    assert find_common_ancestors("s", "c", source=source, target=target) is None


def test_commits_without_a_common_past_have_none() -> None:
    found = find_shared_past("a", "b", known=ancestry({"a": "", "b": ""}))

    assert (found.last, found.earlier) == ((), ())


def test_a_merge_brings_what_its_target_does_not_know() -> None:
    known = ancestry(MERGED)

    brought = list_brought("r", known=known, target=ancestry({"a": "", "t": "a"}))

    assert [each.id for each in brought] == ["s", "r"]


def test_what_a_merge_brought_is_part_of_a_branch_past() -> None:
    brought = Ancestor("s", "feature", 7, ("a",))
    commit = Commit(
        id="m",
        branch="main",
        parent_id="t",
        merged_parent_id="s",
        actor=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        manifest_version=9,
        schema_hash=None,
        notes=CommitNotes(brought=(brought,)),
    )

    found = gather_ancestry(
        [
            decode_commit(
                commit_id="m", metadata=encode_commit(commit), manifest_version=9, branch=None
            )
        ]
    )

    assert found == {"m": Ancestor("m", "main", 9, ("t", "s")), "s": brought}


# Any history


class Branches:
    """Branches as their manifests list them: own commits, inherited ones, and what was brought."""

    def __init__(self) -> None:
        self.commits: dict[str, list[Commit]] = {"main": [commit_of("c0", "main", None, None, ())]}
        self.made = 1

    def write(self, branch: str, *, merging: str | None = None) -> None:
        """A commit on a branch, perhaps one that merges another."""
        line = self.commits[branch]
        brought: tuple[Ancestor, ...] = ()
        merged_parent_id = None
        if merging is not None:
            merged_parent_id = self.commits[merging][-1].id
            target = gather_ancestry(line)
            known = {**gather_ancestry(self.commits[merging]), **target}
            brought = list_brought(merged_parent_id, known=known, target=target)
        id = f"c{self.made}"
        self.made += 1
        line.append(commit_of(id, branch, line[-1], merged_parent_id, brought))

    def fork(self, base: str) -> None:
        """A branch at the head of another."""
        self.commits[f"b{len(self.commits)}"] = list(self.commits[base])


def commit_of(
    id: str,
    branch: str,
    parent: Commit | None,
    merged_parent_id: str | None,
    brought: tuple[Ancestor, ...],
) -> Commit:
    """A commit behind another."""
    return Commit(
        id=id,
        branch=branch,
        parent_id=None if parent is None else parent.id,
        merged_parent_id=merged_parent_id,
        actor=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        manifest_version=1 if parent is None else parent.manifest_version + 1,
        schema_hash=None,
        notes=CommitNotes(brought=brought),
    )


@st.composite
def histories(draw: st.DrawFn) -> Branches:
    """Branches that were written, forked and merged in any order."""
    branches = Branches()
    for _ in range(draw(st.integers(0, 14))):
        names = st.sampled_from(sorted(branches.commits))
        match draw(st.sampled_from(["write", "fork", "merge", "merge"])):
            case "write":
                branches.write(draw(names))
            case "fork":
                branches.fork(draw(names))
            case _:
                source, target = draw(names), draw(names)
                if source != target:
                    branches.write(target, merging=source)
    return branches


def every_ancestor(branches: Branches) -> dict[str, Ancestor]:
    """All commits there are, as if every branch were asked."""
    return {each.id: as_ancestor(each) for line in branches.commits.values() for each in line}


@given(histories(), st.data())
def test_two_manifests_know_the_whole_past_of_both_branches(
    branches: Branches, choice: st.DataObject
) -> None:
    names = st.sampled_from(sorted(branches.commits))
    source, target = branches.commits[choice.draw(names)], branches.commits[choice.draw(names)]

    known = {**gather_ancestry(source), **gather_ancestry(target)}

    found = find_shared_past(source[-1].id, target[-1].id, known=known)
    assert found == find_shared_past(source[-1].id, target[-1].id, known=every_ancestor(branches))


@given(histories(), st.integers(0, 4), st.data())
def test_what_the_newest_commits_prove_is_true(
    branches: Branches, version_count: int, choice: st.DataObject
) -> None:
    names = st.sampled_from(sorted(branches.commits))
    source, target = branches.commits[choice.draw(names)], branches.commits[choice.draw(names)]
    newest_of_source, newest_of_target = (
        gather_ancestry(
            each
            for each in line
            if each.manifest_version >= line[-1].manifest_version - version_count
        )
        for line in (source, target)
    )

    proven = find_common_ancestors(
        source[-1].id, target[-1].id, source=newest_of_source, target=newest_of_target
    )

    whole = {**gather_ancestry(source), **gather_ancestry(target)}
    truth = find_shared_past(source[-1].id, target[-1].id, known=whole)
    if proven is not None:
        assert proven.last == truth.last
        newest = {**newest_of_source, **newest_of_target}
        assert list_brought(source[-1].id, known=newest, target=newest_of_target) == list_brought(
            source[-1].id, known=whole, target=gather_ancestry(target)
        )
