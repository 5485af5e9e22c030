"""A plan as text: what each step would do, by which method, and why."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import CallLimits, Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.engine.settings import make_settings
from omnigraph.errors import CompileError, InvalidValueError, LimitExceededError
from omnigraph.model.limits import EXPAND_INDEXED_HOPS_MAX, EXPAND_PROBES_MAX
from tests.support.graphs import build_graph, edge, ndjson, node, social_graph, unchanged
from tests.support.queries import query

LOOKED_UP = "edges looked up by the ids of the nodes"
IN_MEMORY = "all edges of the type in memory"
NOTHING_READ = "nothing read from storage"

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
node Firm { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Firm
"""

FRIENDS = query('match { $p: Person { name: "p0" } $p knows $f } return { $f.name }')


def many_people(path: Path, *, people: int = 40) -> Graph:
    """People in a ring, each of whom knows the next."""
    names = [f"p{number}" for number in range(people)]
    return build_graph(
        path,
        SCHEMA,
        *(node("Person", name=name) for name in names),
        *(edge("Knows", one, other) for one, other in zip(names, names[1:] + names, strict=False)),
    )


def lines(text: str) -> Sequence[str]:
    """The lines of a plan without their indentation."""
    return [line.strip() for line in text.splitlines()]


def access_of(text: str) -> str:
    """The only line of a plan that says how edges are found."""
    (found,) = [line for line in lines(text) if line.startswith((LOOKED_UP, IN_MEMORY))]
    return found


# Contents


def test_a_plan_lists_each_step_in_order_with_its_conditions(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    text = graph.explain(
        query(
            'match { $p: Person { name: "Alice" } $p knows $f $f.age > 26 not { $f worksAt $c } } '
            "return { $f.name } order { $f.age desc } limit 3"
        )
    )

    expected = [
        "read q()",
        "scan $p: Person",
        'where $p.name = "Alice"',
        "expand $p -[Knows]-> $f: Person",
        "where $f.age > 26",
        "keep rows without a match, joined on $f",
        "expand $f -[WorksAt]-> $c: Company",
        "project $f.name",
        "order by $f.age desc",
        "limit 3",
    ]
    remaining = iter(lines(text))
    for start in expected:
        assert any(line.startswith(start) for line in remaining), f"{start} is not in\n{text}"


def test_a_plan_says_how_many_rows_there_are(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    populated = graph.explain(query("match { $p: Person } return { $p.name }"))
    empty = build_graph(tmp_path / "empty", SCHEMA).explain(
        query("match { $p: Person } return { $p.name }")
    )

    assert "scan $p: Person  (about 4 of 4 nodes)" in populated
    assert "scan $p: Person  (about 0 of 0 nodes)" in empty


def test_a_plan_shows_conditions_where_they_are_evaluated(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)

    text = graph.explain(
        query(
            "match { $p: Person $p knows $f $f knows $g $p.age > 20 $p.age < $f.age } "
            "return { $p.name, $g.name }"
        )
    )

    found = lines(text)
    scan, first, second = (
        next(number for number, line in enumerate(found) if line.startswith(start))
        for start in ("scan $p", "expand $p", "expand $f")
    )
    assert scan < found.index("where $p.age > 20") < first
    compared = next(n for n, line in enumerate(found) if line.startswith("filter $p.age < $f.age"))
    assert first < compared < second


def test_a_plan_says_where_matches_are_counted_instead_of_listed(tmp_path: Path) -> None:
    graph = many_people(tmp_path)
    body = "match { $p: Person $p $w:knows $f } return "

    counted = graph.explain(query(body + "{ $p.name, count(*) as friends }"))
    listed = graph.explain(query(body + "{ $p.name, $f.name }"))
    edges = graph.explain(query(body + "{ $p.name, max($w.since) as last }"))

    said = [
        any("counted, not listed" in line for line in lines(t)) for t in (counted, listed, edges)
    ]
    assert said == [True, False, False]


def test_an_expansion_that_cannot_match_is_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(CompileError, match="a second hop never starts"):
        graph.explain(query("match { $p: Person $p worksAt{2,3} $c } return { $c.name }"))


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ("", "every node; properties are read when needed"),
        ('search($p.bio, "art")', "text conditions"),
        ("$p.age > 3", "in memory: the columns were read before or are few"),
    ],
)
def test_a_scan_shows_which_engine_evaluates_its_conditions(
    tmp_path: Path, conditions: str, said: str
) -> None:
    graph = many_people(tmp_path)

    text = graph.explain(query(f"match {{ $p: Person {conditions} }} return {{ $p.name }}"))

    assert said in text


