"""Sidecars: what a write leaves on disk while it is under way."""

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from omnigraph.engine.commit.sidecar import (
    Pin,
    Sidecar,
    WriterKind,
    decode_sidecar,
    encode_sidecar,
    sidecar_path,
)
from omnigraph.engine.state.history import Ancestor, CommitNotes, Resolution
from omnigraph.model.errors import CorruptError

SIDECAR = Sidecar(
    operation_id="01J00000000000000000000000",
    started_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    branch="main",
    actor="ann",
    writer_kind=WriterKind.LOAD,
    commit_id="01J00000000000000000000001",
    rollback_commit_id="01J00000000000000000000002",
    schema_hash="sha256:00",
    pins=(
        Pin(
            table_key="node:Person",
            table_path="nodes/0011223344556677",
            table_branch=None,
            expected_version=4,
            post_commit_version=5,
            transaction_uuid="2f1f8d0e-0000-4000-8000-000000000000",
            row_count=12,
        ),
    ),
    relied_on={"node:Company": 2, "node:Person": 4},
)


@pytest.mark.parametrize(
    "sidecar",
    [
        SIDECAR,
        replace(SIDECAR, actor=None, pins=(), relied_on={}),
        replace(SIDECAR, branch="feature/x", writer_kind=WriterKind.MUTATION),
        replace(
            SIDECAR,
            writer_kind=WriterKind.BRANCH_MERGE,
            merged_parent_id="01J00000000000000000000003",
            notes=CommitNotes(
                resolutions=(Resolution("Person", "ann", "source"),),
                brought=(Ancestor("01J00000000000000000000003", "feature", 7, ("x", "y")),),
            ),
        ),
        replace(SIDECAR, notes=CommitNotes(reverted_id="x")),
        replace(SIDECAR, notes=CommitNotes(picked_id="x")),
    ],
)
def test_a_sidecar_is_read_back_as_it_was_written(sidecar: Sidecar) -> None:
    content = encode_sidecar(sidecar)

    assert decode_sidecar(content, path=sidecar_path(sidecar.operation_id)) == sidecar


def test_a_sidecar_of_another_format_is_refused_by_its_number() -> None:
    document = {**orjson.loads(encode_sidecar(SIDECAR)), "schema_version": 99}

    with pytest.raises(CorruptError, match=r"format 99.*reads 2"):
        decode_sidecar(orjson.dumps(document), path="__recovery/x.json")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"schema_version":2}'])
def test_a_file_that_is_not_a_sidecar_is_refused_by_its_path(content: bytes) -> None:
    with pytest.raises(CorruptError, match=r"__recovery/x\.json"):
        decode_sidecar(content, path="__recovery/x.json")


@pytest.mark.parametrize(
    "name", sorted(orjson.loads(encode_sidecar(SIDECAR)).keys() - {"schema_version"})
)
def test_a_sidecar_without_one_of_its_fields_is_refused(name: str) -> None:
    document = orjson.loads(encode_sidecar(SIDECAR))
    del document[name]

    with pytest.raises(CorruptError):
        decode_sidecar(orjson.dumps(document), path="__recovery/x.json")


@pytest.mark.parametrize(
    "broken",
    [
        {"merge_source_commit_id": 1},
        {"reverted_commit_id": 1},
        {"picked_commit_id": []},
        {"resolutions": {}},
        {"resolutions": [["Person", "ann"]]},
        {"brought": [["x", "feature", "7", []]]},
    ],
)
def test_a_sidecar_with_a_note_of_another_type_is_refused(broken: dict[str, object]) -> None:
    document = {**orjson.loads(encode_sidecar(SIDECAR)), **broken}

    with pytest.raises(CorruptError):
        decode_sidecar(orjson.dumps(document), path="__recovery/x.json")
