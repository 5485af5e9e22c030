"""Which fragments are worth joining: decided by their sizes alone."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.model.limits import FRAGMENT_ROWS_MAX, LAYOUT_GROWTH, LAYOUT_ROWS_FREE
from omnigraph.storage.lance.compaction import FragmentSize, choose_groups, cut_group

FULL = FRAGMENT_ROWS_MAX
LARGE = LAYOUT_ROWS_FREE * LAYOUT_GROWTH // 2


def sizes(*rows: int) -> list[FragmentSize]:
    """Fragments 0, 1, 2 and so on of which nothing was deleted."""
    return [FragmentSize(number, count, 0) for number, count in enumerate(rows)]


def join(before: Sequence[FragmentSize]) -> list[FragmentSize]:
    """What Lance makes of the groups: they come last, cut where a fragment is full."""
    groups = choose_groups(before)
    merged = {number for group in groups for number in group}
    rows_by_id = {size.id: size.rows for size in before}
    after = [size for size in before if size.id not in merged]
    for group in groups:
        rows = sum(rows_by_id[number] for number in group)
        counts = [FULL] * (rows // FULL) + [rows % FULL] * bool(rows % FULL)
        after += [FragmentSize(1_000 + len(after) + at, n, 0) for at, n in enumerate(counts)]
    return after


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        ([], ()),
        ([5], ()),
        ([FULL, FULL], ()),
        ([5, 5], ((0, 1),)),
        ([1_000, 1, 1], ((0, 1, 2),)),
        ([FULL, 5, 5], ((1, 2),)),
        ([5, FULL, 5], ((0, 2),)),
        ([LARGE, 5, 5, 5], ((1, 2, 3),)),
        ([LARGE, LARGE // LAYOUT_GROWTH], ((0, 1),)),
        ([LARGE, LARGE // LAYOUT_GROWTH - 1], ()),
        ([5, 7, LARGE, 5, 7], ((0, 1, 3, 4),)),
        ([FULL // 2, FULL // 2], ()),
        ([FULL // 2 - 1, FULL // 2 - 1], ((0, 1),)),
    ],
)
def test_fragments_are_joined_unless_one_outweighs_the_others(
    rows: list[int], groups: tuple[tuple[int, ...], ...]
) -> None:
    assert choose_groups(sizes(*rows)) == groups


@pytest.mark.parametrize(
    ("deleted", "is_rewritten"), [(0, False), (FULL // 10, False), (FULL // 10 + 1, True)]
)
def test_a_fragment_is_written_again_when_a_tenth_of_it_is_deleted(
    deleted: int, *, is_rewritten: bool
) -> None:
    alone = FragmentSize(7, FULL - deleted, deleted)

    assert choose_groups([alone]) == (((7,),) if is_rewritten else ())


FRAGMENTS = st.lists(
    st.tuples(
        st.one_of(
            st.integers(1, 50),
            st.integers(1, LARGE),
            st.integers(1, FULL),
            st.integers(FULL // 2 - 2, FULL // 2 + 2),
        ),
        st.one_of(st.just(0), st.integers(0, FULL)),
    ),
    max_size=30,
)


def fragments(found: list[tuple[int, int]]) -> list[FragmentSize]:
    return [FragmentSize(number, *counts) for number, counts in enumerate(found)]


@given(FRAGMENTS)
def test_what_was_joined_has_nothing_left_to_join(found: list[tuple[int, int]]) -> None:
    joined = join(fragments(found))

    assert choose_groups(joined) == ()


@given(FRAGMENTS)
def test_no_fragment_is_joined_twice_and_none_out_of_order(found: list[tuple[int, int]]) -> None:
    groups = choose_groups(fragments(found))

    members = [number for group in groups for number in group]
    assert len(members) == len(set(members))
    assert all(list(group) == sorted(group) for group in groups)
    assert sum(len(group) > 1 for group in groups) <= 1


@given(FRAGMENTS)
def test_what_stays_apart_grows_by_a_factor(found: list[tuple[int, int]]) -> None:
    joined = sorted(size.rows for size in join(fragments(found)) if size.is_small)

    assert all(larger > LAYOUT_GROWTH * smaller for smaller, larger in pairwise(joined))


@pytest.mark.parametrize(
    ("rows", "pieces"),
    [
        ([5, 5], [[5, 5]]),
        ([FULL // 2, FULL // 2, 5], [[FULL // 2, FULL // 2, 5]]),
        ([FULL // 3] * 6, [[FULL // 3] * 3] * 2),
        ([5, FULL - 1, FULL - 1], [[5, FULL - 1], [FULL - 1]]),
    ],
)
def test_a_group_is_cut_into_pieces_of_about_a_file(
    rows: list[int], pieces: list[list[int]]
) -> None:
    cut = cut_group(sizes(*rows), rows_max=FULL)

    assert [[size.rows for size in piece] for piece in cut] == pieces


@given(FRAGMENTS)
def test_pieces_of_a_group_are_in_order_and_none_makes_a_short_file(
    found: list[tuple[int, int]],
) -> None:
    size_by_id = {size.id: size for size in fragments(found)}
    for group in choose_groups(fragments(found)):
        members = [size_by_id[number] for number in group]

        pieces = cut_group(members, rows_max=FULL)

        assert [size for piece in pieces for size in piece] == members
        row_counts = [sum(size.rows for size in piece) for piece in pieces]
        files = [-(-rows // FULL) for rows in row_counts]
        if len(pieces) > 1:
            assert all(
                2 * rows >= FULL * each for rows, each in zip(row_counts, files, strict=True)
            )
