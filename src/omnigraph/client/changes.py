"""Differences and change feeds of a served graph.

Change sets are read whole, as Arrow streams. A feed asks for some commits at a time; it ends with
the commit that its branch was at when the reading began, however much is written meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.client.exchanges import ARROW, ForeignAnswerError, LostError, Reply
from omnigraph.client.limits import FEED_COMMITS
from omnigraph.client.results import open_streams
from omnigraph.client.routes import Arguments, Routes, text_field
from omnigraph.engine.changes import ChangeSet, CommitChanges
from omnigraph.wire.change_streams import decode_change_set
from omnigraph.wire.readings import commit_of

COMMIT_HEADER = "Omnigraph-Graph-Commit"

_AFTER = "after:"


def read_diff(routes: Routes, arguments: Arguments) -> ChangeSet:
    """What changed from one state to another."""
    request = routes.request(
        "GET", ("diff",), "compare", arguments=arguments, headers={"Accept": ARROW}
    )
    return routes.asking.ask(request, _read_one)


def open_feed(routes: Routes, start: str, branch: str) -> RemoteFeed:
    """The feed of a branch; the server says whether it can start there."""
    arguments = {"start": start, "branch": branch, "commits": "0"}
    cursor = routes.get(
        "follow the changes", "changes", make=text_field("cursor"), arguments=arguments
    )
    return RemoteFeed(routes, cursor, branch)


class RemoteFeed:
    """Iterating gives the commits that are there and ends; iterating again gives what came since.

    Keep `cursor` to go on another time. A feed is for one reader at a time.
    """

    def __init__(self, routes: Routes, cursor: str, branch: str) -> None:
        self._routes, self._cursor, self._branch = routes, cursor, branch

    @property
    def cursor(self) -> str:
        """Where the feed is: `beginning`, or `after:` and the last commit that it went past."""
        return self._cursor

    def __iter__(self) -> Iterator[CommitChanges]:
        last: str | None = None
        while self._cursor != last:
            found, head = self._read_page()
            last = f"{_AFTER}{head}" if last is None else last
            if not found:
                return
            for each in found:
                yield each
                self._cursor = each.cursor
                if self._cursor == last:
                    return

    def __repr__(self) -> str:
        return f"<ChangeFeed of {self._branch} at {self._cursor}>"

    def _read_page(self) -> tuple[list[CommitChanges], str]:
        request = self._routes.request(
            "GET",
            ("changes",),
            "follow the changes",
            arguments={
                "start": self._cursor,
                "branch": self._branch,
                "commits": str(FEED_COMMITS),
            },
            headers={"Accept": ARROW},
        )
        return self._routes.asking.ask(request, _read_page)


def _read_one(reply: Reply) -> ChangeSet:
    with open_streams(reply) as file:
        return _decode(file)[0]


def _read_page(reply: Reply) -> tuple[list[CommitChanges], str]:
    found = []
    count, head = reply.number("Omnigraph-Commit-Count"), reply.header(COMMIT_HEADER)
    if count is None or head is None:
        raise ForeignAnswerError("it does not say how many commits there are")
    with open_streams(reply) as file:
        for _ in range(count):
            changes, note = _decode(file)
            commit = note["commit"]
            if not isinstance(commit, dict):
                raise ForeignAnswerError("a commit is missing")
            found.append(CommitChanges(commit_of(commit), changes))
    return found, head


def _decode(file: pa.NativeFile) -> tuple[ChangeSet, dict[str, object]]:
    try:
        return decode_change_set(pa.ipc.open_stream(file), lambda: pa.ipc.open_stream(file))
    except pa.ArrowInvalid as error:
        raise LostError(f"the changes end in the middle: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ForeignAnswerError(str(error)) from error
