"""Ids kept in memory answer for exactly one version."""

from omnigraph.engine.state.known_ids import KnownIds
from omnigraph.storage.ports import TableRef, TableVersion

REF = TableRef("nodes/a", None)
V1, V2, V3 = (TableVersion(REF, version) for version in (1, 2, 3))
FORKED = TableVersion(TableRef("nodes/a", "feature"), 2)


def known(*ids: str) -> KnownIds:
    """What is known once a version has been learnt."""
    kept = KnownIds()
    kept.learn(V1, ids)
    return kept


def test_nothing_is_known_of_a_version_that_nobody_learnt() -> None:
    assert KnownIds().find(V1, ["a"]) is None
    assert known("a").find(V2, ["a"]) is None


def test_ids_that_are_there_are_found() -> None:
    assert known("a", "b").find(V1, ["b", "c"]) == {"b"}


def test_what_is_known_follows_a_commit_of_this_process() -> None:
    kept = known("a", "b")

    kept.follow(V1, V2, added=["c"], removed=["a"])

    assert kept.find(V2, ["a", "b", "c"]) == {"b", "c"}
    assert kept.find(V1, ["a"]) is None


def test_a_commit_onto_another_version_is_not_followed() -> None:
    kept = known("a")

    kept.follow(V2, V3, added=["b"], removed=[])

    assert kept.find(V3, ["a", "b"]) is None
    assert kept.find(V1, ["a", "b"]) == {"a"}


def test_a_fork_leaves_the_line_it_came_from_as_it_is() -> None:
    kept = known("a")

    kept.follow(V1, FORKED, added=["b"], removed=[])

    assert kept.find(FORKED, ["a", "b"]) == {"a", "b"}
    assert kept.find(V1, ["a", "b"]) == {"a"}


def test_a_table_is_worth_learning_once_it_is_asked_about_again() -> None:
    kept = KnownIds()

    assert [kept.is_worth_learning(at) for at in (V1, V2, V3)] == [False, True, True]
