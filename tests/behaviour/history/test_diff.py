"""A diff contains exactly the changes between two points of history."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.changes import Change, ChangeStats
from omnigraph.errors import (
    CorruptError,
    ForbiddenError,
    GraphError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
)
from omnigraph.model.limits import CHANGES_PER_PAGE_MAX
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    edge,
    ndjson,
    node,
    social_graph,
    table_paths,
)
from tests.support.queries import query

SHAPES = """
node Shape {
  name: String @key  note: String?  tags: [String]?  size: F64?  sizes: [F64]?  at: Vector(2)?
  photo: Blob?  day: Date?  seen: DateTime?  is_round: Bool?
}
"""

ADD_EVE_AND_CHANGE_BOB = query(
    'insert Person { name: "Eve" } update Person set { age: 1 } where name = "Bob"'
)


def changes_between(graph: Graph, old: str, new: str) -> list[tuple[str, str, str]]:
    """Each change of a diff as its operation, type and id."""
    return [(change.op, change.type, change.id) for change in graph.diff(old, new)]


def shape_graph(path: Path, **properties: object) -> Graph:
    """One shape with some properties."""
    return build_graph(path, SHAPES, node("Shape", name="s", **properties))


def put_shape(graph: Graph, **properties: object) -> str:
    """The commit in which the shape has other properties, and only these."""
    loaded = graph.load(ndjson(node("Shape", name="s", **properties)), mode="merge")
    return str(loaded.commit_id)


# Contents


def test_between_a_commit_and_itself_nothing_changed(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    found = graph.diff(graph.head(), "main")

    assert list(found) == []
    assert found.stats == ChangeStats(0, 0, 0, ())
    assert found.old_commit_id == found.new_commit_id == graph.head()


def test_a_change_has_the_row_before_and_after(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(
        query(
            'update Person set { age: 26 } where name = "Bob" '
            'insert Person { name: "Eve" } insert Company { name: "Initech" }'
        )
    )
    graph.mutate(query('delete Company where name = "Acme"'))

    found = list(graph.diff(old, "main", types=["Person", "Company"]))

    bob = {"id": "Bob", "name": "Bob"}
    assert found == [
        Change("node", "Company", "Acme", "delete", {"id": "Acme", "name": "Acme"}, None),
        Change("node", "Company", "Initech", "insert", None, {"id": "Initech", "name": "Initech"}),
        Change("node", "Person", "Bob", "update", {**bob, "age": 25}, {**bob, "age": 26}),
        Change("node", "Person", "Eve", "insert", None, {"id": "Eve", "name": "Eve", "age": None}),
    ]


def test_an_edge_carries_its_ends(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.load(ndjson(edge("Knows", "Diana", "Alice", id="e", since="2024-01-02")), mode="append")
    middle = graph.head()
    graph.load(ndjson(edge("Knows", "Diana", "Bob", id="e")), mode="merge")

    (added,), (moved,) = graph.diff(old, middle), graph.diff(middle, "main")

    first = {"id": "e", "src": "Diana", "dst": "Alice", "since": "2024-01-02"}
    second = {"id": "e", "src": "Diana", "dst": "Bob", "since": None}
    assert added == Change("edge", "Knows", "e", "insert", None, first)
    assert moved == Change("edge", "Knows", "e", "update", first, second)


def test_a_diff_contains_cascaded_deletions(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(query('delete Person where name = "Bob"'))

    found = graph.diff(old, "main")

    assert found.stats == ChangeStats(0, 0, 4, ("Knows", "Person", "WorksAt"))
    assert {(change.before or {}).get("dst") for change in found if change.type == "Knows"} == {
        "Bob",
        "Diana",
    }


def test_changes_have_a_fixed_order(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        SOCIAL,
        *(node("Person", name=name) for name in ("Bob", "Cyd")),
        node("Company", name="Globex"),
        edge("WorksAt", "Bob", "Globex", id="b"),
    )
    old = graph.head()
    graph.load(
        ndjson(
            *(node("Person", name=name, age=1) for name in ("a", "Élan", "Zoe", "Bob")),
            node("Company", name="Zeta"),
            edge("WorksAt", "a", "Zeta", id="c"),
            edge("WorksAt", "a", "Zeta", id="a"),
            edge("Knows", "Zoe", "a", id="z"),
        ),
        mode="merge",
    )
    graph.mutate(query('delete Company where name = "Globex"'))

    found = changes_between(graph, old, "main")

    assert found == [
        ("delete", "Company", "Globex"),
        ("insert", "Company", "Zeta"),
        ("update", "Person", "Bob"),
        ("insert", "Person", "Zoe"),
        ("insert", "Person", "a"),
        ("insert", "Person", "Élan"),
        ("insert", "Knows", "z"),
        ("insert", "WorksAt", "a"),
        ("delete", "WorksAt", "b"),
        ("insert", "WorksAt", "c"),
    ]


# Omissions


def test_a_change_undone_in_between_is_not_in_a_diff(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    for text in (
        'insert Person { name: "Eve" } update Person set { age: 1 } where name = "Bob"',
        'update Person set { age: 25 } where name = "Bob"',
    ):
        graph.mutate(query(text))
    graph.mutate(query('delete Person where name = "Eve"'))

    assert changes_between(graph, old, "main") == []


def test_a_row_rewritten_unchanged_is_not_in_a_diff(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()

    done = graph.mutate(query('update Person set { age: 25 } where name = "Bob"'))

    assert done.commit_id is not None
    assert changes_between(graph, old, "main") == []


def test_an_index_build_is_not_in_a_diff(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()

    graph.ensure_indices()

    assert graph.head() != old
    assert changes_between(graph, old, "main") == []


def test_a_diff_over_an_overwrite_contains_only_changed_rows(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path, SOCIAL, *(node("Person", name=name, age=1) for name in ("ann", "bob", "cyd"))
    )
    old = graph.head()

    graph.load(
        ndjson(
            node("Person", name="ann", age=1),
            node("Person", name="bob", age=2),
            node("Person", name="dan", age=1),
        ),
        mode="overwrite",
    )

    assert changes_between(graph, old, "main") == [
        ("update", "Person", "bob"),
        ("delete", "Person", "cyd"),
        ("insert", "Person", "dan"),
    ]


# What counts as different


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"note": None}, {"note": ""}),
        ({"tags": None}, {"tags": []}),
        ({"tags": []}, {"tags": [""]}),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}),
        ({"tags": ["a,b"]}, {"tags": ["a", "b"]}),
        ({"size": None}, {"size": 0.0}),
        ({"size": 0.0}, {"size": -0.0}),
        ({"size": 0.1}, {"size": 0.1 + 1e-17 + 2e-17}),
        ({"sizes": [0.0]}, {"sizes": [-0.0]}),
        ({"at": [1, 2]}, {"at": [1, 3]}),
        ({"at": None}, {"at": [0, 0]}),
        ({"photo": "base64:"}, {"photo": None}),
        ({"photo": "base64:AAAA"}, {"photo": "base64:AAAB"}),
        ({"day": "2024-01-01"}, {"day": "2024-01-02"}),
        ({"seen": "2024-01-01T00:00:00Z"}, {"seen": "2024-01-01T00:00:00.001Z"}),
        ({"is_round": None}, {"is_round": False}),
    ],
)
def test_values_that_differ_are_a_change(
    tmp_path: Path, before: dict[str, object], after: dict[str, object]
) -> None:
    graph = shape_graph(tmp_path, **before)
    old = graph.head()

    new = put_shape(graph, **after)

    assert (
        changes_between(graph, old, new)
        == changes_between(graph, new, old)
        == [("update", "Shape", "s")]
    )


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"note": "", "tags": ["a", ""], "size": -0.0, "sizes": [], "photo": "base64:AAAA"},
        {"at": [0.1, 0.2], "day": "2024-01-01", "seen": "2024-01-01T00:00:00Z", "is_round": True},
    ],
    ids=["nulls", "some", "others"],
)
def test_values_that_are_the_same_are_none(tmp_path: Path, properties: dict[str, object]) -> None:
    graph = shape_graph(tmp_path, **properties)
    old = graph.head()

    new = put_shape(graph, **properties)

    assert changes_between(graph, old, new) == []


def test_nan_equals_itself_in_a_diff(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SHAPES)
    no_number = pa.table({"name": ["s"], "size": [float("nan")], "sizes": [[float("nan")]]})
    graph.load({"Shape": no_number}, mode="append")
    old = graph.head()

    graph.load({"Shape": no_number}, mode="merge")

    assert changes_between(graph, old, "main") == []


# Ends


def test_branches_are_compared_with_each_other(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.mutate(query('delete Person where name = "Charlie"'), branch="feature")
    graph.mutate(query('update Person set { age: 1 } where name = "Bob"'), branch="feature")
    graph.mutate(query('delete Company where name = "Acme"'))

    found = graph.diff("main", "feature", types=["Person", "Company"])

    assert [(change.op, change.id) for change in found] == [
        ("insert", "Acme"),
        ("update", "Bob"),
        ("delete", "Charlie"),
    ]
    assert (found.old_commit_id, found.new_commit_id) == (graph.head(), graph.head("feature"))


def test_a_diff_works_backwards(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(ADD_EVE_AND_CHANGE_BOB)

    there, back = graph.diff(old, "main"), graph.diff("main", old)

    swapped = {"insert": "delete", "delete": "insert", "update": "update"}
    assert [
        Change(each.kind, each.type, each.id, swapped[each.op], each.after, each.before)
        for each in there
    ] == list(back)


def test_commits_of_another_branch_are_found_from_any_handle(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    first = graph.mutate(query('insert Person { name: "Eve" }'), branch="feature").commit_id
    second = graph.mutate(query('insert Person { name: "Fay" }'), branch="feature").commit_id

    other = omnigraph.open(str(tmp_path), read_only=True)

    assert changes_between(other, str(first), str(second)) == [("insert", "Person", "Fay")]
    assert changes_between(other, "main", str(first)) == [("insert", "Person", "Eve")]


def test_a_diff_accepts_a_tag_as_its_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.tag("before", graph.head())
    graph.mutate(query('insert Person { name: "Eve" }'))

    assert changes_between(graph, "before", "main") == [("insert", "Person", "Eve")]


def test_a_diff_over_a_merge_contains_only_the_merged_changes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.mutate(query('update Person set { age: 1 } where name = "Bob"'))
    old = graph.head()

    graph.merge("feature")

    assert changes_between(graph, old, "main") == [("insert", "Person", "Eve")]
    assert changes_between(graph, "feature", "main") == [("update", "Person", "Bob")]


# Restrictions


def test_a_diff_contains_only_the_requested_types(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(query('delete Person where name = "Bob"'))

    found = graph.diff(old, "main", types=["Person"])

    assert [change.id for change in found] == ["Bob"]


def test_a_diff_does_not_read_other_types(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(query('delete Person where name = "Bob"'))
    shutil.rmtree(table_paths(tmp_path)["edge:Knows"] / "data")

    reopened = omnigraph.open(str(tmp_path), read_only=True)

    assert len(reopened.diff(old, "main", types=["Person"])) == 1
    with pytest.raises(CorruptError):
        reopened.diff(old, "main", types=["Knows"])


@pytest.mark.parametrize(
    ("ops", "ids"),
    [(["insert"], ["Eve"]), (["update", "delete"], ["Bob", "Charlie"]), ([], [])],
)
def test_a_diff_contains_only_the_requested_operations(
    tmp_path: Path, ops: list[str], ids: list[str]
) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(ADD_EVE_AND_CHANGE_BOB)
    graph.mutate(query('delete Person where name = "Charlie"'))

    found = graph.diff(old, "main", types=["Person"], ops=ops)

    assert [change.id for change in found] == ids
    assert len(found) == len(ids)


# As Arrow


def test_a_diff_is_an_arrow_stream(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(ADD_EVE_AND_CHANGE_BOB)
    graph.mutate(query('delete Person where name = "Charlie"'))

    found = graph.diff(old, "main")

    streamed = pa.table(found).to_pylist()
    row_versions = [
        {name: row[name] and json.loads(row[name]) for name in ("before", "after")}
        for row in streamed
    ]
    assert [
        Change(**(row | versions)) for row, versions in zip(streamed, row_versions, strict=True)
    ] == list(found)


def test_a_diff_that_is_empty_has_its_columns(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    found = pa.table(graph.diff("main", "main"))

    assert (found.num_rows, found.schema.names) == (
        0,
        ["kind", "type", "id", "op", "before", "after"],
    )


def test_the_changes_of_one_type_have_typed_rows(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(ADD_EVE_AND_CHANGE_BOB)

    found = graph.diff(old, "main").to_arrow("Person")

    assert found.schema.field("after").type.field("age").type == pa.int32()
    assert found.to_pylist() == [
        {
            "id": "Bob",
            "op": "update",
            "before": {"id": "Bob", "age": 25, "name": "Bob"},
            "after": {"id": "Bob", "age": 1, "name": "Bob"},
        },
        {
            "id": "Eve",
            "op": "insert",
            "before": None,
            "after": {"id": "Eve", "age": None, "name": "Eve"},
        },
    ]


# Page by page


@pytest.mark.parametrize("limit", [1, 2, 3, 20])
def test_pages_together_are_the_diff(tmp_path: Path, limit: int) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(ADD_EVE_AND_CHANGE_BOB)
    graph.mutate(query('delete Person where name = "Charlie"'))
    graph.mutate(query('delete Person where name = "Diana"'))
    whole = list(graph.diff(old, "main"))

    found: list[Change] = []
    token = None
    while True:
        page = graph.diff(old, "main").page(token, limit=limit)
        found += page.changes
        assert 0 < len(page.changes) <= limit
        token = page.next_token
        if token is None:
            break

    assert found == whole
    assert len(whole) == 6


def test_a_token_is_of_one_diff(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    old = graph.head()
    graph.mutate(ADD_EVE_AND_CHANGE_BOB)
    token = graph.diff(old, "main").page(limit=1).next_token

    for wrong in (token, "", "nonsense", "W10="):
        with pytest.raises(InvalidValueError):
            graph.diff("main", old).page(wrong)


@pytest.mark.parametrize(
    ("limit", "error"), [(0, InvalidValueError), (CHANGES_PER_PAGE_MAX + 1, LimitExceededError)]
)
def test_a_page_has_a_size(tmp_path: Path, limit: int, error: type[GraphError]) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(error):
        graph.diff("main", "main").page(limit=limit)


# Refused


def test_a_missing_diff_point_is_named(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")

    with pytest.raises(NotFoundError, match="did you mean branch 'feature'"):
        graph.diff("main", "featur")
    with pytest.raises(NotFoundError) as missing:
        graph.diff("01ARZ3NDEKTSV4RRFFQ69G5FAV", "main")

    assert missing.value.kind == "commit"


@pytest.mark.parametrize("types", [["Persn"], ["Person", "absent"]])
def test_an_unknown_type_is_named(tmp_path: Path, types: list[str]) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(NotFoundError) as refused:
        graph.diff("main", "main", types=types)

    assert (refused.value.kind, refused.value.name) == ("type", types[-1])


@pytest.mark.parametrize(
    ("types", "ops"),
    [(None, ["upsert"]), (None, "insert"), ("Person", None), ([1], None)],
)
def test_an_invalid_diff_request_is_refused(tmp_path: Path, types: object, ops: object) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(InvalidValueError):
        graph.diff("main", "main", types=types, ops=ops)  # type: ignore[arg-type]  # on purpose


def test_a_closed_graph_refuses_a_diff(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.close()

    with pytest.raises(ForbiddenError):
        graph.diff("main", "main")
