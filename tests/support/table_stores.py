"""Places for tables, on a disk or on S3, and small tables of people to put there.

A place is opened as often as a test likes: two stores of one place are two processes as far as
tables are concerned. Nothing here catches what the store raises.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import lance
import pyarrow as pa
from lance import LanceDataset
from obstore.store import S3Store

from omnigraph.model.errors import ExpectedVersionMismatchError, GraphError
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import StagedWrite, TableRef, TableVersion
from tests.support.lance_probes import keyed_rows
from tests.support.s3_server import S3Server

PEOPLE = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("age", pa.int64())])
PATH = "nodes/people"
MAIN = TableRef(PATH, None)
FEATURE = TableRef(PATH, "feature")

T = TypeVar("T")

Stage = Callable[[LanceTables, TableVersion], StagedWrite]


@dataclass(frozen=True, slots=True)
class Place:
    """Where tables lie, and how Lance reaches them past the store."""

    root: str
    storage_options: Mapping[str, str]
    objects: S3Store | None

    @property
    def is_local(self) -> bool:
        """Whether the place is a folder."""
        return self.objects is None

    def open(self, *, is_durable: bool = False) -> LanceTables:
        """A store that knows nothing yet."""
        return LanceTables(
            self.root,
            storage_options=self.storage_options,
            is_local=self.is_local,
            is_durable=is_durable,
        )

    def open_table(self, at: TableVersion) -> LanceDataset:
        """A version as plain Lance sees it."""
        branch = f"/tree/{at.ref.branch}" if at.ref.branch else ""
        return lance.dataset(
            f"{self.root}/{at.ref.path}{branch}",
            version=at.version,
            storage_options=dict(self.storage_options) or None,
        )

    def remove(self, prefix: str) -> None:
        """Delete everything below a prefix, past the store."""
        if self.objects is None:
            shutil.rmtree(Path(self.root, prefix))
        else:
            found = [each["path"] for page in self.objects.list(prefix) for each in page]
            self.objects.delete(found)


def stage_append(store: LanceTables, at: TableVersion) -> StagedWrite:
    """Zoe comes."""
    return store.stage_append(people(zoe=9), onto=at)


def stage_merge(store: LanceTables, at: TableVersion) -> StagedWrite:
    """Zoe comes and Ann grows older."""
    return store.stage_merge_insert(people(ann=9, zoe=9), onto=at)


def stage_overwrite(store: LanceTables, at: TableVersion) -> StagedWrite:
    """Only Zoe is left."""
    return store.stage_overwrite(people(zoe=9), onto=at)


def stage_delete(store: LanceTables, at: TableVersion) -> StagedWrite:
    """Ann goes."""
    return must(store.stage_delete(pa.array(["ann"]), onto=at))


def publish(store: LanceTables, rows: pa.Table, *, onto: TableVersion) -> TableVersion | None:
    """Publish rows of which `head` is there already; None if another writer was first."""
    staged = store.stage_replacement(rows, replacing=["head"], onto=onto)
    try:
        return store.apply(staged)
    except ExpectedVersionMismatchError:
        return None


@dataclass(frozen=True, slots=True)
class RowVersions:
    """Which row it is to Lance, and when it was written."""

    id: int
    created: int
    updated: int

    def updated_at(self, version: int) -> RowVersions:
        """The same row after a later write."""
        return RowVersions(self.id, self.created, version)


def place_on_disk(folder: Path) -> Place:
    """A folder of its own."""
    return Place(str(folder / "graph"), {}, None)


def place_on_s3(server: S3Server) -> Place:
    """A bucket of its own."""
    bucket = server.create_bucket()
    objects = server.object_store(bucket, prefix="graph")
    return Place(f"s3://{bucket}/graph", server.lance_options(), objects)


def people(**age_by_id: int | None) -> pa.Table:
    """Rows in the order of the arguments."""
    return people_of(list(age_by_id), list(age_by_id.values()))


def people_of(ids: Sequence[str | None], ages: Sequence[int | None]) -> pa.Table:
    """The same for ids that are no names of arguments."""
    return pa.table({"id": ids, "age": ages}, schema=PEOPLE)


def numbered_people(count: int) -> pa.Table:
    """Rows p0, p1 and so on, each as old as its number."""
    return people_of([f"p{number}" for number in range(count)], list(range(count)))


def create_people(store: LanceTables, **age_by_id: int | None) -> TableVersion:
    """A table of people at version 1."""
    return store.create(PATH, people(**age_by_id), config={})


def create_keyed(store: LanceTables, **value_by_id: int) -> TableVersion:
    """A table that can be published to, at version 1."""
    return store.create("__manifest", keyed_rows(**value_by_id), config={})


def append(store: LanceTables, at: TableVersion, **age_by_id: int | None) -> TableVersion:
    """The next version of a table of people, with more of them."""
    return store.apply(store.stage_append(people(**age_by_id), onto=at))


def ages(store: LanceTables, at: TableVersion) -> dict[str, int]:
    """The age of every person; fails if a person exists twice."""
    return _pairs(store.scan(at, columns=["id", "age"], predicate=None), "id", "age")


def values(store: LanceTables, at: TableVersion) -> dict[str, int]:
    """The value of every key of a published table; fails when a key is there twice."""
    rows = store.scan(at, columns=["object_id", "value"], predicate=None)
    return _pairs(rows, "object_id", "value")


def row_versions(place: Place, at: TableVersion) -> dict[str, RowVersions]:
    """What Lance knows of each row besides its values."""
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    found = place.open_table(at).scanner(columns=columns, with_row_id=True).to_table()
    return {
        row["id"]: RowVersions(
            row["_rowid"], row["_row_created_at_version"], row["_row_last_updated_at_version"]
        )
        for row in found.to_pylist()
    }


def must(staged: StagedWrite | None) -> StagedWrite:
    """A staged write that there has to be."""
    assert staged is not None
    return staged


def race(work: Sequence[Callable[[], T]]) -> list[T | GraphError]:
    """Do everything at the same moment; what each returned or raised, but for those with None."""
    start = threading.Barrier(len(work))
    outcomes: list[T | GraphError | None] = [None] * len(work)

    def run(number: int) -> None:
        start.wait()
        try:
            outcomes[number] = work[number]()
        except GraphError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcome for outcome in outcomes if outcome is not None]


def _pairs(rows: pa.Table, key: str, value: str) -> dict[str, int]:
    pairs = dict(zip(rows[key].to_pylist(), rows[value].to_pylist(), strict=True))
    assert len(pairs) == len(rows), "a key is there twice"
    return pairs
