"""The nearest neighbours in a large type: found by its index, with the exact distances."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import InvalidValueError
from omnigraph.model.ports import TypeView
from tests.support.queries import query
from tests.support.vector_graphs import (
    ROWS,
    SCHEMA,
    Matrix,
    add_documents,
    clustered,
    find,
    find_exactly,
    index_files,
    uniform,
    use_small_index,
    vector_bytes,
    vector_graph,
)
from tests.support.views import see_as_reader

Make = Callable[..., Matrix]

RECALL_MIN = 0.95


@pytest.fixture(autouse=True)
def _small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_index(monkeypatch)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Documents that no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_index(patch)
        return vector_graph(tmp_path_factory.mktemp("graph") / "g", clustered(ROWS, seed=1))


@pytest.fixture
def graph(stored: Graph, tmp_path: Path) -> Graph:
    """A copy of these documents, to be changed."""
    return omnigraph.open(str(copytree(stored.uri, tmp_path / "copy")))


def reopen(graph: Graph) -> Graph:
    return omnigraph.open(graph.uri)


def recall(graph: Graph, vectors: Matrix, *, effort: str) -> float:
    """The share of the ten nearest that are found."""
    shares = []
    for vector in vectors.tolist():
        expected = {n for n, _ in find_exactly(graph, vector)}
        shares.append(len(expected & {n for n, _ in find(graph, vector, effort=effort)}) / 10)
    return float(np.mean(shares))


@pytest.mark.parametrize("make", [clustered, uniform])
def test_almost_all_of_the_nearest_are_found(tmp_path: Path, make: Make) -> None:
    graph = vector_graph(tmp_path / "g", make(ROWS, seed=1))

    found = recall(graph, make(20, seed=2), effort="")

    assert found >= RECALL_MIN


def test_no_column_of_vectors_is_read(stored: Graph) -> None:
    graph = reopen(stored)

    found = find(graph, clustered(1, seed=2)[0].tolist())

    assert len(found) == 10
    assert vector_bytes(graph) == 0


def test_an_analyzed_search_shows_that_it_read_the_index(stored: Graph) -> None:
    text = query(
        "match { $d: Doc } return { $d.n as n } order { nearest($d.vector, $v) } limit 3",
        parameters="$v: Vector(16)",
    )
    vector = clustered(1, seed=6)[0].tolist()

    plan = reopen(stored).explain(text, {"v": vector}, analyze=True)

    assert "read by index" in plan.split("result")[-1], plan


def test_distances_and_order_are_exact(stored: Graph) -> None:
    vector = clustered(1, seed=3)[0].tolist()

    found = find(stored, vector)

    exact = dict(find_exactly(stored, vector, limit=ROWS))
    assert all(distance == exact[n] for n, distance in found)
    assert [distance for _, distance in found] == sorted(distance for _, distance in found)


def test_more_partitions_find_more(stored: Graph) -> None:
    vectors = uniform(20, seed=4)

    few, all_of_them = (recall(stored, vectors, effort=f", {count}") for count in (1, 10_000))

    assert few < all_of_them
    assert all_of_them >= RECALL_MIN


def test_the_number_of_partitions_may_be_a_parameter(stored: Graph) -> None:
    text = query(
        "match { $d: Doc } return { $d.n as n } order { nearest($d.vector, $v, $p) } limit 3",
        parameters="$v: Vector(16), $p: I64?",
    )
    vector = clustered(1, seed=5)[0].tolist()

    default, many = (stored.query(text, {"v": vector, "p": each}).rows for each in (None, 9_999))

    assert default == many
    with pytest.raises(InvalidValueError, match="0 is not positive"):
        stored.query(text, {"v": vector, "p": 0})


def test_changes_after_the_index_was_built_are_seen(graph: Graph) -> None:
    vector = clustered(1, seed=6)[0].tolist()
    first, second, *_ = [n for n, _ in find(graph, vector)]
    change = query(
        "insert Doc { slug: $slug, n: -1, vector: $v }", parameters="$slug: String, $v: Vector(16)"
    )

    graph.mutate(query(f"delete Doc where n = {first}"))
    graph.mutate(query(f"update Doc set {{ text: 'x' }} where n = {second}".replace("'", '"')))
    graph.mutate(
        query(f"update Doc set {{ vector: $v }} where n = {ROWS - 1}", parameters="$v: Vector(16)"),
        {"v": vector},
    )
    graph.mutate(change, {"slug": "new", "v": vector})

    for reader in (graph, reopen(graph)):
        found = [n for n, _ in find(reader, vector)]
        assert found[:3] == [ROWS - 1, -1, second]
        assert first not in found
        assert len(set(found)) == 10
        assert vector_bytes(reader) == 0
        assert find(reader, vector) == find_exactly(reader, vector)


def test_many_rows_that_no_index_covers_are_searched(graph: Graph) -> None:
    added = clustered(1_000, seed=7)

    add_documents(graph, added, first=ROWS)

    for number in (0, 500, 999):
        found = find(graph, added[number].tolist(), limit=1)
        assert found == [(ROWS + number, 0.0)]
    assert vector_bytes(graph) == 0


def test_an_optimized_graph_returns_the_same(graph: Graph) -> None:
    add_documents(graph, clustered(300, seed=7), first=ROWS)
    graph.mutate(query("delete Doc where n < 100"))
    vectors = clustered(10, seed=8).tolist()
    before = [find_exactly(graph, each) for each in vectors]

    graph.optimize()

    after = [find(graph, each) for each in vectors]
    same = sum(len(set(one) & set(other)) for one, other in zip(before, after, strict=True))
    assert same >= RECALL_MIN * 100


def test_a_branch_has_its_own_changes(graph: Graph) -> None:
    vector = clustered(1, seed=9)[0].tolist()
    nearest = find(graph, vector)
    graph.create_branch("draft")

    graph.mutate(query(f"delete Doc where n = {nearest[0][0]}"), branch="draft")

    assert find(graph, vector) == nearest
    assert find(graph, vector, branch="draft")[:9] == nearest[1:]


@pytest.mark.parametrize(
    "where",
    ["$d.n < 1500", "$d.n < 5", "$d.n in [7, 70, 700, 1]", '$d.text = "word3"', "$d.n < 0"],
)
def test_only_matching_entities_are_found(stored: Graph, where: str) -> None:
    vector = clustered(1, seed=10)[0].tolist()

    assert find(stored, vector, where=where) == find_exactly(stored, vector, where=where)


def test_a_traversal_restricts_what_is_found(graph: Graph) -> None:
    ends = [(f"d{number:05}", f"d{number + 1:05}") for number in range(0, ROWS - 1, 2)]
    lines = [f'{{"edge": "Cites", "from": "{one}", "to": "{other}"}}' for one, other in ends]
    graph.load(StringIO("\n".join(lines)), mode="append")
    vector = clustered(1, seed=11)[0].tolist()

    found = find(graph, vector, where="$e: Doc $e cites $d")

    assert found == find_exactly(graph, vector, where="$e: Doc $e cites $d")
    assert all(n % 2 for n, _ in found)


def test_hidden_entities_are_not_found(stored: Graph) -> None:
    vector = clustered(1, seed=12)[0].tolist()

    for rule in ('text = "word3"', "n < 1500", "n < 4"):
        restricted = see_as_reader(stored, {"Doc": TypeView((rule,), frozenset())})
        assert find(restricted, vector) == find_exactly(restricted, vector)


def test_vectors_and_words_are_fused(stored: Graph) -> None:
    ranked = query(
        "match { $d: Doc } return { $d.n as n } "
        'order { rrf(nearest($d.vector, $v EFFORT), bm25($d.text, "word2")) } limit 20',
        parameters="$v: Vector(16)",
    )
    for vector in clustered(5, seed=13).tolist():
        index, exact = (
            stored.query(ranked.replace("EFFORT", each), {"v": vector}).rows
            for each in ("", ", exact")
        )

        assert index == exact


def test_limits_beyond_the_index_are_exact(stored: Graph) -> None:
    vector = clustered(1, seed=14)[0].tolist()

    found = find(stored, vector, limit=1_200)

    assert found == find_exactly(stored, vector, limit=1_200)


def test_equal_vectors_are_ordered_by_id(tmp_path: Path) -> None:
    vectors = clustered(ROWS, seed=1)
    vectors[100:1_500] = vectors[100]
    graph = vector_graph(tmp_path / "g", vectors[::-1].copy())

    found = find(graph, vectors[100].tolist())

    assert [n for n, _ in found] == list(range(ROWS - 1_500, ROWS - 1_490))


def test_rows_without_a_vector_are_not_found(graph: Graph) -> None:
    vector = clustered(1, seed=15)[0].tolist()
    graph.mutate(query("update Doc set { vector: null } where n >= 30"))

    found = find(graph, vector, limit=50)

    assert found == find_exactly(graph, vector, limit=50)
    assert {n for n, _ in found} == set(range(30))


def test_dimensions_that_cannot_be_quantized_have_an_index_too(tmp_path: Path) -> None:
    schema = SCHEMA.replace("16", "6")
    vectors = clustered(2_000, seed=1, dimension=6)
    graph = vector_graph(tmp_path / "g", vectors, schema=schema)
    text = query(
        "match { $d: Doc } return { $d.n as n } order { nearest($d.vector, $v) } limit 1",
        parameters="$v: Vector(6)",
    )

    found = graph.query(text, {"v": vectors[77].tolist()}).rows

    assert found == [{"n": 77}]
    assert vector_bytes(graph) == 0


def test_without_an_index_all_vectors_are_compared(tmp_path: Path) -> None:
    graph = vector_graph(
        tmp_path / "g", uniform(1_000, seed=1), schema=SCHEMA.replace("? @index\n}", "?\n}")
    )
    vector = uniform(1, seed=2)[0].tolist()

    assert find(graph, vector) == find_exactly(graph, vector)
    assert vector_bytes(graph) > 0


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "garbage"])
def test_without_a_sound_index_all_vectors_are_compared(graph: Graph, damage: str) -> None:
    (path,) = index_files(graph)
    content = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case _:
            path.write_bytes(bytes(each ^ 0x5A for each in content))
    graph = reopen(graph)
    vector = uniform(1, seed=2)[0].tolist()

    assert find(graph, vector) == find_exactly(graph, vector)
    assert vector_bytes(graph) > 0


def test_an_index_of_an_earlier_version_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("omnigraph.storage.lance.index._QUANTIZED_DIMENSION_STEP", 1_000)
        graph = vector_graph(tmp_path / "g", clustered(ROWS, seed=1))
    vector = clustered(1, seed=2)[0].tolist()
    before = find(graph, vector)
    assert vector_bytes(graph) > 0

    graph.optimize()

    graph = reopen(graph)
    assert find(graph, vector) == before
    assert vector_bytes(graph) == 0


def test_small_types_are_searched_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    graph = vector_graph(tmp_path / "g", uniform(1_000, seed=1))
    vector = uniform(1, seed=2)[0].tolist()

    assert find(graph, vector, effort=", 1") == find_exactly(graph, vector)
    assert vector_bytes(graph) > 0
