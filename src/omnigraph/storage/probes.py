"""What a graph relies on in a storage, one probe each, done to objects of no other use.

A probe returns what it saw that must not be, or None. It tries what a graph does: through the same
port, by several clients where several writers are meant. Two that race prove nothing by behaving
once, so they race again and again; a storage that fails seldom may still pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, Event
from typing import TypeVar

from omnigraph.model.errors import BusyError
from omnigraph.storage.ports import ObjectStore
from omnigraph.storage.probe_ground import Ground

ROUNDS = 8
"""How often something is tried that a storage may get wrong only now and then."""

RACERS = 4
"""Writers that start at once: enough to meet, few enough for a small machine."""

RAISES = 5
"""How often each racer adds one to a number that all of them change."""

ATTEMPTS_MAX = 200
"""Most attempts of a racer to get its turn; each lost one means that another racer got its own."""

LARGE_BYTES = 12 * 1024 * 1024 + 1
"""Three parts of an upload in parts, the last of them short."""

_WHOLE_BYTES = 64 * 1024

Outcome = TypeVar("Outcome")


def probe_access(ground: Ground) -> str | None:
    """Whether one object can be written, read, listed and deleted at all."""
    objects = ground.open_objects()
    objects.put("access", b"1")
    found = objects.find("access")
    objects.list("")
    objects.delete("access")
    return None if found and found.content == b"1" else "what was written is not there"


def probe_reading(ground: Ground) -> str | None:
    """Whether every client reads what was written last."""
    writer, reader = ground.open_objects(), ground.open_objects()
    for number in range(ROUNDS):
        path = f"reading/{number}"
        # Asked for before it is there, because some storages remember such an answer.
        if reader.find(path) is not None:
            return "an object was found that nobody had written"
        for content in (b"old", b"new"):
            writer.put(path, content)
            found = reader.find(path)
            if found is None:
                return "an object was not found after it had been written"
            if found.content != content:
                return "an object was read as it had been before it was replaced"
        writer.delete(path)
        if reader.find(path) is not None:
            return "an object was found after it had been deleted"
    return None


def probe_listing(ground: Ground) -> str | None:
    """Whether a listing shows every object that is there, as it is, and no other."""
    writer, reader = ground.open_objects(), ground.open_objects()
    tokens: dict[str, str] = {}
    for number in range(ROUNDS):
        tokens[f"{number}"] = writer.put(f"listing/{number}", b"old")
        if reader.list("listing").token_by_name.keys() != tokens.keys():
            return "a listing did not show an object that had been written"
    tokens["0"] = writer.put("listing/0", b"new")
    if reader.list("listing").token_by_name != tokens:
        return "a listing showed another entity tag than the write had been answered with"
    writer.put("listing/deeper/object", b"1")
    if reader.list("listing").prefixes != {"deeper"}:
        return "a listing did not show a prefix below which there is an object"
    for name in list(tokens):
        writer.delete(f"listing/{name}")
        del tokens[name]
        if reader.list("listing").token_by_name.keys() != tokens.keys():
            return "a listing showed an object that had been deleted"
    return None


def probe_creating(ground: Ground) -> str | None:
    """Whether a write that must find nothing is refused where something is."""
    first, second = ground.open_objects(), ground.open_objects()
    if not first.put_if_absent("creating", b"first"):
        return "a conditional write was refused although there was no object"
    is_written = second.put_if_absent("creating", b"second")
    if is_written or not _holds(first, "creating", b"first"):
        return "a write that must find no object replaced one"
    return None


def probe_replacing(ground: Ground) -> str | None:
    """Whether a write that must find a certain content is refused where there is another."""
    first, second = ground.open_objects(), ground.open_objects()
    stale = first.put("replacing", b"1")
    current = second.put_if_match("replacing", b"2", token=stale)
    if current is None or not _holds(first, "replacing", b"2"):
        return "a conditional write was refused although the object was the expected one"
    if first.put_if_match("replacing", b"3", token=stale) is not None:
        return "a write that expected an older object replaced a newer one"
    if not _holds(second, "replacing", b"2"):
        return "a write was refused and took effect all the same"
    second.delete("replacing")
    is_written = first.put_if_match("replacing", b"4", token=current) is not None
    if is_written or first.find("replacing") is not None:
        return "a write that expected an object was done although there was none"
    return None


def probe_creating_races(ground: Ground) -> str | None:
    """Whether of writers that create one object at once exactly one does."""
    clients = [ground.open_objects() for _ in range(RACERS)]
    for number in range(ROUNDS):
        path = f"races/create-{number}"

        def create(racer: int, path: str = path) -> bool:
            return clients[racer].put_if_absent(path, b"%d" % racer)

        won = [racer for racer, is_won in enumerate(_race(create)) if is_won]
        if len(won) != 1:
            return f"of {RACERS} writers that created one object at once, {len(won)} were told so"
        if not _holds(clients[0], path, b"%d" % won[0]):
            return "an object holds what a writer wrote that was refused"
    return None


def probe_replacing_races(ground: Ground) -> str | None:
    """Whether no change is lost of a number that several writers change at once."""
    clients = [ground.open_objects() for _ in range(RACERS)]
    clients[0].put("races/number", b"0")
    if not all(_race(lambda racer: _raise_number(clients[racer]))):
        return "a writer never got its turn"
    found = clients[0].find("races/number")
    told = int(found.content) if found else 0
    if told != RACERS * RAISES:
        return f"of {RACERS * RAISES} changes by {RACERS} writers at once, {told} are there"
    return None


def probe_wholeness(ground: Ground) -> str | None:
    """Whether who reads while an object is replaced sees one content or the other."""
    writer, reader = ground.open_objects(), ground.open_objects()
    contents = [bytes([digit]) * _WHOLE_BYTES for digit in b"01"]
    writer.put("whole", contents[0])
    is_over = Event()

    def read() -> Iterator[bool]:
        while not is_over.is_set():
            found = reader.find("whole")
            yield found is not None and found.content in contents

    with ThreadPoolExecutor(max_workers=1) as readers:
        reading = readers.submit(lambda: all(read()))
        try:
            for number in range(2 * ROUNDS):
                writer.put("whole", contents[number % 2])
        finally:
            is_over.set()
    return None if reading.result() else "who read while an object was replaced saw a part of it"


def probe_large(ground: Ground) -> str | None:
    """Whether an object that is sent in parts arrives whole."""
    # No part is like another, so that one in the wrong place is noticed.
    content = b"".join(b"%08d" % number for number in range(LARGE_BYTES // 8 + 1))[:LARGE_BYTES]
    ground.put_large("large", content)
    if not _holds(ground.open_objects(), "large", content):
        return f"an object of {LARGE_BYTES} bytes was not read as it had been written"
    return None


def probe_locks(ground: Ground) -> str | None:
    """Whether a lock keeps others out, and lets them in when it is let go."""
    with ground.hold_lock(), suppress(BusyError), ground.hold_lock():
        return "two held one lock at once"
    with suppress(BusyError), ground.hold_lock():
        return None
    return "a lock could not be taken after it had been let go"


def _raise_number(objects: ObjectStore) -> bool:
    """Add one to the number, again and again; whether each came to its turn."""
    left, attempts = RAISES, 0
    while left and attempts < ATTEMPTS_MAX:
        attempts += 1
        found = objects.find("races/number")
        if found is None:
            return False
        raised = b"%d" % (int(found.content) + 1)
        left -= objects.put_if_match("races/number", raised, token=found.token) is not None
    return left == 0


def _race(attempt: Callable[[int], Outcome]) -> list[Outcome]:
    start = Barrier(RACERS)

    def run(racer: int) -> Outcome:
        start.wait()
        return attempt(racer)

    with ThreadPoolExecutor(max_workers=RACERS) as racers:
        return list(racers.map(run, range(RACERS)))


def _holds(objects: ObjectStore, path: str, content: bytes) -> bool:
    found = objects.find(path)
    return found is not None and found.content == content
