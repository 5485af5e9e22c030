"""Writes and their visibility: the same guarantees for embedded and served graphs."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from omnigraph import CsvFile
from omnigraph.client.remote import AnyGraph
from omnigraph.engine.results import MergeOutcome
from omnigraph.errors import MergeConflictError, PreconditionFailedError
from tests.support.both_graphs import (
    ADD_THING,
    DROP_THING,
    EVERYTHING,
    FIND_THING,
    SET_BIG,
    SET_SMALL,
    fresh_branch,
    lines,
    names_on,
    thing_rows,
)

START = ["a", "b", "inf", "nan", "ü/%?#& c"]


def test_a_mutation_is_one_commit(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    before = graph.commits(branch)

    done = graph.mutate(ADD_THING, {"name": "new", "small": 5}, branch=branch)

    assert (done.affected_nodes, done.affected_edges) == (1, 0)
    assert [each.id for each in graph.commits(branch)[len(before) :]] == [done.commit_id]
    assert names_on(graph, branch) == sorted([*START, "new"])


def test_rows_are_loaded_from_lists_of_dicts(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)

    by_type = graph.load({"Thing": [{"name": "x"}, {"name": "y"}]}, mode="append", branch=branch)
    records = [{"type": "Thing", "data": {"name": "z"}}]
    named = graph.load(records, mode="append", branch=branch)

    assert (by_type.nodes_loaded, named.nodes_loaded) == ({"Thing": 2}, {"Thing": 1})
    assert names_on(graph, branch) == sorted([*START, "x", "y", "z"])


ENDS_BY_FORM: dict[str, Callable[[tuple[str, str]], object]] = {
    "dicts": lambda names: {"Near": [dict(zip(names, ("a", "b"), strict=True))]},
    "records": lambda names: [{"edge": "Near", **dict(zip(names, ("a", "b"), strict=True))}],
    "Arrow": lambda names: {"Near": pa.table([["a"], ["b"]], names=list(names))},
    "pandas": lambda names: {"Near": pa.table([["a"], ["b"]], names=list(names)).to_pandas()},
}


@pytest.mark.parametrize("names", [("from", "to"), ("src", "dst")])
@pytest.mark.parametrize("form", ENDS_BY_FORM)
def test_the_ends_of_edges_go_by_either_pair_of_names(
    graph: AnyGraph, form: str, names: tuple[str, str]
) -> None:
    branch = fresh_branch(graph)

    done = graph.load(ENDS_BY_FORM[form](names), mode="append", branch=branch)

    assert done.edges_loaded == {"Near": 1}


def test_a_mutation_that_affects_no_row_makes_no_commit(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)

    done = graph.mutate(DROP_THING, {"name": "absent"}, branch=branch)

    assert (done.affected_nodes, done.commit_id) == (0, None)


def test_a_conditional_write_is_applied_only_at_its_expected_commit(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    seen = graph.head(branch)
    graph.mutate(ADD_THING, {"name": "x"}, branch=branch)

    with pytest.raises(PreconditionFailedError) as caught:
        graph.mutate(ADD_THING, {"name": "y"}, branch=branch, if_commit=seen)

    assert (caught.value.expected, caught.value.actual) == (seen, graph.head(branch))
    assert "y" not in names_on(graph, branch)


def test_a_retried_request_is_applied_once(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    first = graph.mutate(ADD_THING, {"name": "x"}, branch=branch, idempotency_key=f"k {branch}")

    again = graph.mutate(ADD_THING, {"name": "x"}, branch=branch, idempotency_key=f"k {branch}")

    assert again == first
    assert graph.head(branch) == first.commit_id


def _text_file(folder: Path) -> object:
    del folder
    return lines('{"type":"Thing","data":{"name":"new","small":5}}')


def _binary_file(folder: Path) -> object:
    del folder
    return io.BytesIO(b'{"type":"Thing","data":{"name":"new","small":5}}')


def _path(folder: Path) -> object:
    file = folder / "rows.jsonl"
    # A mark at the start, and no line end: both are fine in a file.
    file.write_bytes(b'\xef\xbb\xbf{"type":"Thing","data":{"name":"new","small":5}}')
    return file


def _uri(folder: Path) -> object:
    return Path(str(_path(folder))).as_uri()


def _packed(folder: Path) -> object:
    file = folder / "rows.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"type":"Thing","data":{"name":"new","small":5}}\n'))
    return str(file)


def _several(folder: Path) -> object:
    other = folder / "more.jsonl"
    other.write_bytes(b'\n{"type":"Note","data":{"text":"with it"}}')
    return [other, _path(folder)]


def _folder(folder: Path) -> object:
    _path(folder)
    return folder


def _parquet(folder: Path) -> object:
    file = folder / "Thing.parquet"
    pyarrow.parquet.write_table(thing_rows(name=["new"], small=[5]), file)
    return file


def _mixed(folder: Path) -> object:
    other = folder / "more.jsonl"
    other.write_bytes(b'{"type":"Note","data":{"text":"with it"}}\n')
    return [_parquet(folder), other]


def _csv(folder: Path) -> object:
    file = folder / "Thing.csv"
    pyarrow.csv.write_csv(thing_rows(name=["new"], small=[5]), file)
    return str(file)


def _csv_with_options(folder: Path) -> object:
    file = folder / "Thing.csv"
    file.write_text("name;small\nnew;5\n", encoding="utf-8")
    return CsvFile(file, delimiter=";")


def _mapping(folder: Path) -> object:
    del folder
    return {"Thing": thing_rows(name=["new"], small=[5])}


def _mapping_of_batches(folder: Path) -> object:
    del folder
    table = thing_rows(name=["new"], small=[5])
    return {"Thing": pa.RecordBatchReader.from_batches(table.schema, table.to_batches())}


def _mapping_of_a_path(folder: Path) -> object:
    file = folder / "whatever.parquet"
    pyarrow.parquet.write_table(thing_rows(name=["new"], small=[5]), file)
    return {"Thing": [file]}


INPUTS: dict[str, Callable[[Path], object]] = {
    make.__name__.strip("_").replace("_", " "): make
    for make in (
        _text_file, _binary_file, _path, _uri, _packed, _several, _folder, _parquet, _mixed, _csv,
        _csv_with_options, _mapping, _mapping_of_batches, _mapping_of_a_path,
    )
}  # fmt: skip


@pytest.mark.parametrize("given", INPUTS)
def test_every_kind_of_input_is_loaded(graph: AnyGraph, given: str, tmp_path: Path) -> None:
    branch = fresh_branch(graph)

    done = graph.load(INPUTS[given](tmp_path), mode="append", branch=branch)

    assert done.nodes_loaded["Thing"] == 1
    assert (done.commit_id, done.branch, done.branch_created) == (graph.head(branch), branch, False)
    assert graph.query(FIND_THING, {"name": "new"}, branch=branch).rows == [
        {"t.name": "new", "t.small": 5, "t.big": None}
    ]


def test_rows_without_keys_get_ids(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)

    done = graph.load({"Note": thing_rows(text=["x", "y"])}, mode="append", branch=branch)

    assert done.nodes_loaded == {"Note": 2}
    ids = [each.id for each in graph.diff("main", branch)]
    assert len(set(ids)) == 2


def test_edges_are_loaded_with_their_ends(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    rows = thing_rows(src=["a", "b"], dst=["nan", "inf"], weight=[0.5, None])

    done = graph.load({"Near": rows}, mode="append", branch=branch)

    assert (done.nodes_loaded, done.edges_loaded) == ({}, {"Near": 2})


def test_a_load_with_a_base_creates_its_branch(graph: AnyGraph) -> None:
    base = fresh_branch(graph)

    done = graph.load(
        lines('{"type":"Note","data":{"text":"x"}}'), mode="merge", branch=f"{base}-new", base=base
    )

    assert (done.branch, done.base_branch, done.branch_created) == (f"{base}-new", base, True)
    assert f"{base}-new" in graph.branches()


def test_a_load_in_mode_overwrite_leaves_only_its_rows(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)

    graph.load({"Note": thing_rows(text=["only"])}, mode="overwrite", branch=branch)

    notes = "query notes() { match { $n: Note } return { $n.text } }"
    assert graph.query(notes, branch=branch).rows == [{"n.text": "only"}]


def test_a_load_reports_its_progress(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    reports: list[tuple[str, int, int | None]] = []

    graph.load(
        {"Note": thing_rows(text=["x"])},
        mode="append",
        branch=branch,
        progress=lambda *report: reports.append(report),
    )

    assert reports
    assert {stage for stage, _, _ in reports} <= {"read", "commit"}


def test_a_retried_load_is_applied_once(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    key = f"load {branch}"
    rows = '{"type":"Note","data":{"text":"once"}}'
    first = graph.load(lines(rows), mode="append", branch=branch, idempotency_key=key)

    again = graph.load(lines(rows), mode="append", branch=branch, idempotency_key=key)

    assert again == first
    assert graph.head(branch) == first.commit_id


def test_a_transaction_is_one_commit(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    before = graph.commits(branch)

    with graph.transaction(branch) as begun:
        begun.mutate(ADD_THING, {"name": "x"})
        begun.load(lines('{"type":"Thing","data":{"name":"y"}}'), mode="append")
        inside = [row["t.name"] for row in begun.query(FIND_THING, {"name": "y"})]
        outside = names_on(graph, branch)

    assert inside == ["y"]
    assert outside == START
    assert [each.id for each in graph.commits(branch)[len(before) :]] == [begun.commit_id]
    assert names_on(graph, branch) == sorted([*START, "x", "y"])


def test_a_transaction_that_fails_leaves_no_trace(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    before, branches = graph.head(branch), graph.branches()

    with suppress(RuntimeError), graph.transaction(branch) as begun:
        begun.mutate(ADD_THING, {"name": "x"})
        raise RuntimeError("on second thoughts")

    assert graph.head(branch) == before
    assert graph.branches() == branches


def test_a_transaction_that_conflicts_with_a_concurrent_write_is_refused(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    branches = graph.branches()

    def transact() -> None:
        with graph.transaction(branch) as begun:
            begun.mutate(SET_SMALL, {"name": "a", "small": 11})
            graph.mutate(SET_SMALL, {"name": "a", "small": 12}, branch=branch)

    with pytest.raises(MergeConflictError):
        transact()

    assert graph.branches() == branches
    assert graph.query(FIND_THING, {"name": "a"}, branch=branch).rows[0]["t.small"] == 12


def test_a_branch_is_merged(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    side = fresh_branch(graph, base=branch)
    graph.mutate(ADD_THING, {"name": "x"}, branch=side)
    graph.mutate(ADD_THING, {"name": "y"}, branch=branch)

    done = graph.merge(side, into=branch)

    assert (done.outcome, done.commit_id) == (MergeOutcome.MERGED, graph.head(branch))
    assert names_on(graph, branch) == sorted([*START, "x", "y"])
    assert graph.merge(side, into=branch).outcome is MergeOutcome.ALREADY_UP_TO_DATE


def test_a_merge_conflict_has_the_rows_of_all_three_sides(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    side = fresh_branch(graph, base=branch)
    graph.mutate(SET_SMALL, {"name": "a", "small": 50}, branch=side)
    graph.mutate(SET_SMALL, {"name": "a", "small": 60}, branch=branch)

    with pytest.raises(MergeConflictError, match="unchanged") as caught:
        graph.merge(side, into=branch)

    (conflict,) = caught.value.conflicts
    assert (conflict.type, conflict.id, conflict.kind) == ("Thing", "a", "divergent_update")
    versions = (conflict.base, conflict.source, conflict.target)
    assert [row and row["small"] for row in versions] == [1, 50, 60]
    assert graph.merge(side, into=branch, dry_run=True).conflicts == caught.value.conflicts


@pytest.mark.parametrize(
    ("decision", "small"), [("source", 50), ("target", 60), ({"name": "a", "small": 70}, 70)]
)
def test_a_conflict_is_decided_by_the_caller(graph: AnyGraph, decision: object, small: int) -> None:
    branch = fresh_branch(graph)
    side = fresh_branch(graph, base=branch)
    graph.mutate(SET_SMALL, {"name": "a", "small": 50}, branch=side)
    graph.mutate(SET_SMALL, {"name": "a", "small": 60}, branch=branch)

    graph.merge(side, into=branch, resolve={("Thing", "a"): decision})

    assert graph.query(FIND_THING, {"name": "a"}, branch=branch).rows[0]["t.small"] == small


def test_different_properties_of_a_row_merge_with_property_granularity(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    side = fresh_branch(graph, base=branch)
    graph.mutate(SET_SMALL, {"name": "a", "small": 50}, branch=side)
    graph.mutate(SET_BIG, {"name": "a", "big": 60}, branch=branch)

    graph.merge(side, into=branch, granularity="property")

    (row,) = graph.query(FIND_THING, {"name": "a"}, branch=branch).rows
    assert (row["t.small"], row["t.big"]) == (50, 60)


def test_a_commit_is_reverted_and_cherry_picked(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    elsewhere = fresh_branch(graph)
    done = graph.mutate(ADD_THING, {"name": "x"}, branch=branch)
    assert done.commit_id is not None

    graph.revert(done.commit_id, branch=branch)
    graph.cherry_pick(done.commit_id, onto=elsewhere)

    assert names_on(graph, branch) == START
    assert names_on(graph, elsewhere) == sorted([*START, "x"])


def test_a_branch_is_created_and_deleted(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    was_there = branch in graph.branches()

    graph.delete_branch(branch, if_commit=graph.head(branch))

    assert was_there
    assert branch not in graph.branches()


def test_a_tag_is_created_and_deleted(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    name = branch.replace("work", "tags")

    graph.tag(name, graph.head(branch))
    named = graph.tags()[name]
    graph.delete_tag(name)

    assert named == graph.head(branch)
    assert name not in graph.tags()


def test_a_feed_resumes_at_its_cursor(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    feed = graph.changes("now", branch)
    nothing = list(feed)
    first = graph.mutate(ADD_THING, {"name": "x"}, branch=branch)
    graph.mutate(SET_SMALL, {"name": "x", "small": 2}, branch=branch)

    seen = [[(change.op, change.id) for change in each.changes] for each in feed]

    assert nothing == []
    assert seen == [[("insert", "x")], [("update", "x")]]
    assert feed.cursor == f"after:{graph.head(branch)}"
    (rest,) = graph.changes(f"after:{first.commit_id}", branch)
    assert rest.commit.id == graph.head(branch)


def test_an_abandoned_feed_keeps_the_cursor_of_the_previous_commit(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    feed = graph.changes("now", branch)
    first = graph.mutate(ADD_THING, {"name": "x"}, branch=branch)
    graph.mutate(ADD_THING, {"name": "y"}, branch=branch)

    reading = iter(feed)
    next(reading)
    next(reading)

    assert feed.cursor == f"after:{first.commit_id}"


def test_an_export_can_be_loaded(graph: AnyGraph) -> None:
    branch = fresh_branch(graph)
    graph.mutate(DROP_THING, {"name": "nan"}, branch=branch)
    graph.mutate(DROP_THING, {"name": "inf"}, branch=branch)
    exported = list(graph.export(branch=branch))

    graph.load(lines(*exported), mode="overwrite", branch=branch)

    assert list(graph.export(branch=branch)) == exported


def test_a_schema_is_planned_and_applied(graph: AnyGraph) -> None:
    accepted = graph.schema_source
    name = fresh_branch(graph).replace("work/", "Type")
    wanted = f"{accepted}\nnode {name} {{ x: String @key }}"

    planned = graph.plan_schema(wanted)
    applied = graph.apply_schema(wanted)

    assert planned.supported
    assert (applied.applied, applied.steps) == (True, planned.steps)
    assert applied.commit_id == graph.head()
    assert f"node:{name}" in graph.tables()
    assert not graph.apply_schema(graph.schema_source).applied
    assert EVERYTHING.split()[1] in graph.schema_source
