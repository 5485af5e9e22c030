"""Control objects on a disk: complete or absent, flushed before they count, shared by processes."""

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from omnigraph.errors import UnavailableError
from omnigraph.model.limits import STAGED_OBJECT_AGE_MAX_S
from omnigraph.storage.local_files import lock_file, unlock_file
from omnigraph.storage.ports import Listing
from tests.support.control_objects import content, local_objects, token
from tests.support.processes import output_of, started, system_calls

OPEN = """
import os, sys
from omnigraph.storage.locations import parse_location
from omnigraph.storage.objects import open_objects

def store(uri):
    return open_objects(parse_location(uri, storage_options={}), is_durable="durable" in sys.argv)
"""

COUNT_UP = f"""{OPEN}
objects, done = store(sys.argv[1]), 0
while done < 100:
    found = objects.find("counter")
    fresh = str(int(found.content) + 1).encode()
    done += objects.put_if_match("counter", fresh, token=found.token) is not None
"""

CLAIM = f"""{OPEN}
objects, owner = store(sys.argv[1]), sys.argv[2].encode()
print(sum(objects.put_if_absent(str(number), owner) for number in range(100)))
"""

WRITE_EVERY_WAY = f"""{OPEN}
objects = store(sys.argv[1])
objects.put_if_absent("new/created.json", b"1")
token = objects.put("replaced.json", b"1")
objects.put_if_match("replaced.json", b"2", token=token)
objects.delete("replaced.json")
"""

DIE_WRITING = f"""{OPEN}
def die(*_, **options):
    os.kill(os.getpid(), 9)

os.utime = die
store(sys.argv[1]).put("folder/a.json", b"half")
"""

SHARE_MEMORY = f"""{OPEN}
store("memory://shared").put("a.json", b"1")
assert store("memory://shared").find("a.json")
assert store("memory://other").find("a.json") is None
print(parse_location("memory://shared", storage_options={{}}).root)
"""

FORK_MEMORY = f"""{OPEN}
store("memory://shared").put("a.json", b"1")
child = os.fork()
if child == 0:
    sys.exit(0 if store("memory://shared").find("a.json") is None else 1)
_, status = os.waitpid(child, 0)
assert status == 0, "the fork saw its parent's graph"
assert store("memory://shared").find("a.json"), "the fork removed its parent's graph"
"""


def test_recreated_objects_with_equal_contents_have_different_tokens(tmp_path: Path) -> None:
    # Inodes are used again at once, and the stamps of many kernels tick in milliseconds.
    objects = local_objects(tmp_path)
    seen = []

    for _ in range(200):
        objects.put_if_absent("a.json", b"same")
        seen.append(token(objects, "a.json"))
        objects.delete("a.json")

    assert len(set(seen)) == 200


def test_a_partially_written_file_is_not_an_object(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "#123").write_bytes(b"half")
    (tmp_path / "a.json#1").write_bytes(b"half")

    assert objects.list("") == Listing({}, frozenset())
    assert objects.list("folder") == Listing({}, frozenset())


