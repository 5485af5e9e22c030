"""Admission: exactly so many writes of an actor at once, and so many bytes."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import pytest

from omnigraph.server.admission import Admission, Budget
from omnigraph.server.problems import HttpError

PLENTY = 1 << 32


def test_of_many_at_once_exactly_as_many_pass_as_may() -> None:
    admission = Admission(Budget(requests_max=16, bytes_max=PLENTY))
    gathered, decided = Barrier(32), Barrier(32)

    def ask(_: int) -> bool:
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
        admitted = list(pool.map(ask, range(32)))

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


def test_one_too_many_is_told_the_bound() -> None:
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


def test_nobody_in_particular_is_one_actor() -> None:
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
