"""Clock, ids, lazily imported modules."""

import sys
from datetime import UTC, timedelta
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from omnigraph.model.runtime import SystemRuntime, encode_ids, lazy_module

RARE = "colorsys"


def test_a_deferred_module_is_imported_when_it_is_first_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, RARE, raising=False)

    deferred = lazy_module(RARE)
    was_there = RARE in sys.modules
    used = deferred.rgb_to_yiq

    assert not was_there
    assert used is sys.modules[RARE].rgb_to_yiq


def test_a_module_that_is_missing_is_missed_when_it_is_used() -> None:
    deferred = lazy_module("omnigraph.nowhere")

    with pytest.raises(ModuleNotFoundError, match=r"omnigraph\.nowhere"):
        deferred.anything  # noqa: B018  # asking is using


def test_a_name_that_a_module_does_not_have_is_missed_as_ever() -> None:
    deferred = lazy_module(RARE)

    with pytest.raises(AttributeError, match=f"module '{RARE}' has no attribute 'grey'"):
        deferred.grey  # noqa: B018  # asking is using


GREATEST = 2**128 - 1


def test_now_is_in_utc_and_goes_on() -> None:
    runtime = SystemRuntime()

    first, second = runtime.now(), runtime.now()

    assert first.tzinfo is UTC
    assert timedelta(0) <= second - first


def test_ids_ascend_within_a_millisecond() -> None:
    runtime = SystemRuntime()

    ids = [runtime.new_id() for _ in range(5_000)]

    assert ids == sorted(set(ids))


def test_ids_ascend_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SystemRuntime()
    clock = iter([2_000_000_000, 1_000_000_000, 1_500_000_000])
    monkeypatch.setattr("ulid.time.time_ns", lambda: next(clock) * 10**9)

    ids = [runtime.new_id() for _ in range(3)]

    assert ids == sorted(set(ids))


def test_many_ids_at_once_continue_those_before_and_precede_those_after() -> None:
    runtime = SystemRuntime()

    ids = [runtime.new_id(), *runtime.new_ids(3_000), runtime.new_id(), *runtime.new_ids(2)]

    assert ids == sorted(set(ids))


def test_no_ids_are_an_empty_list_and_cost_none() -> None:
    runtime = SystemRuntime()

    assert runtime.new_ids(0) == []
    assert runtime.new_id() < runtime.new_id()


def test_threads_get_different_ids() -> None:
    runtime = SystemRuntime()
    taken: list[list[str]] = []
    threads = [Thread(target=lambda: taken.append(runtime.new_ids(2_000))) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id for ids in taken for id in ids}) == 8_000


def test_an_id_carries_the_time_at_which_it_was_made() -> None:
    runtime = SystemRuntime()

    before, id, after = runtime.now(), runtime.new_id(), runtime.now()

    made = ULID.from_str(id).datetime
    assert before - timedelta(milliseconds=2) <= made <= after + timedelta(milliseconds=2)


@given(first=st.integers(0, GREATEST - 3_000), count=st.integers(0, 3_000))
def test_consecutive_ids_are_encoded_as_single_ids_are(first: int, count: int) -> None:
    ids = encode_ids(first, count)

    assert len(ids) == count
    ends = {0, 1, count // 2, count - 1} if count else set()
    assert all(ids[n] == str(ULID.from_int(first + n)) for n in ends if 0 <= n < count)
    assert ids == sorted(set(ids))


def test_ids_carry_over_where_an_ending_runs_out() -> None:
    assert encode_ids(1_022, 4) == [str(ULID.from_int(number)) for number in range(1_022, 1_026)]


def test_an_id_of_ours_is_a_ulid() -> None:
    ids = SystemRuntime().new_ids(100)

    assert [str(ULID.from_str(each)) for each in ids] == ids
