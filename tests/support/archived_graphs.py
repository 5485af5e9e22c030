"""Graph directories that an earlier version wrote, kept as archives and unpacked for a test.

Lance notes in a branch the absolute path of what it was made from, so a graph with branches works
only where it was written. Archives therefore say where that was, and are unpacked at a path of the
same length, by which every mention of the old one is replaced.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.graphs import Contents
from tests.support.source_tree import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "graphs"
ARCHIVES = sorted(FOLDER.glob("*.tar.gz"))

WHOLE, STOPPED, EXPECTED = "whole", "stopped", "expected.json"


@dataclass(frozen=True, slots=True)
class Archive:
    """An unpacked archive: two graphs, and what their writer saw in them.

    `by_branch` are the rows of the whole graph now, `by_commit` those after each commit of main,
    `commits` its commits with their parents. `before` and `after` are the rows of the graph whose
    writer was interrupted, without what it wrote and with it.
    """

    whole: Path
    stopped: Path
    by_branch: Mapping[str, Contents]
    by_commit: Mapping[str, Contents]
    commits: list[list[str | None]]
    tags: Mapping[str, str]
    sources: Mapping[str, str]
    before: Contents
    after: Contents


def make_root() -> Path:
    """A new directory whose path is as long as that of every other one."""
    return Path(tempfile.mkdtemp(prefix="omnigraph-kept-", dir="/tmp"))


@contextmanager
def unpacked(archive: Path) -> Iterator[Archive]:
    """The graphs of an archive, for the block."""
    with _unpacked_files(archive) as (root, written):
        yield Archive(whole=root / WHOLE, stopped=root / STOPPED, **written)


@contextmanager
def date64_graph() -> Iterator[Path]:
    """A graph with `DateTime` columns of type `date64`, for the block.

    It was written before such columns became timestamps, by the statements in
    `tests/behaviour/storage/test_date64_graphs.py`; no version writes one any more.
    """
    with _unpacked_files(ROOT / "tests" / "fixtures" / "date64" / "graph.tar.gz") as (root, _):
        yield root / "graph"


@contextmanager
def _unpacked_files(archive: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    root = make_root()
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(root, filter="data")
        written = json.loads(
            (root / EXPECTED).read_text(encoding="utf-8"), object_hook=_with_iso_texts
        )
        _replace(root, str(written.pop("root")).encode(), str(root).encode())
        yield root, written
    finally:
        shutil.rmtree(root)


def _with_iso_texts(written: dict[str, Any]) -> dict[str, Any]:
    """What was exported with days and milliseconds as numbers, as it is exported now."""
    for name in {"day", "since"} & written.keys():
        if isinstance(written[name], int):
            written[name] = str(np.datetime64(written[name], "D"))
    if isinstance(written.get("at"), int):
        written["at"] = f"{np.datetime64(written['at'], 'ms')}Z"
    return written


def _replace(root: Path, old: bytes, new: bytes) -> None:
    assert len(old) == len(new), "Lance counts the characters of a path"
    for file in root.rglob("*"):
        if file.is_file() and old in (content := file.read_bytes()):
            file.write_bytes(content.replace(old, new))
