"""Write locks: one writer of a type on a branch, without deadlock and without unbounded waits.

What both kinds of storage guarantee, and what file locks do among processes; see also the leases.
"""

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.model.errors import Outcome, UnavailableError
from omnigraph.model.limits import LEASE_S
from omnigraph.model.runtime import SystemClock
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.locks import THIS_PROCESS, Locking, LockKey, WriteLocks
from tests.support.clocks import open_locks
from tests.support.processes import output_of, race, started
from tests.support.s3_server import S3Server

PERSON = LockKey("node:Person", None)
PERSON_ON_DRAFT = LockKey("node:Person", "draft")
KNOWS = LockKey("edge:Knows", None)

SHORT_S, LONG_S = 0.05, 30.0

OPEN = """
import os, sys
from omnigraph.model.errors import UnavailableError
from omnigraph.model.runtime import SystemClock
from omnigraph.storage.locations import parse_location
from omnigraph.storage.locks import THIS_PROCESS, Locking, LockKey
from tests.support.clocks import open_locks

def locks(timeout_s):
    location = parse_location(sys.argv[1], storage_options={})
    return open_locks(location, Locking(THIS_PROCESS, SystemClock(), 15.0), timeout_s=timeout_s)

PERSON = LockKey("node:Person", None)
KNOWS = LockKey("edge:Knows", None)
"""

HOLD_UNTIL_SIGNALLED = f"""{OPEN}
with locks(30).hold([PERSON]):
    print("held", flush=True)
    sys.stdin.readline()
"""

COUNT_UP = f"""{OPEN}
from pathlib import Path

counter = Path(sys.argv[1]) / "counter"
for _ in range(50):
    with locks(30).hold([KNOWS, PERSON] if len(sys.argv) > 2 else [PERSON, KNOWS]):
        counter.write_text(str(int(counter.read_text()) + 1))
"""

FORK = f"""{OPEN}
from_child, to_parent = os.pipe()
from_parent, to_child = os.pipe()

def attempt(timeout_s):
    try:
        with locks(timeout_s).hold([PERSON]):
            return b"got"
    except UnavailableError:
        return b"not"

with locks(30).hold([PERSON]):
    leaving = os.fork()
    if leaving == 0:
        sys.exit()
    os.waitpid(leaving, 0)
    child = os.fork()
    if child == 0:
        os.close(to_child)
        os.write(to_parent, attempt(0.05))
        os.read(from_parent, 1)
        os.write(to_parent, attempt(5))
        os._exit(0)
    assert os.read(from_child, 3) == b"not", "a fork got, or another let go, what its parent holds"
# The child still has the file open.
assert attempt(0.05) == b"got", "a fork keeps what its parent let go"
os.close(to_child)
assert os.read(from_child, 3) == b"got", "a fork waits for a thread that it does not have"
os.waitpid(child, 0)
"""


def locks_of(root: Location | Path | str, *, timeout_s: float = LONG_S) -> WriteLocks:
    """The locks of a graph, through a separate handle."""
    location = root if isinstance(root, Location) else parse_location(str(root), storage_options={})
    locking = Locking(THIS_PROCESS, SystemClock(), LEASE_S)
    return open_locks(location, locking, timeout_s=timeout_s)


def is_free(root: Location | Path | str, *keys: LockKey) -> bool:
    """Whether another handle gets the locks at once."""
    try:
        with locks_of(root, timeout_s=SHORT_S).hold(keys):
            return True
    except UnavailableError:
        return False


