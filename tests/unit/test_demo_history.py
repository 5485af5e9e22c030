"""The demo's drawing of history shows who came from whom, whatever the shape."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from demo.history import draw_history
from omnigraph.engine.state.history import NO_NOTES, Commit, CommitNotes, Resolution


def commit(
    id: str,
    parents: str = "",
    *,
    branch: str = "main",
    hour: int = 0,
    notes: CommitNotes = NO_NOTES,
) -> Commit:
    """A commit of Ann's, its parents given as letters."""
    first, second, *_ = [*parents, None, None]
    return Commit(
        id=id,
        branch=branch,
        parent_id=first,
        merged_parent_id=second,
        actor="ann",
        created_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour),
        manifest_version=hour,
        schema_hash=None,
        notes=notes,
    )


def draw(history: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """The picture alone, with the letter of each commit; they were made in the order given."""
    commits = [commit(id, parents, hour=hour) for hour, (id, parents) in enumerate(history.items())]
    return [line.split(" (")[0].split(" ann")[0] for line in draw_history(commits, names=names)]


def test_a_branch_that_was_merged_leaves_main_and_comes_back() -> None:
    history = {"a": "", "b": "a", "s": "a", "m": "bs"}

    drawn = draw(history, {"main": "m", "work": "s"})

    assert drawn == [
        "*    m",
        "|\\",
        "| *  s",
        "* |  b",
        "|/",
        "*    a",
    ]


def test_two_merged_branches_have_a_lane_each() -> None:
    history = {"a": "", "s": "a", "t": "a", "b": "as", "m": "bt"}

    drawn = draw(history, {"main": "m"})

    assert drawn == [
        "*      m",
        "|\\",
        "* |    b",
        "|\\ \\",
        "| | *  t",
        "| * |  s",
        "| |/",
        "|/",
        "*      a",
    ]


def test_three_heads_are_drawn_side_by_side_with_main_leftmost() -> None:
    history = {"a": "", "b": "a", "s": "a", "t": "a", "u": "t"}

    drawn = draw(history, {"main": "b", "one": "s", "two": "u"})

    assert drawn == [
        "  *    u",
        "  *    t",
        "  | *  s",
        "* | |  b",
        "| |/",
        "|/",
        "*      a",
    ]


def test_branches_that_are_ahead_of_main_come_down_to_it() -> None:
    history = {"a": "", "s": "a", "t": "a"}

    drawn = draw(history, {"main": "a", "one": "s", "two": "t"})

    assert drawn == [
        "  *    t",
        "  | *  s",
        "  |/",
        " /",
        "*      a",
    ]


def test_two_branches_that_merged_each_other_cross() -> None:
    history = {"a": "", "b": "a", "s": "a", "m": "bs", "n": "sb"}

    drawn = draw(history, {"main": "m", "work": "n"})

    assert drawn == [
        "  *      n",
        "  |\\",
        "* | |    m",
        "|\\ \\ \\",
        "| |/  |",
        "| *   |  s",
        "|_|__/",
        "* |      b",
        "|/",
        "*        a",
    ]


def test_a_commit_shows_its_names_its_author_and_its_kind() -> None:
    decided = CommitNotes(resolutions=(Resolution("Book", "Emma", "source"),))
    commits = [
        commit("a"),
        commit("s", "a", branch="work", hour=1),
        commit("m", "as", hour=2, notes=decided),
        commit("r", "m", hour=3, notes=CommitNotes(reverted_id="01ABCDEF123456")),
        commit("p", "r", hour=4, notes=CommitNotes(picked_id="01ABCDEF654321")),
    ]

    drawn = draw_history(commits, names={"main": "p", "tag first": "a", "work": "s"})

    assert drawn == [
        "*    p (main) ann picks 654321",
        "*    r ann reverts 123456",
        "*    m ann merges work; Book 'Emma' as in the source",
        "|\\",
        "| *  s (work) ann",
        "|/",
        "*    a (tag first) ann",
    ]


def test_commits_of_a_deleted_branch_are_listed_and_not_drawn() -> None:
    commits = [commit("a"), commit("m", "as", hour=1)]

    drawn = draw_history(commits, names={"main": "m"})

    assert drawn == ["*  m (main) ann merges a deleted branch", "*  a ann"]


def test_a_parent_is_below_its_child_even_if_its_clock_was_ahead() -> None:
    commits = [commit("a", hour=9), commit("b", "a", hour=1)]

    drawn = draw_history(commits, names={"main": "b"})

    assert drawn == ["*  b (main) ann", "*  a ann"]


@st.composite
def histories(draw: st.DrawFn) -> dict[str, str]:
    """Up to ten commits by letter, each with one or two parents among those before it."""
    history = {"a": ""}
    for letter in "bcdefghij"[: draw(st.integers(0, 9))]:
        parents = st.lists(st.sampled_from(sorted(history)), min_size=1, max_size=2, unique=True)
        history[letter] = "".join(draw(parents))
    return history


@given(history=histories(), main=st.integers(0, 9))
def test_who_follows_the_lines_finds_exactly_the_parents(
    history: dict[str, str], main: int
) -> None:
    drawn = draw(history, {"main": sorted(history)[main % len(history)]})

    assert read_back(drawn) == {id: set(parents) for id, parents in history.items()}


def read_back(drawn: Sequence[str]) -> dict[str, set[str]]:
    """The parents of each commit, found by following the lines down from it."""
    rows = [line.ljust(80) for line in drawn]
    return {
        line[-1]: set(_follow(rows, number + 1, line.index("*")))
        for number, line in enumerate(drawn)
        if "*" in line
    }


def _follow(rows: Sequence[str], number: int, at: int) -> Iterator[str]:
    if number == len(rows):
        return
    row = rows[number]
    if row[at] == "*":
        yield row.rstrip()[-1]
    if row[at] == "|":
        yield from _follow(rows, number + 1, at)
    if row[at + 1] == "\\":
        yield from _follow(rows, number + 1, at + 2)
    if at and row[at - 1] == "/":
        at -= 2
        while at and row[at - 1] == "_":
            at -= 2
        yield from _follow(rows, number + 1, at)


def test_no_commits_are_no_lines() -> None:
    assert draw_history([], names={}) == []