def test_a_condition_on_a_large_type_is_pushed_to_lance_until_its_columns_are_cached(
    tmp_path: Path,
) -> None:
    graph = build_graph(tmp_path, "node Place { name: String @key  size: I32 }")
    graph.load(
        ndjson(*(node("Place", name=f"p{n}", size=n % 7) for n in range(5_000))), mode="append"
    )
    text = query("match { $p: Place $p.size = 3 } return { count(*) as n }")

    explained, results = [], []
    for _ in range(3):
        explained.append("by Lance" in graph.explain(text))
        results.append(graph.query(text).rows)

    assert explained == [True, True, False]
    assert results == [[{"n": 714}]] * 3


# Traversal modes


def test_few_edges_of_many_are_read_by_lookup(tmp_path: Path) -> None:
    graph = many_people(tmp_path)

    assert access_of(graph.explain(FRIENDS)) == f"{LOOKED_UP}: about 2 of 40 edges are needed"


def test_edges_are_cached_when_nearly_all_are_needed(tmp_path: Path) -> None:
    graph = many_people(tmp_path)

    text = graph.explain(query("match { $p: Person $p knows $f } return { $f.name }"))

    assert access_of(text) == f"{IN_MEMORY}: about all 40 edges are needed"


def test_a_long_traversal_runs_in_memory(tmp_path: Path) -> None:
    graph = many_people(tmp_path)
    hops = EXPAND_INDEXED_HOPS_MAX + 1

    text = graph.explain(
        query(
            f'match {{ $p: Person {{ name: "p0" }} $p knows{{1,{hops}}} $f }} return {{ $f.name }}'
        )
    )

    assert access_of(text) == f"{IN_MEMORY}: it goes {hops} hops"


def test_a_plan_changes_when_the_edges_are_cached(tmp_path: Path) -> None:
    graph = many_people(tmp_path)
    before = access_of(graph.explain(FRIENDS))

    graph.query(query("match { $p: Person $p knows $f } return { count(*) as n }"))

    assert before.startswith(LOOKED_UP)
    assert access_of(graph.explain(FRIENDS)) == f"{IN_MEMORY}: the edges are in memory"


def test_a_plan_uses_cached_edges_after_an_edge_is_written(tmp_path: Path) -> None:
    graph = many_people(tmp_path)
    graph.query(query("match { $p: Person $p knows $f } return { count(*) as n }"))

    graph.load(ndjson(edge("Knows", "p0", "p7")), mode="append")

    assert access_of(graph.explain(FRIENDS)) == f"{IN_MEMORY}: the edges are in memory"
    assert [row["f.name"] for row in graph.query(FRIENDS)] == ["p1", "p7"]


def test_frequently_read_edges_are_cached(tmp_path: Path) -> None:
    graph = many_people(tmp_path)

    ways = []
    for _ in range(EXPAND_PROBES_MAX + 3):
        ways.append(access_of(graph.explain(FRIENDS)))
        assert [row["f.name"] for row in graph.query(FRIENDS)] == ["p1"]

    looked_up = [way.startswith(LOOKED_UP) for way in ways]
    assert looked_up == [True] * (EXPAND_PROBES_MAX + 1) + [False, False]
    assert ways[-2].endswith("the edges of this type are used repeatedly")
    assert ways[-1].endswith("the edges are in memory")


