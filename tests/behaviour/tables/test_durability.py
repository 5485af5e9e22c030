"""Acknowledged writes survive a loss of power: every file of a version is flushed, in order.

The tests read the system calls; where strace is missing or not permitted, they read the calls of
the flushing function.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.model.errors import CorruptError
from omnigraph.storage.fsync import Durability, flush_path
from tests.support.lance_probes import files_of
from tests.support.source_tree import ROOT
from tests.support.table_stores import (
    PATH,
    create_people,
    people,
    place_on_disk,
)

# Each step is marked by a stat of a missing file.
WRITES = """
import os
import sys
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from omnigraph.storage.ports import TableVersion
from omnigraph.storage.ports import IndexKind, IndexSpec
from tests.support.lance_probes import keyed_rows
from tests.support.table_stores import *

def step(name):
    os.access(f"/step/{name}", os.F_OK)

store = place_on_disk(Path(sys.argv[1])).open(is_durable=sys.argv[2] == "durable")
step("create")
at = create_people(store, ann=1, bob=2)
blobs = pa.table({"id": ["a"], "blob": pa.array([b"x" * 100_000], pa.large_binary())})
store.create("nodes/blobs", blobs, config={"a": "b"})
keyed = create_keyed(store, head=0)
step("stage")
staged = store.stage_merge_insert(people(ann=9, zoe=1), onto=at)
step("apply")
at = store.apply(staged)
step("apply-again")
at = append(store, at, cyd=3)
step("publish")
keyed = publish(store, keyed_rows(head=1, a=1), onto=keyed)
keyed = publish(store, keyed_rows(head=2, b=1), onto=keyed)
step("compact")
keyed = store.compact(keyed, rows_per_fragment=1024)
step("index")
at = store.apply(store.stage_indexes([IndexSpec("id", IndexKind.BTREE)], onto=at))
step("fork")
branch = store.fork(at, branch="team/feature")
append(store, TableVersion(branch, at.version), dan=4)
step("restore")
store.restore(TableVersion(MAIN, 1), uuid=str(uuid4()))
step("end")
"""

CALLS = "fsync,linkat,renameat,access"
FLUSHED = re.compile(r"\bfsync\(\d+<([^>]+)>\) += 0$", re.MULTILINE)
STEP = re.compile(r'access\("/step/([\w-]+)"')
VERSION_MADE = re.compile(r'linkat\(.*"([^"]*/_versions/\d+\.manifest)", 0\) += 0$', re.MULTILINE)

# A hint saves a listing, and Lance does without it.
HINT = "latest_version_hint.json"


def trace(folder: Path, durability: str) -> dict[str, str]:
    """The system calls of the writes above, by step."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    record = folder / "strace.txt"
    strace = ["strace", "-f", "-y", "-qq", "-o", str(record), "-e", f"trace={CALLS}"]
    command = [*strace, sys.executable, "-c", WRITES, str(folder), durability]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("tracing is not permitted here")
    assert done.returncode == 0, done.stderr
    _, *parts = STEP.split(record.read_text())
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the durable writes go."""
    return tmp_path_factory.mktemp("durable")


@pytest.fixture(scope="module")
def calls(root: Path) -> dict[str, str]:
    """The system calls of durable writes, by step."""
    return trace(root, "durable")


def test_every_file_and_folder_is_flushed(calls: dict[str, str], root: Path) -> None:
    flushed = set(FLUSHED.findall("".join(calls.values())))

    graph = root / "graph"
    files = {f"{graph}/{file}" for file in files_of(str(graph)) if not file.endswith(HINT)}
    above = {str(above) for file in files for above in Path(file).parents if above != graph}
    assert not files - flushed
    assert not {folder for folder in above if folder.startswith(str(graph))} - flushed


def test_staging_alone_flushes_nothing(calls: dict[str, str]) -> None:
    assert not FLUSHED.findall(calls["stage"])


@pytest.mark.parametrize("step", ["apply", "apply-again", "compact", "index"])
def test_rows_are_on_the_disk_before_a_version_names_them(calls: dict[str, str], step: str) -> None:
    before, made, after = VERSION_MADE.split(calls[step])

    flushed = FLUSHED.findall(before)
    assert flushed
    assert any("/data/" in path or "/_indices/" in path for path in flushed)
    assert not [path for path in FLUSHED.findall(after) if "/data/" in path]
    assert made in FLUSHED.findall(after)


def test_a_version_is_on_the_disk_before_it_is_acknowledged(calls: dict[str, str]) -> None:
    for step, text in calls.items():
        made = VERSION_MADE.findall(text)

        assert not set(made) - set(FLUSHED.findall(text)), step


@pytest.mark.parametrize(("step", "at_most"), [("apply-again", 6), ("compact", 6), ("restore", 4)])
def test_nothing_is_flushed_that_need_not_be(
    calls: dict[str, str], step: str, at_most: int
) -> None:
    assert len(FLUSHED.findall(calls[step])) <= at_most


def test_relaxed_writes_flush_nothing(tmp_path: Path) -> None:
    calls = trace(tmp_path, "relaxed")

    assert VERSION_MADE.findall("".join(calls.values()))
    assert not FLUSHED.findall("".join(calls.values()))


def test_a_write_with_missing_files_is_refused_before_it_breaks_the_table(
    tmp_path: Path,
) -> None:
    place = place_on_disk(tmp_path)
    store = place.open(is_durable=True)
    at = create_people(store, ann=1)
    staged = store.stage_append(people(bob=2), onto=at)
    for file in staged.files:
        Path(place.root, PATH, file).unlink()

    with pytest.raises(CorruptError, match="missing"):
        store.apply(staged)

    assert store.find_head(at.ref) == 1


# The flushing itself


class Recorded:
    """Flushes, and records the flushed paths in order."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.paths: list[str] = []

    def __call__(self, path: Path) -> None:
        flush_path(path)
        self.paths.append(str(path.relative_to(self._root)))


