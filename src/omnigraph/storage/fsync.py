"""Flushing files to the disk, so that the files of a version survive a power loss.

Lance flushes nothing itself. A file is durable when its content, its name in its folder and the
names of the folders above it are. The module does not know what the files hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from omnigraph.model.limits import DURABLE_FOLDERS_MAX

Flush = Callable[[Path], None]


class Durability:
    """Makes files below one folder durable; `flush` flushes one file or folder."""

    def __init__(self, root: Path, *, flush: Flush) -> None:
        self._root = root
        self._flush = flush
        # With their inodes, because another process may have recreated a folder.
        self._durable: dict[Path, int] = {}
        self._durable_inside: dict[Path, set[Path]] = {}

    def secure(self, files: Iterable[str]) -> None:
        """Flush files, given by their paths below the root, and the folders that contain them."""
        given = (path for file in files for path in _with_blobs(self._root / file))
        written = tuple(dict.fromkeys(given))
        for path in written:
            self._flush(path)
        folders = dict.fromkeys(path.parent for path in written)
        # Folders are created once and not removed, so their own names are also flushed only once.
        above = dict.fromkeys(above for folder in folders for above in self._chain(folder))
        found = [(folder, folder.stat().st_ino) for folder in above]
        unsettled = [each for each in found if self._durable.get(each[0]) != each[1]]
        for folder in dict.fromkeys([*folders, *(folder.parent for folder, _ in unsettled)]):
            self._flush(folder)
        if len(self._durable) + len(unsettled) > DURABLE_FOLDERS_MAX:
            self._durable.clear()
            self._durable_inside.clear()
        for folder, inode in unsettled:
            self._durable[folder] = inode
            self._durable_inside.setdefault(folder.parent, set()).add(folder)

    def secure_tree(self, folder: str) -> None:
        """Flush every file below a folder that was just created."""
        top = self._root / folder
        # The file system may have reused the inodes of a removed folder.
        self._unsettle(top)
        files = (path for path in top.rglob("*") if path.is_file())
        self.secure(str(path.relative_to(self._root)) for path in files)

    def secure_folder(self, folder: str) -> None:
        """Flush the names in a folder, if it exists, after an entry was removed from it."""
        path = self._root / folder
        if path.is_dir():
            self._flush(path)

    def _unsettle(self, folder: Path) -> None:
        self._durable.pop(folder, None)
        for inside in self._durable_inside.pop(folder, ()):
            self._unsettle(inside)

    def _chain(self, folder: Path) -> Iterator[Path]:
        while folder != self._root:
            yield folder
            folder = folder.parent


def flush_path(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _with_blobs(file: Path) -> Iterator[Path]:
    """A file, and the blobs too large for it, which are in a folder of the same name."""
    yield file
    beside = file.with_suffix("")
    if file.suffix == ".lance" and beside.is_dir():
        yield from (path for path in beside.rglob("*") if path.is_file())
