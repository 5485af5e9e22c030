"""Which way a traversal finds its edges, for every reason that there is."""

import itertools

import pytest

from omnigraph.engine.read.expand import (
    DEFAULT_LOOKUPS,
    Access,
    AccessRules,
    TraversalMode,
    choose_access,
    estimate_edges,
    parse_lookups,
)
from omnigraph.errors import InvalidValueError
from omnigraph.model.limits import (
    EXPAND_CSR_FACTOR,
    EXPAND_INDEXED_FRONTIER_MAX,
    EXPAND_INDEXED_HOPS_MAX,
    EXPAND_PROBES_MAX,
)

CSR, INDEXED = TraversalMode.CSR, TraversalMode.INDEXED
USUAL = AccessRules(TraversalMode.AUTO, DEFAULT_LOOKUPS)


def choose(
    *,
    rules: AccessRules = USUAL,
    frontier: int = 1,
    hops: int = 1,
    edge_count: int = 1_000_000,
    source_count: int = 1_000_000,
    is_cached: bool = False,
    probes: int = 0,
) -> Access:
    """The path of a traversal that is looked up, unless something is given that speaks against."""
    return choose_access(
        rules=rules,
        frontier=frontier,
        hops=hops,
        edge_count=edge_count,
        source_count=source_count,
        is_cached=is_cached,
        probes=probes,
    )


@pytest.mark.parametrize(
    ("is_cached", "is_wide", "is_deep", "is_frequent"),
    list(itertools.product([False, True], repeat=4)),
)
def test_edges_are_looked_up_only_if_every_condition_allows_it(
    *, is_cached: bool, is_wide: bool, is_deep: bool, is_frequent: bool
) -> None:
    access = choose(
        is_cached=is_cached,
        frontier=EXPAND_INDEXED_FRONTIER_MAX + is_wide,
        hops=EXPAND_INDEXED_HOPS_MAX + is_deep,
        probes=EXPAND_PROBES_MAX + is_frequent,
    )

    assert access.mode is (CSR if is_cached or is_wide or is_deep or is_frequent else INDEXED)


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (choose(rules=AccessRules(CSR, DEFAULT_LOOKUPS)), "environment"),
        (choose(rules=AccessRules(INDEXED, DEFAULT_LOOKUPS)), "environment"),
        (choose(is_cached=True), "in memory"),
        (choose(frontier=2_000), "2,000 nodes"),
        (choose(hops=7), "7 hops"),
        (choose(probes=5), "used repeatedly"),
        (choose(probes=5, edge_count=2_000_000), "2 of 2,000,000 edges"),
        (choose(frontier=1_000, edge_count=1_000, source_count=1_000), "all 1,000 edges"),
        (choose(frontier=3), "3 of 1,000,000 edges"),
    ],
)
def test_a_choice_states_its_reason(access: Access, reason: str) -> None:
    assert reason in access.reason


@pytest.mark.parametrize("forced", [CSR, INDEXED])
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_forced_way_is_taken_whatever_it_costs(*, forced: TraversalMode, is_cached: bool) -> None:
    rules = AccessRules(forced, DEFAULT_LOOKUPS)

    access = choose(rules=rules, frontier=10**6, hops=99, is_cached=is_cached, probes=99)

    assert access.mode is forced


def test_configured_bounds_replace_the_defaults() -> None:
    bounds = parse_lookups(
        {
            "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER": "2",
            "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS": " 1 ",
        }
    )

    chosen = [
        choose(rules=AccessRules(TraversalMode.AUTO, bounds), frontier=frontier, hops=hops).mode
        for frontier, hops in [(2, 1), (3, 1), (2, 2)]
    ]

    assert chosen == [INDEXED, CSR, CSR]


def test_bounds_that_are_not_configured_are_the_defaults() -> None:
    assert parse_lookups({"OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS": ""}) == DEFAULT_LOOKUPS


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "\u0661", "9" * 5000])
def test_bounds_that_are_not_numbers_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidValueError, match="OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS"):
        parse_lookups({"OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS": text})


def test_reading_all_edges_is_cheaper_once_most_of_them_are_needed() -> None:
    edge_count = 900
    few = int(edge_count / EXPAND_CSR_FACTOR)

    chosen = [
        choose(frontier=frontier, edge_count=edge_count, source_count=edge_count).mode
        for frontier in (few, few + 1)
    ]

    assert chosen == [INDEXED, CSR]


def test_a_type_without_edges_is_not_read() -> None:
    assert choose(edge_count=0).mode is INDEXED


@pytest.mark.parametrize(
    ("frontier", "hops", "edge_count", "source_count", "expected"),
    [
        (1, 1, 100, 10, 10),
        (2, 1, 100, 10, 20),
        (1, 2, 200, 20, 110),  # ten edges lead to ten nodes, each with ten edges
        (1, 3, 200, 20, 200),
        (5, 3, 20, 40, 4),  # 2.5 + 1.25 + 0.625 edges
        (1, 50, 100, 10, 100),
        (0, 3, 100, 10, 0),
        (3, 1, 0, 0, 0),
    ],
)
def test_the_estimate_follows_the_average_degree_and_ends_at_all_edges(
    *, frontier: int, hops: int, edge_count: int, source_count: int, expected: int
) -> None:
    estimate = estimate_edges(
        frontier=frontier, hops=hops, edge_count=edge_count, source_count=source_count
    )

    assert estimate == expected
