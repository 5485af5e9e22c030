"""Histories: what several clients of one graph did, each call with its start, its end and outcome.

A key holds a list or a set that only grows, and every value is appended at most once to a key, so
that a read shows which writes it saw. A transaction reads before it appends. Clients write their
calls down, one log each; the logs together are the history. Does not know what is right.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Append:
    """One value was to be added to a list, at its end, or to a set."""

    key: str
    value: int


@dataclass(frozen=True, slots=True)
class ReadList:
    """What a list held, in order."""

    key: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What a set held."""

    key: str
    values: tuple[int, ...]


Read = ReadList | ReadSet
Operation = Append | ReadList | ReadSet


class Outcome(StrEnum):
    """How a call ended for its caller; unknown is a call that may still take effect, or never."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One call of a client, all of whose operations were to happen at one moment.

    `started` and `ended` are readings of one clock that all clients share; `ended` is None if
    no result was received. `commit_id` is the commit it read or created; None if unknown.
    """

    client: str
    number: int
    started: int
    ended: int | None
    operations: tuple[Operation, ...]
    outcome: Outcome
    commit_id: str | None

    @property
    def label(self) -> str:
        """What it is called in a report, and the actor that it writes as."""
        return f"{self.client}#{self.number}"

    @property
    def reads(self) -> Sequence[Read]:
        """What it read."""
        return [each for each in self.operations if not isinstance(each, Append)]

    @property
    def appends(self) -> Sequence[Append]:
        """What it was to add."""
        return [each for each in self.operations if isinstance(each, Append)]


History = Sequence[Transaction]


class HistoryLog:
    """The file in which one client writes down its calls; what is written survives its death."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def begin(self, number: int, started: int, operations: Sequence[Operation]) -> None:
        """Write down a call that is about to be made."""
        appends = [(each.key, each.value) for each in operations if isinstance(each, Append)]
        lists = [(each.key, each.values) for each in operations if isinstance(each, ReadList)]
        sets = [(each.key, each.values) for each in operations if isinstance(each, ReadSet)]
        call = {"lists": lists, "sets": sets, "appends": appends}
        self._write({"number": number, "started": started, "call": call})

    def end(self, number: int, ended: int, outcome: Outcome, commit_id: str | None) -> None:
        """Write down how a call ended."""
        self._write({"number": number, "ended": ended, "outcome": outcome, "commit": commit_id})

    def _write(self, entry: object) -> None:
        os.write(self._descriptor, f"{json.dumps(entry)}\n".encode())


def read_history(folder: Path) -> History:
    """The calls of all clients that have a log in a folder, by client and in order."""
    return [each for path in sorted(folder.glob("*.log")) for each in read_log(path)]


def read_log(path: Path) -> History:
    """The calls of one client; one without an end has an unknown outcome."""
    # A client that is killed while it writes a line has not begun the call of that line.
    lines = path.read_text().rpartition("\n")[0].splitlines()
    entries = [json.loads(line) for line in lines]
    endings = {entry["number"]: entry for entry in entries if "outcome" in entry}
    return [
        Transaction(
            client=path.stem,
            number=entry["number"],
            started=entry["started"],
            ended=None if ending is None else ending["ended"],
            operations=(
                *(ReadList(key, tuple(values)) for key, values in entry["call"]["lists"]),
                *(ReadSet(key, tuple(values)) for key, values in entry["call"]["sets"]),
                *(Append(key, value) for key, value in entry["call"]["appends"]),
            ),
            outcome=Outcome.UNKNOWN if ending is None else Outcome(ending["outcome"]),
            commit_id=None if ending is None else ending["commit"],
        )
        for entry in entries
        if "call" in entry
        for ending in [endings.get(entry["number"])]
    ]


def is_in_call(path: Path) -> bool:
    """Whether the last thing in a log is a call that has not ended."""
    last = path.read_text().rpartition("\n")[0].rpartition("\n")[2]
    return "call" in last


def require_distinct_values(history: History) -> None:
    """Fail if a value is appended twice to a key: its writer would be ambiguous."""
    appends = [(each.key, each.value) for each in all_appends(history)]
    assert len(appends) == len(set(appends)), "a value is appended twice to one key"


def all_appends(history: History) -> Iterator[Append]:
    """Every append of a history."""
    return (append for transaction in history for append in transaction.appends)
