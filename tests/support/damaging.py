"""Damage to a graph on a disk, done past the engine: with plain Lance, or to its files.

Each way to damage one leaves exactly one trouble. A social graph without more is what they start
from; where an engine helps, it is one that fails half-way.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa

import omnigraph
from omnigraph import Graph
from omnigraph.engine.maintenance.doctor_report import FindingKind
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.readers import ReadClaim, encode_claim
from omnigraph.errors import GraphError
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.leases import Lease, Owner, encode_lease
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import ndjson, node, open_with, table_paths
from tests.support.queries import query

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ANN = query('insert Person { name: "Ann", age: 1 }')


def look_past_opening(root: Path) -> Graph:
    """A graph as its doctor gets it, although it is too damaged to be opened."""
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    return Graph(settings, open_stores(settings), actor=None, is_read_only=True)


# The schema's files


def edit_schema(root: Path) -> None:
    """Edit the schema's text by hand."""
    file = root / "_schema.pg"
    file.write_text(file.read_text() + "\nnode Extra { name: String @key }\n")


def lose_generated_files(root: Path) -> None:
    """Delete the two files that are made from the schema's text."""
    (root / "_schema.ir.json").unlink()
    (root / "__schema_state.json").unlink()


def take_anothers_schema(root: Path) -> None:
    """Put the schema's files of another graph in place of its own."""
    other = root.with_name("other")
    omnigraph.init(str(other), schema="node Person { name: String @key }", durability="relaxed")
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        shutil.copy(other / name, root / name)


def lose_stored_schemas(root: Path) -> None:
    """Delete what is kept of accepted schemas."""
    shutil.rmtree(root / "__schemas")


def stage_schema(root: Path) -> None:
    """Leave the state of a process that was killed while it applied a schema."""
    shutil.copy(root / "_schema.pg", root / "_schema.pg.staging")


# History


def lose_history_files(root: Path) -> None:
    """Delete the files of the manifest's rows."""
    shutil.rmtree(root / "__manifest" / "data")


def forget_type(root: Path) -> None:
    """Delete from history whatever it says of a type."""
    lance.dataset(str(root / "__manifest")).delete("table_key IN ('node:Company', 'edge:WorksAt')")


def invent_type(root: Path) -> None:
    """Add a type to history that no schema declares."""
    manifest = lance.dataset(str(root / "__manifest"))
    rows = manifest.to_table(filter="table_key = 'node:Person'").to_pylist()
    for row in rows:
        row["object_id"] = str(row["object_id"]).replace("Person", "Ghost")
        row["table_key"] = "node:Ghost"
    manifest.insert(pa.Table.from_pylist(rows, schema=manifest.schema), mode="append")


def name_newest(root: Path, table_key: str, *, row_count: int | None = None) -> None:
    """Let history name the newest version of a table, whatever wrote it."""
    manifest = lance.dataset(str(root / "__manifest"))
    table = lance.dataset(str(table_paths(root)[table_key]))
    rows = manifest.to_table(
        filter=f"table_key = '{table_key}' AND object_type = 'table_version'"
    ).to_pylist()
    newest = dict(max(rows, key=lambda row: int(row["table_version"])))
    newest["table_version"] = table.version
    newest["object_id"] = f"{table_key}${table.version:020}"
    newest["row_count"] = table.count_rows() if row_count is None else row_count
    if newest["object_id"] in {row["object_id"] for row in rows}:
        manifest.delete(f"object_id = '{newest['object_id']}'")
        manifest = lance.dataset(str(root / "__manifest"))
    manifest.insert(pa.Table.from_pylist([newest], schema=manifest.schema), mode="append")


# Types


def person(root: Path) -> lance.LanceDataset:
    """The table of people, past the engine."""
    return lance.dataset(str(table_paths(root)["node:Person"]))


def lose_rows(root: Path) -> None:
    """Delete the files that a type's rows are in."""
    shutil.rmtree(table_paths(root)["node:Person"] / "data")


def lose_version(root: Path) -> None:
    """Delete the newest version of a type."""
    versions = table_paths(root)["node:Person"] / "_versions"
    sorted(versions.glob("*.manifest"))[0].unlink()
    (versions / "latest_version_hint.json").unlink(missing_ok=True)


def write_past_history(root: Path) -> None:
    """Write to a type with plain Lance."""
    person(root).delete("name = 'Bob'")


def drop_column(root: Path) -> None:
    """Take a column away that the schema wants, and let history name the outcome."""
    table = lance.dataset(str(table_paths(root)["node:Company"]))
    table.drop_columns(["name"])
    name_newest(root, "node:Company")


def miscount(root: Path) -> None:
    """Let history tell another number of rows than there are."""
    name_newest(root, "node:Person", row_count=7)


def repeat_id(root: Path) -> None:
    """Store a row twice, and let history name the outcome."""
    table = person(root)
    table.insert(table.to_table(filter="name = 'Bob'"), mode="append")
    name_newest(root, "node:Person")


def break_rule(root: Path) -> None:
    """Give a node another key than its id says, and let history name the outcome."""
    person(root).update({"name": "'Robert'"}, where="id = 'Bob'")
    name_newest(root, "node:Person")


def lose_node(root: Path) -> None:
    """Delete a node but not its edges, and let history name the outcome."""
    person(root).delete("name = 'Bob'")
    name_newest(root, "node:Person")


# What is left behind


def stop_half_way(root: Path) -> None:
    """Let a write stop between its effects and their becoming true."""
    failpoints = Failpoints()
    graph = open_with(root, failpoints)
    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        suppress(GraphError),
    ):
        graph.mutate(ANN, actor="ann")


