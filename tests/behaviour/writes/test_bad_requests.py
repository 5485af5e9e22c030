"""Invalid requests: the error names the fault, and the graph is unchanged."""

import io
import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    AlreadyExistsError,
    CompileError,
    GraphError,
    InvalidNameError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
    RequestError,
)
from omnigraph.model.limits import PROPERTY_BYTES_MAX
from tests.support.graphs import build_graph, ndjson, node, rows, social_graph, unchanged
from tests.support.queries import query

MEGABYTE = 1024 * 1024
EVE = query('insert Person { name: "Eve" }')

NO_BRANCHES = {
    "parent": "..",
    "path out": "../main",
    "inner parent": "a/../b",
    "dot": "a/./b",
    "NUL": "a\x00b",
    "empty": "",
    "blank": "  ",
    "space": "a b",
    "slash": "/",
    "leading slash": "/a",
    "trailing slash": "a/",
    "double slash": "a//b",
    "backslash": "a\\b",
    "colon": "a:b",
    "not ASCII": "ä",
    "half a surrogate pair": "\ud800",
    "too long": "x" * 201,
    "line": "a\nb",
    "ours": "__schema_apply_lock__",
}


@pytest.mark.parametrize("name", NO_BRANCHES.values(), ids=NO_BRANCHES)
def test_an_invalid_branch_name_is_refused_by_every_call(tmp_path: Path, name: str) -> None:
    graph = social_graph(tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: graph.create_branch(name),
        lambda: graph.create_branch("fine", base=name),
        lambda: graph.mutate(EVE, branch=name),
        lambda: graph.load(ndjson(node("Person", name="Eve")), mode="merge", branch=name),
        lambda: graph.load(ndjson(node("Person", name="Eve")), mode="merge", branch="b", base=name),
        lambda: graph.head(name),
        lambda: graph.commits(name),
        lambda: graph.tables(name),
    ]

    with unchanged(graph):
        for call in calls:
            with pytest.raises(InvalidNameError) as refused:
                call()
            assert refused.value.kind == "branch"


def test_a_missing_branch_is_refused_by_every_call(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: graph.create_branch("fine", base="nope"),
        lambda: graph.mutate(EVE, branch="nope"),
        lambda: graph.load(ndjson(node("Person", name="Eve")), mode="merge", branch="nope"),
        lambda: list(graph.export(branch="nope")),
        lambda: graph.head("nope"),
        lambda: graph.commits("nope"),
        lambda: graph.tables("nope"),
    ]

    with unchanged(graph):
        for call in calls:
            with pytest.raises(NotFoundError, match="nope") as refused:
                call()
            assert (refused.value.kind, refused.value.name) == ("branch", "nope")


@pytest.mark.parametrize("name", ["main", "feature"])
def test_creating_an_existing_branch_is_refused(tmp_path: Path, name: str) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")

    with unchanged(graph), pytest.raises((AlreadyExistsError, InvalidNameError), match=name):
        graph.create_branch(name)


def test_exporting_a_missing_type_or_branch_is_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(NotFoundError, match="Robot"):
        list(graph.export(types=["Person", "Robot"]))
    with pytest.raises(NotFoundError, match="01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        list(graph.export(commit="01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    with pytest.raises(RequestError, match="both"):
        list(graph.export(branch="main", commit=graph.head()))


def test_a_text_of_a_hundred_megabytes_is_stored_and_read_back(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Doc { slug: String @key  body: String? }")
    body = "0123456789abcdef" * (100 * MEGABYTE // 16)

    graph.load({"Doc": pa.table({"slug": ["big"], "body": [body]})}, mode="append")
    graph.mutate(query('insert Doc { slug: "small", body: "x" }'))

    assert rows(graph, "Doc")["big"]["body"] == body
    assert rows(graph, "Doc")["small"]["body"] == "x"


def test_a_text_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Doc { slug: String @key  body: String? }")
    body = "x" * (PROPERTY_BYTES_MAX + 1)

    with unchanged(graph), pytest.raises(LimitExceededError) as refused:
        graph.mutate(
            query('insert Doc { slug: "big", body: $b }', parameters="$b: String"), {"b": body}
        )

    assert refused.value.limit == PROPERTY_BYTES_MAX
    assert refused.value.found == PROPERTY_BYTES_MAX + 1


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_cannot_be_a_key(tmp_path: Path, number: float) -> None:
    graph = build_graph(tmp_path, "node N { k: F64 @key }")

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="k"):
            graph.mutate(query("insert N { k: $k }", parameters="$k: F64"), {"k": number})
        with pytest.raises(InvalidValueError, match="k"):
            graph.load({"N": pa.table({"k": [number]})}, mode="append")

    graph.mutate(query("insert N { k: 1.5 }"))
    assert list(rows(graph, "N")) == ["1.5"]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**400])