def test_many_edges_are_cached_in_the_background(tmp_path: Path) -> None:
    many_people(tmp_path).close()
    settings = make_settings(tmp_path, storage_options=None, durability="relaxed")
    bounds = replace(settings.lookups, edges_max=0)
    graph = open_graph(replace(settings, lookups=bounds), actor=None, is_read_only=True)

    ways: list[str] = []
    while not ways or (ways[-1].startswith(LOOKED_UP) and len(ways) < 1_000):
        assert [row["f.name"] for row in graph.query(FRIENDS)] == ["p1"]
        ways.append(access_of(graph.explain(FRIENDS)))
        time.sleep(0.01)

    assert len(ways) > EXPAND_PROBES_MAX
    assert ways[-1].endswith("the edges are in memory")
    assert [row["f.name"] for row in graph.query(FRIENDS)] == ["p1"]


@pytest.mark.parametrize(
    ("mode", "path"), [(TraversalMode.CSR, IN_MEMORY), (TraversalMode.INDEXED, LOOKED_UP)]
)
def test_a_forced_traversal_mode_is_used_and_shown(
    tmp_path: Path, mode: TraversalMode, path: str
) -> None:
    many_people(tmp_path).close()
    settings = make_settings(tmp_path, storage_options=None, durability="relaxed")
    graph = open_graph(replace(settings, traversal=mode), actor=None, is_read_only=True)
    every = query("match { $p: Person $p knows $f } return { count(*) as n }")

    assert access_of(graph.explain(FRIENDS)) == f"{path}: forced by the environment"
    assert access_of(graph.explain(every)) == f"{path}: forced by the environment"
    assert graph.query(every).rows == [{"n": 40}]


def test_the_environment_forces_a_traversal_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_people(tmp_path).close()

    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    forced = omnigraph.open(tmp_path)

    assert access_of(forced.explain(FRIENDS)).startswith(IN_MEMORY)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "it starts from 2 nodes"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", "it goes 1 hop"),
    ],
)
def test_the_environment_bounds_edge_lookups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    many_people(tmp_path).close()
    monkeypatch.setenv(name, "0")

    graph = omnigraph.open(tmp_path)

    assert access_of(graph.explain(FRIENDS)) == f"{IN_MEMORY}: {reason}"


def test_an_unknown_traversal_mode_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_people(tmp_path).close()
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "teleport")

    with pytest.raises(InvalidValueError) as refused:
        omnigraph.open(tmp_path)

    assert "teleport" in str(refused.value)


# Side effects


def test_explaining_reads_and_writes_nothing(tmp_path: Path) -> None:
    graph = many_people(tmp_path)

    with unchanged(graph):
        first = graph.explain(FRIENDS)

    assert graph.explain(FRIENDS) == first


def test_a_plan_needs_no_values_but_refuses_wrong_ones(tmp_path: Path) -> None:
    graph = many_people(tmp_path)
    text = query(
        "match { $p: Person { name: $name } } return { $p.age }", parameters="$name: String"
    )

    assert "where $p.name = $name" in graph.explain(text)
    assert graph.explain(text, {"name": "p0"}) == graph.explain(text)
    with pytest.raises(InvalidValueError):
        graph.explain(text, {"name": 3})


# Measured runs


def measured_lines(text: str) -> Sequence[str]:
    """What each step of an analyzed plan took, in order, without times."""
    starts = ("actual: ", "result: ")
    return [re.sub(r" in [\d,.]+ ms", "", line) for line in lines(text) if line.startswith(starts)]


def test_an_analyzed_plan_shows_the_rows_of_each_step(tmp_path: Path) -> None:
    graph = many_people(tmp_path)

    text = graph.explain(
        query(
            "match { $p: Person $p knows $f not { $f knows $g $g.name = $last } } "
            "return { $p.name } limit 3",
            parameters="$last: String",
        ),
        {"last": "p39"},
        analyze=True,
    )

    rows = [line.split(",")[0] for line in measured_lines(text)]
    assert rows == [
        "actual: 40 rows",
        "actual: 40 rows",
        "actual: 39 rows",
        "actual: 1 row",
        "result: 3 rows",
    ]
    assert lines(text)[-1].startswith("planning: ")


