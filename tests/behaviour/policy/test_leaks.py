"""Hidden content is not revealed by errors, by history, or under another name."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    CompileError,
    ForbiddenError,
    InvalidValueError,
    MergeConflictError,
    NotFoundError,
)
from omnigraph.model.errors import Conflict
from omnigraph.model.ports import Gate, TypeView
from tests.support.graphs import build_graph, contents, edge, ndjson, node
from tests.support.policed_graphs import under
from tests.support.policies import graph_gate
from tests.support.restricted_graphs import RED, UNPAID, team_graph
from tests.support.views import TypeViews, see_as_reader

MAILED = """
node Person { name: String @key  mail: String? @unique  pay: I32? }
edge Leads: Person -> Person @card(0..1)
"""
NOT_MAIN = "unprotected"
SECRETS = "query q() { match { $s: Secret } return { $s.title } }"


def _restricted_to_ann(path: Path) -> tuple[Graph, Graph]:
    """A graph, and the same for an actor who sees only Ann, without her pay."""
    graph = build_graph(
        path, MAILED, node("Person", name="ann", mail="a@x"), node("Person", name="bob")
    )
    return graph, see_as_reader(graph, {"Person": TypeView(('name = "ann"',), frozenset({"pay"}))})


def _drafting() -> Gate:
    """Ann changes and merges everything, and reads whatever is not protected."""

    def rule(id: str, *actions: str, **scope: str) -> dict[str, object]:
        return {"id": id, "allow": {"actors": {"group": "team"}, "actions": [*actions], **scope}}

    return graph_gate(
        {
            "version": 1,
            "groups": {"team": ["ann"]},
            "protected_branches": ["main"],
            "rules": [
                rule("reads", "read", branch_scope=NOT_MAIN),
                rule("writes", "change", "branch_merge"),
            ],
        }
    )


def _parted(path: Path) -> Graph:
    """Ann's pay is 999 on `main` and 11 on `draft`."""
    graph = build_graph(path, MAILED, node("Person", name="ann", pay=10))
    graph.create_branch("draft")
    graph.mutate('query m() { update Person set { pay: 999 } where name = "ann" }')
    graph.mutate('query m() { update Person set { pay: 11 } where name = "ann" }', branch="draft")
    return graph


# Conflicts


@pytest.mark.parametrize(
    ("own", "others", "secret"),
    [
        (
            'insert Person { name: "eve", mail: "c@x" }',
            'insert Person { name: "carl", mail: "c@x" }',
            "carl",
        ),
        ('insert Person { name: "eve" }', 'insert Person { name: "eve", pay: 5 }', "pay"),
        (
            'insert Leads { from: "ann", to: "ann" }',
            'insert Leads { from: "ann", to: "bob" }',
            "2 edges",
        ),
    ],
    ids=["the row that has the value", "a hidden property", "the number of edges"],
)
def test_a_conflict_at_the_end_of_a_transaction_reveals_no_hidden_row(
    own: str, others: str, secret: str, tmp_path: Path
) -> None:
    graph, restricted = _restricted_to_ann(tmp_path)

    def meet() -> None:
        with restricted.transaction() as tx:
            tx.mutate(f"query m() {{ {own} }}")
            graph.mutate(f"query m() {{ {others} }}")

    with pytest.raises(MergeConflictError) as found:
        meet()

    assert secret not in str(found.value)
    assert secret not in repr(found.value.conflicts)


def test_a_merge_shows_no_row_of_a_target_that_may_not_be_read(tmp_path: Path) -> None:
    graph = _parted(tmp_path)
    ann = under(graph, _drafting())

    (planned,) = ann.merge("draft", dry_run=True).conflicts
    with pytest.raises(MergeConflictError) as merged:
        ann.merge("draft")
    with pytest.raises(MergeConflictError) as picked:
        ann.cherry_pick(graph.head("draft"))

    for conflict in (planned, *merged.value.conflicts, *picked.value.conflicts):
        assert (conflict.id, conflict.base, conflict.target) == ("ann", None, None)
        assert conflict.source is not None
        assert "pay" not in conflict.message


def test_a_merge_shows_no_row_of_a_source_that_may_not_be_read(tmp_path: Path) -> None:
    ann = under(_parted(tmp_path), _drafting())

    with pytest.raises(MergeConflictError) as found:
        ann.merge("main", into="draft")

    (conflict,) = found.value.conflicts
    assert (conflict.id, conflict.base, conflict.source) == ("ann", None, None)
    assert conflict.target is not None


