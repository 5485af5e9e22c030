"""The doctor finds and reports every kind of damage, and the action it advises repairs it."""

import io
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import NoReturn

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.maintenance.doctor import examine
from omnigraph.engine.maintenance.doctor_report import (
    DoctorReport,
    FindingKind,
    Severity,
)
from omnigraph.engine.maintenance.doctor_tables import DoctorContext
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.branch_state import BranchStates
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import HeldLocks, LockKey
from tests.support.damaging import (
    ANN,
    DAMAGES,
    look_past_opening,
    lose_history_files,
    lose_node,
    lose_rows,
    mislead_tag,
    name_newest,
    person,
    write_past_history,
)
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    contents,
    edge,
    hub_graph,
    ndjson,
    node,
    open_with,
    root_of,
    social_graph,
    table_paths,
)
from tests.support.queries import query
from tests.support.s3_server import S3Server, serve_s3
from tests.support.sweeps import files_untouched

UNDER_WAY = frozenset(
    {FindingKind.SCHEMA_UNDER_WAY, FindingKind.WRITE_UNDER_WAY, FindingKind.TRANSACTION_UNDER_WAY}
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a social graph without any finding, for tests to copy."""
    root = tmp_path_factory.mktemp("whole") / "graph"
    graph = social_graph(root)
    graph.optimize()
    assert graph.doctor().findings == ()
    return root


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module."""
    with serve_s3() as running:
        yield running


def copy_of(whole: Path, tmp_path: Path) -> Path:
    """A graph for one test."""
    root = tmp_path / "graph"
    shutil.copytree(whole, root)
    return root


def look(root: Path) -> DoctorReport:
    """The findings of the doctor in a directory, whatever its state."""
    return look_past_opening(root).doctor()


def open_plain(root: Path) -> Graph:
    """The graph of a directory, for writing."""
    return omnigraph.open(str(root), durability="relaxed")


def codes(report: DoctorReport) -> set[FindingKind]:
    """The findings, without their counts."""
    return {each.code for each in report.findings}


def grave(report: DoctorReport) -> set[FindingKind]:
    """The findings, without notes."""
    return {each.code for each in report.findings if each.severity is not Severity.NOTE}


# Finding


@pytest.mark.parametrize("code", DAMAGES, ids=str)
def test_every_kind_of_damage_is_found_and_distinguished(
    code: FindingKind, whole: Path, tmp_path: Path
) -> None:
    root = copy_of(whole, tmp_path)
    DAMAGES[code](root)

    report = look(root)

    assert code in codes(report)
    assert grave(report) <= {code}
    severity = code.severity
    assert report.is_healthy == (severity is not Severity.ERROR)
    assert all(each.message and each.advice for each in report.findings)
    assert str(code) in str(report)


def test_every_finding_has_a_test_of_damage_or_of_work_under_way() -> None:
    assert set(DAMAGES) | UNDER_WAY | {FindingKind.BRANCH_MOVED} == set(FindingKind)


@pytest.mark.parametrize("code", DAMAGES, ids=str)
def test_a_check_changes_nothing_even_on_a_damaged_graph(
    code: FindingKind, whole: Path, tmp_path: Path
) -> None:
    root = copy_of(whole, tmp_path)
    DAMAGES[code](root)

    with files_untouched(root):
        look(root)


def test_a_graph_opened_for_reading_can_be_checked(whole: Path, tmp_path: Path) -> None:
    root = copy_of(whole, tmp_path)
    write_past_history(root)

    report = omnigraph.open(str(root), read_only=True).doctor()

    assert grave(report) == {FindingKind.DRIFT}


def test_one_finding_does_not_hide_another(whole: Path, tmp_path: Path) -> None:
    root = copy_of(whole, tmp_path)
    mislead_tag(root)
    lose_node(root)
    shutil.rmtree(table_paths(root)["node:Company"])

    report = look(root)

    assert grave(report) == {
        FindingKind.TAG_DAMAGED,
        FindingKind.ENDPOINT_MISSING,
        FindingKind.TYPE_BEHIND,
    }


def garble(file: Path) -> None:
    """The damage of a bad disk to a file."""
    file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))


