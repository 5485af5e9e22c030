"""Work on one version of a table, done here on the open table or by others who open it anew.

What is done is the same: a function of the table and of a task that survives pickling. Knows
nothing of who the others are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import lance
from lance import LanceDataset

from omnigraph.storage.lance_errors import lance_errors
from omnigraph.storage.table_layout import Workers
from omnigraph.storage.table_parts import LineFolder

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Crew:
    """Who works on the tables of a line, and where they find it."""

    folder: LineFolder
    workers: Workers


def run_on(
    table: LanceDataset,
    work: Callable[[LanceDataset, T], R],
    tasks: Sequence[T],
    *,
    crew: Crew | None,
    stage: str,
) -> tuple[R, ...]:
    """What some work makes of each task on a version, in their order; without a crew, here."""
    if crew is None:
        return tuple(work(table, task) for task in tasks)
    elsewhere = partial(_open_and_work, crew.folder, table.version, work)
    return crew.workers.run(elsewhere, tasks, stage=stage)


def share_of(row_count: int, *, crew: Crew | None) -> int:
    """How many of so many rows one task should take: all of them if nobody helps."""
    return row_count if crew is None else crew.workers.share(row_count)


# Where the work is done


def _open_and_work(
    folder: LineFolder, version: int, work: Callable[[LanceDataset, T], R], task: T
) -> R:
    with lance_errors(table=folder.uri, action=f"write files for '{folder.uri}'"):
        options = None if folder.storage_options is None else dict(folder.storage_options)
        return work(lance.dataset(folder.uri, version=version, storage_options=options), task)