def test_a_reader_of_both_branches_sees_all_of_a_conflict(tmp_path: Path) -> None:
    rules = [{"id": "r", "allow": {"actors": {"group": "t"}, "actions": ["read", "branch_merge"]}}]
    gate = graph_gate({"version": 1, "groups": {"t": ["ann"]}, "rules": rules})
    ann = under(_parted(tmp_path), gate)

    (conflict,) = ann.merge("draft", dry_run=True).conflicts

    assert _pays(conflict) == [10, 11, 999]
    assert "pay" in conflict.message


def _pays(conflict: Conflict) -> list[object]:
    rows = (conflict.base, conflict.source, conflict.target)
    return [each["pay"] for each in rows if each is not None]


# Loads


def test_a_load_treats_a_hidden_property_as_unknown(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, UNPAID)
    before = contents(graph)

    for name in ("pay", "pai"):
        with pytest.raises(InvalidValueError) as found:
            restricted.load(ndjson(node("Person", name="eve", **{name: 1})), mode="append")
        assert "did you mean" not in str(found.value)

    assert contents(graph) == before


def test_a_load_leaves_a_hidden_property_without_a_value(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)

    see_as_reader(graph, UNPAID).load(ndjson(node("Person", name="eve")), mode="append")

    eve = graph.entity("Person", "eve")
    assert eve is not None
    assert eve["pay"] is None


def test_rows_that_need_a_hidden_property_cannot_be_loaded(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key  pay: I32 }")
    restricted = see_as_reader(graph, UNPAID)

    with pytest.raises(ForbiddenError) as found:
        restricted.load(ndjson(node("Person", name="eve")), mode="append")

    assert "pay" not in str(found.value)
    assert graph.tables()["node:Person"].row_count == 0


# History


