"""Per-actor limits, worker threads."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Barrier, Event, Thread

import pytest

from omnigraph.server.admission import Admission, Budget, Workers, close_all
from omnigraph.server.responses import HttpError

PLENTY = 1 << 32


def test_of_many_at_once_exactly_as_many_pass_as_may() -> None:
    admission = Admission(Budget(requests_max=16, bytes_max=PLENTY))
    gathered, decided = Barrier(32), Barrier(32)

    def request(_: int) -> bool:
        with ExitStack() as held:
            gathered.wait()
            try:
                held.enter_context(admission.admit("ann", request_bytes=1))
                is_admitted = True
            except HttpError:
                is_admitted = False
            decided.wait()
            return is_admitted

    with ThreadPoolExecutor(32) as pool:
        admitted = list(pool.map(request, range(32)))

    assert admitted.count(True) == 16


def test_bytes_under_way_count_together_and_a_refusal_takes_none() -> None:
    admission = Admission(Budget(requests_max=16, bytes_max=1000))

    with admission.admit("ann", request_bytes=600):
        with (
            pytest.raises(HttpError, match="actor byte budget exceeded: 1200") as refused,
            admission.admit("ann", request_bytes=600),
        ):
            pass
        with admission.admit("ann", request_bytes=300):
            pass

    assert refused.value.status == 429
    assert refused.value.headers == {"Retry-After": "60"}


def test_a_request_over_the_limit_is_refused_with_the_limit() -> None:
    admission = Admission(Budget(requests_max=1, bytes_max=PLENTY))

    with (
        admission.admit("ann", request_bytes=1),
        pytest.raises(HttpError, match=r"^actor in-flight count cap 1 exceeded$") as refused,
        admission.admit("ann", request_bytes=1),
    ):
        pass

    assert refused.value.status == 429


def test_what_ends_is_given_back_whether_it_failed_or_not() -> None:
    admission = Admission(Budget(requests_max=1, bytes_max=10))

    with pytest.raises(ZeroDivisionError), admission.admit("ann", request_bytes=10):
        raise ZeroDivisionError
    with admission.admit("ann", request_bytes=10):
        is_admitted = True

    assert is_admitted


def test_actors_do_not_take_from_each_other() -> None:
    admission = Admission(Budget(requests_max=1, bytes_max=10))

    with (
        admission.admit("ann", request_bytes=10),
        admission.admit("bob", request_bytes=10),
        admission.admit(None, request_bytes=10),
    ):
        are_admitted = True

    assert are_admitted


def test_all_anonymous_callers_are_one_actor() -> None:
    admission = Admission(Budget(requests_max=1, bytes_max=10))

    with (
        admission.admit(None, request_bytes=1),
        pytest.raises(HttpError, match="count cap"),
        admission.admit(None, request_bytes=1),
    ):
        pass


def test_what_no_budget_could_ever_hold_is_too_large() -> None:
    admission = Admission(Budget(requests_max=1, bytes_max=10))

    with pytest.raises(HttpError) as refused, admission.admit("ann", request_bytes=11):
        pass

    assert refused.value.status == 413


def test_a_request_without_capacity_is_refused_at_once() -> None:
    workers = Workers(name="t", running_max=1, waiting_max=1)
    may_end = Event()

    async def overload() -> tuple[list[bool], int]:
        accepted = [asyncio.ensure_future(workers.run(may_end.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HttpError) as refused:
            await workers.run(may_end.wait)
        may_end.set()
        return await asyncio.gather(*accepted), refused.value.status

    results, status = asyncio.run(overload())

    assert results == [True, True]
    assert status == 429
    assert workers.close(within_s=10)


def test_what_is_done_makes_room() -> None:
    workers = Workers(name="t", running_max=1, waiting_max=0)

    async def one_after_the_other() -> list[int]:
        return [await workers.run(partial(int, number)) for number in range(5)]

    assert asyncio.run(one_after_the_other()) == [0, 1, 2, 3, 4]
    assert workers.close(within_s=10)


def test_an_error_of_a_call_is_its_callers() -> None:
    workers = Workers(name="t", running_max=1, waiting_max=0)

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(workers.run(fail))

    assert workers.close(within_s=10)


def test_a_call_that_does_not_end_is_not_waited_for_for_ever() -> None:
    workers = Workers(name="t", running_max=1, waiting_max=0)
    may_end = Event()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(workers.run(may_end.wait), timeout=0.01)

    asyncio.run(give_up())
    is_done = workers.close(within_s=0.01)
    may_end.set()

    assert not is_done
    assert workers.close(within_s=10)


def test_all_that_does_not_end_is_waited_for_together() -> None:
    pools = [Workers(name="t", running_max=1, waiting_max=0) for _ in range(3)]
    may_end = Event()

    async def give_up(workers: Workers) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(workers.run(may_end.wait), timeout=0.01)

    for pool in pools:
        asyncio.run(give_up(pool))
    stopping = Thread(target=may_end.wait)
    stopping.start()
    began = time.monotonic()
    is_done = close_all(pools, stopping, within_s=0.5)
    took = time.monotonic() - began
    may_end.set()

    assert not is_done
    assert 0.5 <= took < 1.0
    assert close_all(pools, stopping, within_s=10)
