"""Leases: on an object store one process at a time writes on a branch, and a dead one is replaced.

Two processes are two sets of locks with a clock each, so no test waits; real processes are used
where they matter: forks, kills, and contention.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import orjson
import pytest

from omnigraph.errors import CorruptError, Outcome, UnavailableError
from omnigraph.model.limits import LEASE_CLOCK_SKEW_S_MAX, LEASE_SHARED_S_MAX
from omnigraph.model.runtime import SystemClock
from omnigraph.storage.leases import LeaseObject, Owner
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.locks import LockKey, WriteLocks, open_write_locks
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore
from tests.support.clocks import TTL_S, HandClock, make_locking, open_locks
from tests.support.crashing import CrashingObjects, Fault, Scope, When
from tests.support.processes import output_of, started
from tests.support.s3_server import S3Server

PERSON = LockKey("node:Person", None)
KNOWS = LockKey("edge:Knows", None)
MANIFEST = LockKey("__manifest", None)
PERSON_ON_DRAFT = LockKey("node:Person", "draft")

LONG_S = 60.0

OPEN = """
import json, os, sys
from omnigraph.model.runtime import SystemClock
from omnigraph.storage.locations import parse_location
from omnigraph.storage.locks import THIS_PROCESS, Locking, LockKey
from omnigraph.storage.objects import open_objects
from tests.support.clocks import open_locks

location = parse_location(sys.argv[1], storage_options=json.loads(sys.argv[2]))
PERSON = LockKey("node:Person", None)

def locks(timeout_s):
    return open_locks(location, Locking(THIS_PROCESS, SystemClock(), 1.0), timeout_s=timeout_s)
"""

HOLD_UNTIL_SIGNALLED = f"""{OPEN}
with locks(30).hold([PERSON]):
    print("held", flush=True)
    sys.stdin.readline()
"""

COUNT_UP = f"""{OPEN}
objects = open_objects(location, is_durable=False)
for _ in range(8):
    with locks(30).hold([PERSON]):
        count = int(objects.find("counter").content)
        objects.put("counter", str(count + 1).encode())
"""

FORK = f"""{OPEN}
with locks(30).hold([PERSON]) as held:
    child = os.fork()
    if child == 0:
        assert held.has_lapsed() and not held.is_held(), "a fork has what its parent holds"
        sys.exit()
    os.waitpid(child, 0)
    assert held.is_held(), "a fork let go what its parent holds"