def test_a_snapshot_shows_the_same_of_its_commit_as_the_history(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    graph.mutate('query m() { insert Desk { tag: "d2" } }', idempotency_key="of another actor")

    commit = see_as_reader(graph, RED).snapshot().commit

    assert graph.snapshot().commit.notes.request is not None
    assert commit.notes.request is None


def test_a_branch_is_suggested_only_with_permission_to_list_branches(tmp_path: Path) -> None:
    graph = _parted(tmp_path)

    with pytest.raises(NotFoundError) as listing:
        graph.diff("draft", "mian")
    with pytest.raises(NotFoundError) as drafting:
        under(graph, _drafting()).diff("draft", "mian")

    assert "'main'" in str(listing.value)
    assert "'main'" not in str(drafting.value)


# Names


def _secret_graph(path: Path) -> Graph:
    return build_graph(
        path,
        "node Secret { title: String @key  pay: I32? } node Desk { tag: String @key }",
        node("Secret", title="vault", pay=9),
    )


def _rename_to_vault(graph: Graph) -> None:
    graph.apply_schema(
        'node Vault @rename_from("Secret") { title: String @key  pay: I32? } '
        "node Desk { tag: String @key }"
    )


@pytest.mark.parametrize(
    "types",
    [
        {"Secret": TypeView((), frozenset())},
        {"Secret": TypeView(('title = "no"',), frozenset())},
        {"Vault": TypeView((), frozenset())},
    ],
    ids=["none", "where", "by its later name"],
)
def test_a_renamed_type_keeps_its_row_filters(types: TypeViews, tmp_path: Path) -> None:
    graph = _secret_graph(tmp_path)
    first = graph.head()
    _rename_to_vault(graph)
    restricted = see_as_reader(graph, types)

    assert restricted.entity("Vault", "vault") is None
    assert restricted.entity("Secret", "vault", commit=first) is None


def test_a_renamed_type_keeps_its_properties_hidden(tmp_path: Path) -> None:
    graph = _secret_graph(tmp_path)
    _rename_to_vault(graph)

    found = see_as_reader(graph, {"Secret": TypeView(None, frozenset({"pay"}))}).entity(
        "Vault", "vault"
    )

    assert found == {"id": "vault", "title": "vault"}


def test_a_type_renamed_and_dropped_is_restricted_in_old_commits(tmp_path: Path) -> None:
    graph = _secret_graph(tmp_path)
    first = graph.head()
    _rename_to_vault(graph)
    graph.apply_schema("node Desk { tag: String @key }")

    restricted = see_as_reader(graph, {"Vault": TypeView((), frozenset())})

    assert restricted.query(SECRETS, commit=first).rows == []
    assert list(restricted.export(commit=first)) == []
    assert list(restricted.diff(first, "main")) == []
    assert [change for each in restricted.changes("beginning") for change in each.changes] == []


def test_a_filter_applies_to_the_type_that_has_the_name_now(tmp_path: Path) -> None:
    graph = _secret_graph(tmp_path)
    _rename_to_vault(graph)
    graph.apply_schema(
        "node Vault { title: String @key  pay: I32? } node Desk { tag: String @key } "
        "node Secret { title: String @key }"
    )
    graph.load(ndjson(node("Secret", title="new")), mode="append")

    restricted = see_as_reader(graph, {"Secret": TypeView((), frozenset())})

    assert restricted.entity("Secret", "new") is None
    assert restricted.entity("Vault", "vault") is not None


@pytest.mark.parametrize(
    "types",
    [
        {"Persn": TypeView((), frozenset())},
        {"person": TypeView((), frozenset())},
        {"knows": TypeView((), frozenset())},
        {"Person": TypeView(None, frozenset({"pya"}))},
        {"Person": TypeView(None, frozenset({"id"}))},
        {"Knows": TypeView(None, frozenset({"from"}))},
    ],
    ids=["a slip", "a node in another case", "an edge in another case", "hidden", "id", "an end"],
)
def test_a_view_that_names_something_unknown_refuses_reads(
    types: TypeViews, tmp_path: Path
) -> None:
    restricted = see_as_reader(team_graph(tmp_path), types)

    with pytest.raises(ForbiddenError):
        restricted.entity("Desk", "d1")


def test_a_hidden_property_that_is_renamed_is_not_shown(tmp_path: Path) -> None:
    graph = _secret_graph(tmp_path)
    restricted = see_as_reader(graph, {"Secret": TypeView(None, frozenset({"pay"}))})
    graph.apply_schema(
        'node Secret { title: String @key  wage: I32? @rename_from("pay") } '
        "node Desk { tag: String @key }"
    )

    with pytest.raises(ForbiddenError):
        restricted.entity("Secret", "vault")


def test_a_hidden_property_is_hidden_in_the_past_though_another_has_its_name(
    tmp_path: Path,
) -> None:
    graph = _secret_graph(tmp_path)
    first = graph.head()
    desk = "node Desk { tag: String @key }"
    graph.apply_schema(
        f'node Secret {{ title: String @key  wage: I32? @rename_from("pay") }} {desk}'
    )
    graph.apply_schema(f"node Secret {{ title: String @key  wage: I32?  pay: String? }} {desk}")

    restricted = see_as_reader(graph, {"Secret": TypeView(None, frozenset({"wage"}))})

    assert restricted.entity("Secret", "vault", commit=first) == {"id": "vault", "title": "vault"}
    assert restricted.entity("Secret", "vault") == {"id": "vault", "title": "vault", "pay": None}
    assert "9" not in str([list(each.changes) for each in restricted.changes("beginning")][1])


def test_a_hidden_property_is_not_read_in_the_past_by_its_name_of_the_present(
    tmp_path: Path,
) -> None:
    graph = _secret_graph(tmp_path)
    first = graph.head()
    graph.apply_schema(
        'node Safe @rename_from("Secret") { title: String @key  wage: I32? @rename_from("pay") } '
        "node Desk { tag: String @key }"
    )

    restricted = see_as_reader(graph, {"Safe": TypeView(None, frozenset({"wage"}))})

    assert restricted.entity("Safe", "vault", commit=first) == {"id": "vault", "title": "vault"}
    for name in ("pay", "wage"):
        text = f"query q() {{ match {{ $s: Safe }} return {{ $s.{name} }} }}"
        with pytest.raises(CompileError):
            restricted.query(text, commit=first)
        assert graph.query(text, commit=first).rows == [{f"s.{name}": 9}]


def test_a_filter_on_a_type_that_a_branch_lacks_has_no_effect_there(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Desk { tag: String @key }", node("Desk", tag="d1"))
    graph.create_branch("draft")
    graph.apply_schema(
        "node Desk { tag: String @key } node Secret { title: String @key  pay: I32? } "
        "edge Holds: Desk -> Secret"
    )
    graph.load(
        ndjson(node("Secret", title="vault", pay=9), edge("Holds", "d1", "vault")), mode="append"
    )

    restricted = see_as_reader(graph, {"Secret": TypeView(("pay > 10",), frozenset({"pay"}))})

    assert restricted.entity("Desk", "d1", branch="draft") is not None
    assert restricted.entity("Secret", "vault") is None


def test_an_insert_that_needs_a_hidden_property_does_not_name_it(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key  pay: I32 }")
    restricted = see_as_reader(graph, UNPAID)

    with pytest.raises(ForbiddenError) as found:
        restricted.mutate('query m() { insert Person { name: "eve" } }')

    assert "pay" not in str(found.value)
    assert graph.tables()["node:Person"].row_count == 0


def test_a_snapshot_leaves_out_types_that_are_never_seen_and_edges_to_them(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)

    tables = see_as_reader(graph, {"Person": TypeView((), frozenset())}).tables()

    assert {"node:Person", "edge:Knows", "edge:Sits"} < graph.tables().keys()
    assert tables.keys() == graph.tables().keys() - {"node:Person", "edge:Knows", "edge:Sits"}
