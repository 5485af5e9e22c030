"""Fork points: they include the merge bases of any two heads, and few other commits."""

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.state.ancestry import find_fork_points, find_shared_past
from omnigraph.engine.state.history import Ancestor


def history(**parents: str) -> dict[str, Ancestor]:
    """Commits by name, each with the letters of its parents."""
    return {
        id: Ancestor(id, "main", number, tuple(of))
        for number, (id, of) in enumerate(parents.items())
    }


def names(heads: str, known: dict[str, Ancestor]) -> list[str]:
    return [fork_point.commit.id for fork_point in find_fork_points(heads, known=known)]


def test_one_head_has_no_fork_point() -> None:
    assert names("c", history(a="", b="a", c="b")) == []


def test_two_heads_part_at_one_commit() -> None:
    known = history(a="", b="a", c="b", d="b", e="d")

    (fork_point,) = find_fork_points("ce", known=known)

    assert (fork_point.commit.id, fork_point.head_ids) == ("b", frozenset("ce"))


def test_a_head_that_is_an_ancestor_of_another_is_a_fork_point() -> None:
    assert names("bc", history(a="", b="a", c="b")) == ["b"]


def test_a_branch_that_was_merged_and_deleted_leaves_none() -> None:
    # On main b, d and f; a branch c that f merged; another branch from f.
    known = history(a="", b="a", c="b", d="b", f="dc", g="f", h="f")

    assert names("gh", known) == ["f"]


def test_after_a_merge_the_merged_commit_takes_the_place_of_where_they_parted() -> None:
    # A branch b, c, d of which main's m took c.
    known = history(a="", b="a", c="b", d="c", m="ac", n="m")

    assert names("dn", known) == ["c"]


def test_where_one_branch_met_main_stays_for_a_branch_made_before_they_met_again() -> None:
    # Branch p, q; main took p with m and q with o; branch x was made of m.
    known = history(a="", p="a", m="ap", q="p", o="mq", x="m", r="q")

    assert set(names("rox", known)) == {"p", "q", "m"}


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Ancestor]:
    known: dict[str, Ancestor] = {}
    for number in range(draw(st.integers(1, 14))):
        ids = list(known)
        parents = draw(st.lists(st.sampled_from(ids), max_size=2, unique=True)) if ids else []
        known[f"c{number:02}"] = Ancestor(f"c{number:02}", "main", number, tuple(parents))
    return known


@given(histories(), st.data())
def test_the_last_common_ancestors_of_two_heads_are_fork_points(
    known: dict[str, Ancestor], data: st.DataObject
) -> None:
    heads = data.draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=5, unique=True))

    found = {fork_point.commit.id for fork_point in find_fork_points(heads, known=known)}

    for one in heads:
        for other in heads:
            if one != other:
                last = find_shared_past(one, other, known=known).last
                assert {each.id for each in last} <= found