def test_an_analyzed_plan_shows_what_was_read_and_how(tmp_path: Path) -> None:
    many_people(tmp_path, people=5_000).close()
    graph = omnigraph.open(tmp_path)
    graph.ensure_indices()

    cold = measured_lines(graph.explain(FRIENDS, analyze=True))
    while not measured_lines(graph.explain(FRIENDS, analyze=True))[0].endswith(NOTHING_READ):
        pass
    graph.query(query("match { $p: Person $p knows $f } return { $p.name, $f.name }"))
    cached = measured_lines(graph.explain(FRIENDS, analyze=True))

    assert re.fullmatch(r"actual: 1 row, [\d,]+ bytes read by index", cold[0])
    assert re.fullmatch(rf"actual: 1 row, {LOOKED_UP}, [\d,]+ bytes read by index", cold[1])
    assert cached == [
        f"actual: 1 row, {NOTHING_READ}",
        f"actual: 1 row, {IN_MEMORY}, {NOTHING_READ}",
        f"result: 1 row, {NOTHING_READ}",
    ]


def test_an_analyzed_plan_distinguishes_a_scan_from_an_index(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Place { name: String @key  size: I32 @index  zip: I32 }")
    places = (node("Place", name=f"p{n}", size=n % 7, zip=n) for n in range(5_000))
    graph.load(ndjson(*places), mode="append")
    graph.ensure_indices()

    found = [
        measured_lines(
            graph.explain(
                query(f"match {{ $p: Place {condition} }} return {{ $p.name }}"), analyze=True
            )
        )[0]
        for condition in ("$p.size = 3", "$p.zip = 3")
    ]

    assert re.fullmatch(r"actual: 714 rows, [\d,]+ bytes read by index", found[0])
    assert re.fullmatch(r"actual: 1 row, [\d,]+ bytes read by scan", found[1])


def test_an_analyzed_plan_shows_the_reads_after_a_commit(tmp_path: Path) -> None:
    graph = many_people(tmp_path)
    graph.query(FRIENDS)
    graph.load(ndjson(node("Person", name="new")), mode="append")

    text = graph.explain(FRIENDS, analyze=True)

    assert "read by changes since a cached version" in lines(text)[-1]


def test_an_analyzed_aggregate_of_one_table_is_measured(tmp_path: Path) -> None:
    graph = many_people(tmp_path)
    text = query("match { $p: Person $p $w:knows $f } return { $w.since, count(*) as n }")

    found = measured_lines(graph.explain(text, analyze=True))

    assert re.fullmatch(r"actual: 40 rows, [\d,]+ bytes read by scan", found[0])
    assert found[1] == f"result: 1 row, {NOTHING_READ}"


def test_an_analyzed_query_needs_its_parameters_and_stays_within_its_limits(
    tmp_path: Path,
) -> None:
    graph = many_people(tmp_path)
    named = query(
        "match { $p: Person { name: $name } } return { $p.age }", parameters="$name: String"
    )
    pairs = query("match { $p: Person $q: Person } return { $p.name, $q.name }")

    with pytest.raises(InvalidValueError, match="not provided"):
        graph.explain(named, analyze=True)
    with pytest.raises(LimitExceededError):
        graph.explain(pairs, analyze=True, limits=CallLimits(bytes_max=1_000))


def test_only_a_local_query_can_be_analyzed(tmp_path: Path) -> None:
    graph = many_people(tmp_path)

    with pytest.raises(InvalidValueError, match="runs locally"):
        graph.explain(FRIENDS, engine="spark", analyze=True)


def test_only_a_read_that_compiles_can_be_explained(tmp_path: Path) -> None:
    graph = many_people(tmp_path)

    for text in (
        query("match { $p: Persn } return { $p.name }"),
        query('insert Person { name: "x" }'),
    ):
        with pytest.raises(CompileError):
            graph.explain(text)
