"""A caller that sees a part of a graph gets the results of a graph of only that part.

Any graph, any view, any read: the restricted reader of the whole graph and an unrestricted reader
of the visible subgraph get the same result, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import Graph
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.errors import GraphError
from omnigraph.model.catalog import EdgeType
from tests.support.generated_graphs import GeneratedRead, graphs, reads
from tests.support.generated_views import views
from tests.support.read_comparison import GENERATING
from tests.support.read_graphs import PlainGraph, store, types_of
from tests.support.views import TypeViews, part_of, see_as_reader

# An example costs as much as some generated texts.
EXAMPLES_MAX = max(settings().max_examples // 2, 1)
READS_PER_VIEW = 24
VIEWS_PER_GRAPH = 2
PAIRS_MIN = 40 * EXAMPLES_MAX


def attempt(call: Callable[[], object]) -> object:
    """What a call gives, or how it is refused."""
    try:
        return call()
    except GraphError as refusal:
        return type(refusal), str(refusal)


def evaluate(graph: Graph, read: GeneratedRead) -> object:
    """What a read gives or how it is refused."""

    def run() -> object:
        result = graph.query(read.text, read.params)
        return tuple(result.columns), [repr(row) for row in result.rows]

    return attempt(run)


def look_around(graph: Graph, of: PlainGraph) -> Iterator[tuple[str, object]]:
    """All reads other than queries that return rows, over all that a graph has."""
    yield "export", attempt(lambda: list(graph.export()))
    # A type that is hidden as a whole is not listed; in the permitted subgraph it is empty.
    tables = graph.tables().items()
    yield "counts", {key: each.row_count for key, each in tables if each.row_count}
    for name, declared in types_of(of.catalog).items():
        title = f"{declared.kind}:{name}"
        exported = graph.export_batches(title).read_all()
        yield f"columns of {title}", exported.schema
        yield f"ids of {title}", exported["id"].to_pylist()
        for row in of.rows_by_type[name]:
            yield f"{title} {row['id']}", repr(graph.entity(title, str(row["id"])))
        if isinstance(declared, EdgeType):
            found = graph.algorithms(name)
            yield f"degrees of {title}", found.degrees().rows
            yield f"ranks of {title}", found.pagerank().rows
            yield f"triangles of {title}", found.triangles().rows


def describe(graph: PlainGraph, types: TypeViews) -> str:
    """A graph and a view, to find out by hand what went wrong."""
    return f"{graph.schema}\n{dict(graph.rows_by_type)}\n{dict(types)}"


def compare_all(drawn: st.DataObject) -> int:
    """Compare the reads of some views of a graph; how many there were."""
    graph, traversal = drawn.draw(graphs()), drawn.draw(st.sampled_from(TraversalMode))
    count = 0
    with TemporaryDirectory(prefix="omnigraph-views-") as folder:
        whole = store(Path(folder) / "whole", graph, traversal=traversal)
        for number in range(VIEWS_PER_GRAPH):
            types = drawn.draw(views(graph))
            part = part_of(graph, types)
            alone = store(Path(folder) / f"part{number}", part, traversal=traversal)
            restricted = see_as_reader(whole, types)
            # What reads look for is mostly what the whole graph has; some name what is hidden.
            named = reads(PlainGraph(part.schema, part.catalog, graph.rows_by_type))
            strategies = [named, named, named, reads(graph)]
            for turn in range(READS_PER_VIEW):
                read = drawn.draw(strategies[turn % len(strategies)])
                expected, found = evaluate(alone, read), evaluate(restricted, read)
                assert found == expected, f"{read}\n{describe(graph, types)}"
                count += 1
    return count


def test_a_read_of_a_view_equals_the_read_of_the_visible_subgraph() -> None:
    counts: list[int] = []

    @settings(GENERATING, max_examples=EXAMPLES_MAX)
    @given(st.data())
    def agree(drawn: st.DataObject) -> None:
        counts.append(compare_all(drawn))

    agree()

    assert sum(counts) >= PAIRS_MIN


def test_every_other_read_of_a_view_is_of_the_visible_subgraph() -> None:
    @settings(GENERATING, max_examples=EXAMPLES_MAX)
    @given(st.data())
    def agree(drawn: st.DataObject) -> None:
        graph = drawn.draw(graphs())
        types = drawn.draw(views(graph))
        with TemporaryDirectory(prefix="omnigraph-views-") as folder:
            alone = store(Path(folder) / "part", part_of(graph, types))
            restricted = see_as_reader(store(Path(folder) / "whole", graph), types)

            found, expected = dict(look_around(restricted, graph)), dict(look_around(alone, graph))

            assert found == expected, describe(graph, types)

    agree()
