"""The audit of recoveries: one row per operation, however many are recorded concurrently."""

from datetime import UTC, datetime
from pathlib import Path

from omnigraph.engine.commit.audit import list_recoveries, record
from omnigraph.engine.state.history import Recovery, RecoveryKind
from tests.support.processes import race
from tests.support.table_stores import place_on_disk

WRITERS = 6


def recovery(operation_id: str) -> Recovery:
    """A recovery that undid nothing."""
    return Recovery(
        commit_id="01J",
        kind=RecoveryKind.ROLLED_BACK,
        actor=None,
        operation_id=operation_id,
        writer_kind="Mutation",
        outcomes=(),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_concurrently_recorded_recoveries_are_each_recorded_once(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)

    def write_down(number: int) -> int:
        record(recovery(f"op-{number}"), tables=place.open())
        return number

    race(write_down, count=WRITERS)
    race(write_down, count=WRITERS)

    found = [each.operation_id for each in list_recoveries(place.open())]
    assert found == [f"op-{number}" for number in range(WRITERS)]
