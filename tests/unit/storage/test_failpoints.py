"""Failpoints: inert until a test activates one, and then exactly as often as it says."""

import ast
import threading

import pytest

from omnigraph.model.errors import GraphError, MovedError, Outcome, UnavailableError
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Fail, Failpoints, Park, fail_times
from tests.support.source_tree import product_modules, require_none

HERE = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
ELSEWHERE = Failpoint.RECOVERY_SIDECAR_WRITE


def arrivals(failpoints: Failpoints, *, count: int) -> list[bool]:
    """Whether each of several arrivals in a row got through."""
    passed = []
    for _ in range(count):
        try:
            failpoints.maybe_fail(HERE)
        except GraphError:
            passed.append(False)
        else:
            passed.append(True)
    return passed


def test_a_failpoint_does_nothing_until_it_is_activated() -> None:
    assert arrivals(Failpoints(), count=3) == [True, True, True]


def test_an_active_failpoint_fails_as_storage_does_and_says_its_name() -> None:
    failpoints = Failpoints()

    with (
        failpoints.activate(HERE, FAIL_ALWAYS),
        pytest.raises(UnavailableError) as refusal,
    ):
        failpoints.maybe_fail(HERE)

    assert refusal.value.reason == (
        "injected failpoint triggered: mutation.post_finalize_pre_publisher"
    )
    assert refusal.value.outcome is Outcome.UNCHANGED


def test_a_failpoint_that_simulates_another_writer_raises_the_same_error() -> None:
    failpoints, contention = Failpoints(), Failpoint.PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION

    with (
        failpoints.activate(contention, fail_times(1)),
        pytest.raises(MovedError, match=f"injected failpoint triggered: {contention}"),
    ):
        failpoints.maybe_fail(contention)


def test_an_activation_ends_with_its_block() -> None:
    failpoints = Failpoints()

    with pytest.raises(ZeroDivisionError), failpoints.activate(HERE, FAIL_ALWAYS):
        raise ZeroDivisionError

    assert arrivals(failpoints, count=1) == [True]


def test_an_activation_concerns_one_name_of_one_graph() -> None:
    failpoints, others = Failpoints(), Failpoints()

    with failpoints.activate(HERE, FAIL_ALWAYS):
        failpoints.maybe_fail(ELSEWHERE)
        others.maybe_fail(HERE)


def test_several_failpoints_act_at_once() -> None:
    failpoints = Failpoints()

    with (
        failpoints.activate(HERE, fail_times(1)),
        failpoints.activate(ELSEWHERE, FAIL_ALWAYS) as elsewhere,
    ):
        assert arrivals(failpoints, count=2) == [False, True]

    assert elsewhere.arrivals == 0


@pytest.mark.parametrize(
    ("script", "passed"),
    [
        (FAIL_ALWAYS, [False, False, False, False]),
        (fail_times(2), [False, False, True, True]),
    ],
    ids=["always", "twice"],
)
def test_a_script_says_which_arrivals_fail(script: Fail, passed: list[bool]) -> None:
    failpoints = Failpoints()

    with failpoints.activate(HERE, script) as activation:
        assert arrivals(failpoints, count=4) == passed

    assert activation.arrivals == 4


def test_the_first_arrival_is_parked_until_it_is_released_and_others_pass() -> None:
    failpoints = Failpoints()
    order: list[str] = []

    def arrive() -> None:
        failpoints.maybe_fail(HERE)
        order.append("parked")

    parked = threading.Thread(target=arrive)
    with failpoints.activate(HERE, Park(timeout_s=30.0)) as activation:
        parked.start()
        activation.wait_for_arrival()
        failpoints.maybe_fail(HERE)
        order.append("passed")
        activation.release()
        parked.join()

    assert order == ["passed", "parked"]


def test_the_end_of_the_block_releases_parked_threads() -> None:
    failpoints = Failpoints()
    parked = threading.Thread(target=failpoints.maybe_fail, args=(HERE,))

    with failpoints.activate(HERE, Park(timeout_s=30.0)) as activation:
        parked.start()
        activation.wait_for_arrival()

    parked.join(timeout=30.0)
    assert not parked.is_alive()


def test_who_is_never_released_fails() -> None:
    failpoints = Failpoints()

    with (
        failpoints.activate(HERE, Park(timeout_s=0.01)),
        pytest.raises(UnavailableError, match="injected failpoint triggered"),
    ):
        failpoints.maybe_fail(HERE)


def test_waiting_for_an_arrival_that_never_comes_ends() -> None:
    with (
        Failpoints().activate(HERE, Park(timeout_s=0.01)) as activation,
        pytest.raises(TimeoutError, match=HERE),
    ):
        activation.wait_for_arrival()


def test_the_code_names_only_failpoints_that_exist() -> None:
    unknown = [
        f"{module.place(name)}: {ast.unparse(name)}"
        for module in product_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "maybe_fail"
        for name in node.args
        if ast.unparse(name) not in {f"Failpoint.{member.name}" for member in Failpoint}
    ]

    require_none(unknown, rule="a failpoint is a member of Failpoint, named where it is reached")


def test_a_name_identifies_its_failpoint() -> None:
    assert [name.value.replace(".", "_").upper() for name in Failpoint] == [
        name.name for name in Failpoint
    ]


def test_every_failpoint_marks_a_place() -> None:
    reached = {
        node.attr
        for module in product_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Failpoint"
    }

    require_none(
        {point.name for point in Failpoint} - reached,
        rule="a name that no code reaches promises a test that cannot be",
    )
