"""The part of the demo that runs queries: traversals, hybrid search and queries of the past."""

from time import perf_counter

import omnigraph
from demo.output import say, title
from omnigraph.engine.results import Result

WALK = """
query well_founded() {
  match {
    $f: Finding
    $f cites{1,3} $source
    $source reports $t
    not { $later cites $f }
  }
  return { $f.title as finding, count(distinct $source) as sources, count(distinct $t) as topics }
  order { sources desc }
}
"""

SEARCH = """
query about($meaning: Vector(4), $words: String) {
  match {
    $f: Finding
    $f.confidence >= 0.5
    $f reports $t
    $p follows $t
  }
  return { $f.title as finding, $t.name as topic, $p.name as reader }
  order { rrf(nearest($f.meaning, $meaning), bm25($f.text, $words)) }
  limit 4
}
"""

TRUST = """
query trusted() {
  match { $f: Finding  $f reports $t }
  return { $t.name as topic, count(*) as findings, max($f.confidence) as best }
}
"""


def show_queries(graph: omnigraph.Graph) -> None:
    """Query the graph of the other sections."""
    show_traversal(graph)
    show_search(graph)
    show_past(graph)


def show_traversal(graph: omnigraph.Graph) -> None:
    title("12. A traversal: findings that no other finding cites, and their sources")
    found = _timed(graph, WALK, {})
    _show(found)
    assert [tuple(row.values()) for row in found] == [("Sun by night", 3, 2)]


def show_search(graph: omnigraph.Graph) -> None:
    title("13. Hybrid search: vectors, text and edges in one query")
    params: dict[str, object] = {"meaning": [0.7, 0.1, 0.0, 0.6], "words": "cheaper cells"}
    found = _timed(graph, SEARCH, params)
    _show(found)
    assert next(iter(found))["finding"] == "Salt will do"


def show_past(graph: omnigraph.Graph) -> None:
    title("14. Time travel: the same query at the last two commits")
    *_, before, now = graph.commits()
    counts = []
    for commit in (before, now):
        say(f"at {commit.id}, by {commit.actor}:")
        found = graph.query(TRUST, commit=commit.id)
        _show(found)
        counts.append({row["topic"]: row["findings"] for row in found})
    then, today = counts
    assert then.items() - today.items() == {("batteries", 16_669)}


def _timed(graph: omnigraph.Graph, query: str, params: dict[str, object]) -> Result:
    graph.query(query, params)
    started = perf_counter()
    result = graph.query(query, params)
    say(f"{len(result)} rows in {(perf_counter() - started) * 1000:.1f} ms, warm")
    return result


def _show(result: Result) -> None:
    cells = [result.columns, *([str(cell) for cell in row.values()] for row in result)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        say("   ".join(map(str.ljust, row, widths)).rstrip())
