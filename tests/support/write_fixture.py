"""Write the graphs that later versions must open: `python -m tests.support.write_fixture`.

Run once for each format on disk, and never again for one that was released: the archive is the
proof. It holds a graph with everything that a graph can have, one whose writer was interrupted,
and what could be read of both when they were written.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.engine.state.manifest import STAMP_VERSION
from tests.support.archived_graphs import EXPECTED, FOLDER, STOPPED, WHOLE, make_root
from tests.support.damaging import stop_half_way
from tests.support.graphs import Contents, contents, edge, ndjson, node, social_graph
from tests.support.queries import query

FIRST = """
interface Named { name: String }
node Gauge {
  code: String @key
  f: F64?  g: F32?  i: I32? @index  l: I64?  u: U32?  w: U64?  on: Bool?
  day: Date?  at: DateTime?  tags: [String]?  nums: [I32]?  v: Vector(2)? @index
  kind: enum(hot, cold, in-between)?  note: String? @index  photo: Blob?
  mail: String? @unique
  @range(i, -10..2000000000)
}
node Town implements Named { name: String }
edge Near: Gauge -> Gauge { since: Date?  weight: F64? }
edge Stands: Gauge -> Town @card(0..1)
"""
SECOND = FIRST.replace("photo: Blob?", "photo: Blob?  checked: Bool?").replace(
    "enum(hot, cold, in-between)", "enum(hot, cold, in-between, broken)"
)

FULL: Mapping[str, object] = {
    "f": 2.5e-300,
    "g": 0.1,
    "i": 2_000_000_000,
    "l": -(2**63),
    "u": 2**32 - 1,
    "w": 2**64 - 1,
    "on": True,
    "day": "1969-12-31",
    "at": "2024-06-01T12:00:00.250Z",
    "tags": ["x", 'say "hi"', ""],
    "nums": [-1, 0, 2**31 - 1],
    "v": [0.25, 0.5],
    "kind": "in-between",
    "note": "the quick brown fox",
    "photo": "base64:AAECAwQFBgcICQ==",
    "mail": "a@x",
}


def main() -> None:
    """Write the archive of the present format, unless there is one."""
    archive = FOLDER / f"format-{STAMP_VERSION}.tar.gz"
    if archive.exists():
        sys.exit(f"{archive} exists: graphs that were written by it must stay readable")
    root = make_root()
    try:
        expected = {
            "root": str(root),
            **_write_whole(root / WHOLE),
            **_write_stopped(root / STOPPED),
        }
        (root / EXPECTED).write_text(json.dumps(expected, indent=1), encoding="utf-8")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:gz") as packed:
            for name in (WHOLE, STOPPED, EXPECTED):
                # Locks hold nothing, and are made when they are missed.
                shutil.rmtree(root / name / "__locks", ignore_errors=True)
                packed.add(root / name, arcname=name)
    finally:
        shutil.rmtree(root)


def _write_whole(root: Path) -> dict[str, object]:
    graph = omnigraph.init(str(root), schema=FIRST)
    seen: dict[str, Contents] = {}
    _fill(graph)
    _note(graph, seen)
    graph.ensure_indices()
    _note(graph, seen)
    graph.mutate(query('update Gauge set { note: "lazy dog" } where code = "g2"'), actor="ann")
    graph.tag("v1", graph.head())
    _note(graph, seen)
    graph.mutate(query('delete Gauge where code = "g3"'), actor="ann")
    _note(graph, seen)
    _merge_topic(graph)
    _note(graph, seen)
    graph.apply_schema(SECOND, actor="eve")
    _note(graph, seen)
    graph.create_branch("draft/one")
    graph.load(
        ndjson(node("Gauge", code="d1", kind="broken", checked=True), edge("Near", "d1", "g1")),
        mode="append",
        branch="draft/one",
    )
    graph.optimize(actor="ops")
    _note(graph, seen)
    graph.load(ndjson(node("Gauge", code="late", checked=False)), mode="append", actor="bob")
    _note(graph, seen)
    graph.mutate(query('delete Gauge where code = "g4"'))
    _note(graph, seen)
    return {
        "by_branch": {branch: contents(graph, branch) for branch in graph.branches()},
        "by_commit": seen,
        "commits": [
            [each.id, each.parent_id, each.merged_parent_id, each.actor] for each in graph.commits()
        ],
        "tags": graph.tags(),
        "sources": {"main": graph.schema_source, "v1": FIRST},
    }


def _fill(graph: Graph) -> None:
    gauges = [
        node("Gauge", code="g1", **FULL),
        node("Gauge", code="g2", note="jumps over", v=[1.0, 0.0], tags=[], photo="base64:"),
        *(node("Gauge", code=f"g{number}", i=number, v=[0.5, number]) for number in range(3, 9)),
    ]
    graph.load(
        ndjson(
            *gauges,
            {"type": "Town", "data": {"id": "t1", "name": "Ulm"}},
            edge("Near", "g1", "g2", since="2020-02-29", weight=-0.0),
            edge("Near", "g2", "g3"),
            edge("Near", "g5", "g1"),
            edge("Stands", "g1", "t1"),
        ),
        mode="append",
        actor="ann",
    )


def _merge_topic(graph: Graph) -> None:
    """Two sides that both changed, and a branch that is gone."""
    graph.create_branch("topic")
    graph.mutate(query('update Gauge set { i: 55 } where code = "g5"'), branch="topic")
    graph.mutate(query('insert Gauge { code: "t1", on: false }'), branch="topic")
    graph.mutate(query('update Gauge set { i: 66 } where code = "g6"'))
    graph.merge("topic", actor="ann")
    graph.delete_branch("topic")


def _write_stopped(root: Path) -> dict[str, object]:
    graph = social_graph(root)
    before = contents(graph)
    stop_half_way(root)
    people = {**before["Person"], "Ann": {"name": "Ann", "age": 1}}
    return {"before": before, "after": {**before, "Person": people}}


def _note(graph: Graph, seen: dict[str, Contents]) -> None:
    seen[graph.head()] = contents(graph)


if __name__ == "__main__":
    main()
