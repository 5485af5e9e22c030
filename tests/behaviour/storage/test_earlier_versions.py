"""Graphs that earlier versions wrote are opened, read, written to and recovered by this one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.maintenance.doctor_report import FindingKind, Severity
from omnigraph.engine.state.manifest import STAMP_VERSION
from omnigraph.errors import CorruptError
from tests.support.archived_graphs import ARCHIVES, Archive, unpacked
from tests.support.graphs import Contents, Row, contents, edge, ndjson, node, rows, values
from tests.support.queries import query

ARCHIVE_BYTES_MAX = 400_000


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def archived(request: pytest.FixtureRequest) -> Iterator[Archive]:
    """A copy of the files that an earlier version wrote."""
    with unpacked(request.param) as found:
        yield found


def open_archived(root: Path, *, is_read_only: bool = False) -> Graph:
    """The graph of a directory."""
    return omnigraph.open(str(root), read_only=is_read_only, durability="relaxed")


def contents_at(graph: Graph, commit: str) -> Contents:
    """Every row of a commit by type and id, in the form of `contents`."""
    found: dict[str, dict[str, Row]] = {}
    for record in map(json.loads, graph.export(commit=commit)):
        row = {**record["data"], **{end: record[end] for end in ("from", "to") if end in record}}
        found.setdefault(record.get("type") or record["edge"], {})[row.pop("id")] = row
    return found


def grave(graph: Graph) -> set[FindingKind]:
    """The findings of the doctor, without notes."""
    found = graph.doctor().findings
    return {each.code for each in found if each.severity is not Severity.NOTE}


def test_an_archive_of_the_current_format_exists_and_is_small() -> None:
    assert f"format-{STAMP_VERSION}.tar.gz" in {path.name for path in ARCHIVES}
    assert sum(path.stat().st_size for path in ARCHIVES) < ARCHIVE_BYTES_MAX


def test_every_row_of_every_branch_is_as_it_was_written(archived: Archive) -> None:
    graph = open_archived(archived.whole, is_read_only=True)

    found = {branch: contents(graph, branch) for branch in graph.branches()}

    assert found == archived.by_branch
    assert len(found) > 1


def test_history_and_tags_are_as_they_were_written(archived: Archive) -> None:
    graph = open_archived(archived.whole, is_read_only=True)

    commits = [
        [each.id, each.parent_id, each.merged_parent_id, each.actor] for each in graph.commits()
    ]

    assert commits == archived.commits
    assert any(merged for _, _, merged, _ in commits)
    assert graph.tags() == archived.tags


def test_every_commit_is_read_as_it_was_then(archived: Archive) -> None:
    graph = open_archived(archived.whole, is_read_only=True)

    found = {commit: contents_at(graph, commit) for commit in archived.by_commit}

    assert found == archived.by_commit
    assert contents_at(graph, "v1") == archived.by_commit[archived.tags["v1"]]


def test_the_past_is_read_with_the_schema_of_its_time(archived: Archive) -> None:
    graph = open_archived(archived.whole, is_read_only=True)

    then = contents_at(graph, "v1")["Gauge"]["g1"]
    now = rows(graph, "Gauge")["g1"]

    assert graph.schema_source == archived.sources["main"]
    assert "checked" not in then
    assert "checked" in now


def test_the_doctor_finds_no_error_in_it(archived: Archive) -> None:
    graph = open_archived(archived.whole, is_read_only=True)

    assert grave(graph) == set()


def test_indexes_and_blobs_can_be_read(archived: Archive) -> None:
    graph = open_archived(archived.whole, is_read_only=True)

    by_words = graph.query(
        'query q() { match { $g: Gauge  search($g.note, "fox") } return { $g.code } }'
    )
    by_place = graph.query(
        "query q($v: Vector(2)) { match { $g: Gauge } return { $g.code } "
        "order { nearest($g.v, $v) } limit 1 }",
        {"v": [1.0, 0.0]},
    )
    blob = graph.read_blob("Gauge", "g1", "photo", start=2, length=3)

    assert [row["g.code"] for row in by_words] == ["g1"]
    assert [row["g.code"] for row in by_place] == ["g2"]
    assert (blob.content, blob.size) == (bytes([2, 3, 4]), 10)


def test_it_accepts_writes_merges_and_maintenance(archived: Archive) -> None:
    graph = open_archived(archived.whole)

    graph.load(ndjson(node("Gauge", code="new"), edge("Near", "new", "g1")), mode="append")
    graph.mutate(query('update Gauge set { i: 7 } where code = "d1"'), branch="draft/one")
    graph.merge("draft/one")
    graph.delete_branch("draft/one")
    graph.optimize()
    graph.cleanup(keep=1, older_than=0)

    assert values(graph, "Gauge", "i")["d1"] == 7
    assert {"new", "d1", "late"} <= rows(graph, "Gauge").keys()
    assert contents_at(graph, "v1") == archived.by_commit[archived.tags["v1"]]
    assert grave(graph) == set()


def test_a_schema_of_this_version_is_applied_to_it(archived: Archive) -> None:
    graph = open_archived(archived.whole)
    wider = graph.schema_source.replace("checked: Bool?", "checked: Bool?  extra: [String]?")

    graph.apply_schema(wider)
    graph.load(ndjson(node("Gauge", code="new", extra=["x"])), mode="append")

    assert values(graph, "Gauge", "extra")["new"] == ["x"]
    assert contents_at(graph, "v1") == archived.by_commit[archived.tags["v1"]]


def test_an_interrupted_write_in_it_is_recovered(archived: Archive) -> None:
    reader = open_archived(archived.stopped, is_read_only=True)
    assert contents(reader) == archived.before
    assert grave(reader) == {FindingKind.WRITE_LEFT}

    graph = open_archived(archived.stopped)

    assert contents(graph) == archived.after
    assert [each.actor for each in graph.recoveries()] == ["ann"]
    assert grave(graph) == set()


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_a_graph_that_was_moved_keeps_main_and_says_what_became_of_its_branches(
    archive: Path, tmp_path: Path
) -> None:
    with unpacked(archive) as archived:
        expected = archived.by_branch["main"]
        archived.whole.rename(tmp_path / "moved")

    graph = open_archived(tmp_path / "moved", is_read_only=True)

    assert contents(graph) == expected
    with pytest.raises(CorruptError):
        contents(graph, "draft/one")
    wrong = [each for each in graph.doctor().findings if each.severity is Severity.ERROR]
    assert wrong
    assert all(each.subject.endswith("branch 'draft/one'") for each in wrong)
