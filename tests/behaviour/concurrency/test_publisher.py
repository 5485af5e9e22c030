"""The publisher: one writer of a branch at a time publishes, only onto the state it captured."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.commit.publish import PublishRequest, choose_tier, compact_manifest, publish
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.branch_state import BranchStates
from omnigraph.engine.state.manifest import (
    Change,
    Entry,
    ManifestState,
    Register,
    Tombstone,
    Update,
)
from omnigraph.errors import (
    CorruptError,
    ExpectedVersionMismatchError,
    NotFoundError,
    PreconditionFailedError,
    ReadSetChangedError,
)
from omnigraph.model.limits import MANIFEST_FRAGMENTS_MAX, PUBLISHER_RETRY_BUDGET
from omnigraph.model.names import MAIN
from omnigraph.model.runtime import SystemRuntime
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import hold_nothing
from omnigraph.storage.ports import Stores
from tests.support.failpoints import Failpoints, fail_times
from tests.support.manifests import FILE

PERSON = "node:Person"


@dataclass(frozen=True)
class Branch:
    """Everything a publish on `main` needs."""

    stores: Stores
    branch_states: BranchStates
    failpoints: Failpoints

    @property
    def state(self) -> ManifestState:
        """The current state."""
        return self.branch_states.state(MAIN)

    def publish(
        self,
        *changes: Change,
        expected: dict[str, int] | None = None,
        head: str | None = None,
        onto: ManifestState | None = None,
    ) -> ManifestState:
        """Publish changes as a commit of their own."""
        intent = PublishRequest(
            changes=changes,
            expected=expected or {},
            expected_head=head,
            commit_id=SystemRuntime().new_id(),
            created_at=datetime.now(UTC),
            actor=None,
            merged_parent_id=None,
            schema_hash=self.state.head.schema_hash or "",
        )
        published = publish(
            intent,
            onto=onto or self.state,
            held=hold_nothing(),
            branch_states=self.branch_states,
            tables=self.stores.tables,
            failpoints=self.failpoints,
        )
        compact_manifest(published, branch_states=self.branch_states, tables=self.stores.tables)
        return published

    def reread(self) -> ManifestState:
        """The state that a newly opened graph sees."""
        return make_branch_states(self.stores).state(MAIN)


def make_branch(root: Path) -> Branch:
    """The main branch of a new graph."""
    omnigraph.init(str(root), "node Person { name: String @key }  node Pet { name: String @key }")
    stores = open_stores(make_settings(str(root), storage_options=None, durability="relaxed"))
    return Branch(stores, make_branch_states(stores), Failpoints())


def make_branch_states(stores: Stores) -> BranchStates:
    """One that knows nothing yet."""
    return BranchStates(uri="", objects=stores.objects, tables=stores.tables)


def update(branch: Branch, version: int, *, row_count: int = 0, line: str | None = None) -> Update:
    """An update of Person to this version."""
    path = branch.state.path_by_table[PERSON]
    return Update(Entry(PERSON, path, version, line, row_count), FILE)


def test_b01_a_publish_moves_the_pin_and_adds_one_commit(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    before = branch.state

    after = branch.publish(update(branch, 2), expected={PERSON: 1})

    assert after.at.version == before.at.version + 1
    assert after.snapshot.get(PERSON).version == 2
    assert after.head.parent_id == before.head.id
    assert after.head.manifest_version == after.at.version


def test_a_publishers_cached_state_is_what_others_read(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    branch.publish(update(branch, 2, row_count=3))

    remembered = branch.publish(Tombstone(PERSON, 3))

    assert remembered == branch.reread() == branch.state


@pytest.mark.parametrize(
    ("table_key", "expected", "actual"),
    [
        pytest.param(PERSON, 7, 1, id="B02"),
        pytest.param("node:Pet", 2, 1, id="a type that the write does not change"),
        pytest.param("node:Nope", 1, 0, id="B04"),
    ],
)
def test_a_publish_that_expects_another_version_changes_nothing(
    tmp_path: Path, table_key: str, expected: int, actual: int
) -> None:
    branch = make_branch(tmp_path)
    before = branch.state

    with pytest.raises(ExpectedVersionMismatchError) as caught:
        branch.publish(update(branch, 2), expected={table_key: expected})

    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == (
        table_key,
        expected,
        actual,
    )
    assert branch.reread() == before


def test_b05_a_dropped_type_is_expected_at_its_tombstone(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    branch.publish(Tombstone(PERSON, 2))

    with pytest.raises(ExpectedVersionMismatchError) as caught:
        branch.publish(update(branch, 3), expected={PERSON: 1})

    assert caught.value.actual == 2
    assert branch.publish(update(branch, 3), expected={PERSON: 2}).version_of(PERSON) == 3


def test_b07_a_version_is_published_once(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    before = branch.publish(update(branch, 2, row_count=1))

    for again in (2, 1):
        with pytest.raises(CorruptError, match="already is"):
            branch.publish(update(branch, again, row_count=9))

    assert branch.reread() == before


def test_b07_a_version_is_published_once_in_a_commit_too(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)

    with pytest.raises(CorruptError, match="twice in one commit"):
        branch.publish(update(branch, 2), update(branch, 2))


def test_b08_a_table_is_handed_over_to_its_table_branch(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    branch.publish(update(branch, 2, row_count=5))

    after = branch.publish(update(branch, 2, row_count=5, line="b"))

    assert after.snapshot.get(PERSON).branch == "b"
    assert after == branch.reread()
    with pytest.raises(CorruptError):
        branch.publish(update(branch, 2, row_count=6, line="c"))


def test_a_type_is_registered_where_it_is(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    entry = Entry("node:New", "nodes/new", 1, None, 0)

    after = branch.publish(Update(entry, FILE), Register("node:New", "nodes/new"))

    assert after.snapshot.get("node:New") == entry
    assert after == branch.reread()


def test_a_type_is_not_registered_in_a_second_place(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)

    with pytest.raises(ReadSetChangedError):
        branch.publish(Register(PERSON, "nodes/elsewhere"))
    with pytest.raises(CorruptError, match="no place"):
        branch.publish(Update(Entry("node:New", "", 1, None, 0), FILE))
    with pytest.raises(CorruptError, match="no place"):
        branch.publish(Tombstone("node:New", 1))


def test_a_type_is_dropped_once(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    branch.publish(Tombstone(PERSON, 2))

    with pytest.raises(CorruptError, match="already gone"):
        branch.publish(Tombstone(PERSON, 2))


def test_b13_a_publisher_with_an_old_view_takes_the_newest_head_for_its_parent(
    tmp_path: Path,
) -> None:
    branch = make_branch(tmp_path)
    old = branch.state
    first = branch.publish(update(branch, 2))

    second = branch.publish(Tombstone("node:Pet", 2), onto=old)

    assert second.head.parent_id == first.head.id
    assert second.head.manifest_version == second.at.version
    assert second == branch.reread()


def test_a_publisher_with_an_old_view_checks_its_expectations_again(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    old = branch.state
    newest = branch.publish(update(branch, 2))

    with pytest.raises(ExpectedVersionMismatchError):
        branch.publish(update(branch, 3), expected={PERSON: 1}, onto=old)

    assert branch.reread() == newest


def test_a_publisher_with_an_expected_head_is_refused_at_another(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    old = branch.state
    branch.publish(update(branch, 2))

    with pytest.raises(PreconditionFailedError):
        branch.publish(Tombstone("node:Pet", 2), head=old.head.id, onto=old)


def test_b11_a_publisher_that_was_not_first_retries(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)

    contention = Failpoint.PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION
    with branch.failpoints.activate(contention, fail_times(PUBLISHER_RETRY_BUDGET)) as point:
        after = branch.publish(update(branch, 2))

    assert point.arrivals == PUBLISHER_RETRY_BUDGET + 1
    assert after.snapshot.get(PERSON).version == 2


def test_a_publisher_that_is_never_first_gives_up(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    before = branch.state

    contention = Failpoint.PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION
    with (
        branch.failpoints.activate(contention, fail_times(PUBLISHER_RETRY_BUDGET + 1)),
        pytest.raises(ReadSetChangedError, match="refresh and retry"),
    ):
        branch.publish(update(branch, 2))

    assert branch.reread() == before


def test_the_manifest_stays_in_few_files_however_long_the_history(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)

    for version in range(2, 3 * MANIFEST_FRAGMENTS_MAX):
        branch.publish(update(branch, version))

    files = branch.stores.tables.fragment_row_counts(branch.state.at)
    assert len(files) <= MANIFEST_FRAGMENTS_MAX
    assert branch.reread() == branch.state
    assert [commit.manifest_version for commit in branch.branch_states.commits(MAIN)] == sorted(
        {commit.manifest_version for commit in branch.branch_states.commits(MAIN)}
    )


def test_every_commit_of_a_long_history_can_be_read_again(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    for version in range(2, 2 * MANIFEST_FRAGMENTS_MAX):
        branch.publish(update(branch, version))

    pins = [
        branch.branch_states.state_at(MAIN, commit.manifest_version).snapshot.get(PERSON).version
        for commit in branch.branch_states.commits(MAIN)
    ]

    assert pins == list(range(1, 2 * MANIFEST_FRAGMENTS_MAX))


def test_a_version_of_the_manifest_that_never_was_is_not_found(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)

    with pytest.raises(NotFoundError):
        branch.branch_states.state_at(MAIN, 99)


def test_a_publisher_that_meets_a_compaction_retries(tmp_path: Path) -> None:
    branch = make_branch(tmp_path)
    for version in range(2, 6):
        branch.publish(update(branch, version))
    old = branch.state
    branch.stores.tables.compact(old.at, rows_per_fragment=1024)

    after = branch.publish(update(branch, 6), onto=old)

    assert after.head.manifest_version == after.at.version == old.at.version + 2
    assert branch.branch_states.state_at(MAIN, after.head.manifest_version) == after


def test_large_files_of_the_manifest_are_not_written_again() -> None:
    small, full = MANIFEST_FRAGMENTS_MAX, MANIFEST_FRAGMENTS_MAX // 2

    assert choose_tier((1,) * small) == 1024
    assert choose_tier((2000,) * full + (1,) * small) == 1024
    assert choose_tier((2000,) * (full + 1) + (1,) * small) == 1024 * 16
