"""One JSON object a line, to standard output.

Every line has a time, a level, an event and the id of its request. Never a token: what is logged
is named field by field. What libraries log through `logging` becomes lines of the same kind.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from threading import Lock
from traceback import format_exception
from typing import BinaryIO

import orjson

LEVELS: Mapping[str, int] = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}

# The id of the request that is being answered, wherever a line about it is logged.
_REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)

# What a record of `logging` has of itself; the rest was given by whoever logged it.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_request_id(request_id: str) -> None:
    """Name the request that this task, and the threads that it starts work on, are about."""
    _REQUEST_ID.set(request_id)


class Lines:
    """Where lines are written, whole ones; safe to share between threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = Lock()

    def write(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        """Write one line."""
        line: dict[str, object] = {
            "timestamp": datetime.now(UTC),
            "level": level,
            "event": event,
        }
        request_id = _REQUEST_ID.get()
        if request_id is not None:
            line["request_id"] = request_id
        line.update(fields)
        encoded = orjson.dumps(line, default=str, option=_OPTIONS)
        with self._lock:
            self._stream.write(encoded)
            self._stream.flush()


_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z


class Log:
    """Events with fields, down to a level."""

    # Not through `logging`, which takes longer for a line than the line takes to be written, and
    # some are written for every request.

    def __init__(self, lines: Lines, level: int) -> None:
        self._lines = lines
        self._level = level

    @property
    def is_debugging(self) -> bool:
        """Whether what `debug` is told goes anywhere."""
        return self._level <= logging.DEBUG

    def debug(self, event: str, /, **fields: object) -> None:
        """Log what only somebody who looks for a fault wants to know."""
        if self._level <= logging.DEBUG:
            self._lines.write("debug", event, fields)

    def event(self, event: str, /, **fields: object) -> None:
        """Log what happened."""
        if self._level <= logging.INFO:
            self._lines.write("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log what somebody should look at."""
        if self._level <= logging.WARNING:
            self._lines.write("warning", event, fields)

    def error(self, event: str, /, *, error: BaseException | None, **fields: object) -> None:
        """Log what failed, with the trace of an exception if there is one."""
        if self._level <= logging.ERROR:
            if error is not None:
                fields["trace"] = _trace(error)
            self._lines.write("error", event, fields)


class JsonLines(logging.Handler):
    """Makes lines of what libraries log."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info is not None and record.exc_info[1] is not None:
            fields["trace"] = _trace(record.exc_info[1])
        fields["logger"] = record.name
        self._lines.write(record.levelname.lower(), record.getMessage(), fields)


def parse_level(text: str) -> int:
    """A level by its name; `info` for what is none, such as the filters that `RUST_LOG` allows."""
    return LEVELS.get(text.strip().lower(), logging.INFO)


def open_log(stream: BinaryIO, level: int) -> Log:
    """Send what this process logs to a stream."""
    lines = Lines(stream)
    root = logging.getLogger()
    root.handlers[:] = [JsonLines(lines)]
    # What libraries say at their leisure is not what the level of this server is about.
    root.setLevel(max(level, logging.WARNING))
    # What providers of vectors were asked is: it takes long, and costs money.
    logging.getLogger("omnigraph.embed").setLevel(level)
    return Log(lines, level)


def _trace(error: BaseException) -> str:
    return "".join(format_exception(error))
