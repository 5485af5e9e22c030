"""Threads for calls: so many run, so many wait, and the next is turned away."""

import asyncio
from functools import partial
from threading import Event

import pytest

from omnigraph.server.problems import HttpError
from omnigraph.server.workers import Workers


def test_a_call_that_nobody_has_room_for_is_turned_away_at_once() -> None:
    workers = Workers(name="t", running_max=1, waiting_max=1)
    may_end = Event()

    async def overload() -> tuple[list[bool], int]:
        accepted = [asyncio.ensure_future(workers.run(may_end.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HttpError) as refused:
            await workers.run(may_end.wait)
        may_end.set()
        return await asyncio.gather(*accepted), refused.value.status

    answers, status = asyncio.run(overload())

    assert answers == [True, True]
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