"""


class Someone:
    """A separate process, as far as locks are concerned."""

    def __init__(self, location: Location, *, ahead_s: float = 0.0) -> None:
        self.location = location
        self.clock = HandClock(ahead_s=ahead_s)
        self.fenced: list[str | None] = []
        self._locking = make_locking(self.clock)

    def locks(self, *, timeout_s: float = LONG_S) -> WriteLocks:
        """Its locks, through a separate handle."""
        return self.locks_over(objects_of(self.location), timeout_s=timeout_s)

    def locks_over(self, objects: ObjectStore, *, timeout_s: float = LONG_S) -> WriteLocks:
        """The same over a given storage."""
        return open_write_locks(
            self.location,
            objects=objects,
            locking=self._locking,
            fence=self.fenced.append,
            timeout_s=timeout_s,
        )

    def gets(self, *keys: LockKey, timeout_s: float = 0.0) -> bool:
        """Whether it gets locks within a time, which its own clock measures."""
        try:
            with self.locks(timeout_s=timeout_s).hold(keys):
                return True
        except UnavailableError:
            return False


@pytest.fixture
def location(server: S3Server) -> Location:
    """A prefix of a bucket of its own."""
    return parse_location(
        f"s3://{server.create_bucket()}/graph", storage_options=server.lance_options()
    )


def objects_of(location: Location) -> ObjectStore:
    """The control objects of a place."""
    return open_objects(location, is_durable=False)


def options_of(location: Location) -> str:
    """How another process reaches a place."""
    return orjson.dumps(dict(location.storage_options)).decode()


def stored(location: Location, branch: str | None = None) -> Mapping[str, object]:
    """The lease of a branch as it is stored."""
    place = LeaseObject(objects_of(location), branch)
    found = place.objects.find(place.path)
    assert found
    document: dict[str, object] = orjson.loads(found.content)
    return document


# Taking and releasing


def test_a_lease_excludes_other_processes_on_the_same_branch(location: Location) -> None:
    ours, theirs = Someone(location), Someone(location)

    with ours.locks().hold([PERSON]):
        assert not theirs.gets(PERSON)
        assert not theirs.gets(KNOWS)
        assert theirs.gets(PERSON_ON_DRAFT)

    assert theirs.gets(PERSON)


def test_a_request_without_a_timeout_is_refused_at_once(location: Location) -> None:
    ours, theirs = Someone(location), Someone(location)

    with ours.locks().hold([PERSON]):
        assert not theirs.gets(PERSON, timeout_s=0.0)

    assert theirs.clock.passed_s == 0


def test_a_released_lease_is_handed_over_without_a_wait(location: Location) -> None:
    ours, theirs = Someone(location), Someone(location)

    turns = {someone: someone.locks(timeout_s=0.0) for someone in (ours, theirs)}
    for someone in (ours, theirs, ours, ours, theirs):
        with turns[someone].hold([PERSON]) as held:
            assert held.is_held()

    assert ours.clock.passed_s == theirs.clock.passed_s == 0
    assert ours.fenced == theirs.fenced == []


def test_a_lease_timeout_names_the_process_and_its_machine(location: Location) -> None:
    ours, theirs = Someone(location), Someone(location)

    with (
        ours.locks().hold([PERSON_ON_DRAFT]),
        pytest.raises(UnavailableError) as refusal,
        theirs.locks(timeout_s=TTL_S / 2).hold([PERSON_ON_DRAFT]),
    ):
        pass

    owner = stored(location, "draft")["owner"]
    assert isinstance(owner, dict)
    assert refusal.value.outcome is Outcome.UNCHANGED
    assert str(refusal.value) == (
        f"cannot write on branch 'draft': process {owner['process_id']} on {owner['host']} "
        "(since 2026-01-01T00:00:00+00:00) has been writing there for more than 7.5 s; try again "
        "when that write is done, or end it if it hangs"
    )


def test_the_threads_of_a_process_share_its_lease(location: Location, server: S3Server) -> None:
    ours = Someone(location)
    locks = ours.locks()
    with locks.hold([PERSON]):
        pass

    with (
        server.recording() as requests,
        locks.hold([PERSON]) as held,
        ours.locks().hold([KNOWS]),
        locks.hold_within(held, [MANIFEST]) as turn,
    ):
        assert not turn.has_lapsed()

    assert [each.method for each in requests] == ["PUT", "PUT"], "taken once, and released once"


def test_a_process_that_writes_continuously_lets_others_take_the_lease(location: Location) -> None:
    ours = Someone(location)

    with ours.locks().hold([PERSON]) as held:
        assert ours.gets(KNOWS)
        ours.clock.sleep(2 * LEASE_SHARED_S_MAX)

        assert not ours.gets(KNOWS)
        with ours.locks().hold_within(held, [MANIFEST]) as turn:
            assert turn.covers([MANIFEST]), "a writer that holds the lease is not delayed"

    assert ours.gets(KNOWS)


# A holder that does not renew


def test_a_lease_that_is_not_renewed_is_taken_over_when_it_expires(
    location: Location,
) -> None:
    ours, theirs = Someone(location), Someone(location)

    with ours.locks().hold([PERSON]) as held:
        assert theirs.gets(PERSON, timeout_s=LONG_S)

        assert TTL_S <= theirs.clock.passed_s < 2 * TTL_S
        assert theirs.fenced == [None]
        assert not held.is_held()
        assert held.has_lapsed()


def test_a_holder_that_lost_its_lease_releases_nothing(location: Location) -> None:
    ours, theirs, third = (Someone(location) for _ in range(3))

    with ours.locks().hold([PERSON]):
        following = theirs.locks().hold([PERSON])
        following.__enter__()

    assert not third.gets(PERSON)
    following.__exit__(None, None, None)
    assert third.gets(PERSON)


def test_a_waiter_that_timed_out_resumes_its_expiry_count(location: Location) -> None:
    ours, theirs = Someone(location), Someone(location)
    locks = theirs.locks(timeout_s=0.0)

    with ours.locks().hold([PERSON]):
        with pytest.raises(UnavailableError), locks.hold([PERSON]):
            pass
        theirs.clock.sleep(TTL_S)
        with locks.hold([PERSON]) as held:
            assert held.is_held()


@pytest.mark.parametrize(("hours_off", "is_taken"), [(-1, False), (0, False), (1, True)])
def test_a_lease_that_expired_beyond_clock_skew_is_taken_without_a_wait(
    location: Location, hours_off: int, *, is_taken: bool
) -> None:
    ours, theirs = Someone(location), Someone(location, ahead_s=hours_off * 3600)

    with ours.locks().hold([PERSON]):
        assert theirs.gets(PERSON) is is_taken

    assert theirs.fenced == [None] * is_taken


def test_clock_skew_within_the_bound_makes_no_difference(location: Location) -> None:
    ours, theirs = Someone(location), Someone(location, ahead_s=LEASE_CLOCK_SKEW_S_MAX)

    with ours.locks().hold([PERSON]):
        assert not theirs.gets(PERSON)


def test_a_seized_lease_is_fenced_and_a_released_one_is_not(
    location: Location,
) -> None:
    ours, theirs, third = (Someone(location) for _ in range(3))

    with ours.locks().hold([PERSON_ON_DRAFT]):
        theirs.gets(PERSON_ON_DRAFT, timeout_s=LONG_S)
    third.gets(PERSON_ON_DRAFT)

    assert (ours.fenced, theirs.fenced, third.fenced) == ([], ["draft"], [])


def test_a_failed_fence_takes_no_lease_and_the_next_taker_fences(location: Location) -> None:
    ours, theirs, third = (Someone(location) for _ in range(3))

    def fail(branch: str | None) -> None:
        raise UnavailableError(action=f"fence {branch}", reason="no answer")

    failing = open_write_locks(
        location,
        objects=objects_of(location),
        locking=make_locking(theirs.clock),
        fence=fail,
        timeout_s=LONG_S,
    )
    with ours.locks().hold([PERSON]):
        with pytest.raises(UnavailableError, match="fence"), failing.hold([PERSON]):
            pass

        assert not third.gets(PERSON)
        assert third.gets(PERSON, timeout_s=LONG_S)

    assert third.fenced == [None]


def test_epochs_only_grow(location: Location) -> None:
    epochs = [0]
    for _ in range(2):
        ours, theirs = Someone(location), Someone(location)
        with ours.locks().hold([PERSON]):
            epochs.append(require_number(stored(location)["epoch"]))
            with theirs.locks().hold([PERSON]):
                epochs.append(require_number(stored(location)["epoch"]))
        assert stored(location)["is_held"] is False
        epochs.append(require_number(stored(location)["epoch"]))

    assert epochs == [0, 1, 2, 2, 3, 4, 4]


def test_a_lease_that_is_renewed_is_not_taken_over(location: Location) -> None:
    ours = make_locking(SystemClock(), ttl_s=0.3)
    theirs = make_locking(SystemClock(), ttl_s=0.3)

    with open_locks(location, ours, timeout_s=LONG_S).hold([PERSON]) as held:
        with (
            pytest.raises(UnavailableError),
            open_locks(location, theirs, timeout_s=1.5).hold([PERSON]),
        ):
            pass

        assert held.is_held()
        assert not held.has_lapsed()
    assert require_number(stored(location)["heartbeat"]) >= 3


def test_a_refused_renewal_shows_the_holder_that_it_lost_its_lease(
    location: Location,
) -> None:
    ours = make_locking(SystemClock(), ttl_s=0.3)
    is_over = threading.Event()

    with open_locks(location, ours, timeout_s=LONG_S).hold([PERSON]) as held:
        seize(location)
        for _ in range(100):
            if held.has_lapsed():
                break
            is_over.wait(0.05)

        assert held.has_lapsed()


# Failures


@pytest.mark.parametrize("effect", [1, 2])
def test_a_lease_is_taken_and_released_although_a_response_is_lost(
    location: Location, effect: int
) -> None:
    ours, theirs = Someone(location), Someone(location)
    ours.gets(PERSON)
    fault = Fault(at=effect, when=When.LOST, scope=Scope.EFFECTS)
    locks = ours.locks_over(CrashingObjects(objects_of(location), fault))

    with locks.hold([PERSON]) as held:
        assert held.is_held()

    assert fault.hit == "put_if_match"
    assert theirs.gets(PERSON)
    assert theirs.fenced == []


def test_a_lease_is_taken_although_a_retried_request_is_refused(
    location: Location,
) -> None:
    ours = Someone(location)
    ours.gets(PERSON)

    with ours.locks_over(Repeating(objects_of(location))).hold([PERSON]) as held:
        assert held.is_held()

    assert stored(location)["is_held"] is False
    assert ours.fenced == []


def test_a_first_lease_is_taken_although_the_response_is_lost(location: Location) -> None:
    ours = Someone(location)
    fault = Fault(at=1, when=When.LOST, scope=Scope.EFFECTS)

    with ours.locks_over(CrashingObjects(objects_of(location), fault)).hold([PERSON]) as held:
        assert held.is_held()

    assert fault.hit == "put_if_absent"
    assert stored(location)["epoch"] == 1


def test_a_storage_failure_at_lease_release_fails_no_write(location: Location) -> None:
    ours, theirs = Someone(location), Someone(location)
    ours.gets(PERSON)
    # A read, a write that takes it, and then the intended write.
    fault = Fault(at=3, when=When.ERROR_FOR_EVER, scope=Scope.CALLS)

    with ours.locks_over(CrashingObjects(objects_of(location), fault)).hold([PERSON]):
        pass

    assert not theirs.gets(PERSON)
    assert ours.gets(PERSON), "the remains of the own lease block nothing"
    assert ours.fenced == [None]
    assert theirs.gets(PERSON)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "it is not valid JSON"),
        (b'{"format_version": 99}', "it has format 99"),
        (b'{"format_version": 1}', "a field is missing"),
    ],
)
def test_an_unreadable_lease_stops_writers_and_is_retained(
    location: Location, content: bytes, problem: str
) -> None:
    objects = objects_of(location)
    path = LeaseObject(objects, None).path
    objects.put(path, content)

    with (
        pytest.raises(CorruptError, match=problem),
        Someone(location).locks().hold([PERSON]),
    ):
        pass

    found = objects.find(path)
    assert found
    assert found.content == content


# Among real processes


def test_processes_that_take_turns_lose_no_step(location: Location) -> None:
    objects_of(location).put("counter", b"0")
    arguments = (location.uri, options_of(location))

    with started(COUNT_UP, *arguments) as one, started(COUNT_UP, *arguments) as two:
        codes = [one.wait(), two.wait()]

    counted = objects_of(location).find("counter")
    assert counted
    assert codes == [0, 0]
    assert counted.content == b"16"


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_a_lease_ends_with_its_process(location: Location, end: str) -> None:
    theirs = make_locking(SystemClock(), ttl_s=1.0)
    with started(HOLD_UNTIL_SIGNALLED, location.uri, options_of(location)) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"

        ways: dict[str, Callable[[], object]] = {
            "finished": lambda: holder.communicate("go\n"),
            "killed": lambda: holder.send_signal(signal.SIGKILL),
        }
        ways[end]()

        with open_locks(location, theirs, timeout_s=LONG_S).hold([PERSON]) as held:
            assert held.is_held()


def test_a_forked_process_neither_shares_nor_ends_its_parents_lease(location: Location) -> None:
    assert output_of(FORK, location.uri, options_of(location)) == ""


class Repeating:
    """A storage whose client sends a conditional write twice, with the result of the second."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.find, self.list, self.tokens = objects.find, objects.list, objects.tokens
        self.put, self.delete = objects.put, objects.delete
        self.put_if_absent, self.delete_prefix = objects.put_if_absent, objects.delete_prefix

    def put_if_match(self, path: str, content: bytes, *, token: str) -> str | None:
        """Replace the object, and then be refused because it was replaced."""
        self._objects.put_if_match(path, content, token=token)
        return self._objects.put_if_match(path, content, token=token)


def seize(location: Location) -> None:
    """Take a lease whose holder lives, as only a process with a wrong clock would."""
    place = LeaseObject(objects_of(location), None)
    for _ in range(100):
        seen = place.find()
        assert seen
        stolen = replace(seen.lease, epoch=seen.lease.epoch + 1, owner=Owner("mars", 1, "stolen"))
        after = place.write(stolen, after=seen)
        if after and after.lease.state == stolen.state:
            return
    raise AssertionError("its holder was always first")


def require_number(value: object) -> int:
    """A number of a document."""
    assert isinstance(value, int)
    return value
