"""The storage check: a sound storage passes, each defect is named, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.errors import GraphError
from omnigraph.storage.check import CHECK_PREFIX, CheckReport, check_storage, open_durably
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore
from tests.support.control_objects import local_location, s3_location
from tests.support.defective_objects import Defect, defective
from tests.support.s3_faults import FaultyS3, RequestFault, Scope, Way, serve_faulty_s3
from tests.support.s3_server import S3Server, serve_s3

ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
PROBES = {
    "access",
    "read-after-write",
    "listing",
    "create-if-absent",
    "replace-if-match",
    "racing creates",
    "racing replaces",
    "whole objects",
    "large objects",
    "locks",
    "clean-up",
}

# What each defect breaks; on a disk, because there a defect breaks nothing else.
BROKEN_BY_DEFECT = {
    Defect.CREATE_OVERWRITES: {"create-if-absent", "racing creates"},
    Defect.MATCH_OVERWRITES: {"replace-if-match", "racing replaces"},
    Defect.REFUSAL_WRITES: {"replace-if-match", "racing replaces"},
    Defect.REFUSES_ALL: {
        "create-if-absent",
        "replace-if-match",
        "racing creates",
        "racing replaces",
    },
    Defect.CHECKS_FIRST: {"racing creates", "racing replaces"},
    Defect.STALE_READS: {"read-after-write"},
    Defect.LAGGING_LISTINGS: {"listing", "clean-up"},
    Defect.OTHER_TAGS: {"listing"},
    Defect.TORN_WRITES: {"whole objects"},
    Defect.SHORT_UPLOADS: {"large objects"},
    Defect.CACHED_READS: {"flush and rename"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module; every test has a bucket of its own."""
    with serve_s3() as running:
        yield running


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyS3]:
    """An endpoint that fails on demand and supports no multipart uploads."""
    with serve_faulty_s3() as running:
        yield running


# Sound storages


def test_a_folder_of_a_disk_passes_every_probe(tmp_path: Path) -> None:
    trial = _try(local_location(tmp_path))

    assert trial.is_passed
    assert {each.name for each in trial.probed} == PROBES | {"flush and rename"}


def test_a_graph_in_memory_passes_every_probe() -> None:
    trial = _try(parse_location("memory://probed", storage_options={}))

    assert trial.is_passed
    assert trial.uri == "memory://probed"


def test_a_bucket_passes_every_check_with_multipart_uploads_too(server: S3Server) -> None:
    location = s3_location(server, bucket=server.create_bucket())

    with server.recording() as requests:
        trial = _try(location)

    assert trial.is_passed
    assert {each.name for each in trial.probed} == PROBES
    assert any("uploadId" in each.query for each in requests)


# Defects


@pytest.mark.parametrize("defect", BROKEN_BY_DEFECT)
def test_a_defect_fails_the_probes_of_what_it_breaks_and_no_other(
    defect: Defect, tmp_path: Path
) -> None:
    trial = check_storage(local_location(tmp_path), id=ID, open_store=defective(defect))

    assert _failed(trial) == BROKEN_BY_DEFECT[defect]
    assert not trial.is_passed
    assert all(each.problem and each.advice for each in trial.probed if not each.is_ok)
    assert list(tmp_path.iterdir()) == []


def test_locks_that_exclude_no_process_are_detected_in_a_bucket(server: S3Server) -> None:
    location = s3_location(server, bucket=server.create_bucket())

    trial = check_storage(location, id=ID, open_store=defective(Defect.FORGETS_LEASES))

    assert "locks" in _failed(trial)
    assert _is_empty(location)


def test_objects_that_cannot_be_deleted_are_reported_with_their_paths(tmp_path: Path) -> None:
    location = local_location(tmp_path)

    trial = check_storage(location, id=ID, open_store=defective(Defect.KEEPS_DELETED))

    removed = trial.probed[-1]
    assert (removed.name, removed.is_ok) == ("clean-up", False)
    assert f"{tmp_path}/{CHECK_PREFIX}/{ID}" in f"{removed.problem} {removed.advice}"


def test_a_bucket_without_multipart_uploads_is_detected(faulty: FaultyS3) -> None:
    faulty.start_over({"_schema.pg": b"kept"})

    trial = _try(parse_location(faulty.uri, storage_options=faulty.options))

    assert _failed(trial) == {"large objects"}
    assert faulty.stored() == {"_schema.pg": b"kept"}


# Unusable places


def test_a_missing_bucket_is_reported_once_and_no_other_check_runs(
    server: S3Server,
) -> None:
    trial = _try(s3_location(server, bucket="no-such-bucket"))

    assert not trial.is_complete
    assert not trial.is_passed
    assert "the bucket does not exist" in str(trial.probed[0].problem)
    assert {each.name for each in trial.probed} <= {"access", "clean-up"}
    advice = str(trial.probed[0].advice)
    assert "AWS_ACCESS_KEY_ID" in advice
    assert "AWS_ENDPOINT_URL_S3" in advice


def test_a_file_in_place_of_the_folder_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "graph").write_bytes(b"kept")

    trial = _try(local_location(tmp_path / "graph"))

    assert "a file is where a folder is needed" in str(trial.probed[0].problem)
    assert (tmp_path / "graph").read_bytes() == b"kept"


# Leftovers


def test_a_missing_folder_is_not_left_behind(tmp_path: Path) -> None:
    trial = _try(local_location(tmp_path / "new" / "graph"))

    assert trial.is_passed
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_neither_read_nor_changed(tmp_path: Path) -> None:
    objects = open_objects(local_location(tmp_path), is_durable=True)
    for path in ("_schema.pg", f"{CHECK_PREFIX}/other/whole", "races/number"):
        objects.put(path, b"kept")
    before = _read_files(tmp_path)

    trial = _try(local_location(tmp_path))

    assert trial.is_passed
    assert _read_files(tmp_path) == before


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    calls = iter(range(1000))

    def open_store(location: Location) -> ObjectStore:
        # Clients are opened throughout: the tenth is in the middle of the probes.
        if next(calls) == 10:
            raise KeyboardInterrupt
        return open_durably(location)

    with pytest.raises(KeyboardInterrupt):
        check_storage(local_location(tmp_path / "graph"), id=ID, open_store=open_store)

    assert list(tmp_path.iterdir()) == []


def test_a_storage_failure_at_any_call_is_reported_and_cleaned_up(faulty: FaultyS3) -> None:
    for at in (1, 20, 80, 140):
        faulty.start_over({"_schema.pg": b"kept"})
        location = parse_location(faulty.uri, storage_options=faulty.options)

        with faulty.failing(RequestFault(at=at, way=Way.REFUSED, scope=Scope.ALL)):
            trial = _try(location)

        assert _failed(trial) - {"large objects"}, at
        assert faulty.stored() == {"_schema.pg": b"kept"}, at


def test_a_place_that_cannot_be_named_is_refused_before_anything_is_done() -> None:
    with pytest.raises(GraphError):
        _try(parse_location("s3://", storage_options={}))


def _try(location: Location) -> CheckReport:
    return check_storage(location, id=ID, open_store=open_durably)


def _failed(trial: CheckReport) -> set[str]:
    return {each.name for each in trial.probed if not each.is_ok}


def _is_empty(location: Location) -> bool:
    found = open_durably(location).list("")
    return not found.token_by_name and not found.prefixes


def _read_files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