@pytest.mark.parametrize("damage", [Path.unlink, garble])
def test_a_damaged_graph_reported_as_healthy_has_every_row(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    whole, root = tmp_path / "whole", tmp_path / "graph"
    people = [node("Person", name="Ann"), node("Person", name="Bob")]
    graph = build_graph(whole, "node Person { name: String @key }", *people)
    graph.ensure_indices()
    graph.tag("v1", graph.head())
    rows = contents(graph)
    files = [each.relative_to(whole) for each in sorted(whole.rglob("*")) if each.is_file()]

    for file in files:
        shutil.copytree(whole, root)
        damage(root / file)
        if look(root).is_healthy:
            found = omnigraph.open(str(root), read_only=True)
            assert contents(found) == rows, file
            assert found.entity("Person", "Bob") is not None, file
        shutil.rmtree(root)

    assert len(files) > 20


def test_the_cache_of_an_open_graph_hides_no_damage(whole: Path, tmp_path: Path) -> None:
    graph = open_plain(copy_of(whole, tmp_path))
    contents(graph)
    lose_rows(root_of(graph))

    report = graph.doctor()

    assert grave(report) == {FindingKind.TYPE_DAMAGED}


def test_a_missing_history_limits_the_check_and_is_reported(whole: Path, tmp_path: Path) -> None:
    root = copy_of(whole, tmp_path)
    lose_history_files(root)

    report = look(root)

    assert [each.code for each in report.findings] == [FindingKind.HISTORY_DAMAGED]
    assert not report.is_healthy


def test_a_shallow_check_skips_rows_and_says_so(whole: Path, tmp_path: Path) -> None:
    root = copy_of(whole, tmp_path)
    lose_node(root)

    shallow = look_past_opening(root).doctor(deep=False)

    assert grave(shallow) == set()
    assert "Rows were not checked" in str(shallow)
    assert grave(look(root)) == {FindingKind.ENDPOINT_MISSING}


def test_a_type_missing_from_history_is_never_reported_as_leftover(
    whole: Path, tmp_path: Path
) -> None:
    root = copy_of(whole, tmp_path)
    DAMAGES[FindingKind.TYPE_NOT_IN_HISTORY](root)

    report = look(root)

    assert FindingKind.TYPE_REMAINS not in codes(report)


# Rows


@pytest.mark.parametrize(
    ("table_key", "change", "where", "message"),
    [
        ("node:User", {"email": "'ann@x'"}, "name = 'bob'", "@unique"),
        ("node:User", {"role": "'king'"}, "name = 'bob'", "enum"),
        ("node:User", {"score": "400"}, "name = 'bob'", "@range"),
        ("node:User", {"badge": "'x'"}, "name = 'bob'", "@check"),
        ("edge:Sits", {"src": "'ann'"}, "src = 'bob'", "@card"),
    ],
)
def test_rows_are_checked_by_the_rules_of_writes(
    tmp_path: Path, table_key: str, change: Mapping[str, str], where: str, message: str
) -> None:
    root = tmp_path / "graph"
    graph = hub_graph(root)
    graph.load(ndjson(edge("Sits", "ann", "d1"), edge("Sits", "bob", "d2")), mode="append")
    assert grave(graph.doctor()) == set()

    lance.dataset(str(table_paths(root)[table_key])).update(dict(change), where=where)
    name_newest(root, table_key)
    broken = [each for each in look(root).findings if each.severity is Severity.ERROR]

    assert [each.code for each in broken] == [FindingKind.RULE_BROKEN]
    assert message in broken[0].message


@pytest.mark.parametrize("lost", ["Alice", "Charlie", "Diana"])
def test_ends_are_found_whatever_part_of_the_ids_they_would_be_in(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    root = copy_of(whole, tmp_path)
    person(root).delete(f"name = '{lost}'")
    name_newest(root, "node:Person")
    expected = [each for each in look(root).findings if each.severity is Severity.ERROR]

    monkeypatch.setattr("omnigraph.engine.maintenance.doctor_tables.EXAMINED_IDS_BYTES_MAX", 1)
    monkeypatch.setattr("omnigraph.engine.maintenance.doctor_tables.EXAMINED_BLOCK_BYTES", 1)
    found = [each for each in look(root).findings if each.severity is Severity.ERROR]

    assert found == expected
    assert all(f"'{lost}' not found in Person" in each.message for each in found)


def test_the_number_of_rows_that_break_a_rule_is_reported_once(whole: Path, tmp_path: Path) -> None:
    root = copy_of(whole, tmp_path)
    table = person(root)
    table.insert(table.to_table(), mode="append")
    name_newest(root, "node:Person")

    repeated = [each for each in look(root).findings if each.code is FindingKind.ID_REPEATED]

    assert len(repeated) == 1
    assert "'Alice' exists more than once; and 3 more" in repeated[0].message


def test_a_type_may_lack_a_property_that_came_later_on_a_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.create_branch("draft")
    graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="draft")
    graph.apply_schema(SOCIAL.replace("age: I32?", "age: I32?  mail: String?"))

    report = graph.doctor()

    assert grave(report) == set()


def test_a_numeric_index_is_checked_with_a_stored_number(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    schema = "node Gauge { code: String @key  level: F64? @index }"
    levels = [float("nan"), None, -0.0, 0.0, 2.5, 2.5]
    gauges = pa.table({"code": [f"g{place}" for place in range(6)], "level": levels})
    graph = build_graph(root, schema)
    graph.load({"Gauge": gauges}, mode="append")
    graph.ensure_indices()
    assert grave(graph.doctor()) == set()

    shutil.rmtree(table_paths(root)["node:Gauge"] / "_indices")
    messages = [
        each.message for each in look(root).findings if each.code is FindingKind.INDEX_DAMAGED
    ]

    assert messages


def test_a_graph_stays_healthy_whatever_is_done_to_it(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    renamed = SOCIAL.replace("age: I32?", 'years: I32? @rename_from("age")').replace(
        "node Company", 'node Firm @rename_from("Company")'
    )
    smaller = "node Person { name: String @key  years: I32? }\nedge Knows: Person -> Person"

    graph.apply_schema(renamed.replace("-> Company", "-> Firm"))
    graph.apply_schema(smaller)
    graph.apply_schema(f"{smaller}\nnode Firm {{ name: String @key }}")
    graph.apply_schema(smaller, allow_data_loss=True)
    graph.create_branch("draft")
    graph.mutate(ANN.replace("age", "years"), branch="draft")
    graph.merge("draft")
    graph.revert(graph.head())
    graph.tag("v1", graph.head())
    graph.delete_branch("draft")
    graph.optimize()
    graph.cleanup(keep=1, older_than=0)

    assert graph.doctor().findings == ()


# Branches


def test_damage_to_a_branch_is_reported_for_that_branch_only(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.create_branch("draft")
    graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="draft")
    shutil.rmtree(table_paths(root_of(graph))["node:Person"] / "tree" / "draft" / "data")

    found = [each for each in graph.doctor().findings if each.severity is Severity.ERROR]

    assert {each.subject for each in found} == {"Person on branch 'draft'"}
    assert {each.code for each in found} == {FindingKind.TYPE_DAMAGED}


@pytest.mark.parametrize("is_original_there", [True, False], ids=["copied", "moved"])
def test_a_moved_or_copied_branch_refers_to_its_original_location(
    tmp_path: Path, *, is_original_there: bool
) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.create_branch("draft")
    graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="draft")
    # A tag on such a branch is readable again after a relocation, so it is not reported.
    graph.tag("kept", graph.head("draft"))
    shutil.copytree(tmp_path / "graph", tmp_path / "other")
    if not is_original_there:
        shutil.rmtree(tmp_path / "graph")

    moved = [each for each in look(tmp_path / "other").findings if each.severity is Severity.ERROR]

    assert [(each.code, each.subject) for each in moved] == [
        (FindingKind.BRANCH_MOVED, "branch 'draft'")
    ]
    assert f"below {tmp_path / 'graph'}, " in moved[0].message


def test_a_link_at_the_original_location_repairs_a_moved_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.create_branch("draft")
    graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="draft")
    rows = contents(graph, "draft")
    (tmp_path / "graph").rename(tmp_path / "other")

    (tmp_path / "graph").symlink_to(tmp_path / "other")

    assert grave(look(tmp_path / "other")) == set()
    assert contents(open_plain(tmp_path / "other"), "draft") == rows


def test_another_path_to_the_same_location_moves_no_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.create_branch("draft")
    graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="draft")
    (tmp_path / "alias").symlink_to(tmp_path / "graph")

    report = look(tmp_path / "alias")

    assert grave(report) == set()


