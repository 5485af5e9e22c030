"""What a publish costs: it reads every fragment, and compaction is what makes them few.

Counted in reads, never in time, so that the machine has no say.
"""

from pathlib import Path

import lance
import pytest
from lance import LanceDataset

from tests.support.lance_probes import (
    create_table,
    fragment_ids,
    keyed_rows,
    publish,
)


def publish_head(table: LanceDataset, number: int) -> None:
    """One new row and the one shared row, as every graph commit has them."""
    publish(table, **{f"commit{number}": number, "head": number})


def reads_of_a_publish(table: LanceDataset, number: int) -> int:
    table.io_stats_incremental()
    publish_head(table, number)
    return int(table.io_stats_incremental().read_iops)


def published(folder: Path, *, times: int) -> LanceDataset:
    table = lance.dataset(create_table(folder / "t", keyed_rows(head=0)))
    for number in range(times):
        publish_head(table, number)
    return table


@pytest.mark.parametrize("times", [5, 20])
def test_every_publish_adds_a_fragment_and_costs_the_next_one_a_read(
    tmp_path: Path, times: int
) -> None:
    table = published(tmp_path, times=times)
    assert len(fragment_ids(table)) == times

    reads = reads_of_a_publish(table, times)

    assert times <= reads <= times + 2


def test_writes_of_a_publish_do_not_grow(tmp_path: Path) -> None:
    table = published(tmp_path, times=5)
    writes = []

    for number in range(5, 25):
        table.io_stats_incremental()
        publish_head(table, number)
        writes.append(table.io_stats_incremental().write_iops)

    assert set(writes) == {writes[0]}


def test_compaction_makes_a_publish_cheap_again(tmp_path: Path) -> None:
    table = published(tmp_path, times=20)

    table.optimize.compact_files()

    assert len(fragment_ids(table)) == 1
    assert reads_of_a_publish(table, 20) <= 3


def test_opening_again_for_every_publish_doubles_its_reads(tmp_path: Path) -> None:
    warmed = published(tmp_path, times=20)
    cold = lance.dataset(warmed.uri)

    assert reads_of_a_publish(cold, 20) >= 2 * 20 - 2