def test_an_integer_past_64_bits_is_refused(tmp_path: Path, number: int) -> None:
    graph = build_graph(tmp_path, "node N { k: String @key  n: I64? }")

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="n"):
            graph.mutate(query('insert N { k: "a", n: $n }', parameters="$n: I64"), {"n": number})
        with pytest.raises(InvalidValueError, match="record 1"):
            graph.load(ndjson(node("N", k="a", n=number)), mode="append")
        with pytest.raises(CompileError):
            graph.mutate(query(f'insert N {{ k: "a", n: {number} }}'))


@pytest.mark.parametrize("length", [0, 1, 3, 4096])
def test_a_vector_of_the_wrong_length_is_refused(tmp_path: Path, length: int) -> None:
    graph = build_graph(tmp_path, "node N { k: String @key  v: Vector(2)? }")
    vector = [1.0] * length

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="expects 2 dimensions"):
            graph.mutate(
                query('insert N { k: "a", v: $v }', parameters="$v: Vector(2)"), {"v": vector}
            )
        with pytest.raises(InvalidValueError, match="expects 2 dimensions"):
            graph.load(ndjson(node("N", k="a", v=vector)), mode="append")
        with pytest.raises(InvalidValueError, match="v"):
            graph.load({"N": pa.table({"k": ["a"], "v": [vector]})}, mode="append")


BROKEN_TEXT = b'{"type":"Person","data":{"name":"Ann"}}\n{"type":"Person","data":{"name":"\xff"}}\n'


def test_invalid_utf8_is_refused_and_its_line_named(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    (tmp_path / "people.jsonl").write_bytes(BROKEN_TEXT)

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="UTF-8") as from_stream:
            graph.load(io.BytesIO(BROKEN_TEXT), mode="append")
        with pytest.raises(InvalidValueError, match="UTF-8") as from_file:
            graph.load(str(tmp_path / "people.jsonl"), mode="append")

    assert "line 2" in str(from_stream.value)
    assert "line 2" in str(from_file.value)


def test_text_that_is_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="surrogate"):
            graph.mutate(
                query("insert Person { name: $n }", parameters="$n: String"), {"n": "\ud800"}
            )
        with pytest.raises(InvalidValueError, match="record 1"):
            graph.load(ndjson(node("Person", name="\ud800")), mode="append")
        with pytest.raises(GraphError):
            graph.mutate(query('insert Person { name: "\ud800" }'))


def test_a_schema_that_is_half_a_surrogate_pair_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(GraphError):
        omnigraph.init(
            str(tmp_path / "graph"), schema="node Person { name: String @key } // \ud800"
        )

    assert not (tmp_path / "graph").exists()


NO_DATA = {
    "nothing": None,
    "number": 5,
    "bytes": b"{}",
    "mapping to nothing": {"Person": None},
    "mapping by number": {1: pa.table({"name": ["Ann"]})},
}


@pytest.mark.parametrize("data", NO_DATA.values(), ids=NO_DATA)
def test_input_without_rows_cannot_be_loaded(tmp_path: Path, data: object) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph), pytest.raises(RequestError):
        graph.load(data, mode="merge")


def test_parameters_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    source = query("insert Person { name: $n, age: $a }", parameters="$n: String, $a: I32?")

    with unchanged(graph):
        for given in ({}, {"n": 5}, {"n": None}, {"n": "x", "a": 2**31}, {"n": "x", "b": 1}):
            with pytest.raises(InvalidValueError, match="param"):
                graph.mutate(source, given)
        with pytest.raises(InvalidValueError, match="param"):
            graph.mutate(source)


def test_each_of_many_bad_requests_leaves_the_graph_writable(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    requests: list[Callable[[Graph], object]] = [
        lambda it: it.mutate("query q( {"),
        lambda it: it.mutate(EVE, {"x": 1}),
        lambda it: it.mutate(EVE, branch="../x"),
        lambda it: it.load(io.StringIO("{"), mode="merge"),
        lambda it: it.load(ndjson(node("Person", name="Alice")), mode="append"),
        lambda it: it.mutate(query('insert Knows { from: "Alice", to: "x" }')),
    ]

    for request in requests:
        with unchanged(graph), pytest.raises(RequestError):
            request(graph)
    graph.mutate(EVE)

    assert "Eve" in rows(graph, "Person")


@pytest.mark.parametrize("actor", [5, b"ann", "\ud800"])
def test_an_actor_that_is_not_text_is_refused(tmp_path: Path, actor: str) -> None:
    graph = build_graph(tmp_path, "node Doc { slug: String @key }")

    with unchanged(graph), pytest.raises(InvalidValueError, match="actor"):
        graph.mutate(query('insert Doc { slug: "a" }'), actor=actor)

    graph.mutate(query('insert Doc { slug: "a" }'))


def test_arguments_of_another_kind_are_refused_by_name(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Doc { slug: String @key }")

    with unchanged(graph):
        for call in (
            lambda: graph.mutate(None),  # type: ignore[arg-type]  # what a caller may do
            lambda: graph.export(commit="\ud800"),
            lambda: graph.export(branch=3),  # type: ignore[arg-type]  # what a caller may do
            lambda: omnigraph.init(tmp_path / "x", schema=None),  # type: ignore[arg-type]  # ditto
        ):
            with pytest.raises(RequestError):
                call()