def test_inherited_damage_is_reported_once(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    lose_node(root_of(graph))
    graph.create_branch("draft")

    found = [each for each in look(root_of(graph)).findings if each.severity is Severity.ERROR]

    assert found
    assert all(each.subject.endswith("on main") for each in found)


# Concurrent operations


def test_a_write_under_way_is_not_reported_as_damage(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph")
    failpoints = Failpoints()
    graph = open_with(tmp_path / "graph", failpoints)
    place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER

    with failpoints.activate(place, Park(timeout_s=60)) as parked:
        writing = Thread(target=graph.mutate, args=(ANN,))
        writing.start()
        parked.wait_for_arrival()
        report = look(tmp_path / "graph")
        parked.release()
        writing.join()

    assert FindingKind.WRITE_UNDER_WAY in codes(report)
    assert grave(report) == set()


def test_a_schema_apply_under_way_is_not_reported_as_damage(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph")
    failpoints = Failpoints()
    graph = open_with(tmp_path / "graph", failpoints)
    place = Failpoint.SCHEMA_APPLY_AFTER_STAGING_WRITE

    with failpoints.activate(place, Park(timeout_s=60)) as parked:
        applying = Thread(
            target=graph.apply_schema,
            args=(SOCIAL.replace("age: I32?", "age: I32?  mail: String?"),),
        )
        applying.start()
        parked.wait_for_arrival()
        report = look(tmp_path / "graph")
        parked.release()
        applying.join()

    assert codes(report) >= {FindingKind.WRITE_UNDER_WAY, FindingKind.SCHEMA_UNDER_WAY}
    assert grave(report) == set()


def test_a_transaction_under_way_is_not_reported_as_damage(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")

    with graph.transaction() as transaction:
        transaction.mutate(ANN)
        report = look(tmp_path / "graph")

    assert FindingKind.TRANSACTION_UNDER_WAY in codes(report)
    assert grave(report) == set()
    assert FindingKind.BRANCH_REMAINS not in codes(report)


def test_a_graph_that_others_write_to_all_the_time_is_healthy(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph")
    writer, looker = (open_plain(tmp_path / "graph") for _ in range(2))

    def write() -> None:
        for number in range(25):
            name = f"n{number}"
            writer.load(
                ndjson(node("Person", name=name), edge("Knows", "Alice", name)), mode="append"
            )

    writing = Thread(target=write)
    writing.start()
    reports = []
    while writing.is_alive():
        reports.append(looker.doctor())
    writing.join()

    assert reports
    assert [grave(each) for each in reports] == [set()] * len(reports)


class _EndingLocks:
    """Locks whose holder ends right before the check looks for it."""

    def __init__(self, ended: Path) -> None:
        self._ended = ended

    def hold(self, keys: Iterable[LockKey]) -> NoReturn:
        raise AssertionError(f"a doctor only looks at {list(keys)}")

    def hold_within(self, held: HeldLocks, keys: Iterable[LockKey]) -> NoReturn:
        raise AssertionError(f"a doctor only looks at {list(keys)}, beside {held}")

    def find_holder(self, keys: Iterable[LockKey]) -> None:
        del keys
        for each in [self._ended] if self._ended.is_file() else list(self._ended.glob("*.json")):
            each.unlink()


@pytest.mark.parametrize(
    ("code", "record"),
    [
        (FindingKind.WRITE_LEFT, "__recovery"),
        (FindingKind.TRANSACTION_LEFT, "__transactions"),
        (FindingKind.SCHEMA_LEFT, "_schema.pg.staging"),
    ],
    ids=str,
)
def test_a_record_removed_during_the_check_is_not_reported(
    code: FindingKind, record: str, whole: Path, tmp_path: Path
) -> None:
    root = copy_of(whole, tmp_path)
    DAMAGES[code](root)
    assert (root / record).exists()
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    branch_states = BranchStates(uri=str(root), objects=stores.objects, tables=stores.tables)
    locks = _EndingLocks(root / record)

    report = examine(
        DoctorContext(str(root), stores, branch_states, locks, datetime.now(UTC), is_deep=False)
    )

    assert code not in codes(report)


def test_a_check_on_an_object_store_writes_nothing(server: S3Server) -> None:
    uri, options = f"s3://{server.create_bucket()}/graph", server.lance_options()
    graph = omnigraph.init(uri, schema=SOCIAL, storage_options=options)
    graph.load(ndjson(node("Person", name="Ann")), mode="append")
    graph.create_branch("draft")
    graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="draft")
    with graph.transaction() as transaction:
        transaction.mutate(query('insert Person { name: "Bob" }'))
        during = graph.doctor()

    with server.recording() as requests:
        report = omnigraph.open(uri, read_only=True, storage_options=options).doctor()

    assert grave(report) == grave(during) == set()
    assert FindingKind.TRANSACTION_UNDER_WAY in codes(during)
    assert {each.method for each in requests} <= {"GET", "HEAD"}


# Repairs


def bring_back_schema(root: Path) -> None:
    """The advice about a schema that was edited or exchanged."""
    (advised,) = [each.advice for each in look(root).findings]
    stored = next((root / "__schemas").glob("*.pg"))
    assert f"copy __schemas/{stored.name} over _schema.pg" in advised
    shutil.copy(stored, root / "_schema.pg")
    (root / "_schema.ir.json").unlink()
    (root / "__schema_state.json").unlink()
    open_plain(root)


def refresh(root: Path) -> None:
    """The advice about interrupted operations."""
    assert all("`graph.refresh()`" in each.advice for each in look(root).findings)
    open_plain(root).refresh()


def adopt(root: Path) -> None:
    """The advice about a type with external changes: inspect them first."""
    graph = open_plain(root)
    assert any(each.operations for each in graph.repair())
    graph.repair(confirm=True, force=True)
    # Adopting is a decision of the operator; edges without ends are another finding.
    graph.load(ndjson(node("Person", name="Bob")), mode="merge")


def mutate(root: Path) -> None:
    """The advice about rows that violate a rule."""
    graph = open_plain(root)
    graph.mutate(query('delete Person where name = "Bob" or name = "Robert"'))


def load_nodes(root: Path) -> None:
    """The advice about edges without ends."""
    open_plain(root).load(ndjson(node("Person", name="Bob", age=25)), mode="append")


def clean(root: Path) -> None:
    """The advice about unreferenced rows."""
    open_plain(root).cleanup(keep=10)


def delete_tag(root: Path) -> None:
    """The advice about a dangling tag."""
    open_plain(root).delete_tag("v1")


def optimize(root: Path) -> None:
    """The advice about many files and unindexed rows."""
    open_plain(root).optimize()


def load_again(root: Path) -> None:
    """The advice about an unreadable index."""
    graph = open_plain(root)
    companies = "\n".join(graph.export(types=["Company"]))
    graph.load(io.StringIO(companies), mode="overwrite")
    graph.ensure_indices()


def build_indexes(root: Path) -> None:
    """The advice about missing indexes."""
    open_plain(root).ensure_indices()


def write_once(root: Path) -> None:
    """The advice about records that block no writer."""
    open_plain(root).mutate(ANN)


def move_record(root: Path) -> None:
    """The advice about an unreadable record."""
    for file in (root / "__recovery").glob("*.json"):
        file.unlink()


def delete_claims(root: Path) -> None:
    """The advice about unreadable claims and leases."""
    for file in [*root.glob("__readers/*.json"), *root.glob("__leases/*.json")]:
        file.unlink()


def move_folder(root: Path) -> None:
    """The advice about a folder that never belonged to a type."""
    shutil.move(root / "nodes" / "ffffffffffffffff", root.with_name("moved"))


FIXES: Mapping[FindingKind, Callable[[Path], None]] = {
    FindingKind.SCHEMA_DAMAGED: bring_back_schema,
    FindingKind.SCHEMA_NOT_ACCEPTED: bring_back_schema,
    FindingKind.SCHEMA_INCOMPLETE: refresh,
    FindingKind.SCHEMA_LEFT: refresh,
    FindingKind.WRITE_LEFT: refresh,
    FindingKind.TRANSACTION_LEFT: refresh,
    FindingKind.DRIFT: adopt,
    FindingKind.ID_REPEATED: mutate,
    FindingKind.RULE_BROKEN: mutate,
    FindingKind.ENDPOINT_MISSING: load_nodes,
    FindingKind.RECORD_DAMAGED: move_record,
    FindingKind.TAG_DAMAGED: delete_tag,
    FindingKind.LEASE_DAMAGED: delete_claims,
    FindingKind.CLAIM_DAMAGED: delete_claims,
    FindingKind.BRANCH_REMAINS: clean,
    FindingKind.TYPE_REMAINS: move_folder,
    FindingKind.INDEX_DAMAGED: load_again,
    FindingKind.INDEX_MISSING: build_indexes,
    FindingKind.INDEX_BEHIND: optimize,
    FindingKind.MANY_FILES: optimize,
}


@pytest.mark.parametrize("code", FIXES, ids=str)
def test_the_advised_action_repairs_the_damage(
    code: FindingKind, whole: Path, tmp_path: Path
) -> None:
    root = copy_of(whole, tmp_path)
    DAMAGES[code](root)
    assert code in codes(look(root))

    FIXES[code](root)

    report = look(root)
    assert code not in codes(report)
    assert grave(report) == set()


def test_damage_without_a_repairing_call_is_restored_from_a_copy(
    whole: Path, tmp_path: Path
) -> None:
    fixed_by_hand = set(DAMAGES) - set(FIXES) - {FindingKind.LEASE_LEFT, FindingKind.CLAIM_LEFT}

    for code in sorted(fixed_by_hand):
        root = tmp_path / code
        shutil.copytree(whole, root)
        DAMAGES[code](root)
        (finding, *_) = [each for each in look(root).findings if each.code is code]
        assert "restore" in finding.advice, code


# Reports


def test_a_healthy_graph_is_reported_in_one_line(whole: Path) -> None:
    assert str(look(whole)) == f"{whole} is healthy."


def test_errors_are_listed_first_and_each_finding_has_its_advice(
    whole: Path, tmp_path: Path
) -> None:
    root = copy_of(whole, tmp_path)
    DAMAGES[FindingKind.TRANSACTION_LEFT](root)
    DAMAGES[FindingKind.DRIFT](root)

    headline, first, advice, second, _ = str(look(root)).splitlines()

    assert headline == f"{root} is damaged: 1 error, 1 warning."
    assert first.startswith("error[drift] Person on main: ")
    assert advice.startswith("     -> `graph.repair()`")
    assert second.startswith("warning[transaction_left] ")