def write(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(b"x")


def test_files_come_before_the_folders_that_name_them(tmp_path: Path) -> None:
    write(tmp_path, "t/data/1.lance", "t/data/2.lance", "t/_deletions/1.arrow")
    recorded = Recorded(tmp_path)

    disk = Durability(tmp_path, flush=recorded)
    disk.secure(["t/data/1.lance", "t/data/2.lance", "t/_deletions/1.arrow"])

    assert recorded.paths[:3] == ["t/data/1.lance", "t/data/2.lance", "t/_deletions/1.arrow"]
    assert set(recorded.paths[3:]) == {"t/data", "t/_deletions", "t", "."}


def test_folders_above_are_flushed_once(tmp_path: Path) -> None:
    write(tmp_path, "t/data/1.lance", "t/data/2.lance")
    recorded = Recorded(tmp_path)
    disk = Durability(tmp_path, flush=recorded)
    disk.secure(["t/data/1.lance"])
    recorded.paths.clear()

    disk.secure(["t/data/2.lance"])

    assert recorded.paths == ["t/data/2.lance", "t/data"]


def test_parent_folders_are_flushed_again_when_a_folder_was_recreated(tmp_path: Path) -> None:
    write(tmp_path, "t/data/1.lance")
    recorded = Recorded(tmp_path)
    disk = Durability(tmp_path, flush=recorded)
    disk.secure(["t/data/1.lance"])
    recorded.paths.clear()
    (tmp_path / "t/data").rename(tmp_path / "t/old")
    write(tmp_path, "t/data/2.lance")

    disk.secure(["t/data/2.lance"])

    assert recorded.paths == ["t/data/2.lance", "t/data", "t"]


def test_a_recreated_tree_is_flushed_whole(tmp_path: Path) -> None:
    write(tmp_path, "t/data/1.lance", "t/data/1/a.blob")
    recorded = Recorded(tmp_path)
    disk = Durability(tmp_path, flush=recorded)
    disk.secure_tree("t")
    first = sorted(recorded.paths)
    recorded.paths.clear()

    disk.secure_tree("t")

    assert sorted(recorded.paths) == first
    assert first == [".", "t", "t/data", "t/data/1", "t/data/1.lance", "t/data/1/a.blob"]


def test_blobs_beside_a_file_are_flushed_with_it(tmp_path: Path) -> None:
    write(tmp_path, "t/data/1.lance", "t/data/1/a.blob", "t/data/2/b.blob")
    recorded = Recorded(tmp_path)

    Durability(tmp_path, flush=recorded).secure(["t/data/1.lance"])

    assert recorded.paths[:2] == ["t/data/1.lance", "t/data/1/a.blob"]
    assert "t/data/1" in recorded.paths
    assert not [path for path in recorded.paths if path.startswith("t/data/2")]
