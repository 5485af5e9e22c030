"""What reaches the disk, seen from the system calls: nothing is flushed, manifests are linked.

A write is acknowledged only after we flushed it ourselves; the files and the two ways by which they
appear under their names are pinned here. Skipped where strace is missing or not permitted.
"""

import re
import shutil
import subprocess
import sys

import pytest

from tests.support.source_tree import ROOT

WRITES = """
import sys
from contextlib import nullcontext
from pathlib import Path

import lance
from lance import LanceDataset
from obstore.store import LocalStore
from tests.support.lance_probes import apply, create_table, keyed_rows, publish, stage_append

root = Path(sys.argv[1])
uri = create_table(root / "plain", keyed_rows(a=1))
apply(uri, stage_append(b=2)(lance.dataset(uri)))
publish(lance.dataset(uri), a=3)

uri = create_table(root / "locked", keyed_rows(a=1))
staged = stage_append(b=2)(lance.dataset(uri))
LanceDataset.commit(uri, staged, max_retries=0, commit_lock=lambda version: nullcontext())

objects = LocalStore(root / "objects", mkdir=True)
objects.put("replaced.json", b"1")
objects.put("created.json", b"1", mode="create")
"""

CALLS = "fsync,fdatasync,sync,syncfs,sync_file_range,msync,rename,renameat,renameat2,link,linkat"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The system calls of the writes above, one a line."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    folder = tmp_path_factory.mktemp("traced")
    record = folder / "strace.txt"
    strace = ["strace", "-f", "-qq", "-o", str(record), "-e", f"trace={CALLS}"]
    command = [*strace, sys.executable, "-c", WRITES, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("tracing is not permitted here")
    assert done.returncode == 0, done.stderr
    return record.read_text()


def test_nothing_is_flushed(trace: str) -> None:
    assert "rename" in trace
    assert not re.findall(r"\b(?:f|fdata|m)?sync\w*\(", trace)


def test_a_manifest_is_linked_into_place_so_two_cannot_take_one_version(trace: str) -> None:
    calls = moves(trace, to=r"plain/_versions/\d+\.manifest")

    assert calls == ["linkat"] * 3


def test_under_a_commit_lock_a_manifest_replaces_whatever_is_there(trace: str) -> None:
    # The table is born without the lock; the second version is written under it.
    calls = moves(trace, to=r"locked/_versions/\d+\.manifest")

    assert calls == ["linkat", "rename"]


def test_a_data_file_appears_complete_under_its_name(trace: str) -> None:
    calls = moves(trace, to=r"plain/data/\w+\.lance")

    assert calls == ["renameat"] * 3


def test_an_object_is_renamed_into_place_and_a_new_one_linked(trace: str) -> None:
    assert moves(trace, to=r"objects/replaced\.json") == ["rename"]
    assert moves(trace, to=r"objects/created\.json") == ["linkat"]


def moves(trace: str, *, to: str) -> list[str]:
    """The calls that gave a file its name, in order."""
    pattern = rf'\b(\w+)\([^\n]*"[^"\n]*/{to}"(?:, \w+)?\) += 0$'
    return re.findall(pattern, trace, re.MULTILINE)