def test_writing_leaves_nothing_beside_the_objects(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    written = objects.put("folder/a.json", b"1")
    objects.put_if_absent("folder/a.json", b"2")
    objects.put_if_match("folder/a.json", b"3", token="another")
    objects.put_if_match("folder/a.json", b"4", token=written)

    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["a.json"]


def test_a_killed_writers_file_is_deleted_an_hour_later(tmp_path: Path) -> None:
    left = kill_writer(tmp_path)
    objects = local_objects(tmp_path)
    objects.put("folder/b.json", b"1")
    assert left.exists(), "its writer may still be alive"
    grow_old(left)

    local_objects(tmp_path).put("folder/b.json", b"2")

    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["b.json"]


def test_a_file_of_another_program_is_retained_at_any_age(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "#7").mkdir(parents=True)
    (folder / "#notes#").write_text("mine", encoding="utf-8")
    for path in folder.iterdir():
        grow_old(path)

    local_objects(tmp_path).put("folder/a.json", b"1")

    assert sorted(path.name for path in folder.iterdir()) == ["#7", "#notes#", "a.json"]


def test_a_writer_whose_file_was_removed_for_its_age_writes_nothing(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    objects.put("folder/a.json", b"1")
    (tmp_path / "__locks").mkdir(exist_ok=True)
    failures: list[UnavailableError] = []

    def write() -> None:
        try:
            objects.put("folder/a.json", b"2")
        except UnavailableError as error:
            failures.append(error)

    with locked(tmp_path / "__locks" / "objects.lock"):
        waiting = threading.Thread(target=write)
        waiting.start()
        staged = wait_for_staged(tmp_path / "folder")
        staged.unlink()
    waiting.join()

    assert len(failures) == 1
    assert content(objects, "folder/a.json") == b"1"


def test_a_file_that_was_edited_by_hand_has_another_token(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    written = objects.put("a.json", b"1")

    (tmp_path / "a.json").write_bytes(b"2")

    assert objects.list("").token_by_name["a.json"] != written
    assert objects.put_if_match("a.json", b"3", token=written) is None


def test_a_reader_never_sees_a_part_of_an_object(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    versions = [letter * 100_000 for letter in (b"a", b"b")]
    objects.put("a.json", versions[0])
    is_done = threading.Event()

    def write() -> None:
        for number in range(100):
            objects.put("a.json", versions[number % 2])
        is_done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[bytes | None] = set()
    while not is_done.is_set():
        seen.add(content(objects, "a.json"))
    writer.join()

    assert seen <= set(versions)


def test_processes_that_count_up_together_lose_no_step(tmp_path: Path) -> None:
    objects = local_objects(tmp_path)
    objects.put("counter", b"0")

    with ExitStack() as stack:
        counting = [stack.enter_context(started(COUNT_UP, str(tmp_path))) for _ in range(3)]
        codes = [child.wait() for child in counting]

    assert codes == [0, 0, 0]
    assert content(objects, "counter") == b"300"


def test_of_two_processes_that_claim_a_name_exactly_one_gets_it(tmp_path: Path) -> None:
    with started(CLAIM, str(tmp_path), "one") as one, started(CLAIM, str(tmp_path), "two") as two:
        won = [int(child.communicate()[0]) for child in (one, two)]

    objects = local_objects(tmp_path)
    owners = [content(objects, str(number)) for number in range(100)]
    assert [owners.count(name) for name in (b"one", b"two")] == won
    assert sum(won) == 100


FLUSHES_AND_NAMES = [
    ("fsync", "."),  # the folder above, because the root is new in it
    ("fsync", "graph"),  # the root, because `new` is
    ("fsync", "graph/new/#"),
    ("link", "graph/new/created.json"),
    ("fsync", "graph/new"),
    ("fsync", "graph/#"),
    ("rename", "graph/replaced.json"),
    ("fsync", "graph"),
    ("fsync", "graph/#"),
    ("rename", "graph/replaced.json"),
    ("fsync", "graph"),
    ("unlink", "graph/replaced.json"),  # a file that a power loss restores is deleted again
]


@pytest.mark.parametrize("durability", ["durable", "relaxed"])
def test_a_write_is_flushed_before_it_returns_unless_durability_is_relaxed(
    tmp_path: Path, durability: str
) -> None:
    arguments = (str(tmp_path / "graph"), durability)

    calls = system_calls(
        WRITE_EVERY_WAY,
        *arguments,
        names="fsync,fdatasync,link,linkat,rename,renameat,renameat2,unlink",
        record=tmp_path / "calls.txt",
    )

    seen = steps(calls, below=tmp_path)
    expected = [step for step in FLUSHES_AND_NAMES if durability == "durable" or step[0] != "fsync"]
    assert seen == expected


def test_a_graph_in_memory_is_shared_within_a_process_and_ends_with_it() -> None:
    roots = [Path(output_of(SHARE_MEMORY).strip()) for _ in range(2)]

    assert roots[0] != roots[1]
    assert not any(root.parent.exists() for root in roots)


def test_a_fork_leaves_its_parents_graphs_in_memory_alone() -> None:
    output_of(FORK_MEMORY)


def kill_writer(root: Path) -> Path:
    """Kill a process in the midst of writing an object; the file it leaves."""
    with started(DIE_WRITING, str(root)) as child:
        assert child.wait() != 0
    (left,) = (root / "folder").iterdir()
    return left


def grow_old(path: Path) -> None:
    """Make a file older than any write lasts."""
    long_ago = time.time() - STAGED_OBJECT_AGE_MAX_S - 1
    os.utime(path, (long_ago, long_ago))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that a writer takes to replace an object."""
    lock = lock_file(path, timeout_s=1)
    try:
        yield
    finally:
        unlock_file(lock)


def wait_for_staged(folder: Path) -> Path:
    """The file of a write that waits for the lock."""
    for _ in range(1_000):
        for path in folder.glob("#*"):
            return path
        time.sleep(0.005)
    raise AssertionError("no process writes")


def steps(calls: str, *, below: Path) -> list[tuple[str, str]]:
    """Each call that flushed, named or removed an object, with the path it did that to."""
    found = re.findall(r"^\d+ +(fsync|link|rename|unlink)\w*\((.*)\) += 0$", calls, re.MULTILINE)
    named = [(call, re.findall(rf"{re.escape(str(below))}[^\">]*", paths)) for call, paths in found]
    relative = [
        (call, re.sub(r"#\d+", "#", str(Path(paths[-1]).relative_to(below))))
        for call, paths in named
        if paths
    ]
    return [step for step in relative if step[0] != "unlink" or "#" not in step[1]]