@pytest.fixture(params=["disk", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path, server: S3Server) -> Location:
    """A place of either kind, for guarantees of both within a process."""
    if request.param == "disk":
        return parse_location(str(tmp_path), storage_options={})
    return parse_location(
        f"s3://{server.create_bucket()}/graph", storage_options=server.lance_options()
    )


def test_a_lock_is_held_against_every_handle_of_the_graph(root: Location) -> None:
    with locks_of(root).hold([PERSON]):
        assert not is_free(root, PERSON)

    assert is_free(root, PERSON)


def test_another_type_another_branch_and_another_graph_are_free(root: Location) -> None:
    with locks_of(root).hold([PERSON]):
        assert is_free(root, KNOWS, PERSON_ON_DRAFT)
        assert is_free(replace(root, root=f"{root.root}-other", prefix="other"), PERSON)


def test_two_spellings_of_a_root_share_their_locks(tmp_path: Path) -> None:
    with locks_of(f"file://{tmp_path}/").hold([PERSON]):
        assert not is_free(tmp_path / "down" / "..", PERSON)


def test_two_paths_to_a_folder_share_their_locks(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "graph")

    with locks_of(tmp_path / "graph").hold([PERSON]):
        assert not is_free(tmp_path / "link", PERSON)


def test_a_key_that_is_named_twice_is_taken_once(root: Location) -> None:
    with locks_of(root, timeout_s=SHORT_S).hold([PERSON, KNOWS, PERSON]):
        assert not is_free(root, KNOWS)


def test_holding_nothing_is_free(tmp_path: Path) -> None:
    with locks_of(tmp_path).hold([]) as held:
        assert held.covers([])

    assert list(tmp_path.iterdir()) == []


def test_a_hold_covers_its_keys_until_it_is_released(root: Location) -> None:
    with locks_of(root).hold([PERSON, KNOWS]) as held:
        assert held.covers([KNOWS])
        assert held.covers([PERSON, KNOWS])
        assert not held.covers([PERSON, PERSON_ON_DRAFT])

    assert not held.covers([PERSON])


def test_an_error_in_the_block_releases_its_locks(root: Location) -> None:
    with pytest.raises(ZeroDivisionError), locks_of(root).hold([PERSON, KNOWS]):
        raise ZeroDivisionError

    assert is_free(root, PERSON, KNOWS)


def test_a_writer_that_gets_only_some_locks_releases_them(root: Location) -> None:
    with locks_of(root).hold([PERSON]):
        assert not is_free(root, KNOWS, PERSON)
        assert is_free(root, KNOWS)


def test_a_lock_timeout_says_what_to_do(root: Location) -> None:
    with (
        locks_of(root).hold([PERSON_ON_DRAFT]),
        pytest.raises(UnavailableError) as refusal,
        locks_of(root, timeout_s=SHORT_S).hold([PERSON_ON_DRAFT]),
    ):
        pass

    assert refusal.value.outcome is Outcome.UNCHANGED
    assert str(refusal.value) == (
        "cannot write Person on branch 'draft': another thread of this process has been writing "
        "there for more than 0.05 s; try again when that write is done, or end it if it hangs"
    )


def test_writers_of_the_same_types_in_any_order_all_finish(root: Location) -> None:
    # Taken in the given order, these would soon deadlock.
    orders: Sequence[Sequence[LockKey]] = (
        [PERSON, KNOWS, PERSON_ON_DRAFT],
        [KNOWS, PERSON_ON_DRAFT, PERSON],
        [PERSON_ON_DRAFT, PERSON, KNOWS],
        [KNOWS, PERSON],
    )
    inside: list[int] = []
    crowds: list[int] = []

    def write(number: int) -> int:
        for _ in range(50):
            with locks_of(root).hold(orders[number]):
                inside.append(number)
                crowds.append(len(inside))
                inside.remove(number)
        return number

    assert race(write, count=4) == [0, 1, 2, 3]
    assert set(crowds) == {1}


def test_a_writer_waits_for_its_turn(root: Location) -> None:
    order: list[str] = []
    has_started = threading.Event()

    def write() -> None:
        has_started.set()
        with locks_of(root).hold([PERSON]):
            order.append("second")

    second = threading.Thread(target=write)
    with locks_of(root).hold([PERSON]):
        second.start()
        has_started.wait()
        order.append("first")
    second.join()

    assert order == ["first", "second"]


# Among processes


def test_a_lock_of_another_process_is_not_free_and_names_the_process(tmp_path: Path) -> None:
    with started(HOLD_UNTIL_SIGNALLED, str(tmp_path)) as holder:
        wait_until_held(holder)

        with (
            pytest.raises(UnavailableError, match=f"process {holder.pid} has been writing"),
            locks_of(tmp_path, timeout_s=SHORT_S).hold([PERSON]),
        ):
            pass

        assert is_free(tmp_path, KNOWS)


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_a_lock_ends_with_its_writer(tmp_path: Path, end: str) -> None:
    with started(HOLD_UNTIL_SIGNALLED, str(tmp_path)) as holder:
        wait_until_held(holder)
        assert not is_free(tmp_path, PERSON)

        ways: dict[str, Callable[[], object]] = {
            "finished": lambda: holder.communicate("go\n"),
            "killed": lambda: holder.send_signal(signal.SIGKILL),
        }
        ways[end]()

        with locks_of(tmp_path).hold([PERSON]) as held:
            assert held.covers([PERSON])


def test_processes_that_take_turns_lose_no_step(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")

    with started(COUNT_UP, str(tmp_path)) as one, started(COUNT_UP, str(tmp_path), "back") as two:
        codes = [one.wait(), two.wait()]

    assert codes == [0, 0]
    assert (tmp_path / "counter").read_text() == "100"


def test_a_forked_process_neither_shares_nor_retains_its_parents_locks(tmp_path: Path) -> None:
    output_of(FORK, str(tmp_path))


def test_a_folder_that_cannot_hold_locks_is_named(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text("not a folder")

    with (
        pytest.raises(UnavailableError, match="a file is where a folder is needed"),
        locks_of(tmp_path / "graph").hold([PERSON]),
    ):
        pass


def wait_until_held(holder: subprocess.Popen[str]) -> None:
    """Return once a process has its lock."""
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
