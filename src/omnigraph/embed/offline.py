"""Vectors for a file of rows before it is loaded: filled in, made anew, or taken out.

A file of them appears whole or not at all: it is written beside its place and then put there. Rows
that are not meant stay byte for byte what they were. Holds a batch of lines at a time. Does not
know graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import orjson

from omnigraph.embed.limits import LINES_PER_BATCH
from omnigraph.embed.spec import EmbeddedType, EmbedSpec
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import (
    InvalidValueError,
    NotFoundError,
    UnavailableError,
    UnreadableError,
)
from omnigraph.storage.row_files import new_file, parse_target

Progress = Callable[[str, int, int | None], None]
Write = Callable[[bytes], object]


class Mode(StrEnum):
    """What is done with the rows that are meant."""

    FILL_MISSING = "fill_missing"
    REEMBED_SELECTED = "reembed_selected"
    REEMBED_ALL = "reembed_all"
    CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Selector:
    """Rows in which a field has a value; of one type, or of any."""

    type: str | None
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Job:
    """Which rows are meant, and what becomes of them; `source` names them in errors.

    No types means all of them, no selectors every row; of several selectors one is enough.
    """

    source: str
    spec: EmbedSpec
    mode: Mode
    types: frozenset[str]
    selectors: tuple[Selector, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """How many rows the file has, how many were meant, and what was done to them."""

    rows: int
    selected_rows: int
    embedded_rows: int
    cleaned_rows: int


def parse_selector(text: str) -> Selector:
    """The rows that `[Type:]field=value` means."""
    left, equals, value = text.partition("=")
    type, colon, field = left.rpartition(":")
    if not equals or not field or (colon and not type):
        raise InvalidValueError(
            subject="select",
            expected="[Type:]field=value",
            value=text,
            problem=f"{text!r} names no rows; write it as `Decision:slug=b` or `slug=b`",
        )
    return Selector(type or None, field, value)


@contextmanager
def open_rows(path: Path) -> Iterator[BinaryIO]:
    """The rows of a file."""
    try:
        rows = path.open("rb")
    except FileNotFoundError as error:
        raise NotFoundError(kind="file", name=str(path), advice="check the path") from error
    except OSError as error:
        raise UnreadableError(path=str(path), reason=error.strerror or str(error)) from error
    with rows:
        yield rows


@contextmanager
def new_rows(path: Path) -> Iterator[Write]:
    """What takes rows for a file: until the block has ended, what was there is as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(parse_target(path)) as hidden, hidden.open("wb") as file:
            yield file.write
    except OSError as error:
        action = f"write '{path}'"
        raise UnavailableError(action=action, reason=error.strerror or str(error)) from error


def embed_rows(
    job: Job, rows: BinaryIO, write: Write, *, embedder: Embedder | None, progress: Progress
) -> Report:
    """Do the job and tell what was done; only cleaning needs no embedder."""
    unknown = sorted(job.types - job.spec.types.keys())
    if unknown:
        raise NotFoundError(
            kind="type",
            name=unknown[0],
            advice=f"what is embedded is {', '.join(sorted(job.spec.types))}",
        )
    assert embedder is not None or job.mode is Mode.CLEAN, "the caller has found an embedder"
    work = _Work(job, embedder, _Tally())
    for batch in _batches(rows):
        write(b"".join(work.transform(batch)))
        progress("embed", work.tally.rows, None)
    return work.tally.report()


@dataclass(slots=True)
class _Tally:
    """What has been done so far."""

    rows: int = 0
    selected: int = 0
    embedded: int = 0
    cleaned: int = 0

    def report(self) -> Report:
        return Report(self.rows, self.selected, self.embedded, self.cleaned)


@dataclass(frozen=True, slots=True)
class _Changed:
    """A row that is written anew, and the text whose vector it lacks, if any."""

    record: dict[str, object]
    content: dict[str, object]
    target: str
    text: str | None


@dataclass(frozen=True, slots=True)
class _Work:
    """A job while it is done."""

    job: Job
    embedder: Embedder | None
    tally: _Tally

    def transform(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
        """The lines as they become; their vectors are asked for together."""
        rows = [self._transform_row(number, line) for number, line in lines]
        self._embed([each for each in rows if isinstance(each, _Changed)])
        return (each if isinstance(each, bytes) else _write_row(each) for each in rows)

    def _embed(self, rows: list[_Changed]) -> None:
        lacking = [each for each in rows if each.text is not None]
        if not lacking:
            return
        assert self.embedder is not None, "only cleaning does without"
        texts = [each.text for each in lacking if each.text is not None]
        vectors = self.embedder.embed_many(texts, self.job.spec.dimension)
        for each, vector in zip(lacking, vectors, strict=True):
            each.content[each.target] = vector
        self.tally.embedded += len(lacking)

    def _transform_row(self, number: int, line: bytes) -> bytes | _Changed:
        if not line.strip():
            return line
        self.tally.rows += 1
        record = _parse_row(number, line, self.job.source)
        type, content = record.get("type"), record.get("data")
        if not isinstance(type, str) or not isinstance(content, dict):
            return line
        declared = self.job.spec.types.get(type)
        if declared is None or not self._is_meant(type, content):
            return line
        self.tally.selected += 1
        target = declared.target
        if self.job.mode is Mode.CLEAN:
            if target not in content:
                return line
            del content[target]
            self.tally.cleaned += 1
            return _Changed(record, content, target, None)
        if self.job.mode is Mode.FILL_MISSING and content.get(target) not in (None, []):
            return line
        return _Changed(record, content, target, text_of(type, content, declared))

    def _is_meant(self, type: str, content: dict[str, object]) -> bool:
        if self.job.types and type not in self.job.types:
            return False
        selectors = self.job.selectors
        return not selectors or any(_selects(each, type, content) for each in selectors)


def text_of(type: str, content: dict[str, object], declared: EmbeddedType) -> str:
    """The text of a row: its type, and each field that holds something, a line each."""
    lines = [f"type: {type}"]
    for field in declared.fields:
        shown = _show(content.get(field))
        if shown.strip():
            lines.append(f"{field}: {shown}")
    return "\n".join(lines)


def _show(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            return ", ".join(shown for each in value if (shown := _show(each)).strip())
        case _:
            return orjson.dumps(value).decode()


def _write_row(row: _Changed) -> bytes:
    # Vectors as single-precision numbers, which is what they are: half as many digits.
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(row.record, option=options)


def _selects(selector: Selector, type: str, content: dict[str, object]) -> bool:
    is_typed = selector.type is None or selector.type == type
    is_there = selector.field in content
    return is_typed and is_there and _show(content[selector.field]) == selector.value


def _parse_row(number: int, line: bytes, source: str) -> dict[str, object]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _refuse(number, source, f"this is no JSON: {error}") from error
    if not isinstance(record, dict):
        raise _refuse(number, source, "a row is an object, one a line")
    return record


def _refuse(number: int, source: str, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=f"{source}, line {number:,}",
        expected="a row as JSON",
        value=None,
        problem=problem,
    )


def _batches(rows: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    numbered = enumerate(rows, 1)
    while batch := list(islice(numbered, LINES_PER_BATCH)):
        yield batch