def damage_record(root: Path) -> None:
    """Leave an unreadable record of a write."""
    (root / "__recovery").mkdir(exist_ok=True)
    (root / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json").write_text("{")


def leave_transaction(root: Path) -> None:
    """Leave the state of a process that was killed in a transaction."""
    (root / "__transactions").mkdir(exist_ok=True)
    (root / "__transactions" / "__tx__01ARZ3NDEKTSV4RRFFQ69G5FAV.json").write_text("{}")


def mislead_tag(root: Path) -> None:
    """Let a tag name a commit that there never was."""
    graph = omnigraph.open(str(root), durability="relaxed")
    graph.tag("v1", graph.head())
    file = root / "__tags" / "v1.json"
    file.write_text(file.read_text().replace(graph.head(), "01ARZ3NDEKTSV4RRFFQ69G5FAV"))


def leave_lease(root: Path) -> None:
    """Leave a lease whose holder has been gone for years."""
    (root / "__leases").mkdir(exist_ok=True)
    lease = Lease(None, Owner("gone", 1, "n"), 1, 0, 15.0, LONG_AGO, LONG_AGO, is_held=True)
    (root / "__leases" / "one.json").write_bytes(encode_lease(lease))


def damage_lease(root: Path) -> None:
    """Leave an unreadable lease."""
    (root / "__leases").mkdir(exist_ok=True)
    (root / "__leases" / "one.json").write_text("{")


def leave_claim(root: Path) -> None:
    """Leave the claim of a reader that has been gone for years."""
    (root / "__readers").mkdir(exist_ok=True)
    (root / "__readers" / "one.json").write_bytes(encode_claim(ReadClaim(frozenset(), LONG_AGO)))


def damage_claim(root: Path) -> None:
    """Leave an unreadable key claim."""
    (root / "__readers").mkdir(exist_ok=True)
    (root / "__readers" / "one.json").write_text("{")


def lose_audit(root: Path) -> None:
    """Delete the files in which recoveries are written down."""
    stop_half_way(root)
    omnigraph.open(str(root), durability="relaxed")
    shutil.rmtree(root / "_graph_commit_recoveries.lance" / "data")


def leave_line(root: Path) -> None:
    """Leave rows of a branch that there is not."""
    table = person(root)
    table.create_branch("gone", (None, table.version))


def leave_folder(root: Path) -> None:
    """Leave what a failed creation of a type leaves."""
    shutil.copytree(table_paths(root)["node:Person"], root / "nodes" / "ffffffffffffffff")


# How it lies


def lose_index(root: Path) -> None:
    """Delete the files of a type's indexes, and no row."""
    shutil.rmtree(table_paths(root)["node:Company"] / "_indices")


def arrive_late(root: Path) -> None:
    """Add rows that no index knows, in a file of their own."""
    graph = omnigraph.open(str(root), durability="relaxed")
    graph.load(ndjson(node("Company", name="Initech")), mode="append")


def lose_layout(root: Path) -> None:
    """Overwrite a type, and do nothing else."""
    graph = omnigraph.open(str(root), durability="relaxed")
    companies = [node("Company", name=name) for name in ("Acme", "Globex")]
    graph.load(ndjson(*companies), mode="overwrite")


DAMAGES: Mapping[FindingKind, Callable[[Path], None]] = {
    FindingKind.SCHEMA_DAMAGED: edit_schema,
    FindingKind.SCHEMA_INCOMPLETE: lose_generated_files,
    FindingKind.SCHEMA_NOT_ACCEPTED: take_anothers_schema,
    FindingKind.SCHEMA_LOST: lose_stored_schemas,
    FindingKind.SCHEMA_LEFT: stage_schema,
    FindingKind.HISTORY_DAMAGED: lose_history_files,
    FindingKind.TYPE_NOT_IN_HISTORY: forget_type,
    FindingKind.TYPE_NOT_IN_SCHEMA: invent_type,
    FindingKind.TYPE_DAMAGED: lose_rows,
    FindingKind.TYPE_BEHIND: lose_version,
    FindingKind.DRIFT: write_past_history,
    FindingKind.COLUMNS_WRONG: drop_column,
    FindingKind.ROW_COUNT_WRONG: miscount,
    FindingKind.ID_REPEATED: repeat_id,
    FindingKind.RULE_BROKEN: break_rule,
    FindingKind.ENDPOINT_MISSING: lose_node,
    FindingKind.WRITE_LEFT: stop_half_way,
    FindingKind.RECORD_DAMAGED: damage_record,
    FindingKind.TRANSACTION_LEFT: leave_transaction,
    FindingKind.TAG_DAMAGED: mislead_tag,
    FindingKind.LEASE_LEFT: leave_lease,
    FindingKind.LEASE_DAMAGED: damage_lease,
    FindingKind.CLAIM_LEFT: leave_claim,
    FindingKind.CLAIM_DAMAGED: damage_claim,
    FindingKind.AUDIT_DAMAGED: lose_audit,
    FindingKind.BRANCH_REMAINS: leave_line,
    FindingKind.TYPE_REMAINS: leave_folder,
    FindingKind.INDEX_DAMAGED: lose_index,
    FindingKind.INDEX_MISSING: lose_layout,
    FindingKind.INDEX_BEHIND: arrive_late,
    FindingKind.MANY_FILES: arrive_late,
}
"""One way to cause each kind of damage that is stored on disk and needs no running process."""
