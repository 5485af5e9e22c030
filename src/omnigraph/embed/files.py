"""Embeddings for a file of rows before it is loaded, and the specification of what to embed.

The output file appears whole or not at all. Rows that are not selected are copied byte for byte.
Memory is bounded by one batch of lines. The module does not know graphs, nor how vectors are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import orjson
import yaml

from omnigraph.model.errors import (
    InvalidValueError,
    NotFoundError,
    UnavailableError,
    reading,
)
from omnigraph.model.limits import LINES_PER_BATCH, VECTOR_DIMENSION_MAX
from omnigraph.model.ports import Embedder
from omnigraph.storage.row_files import new_file, parse_target

_OUTPUT_OTHERWISE = "./build/seed.embedded.jsonl"


@dataclass(frozen=True, slots=True)
class EmbeddedType:
    """The vector property of one type, and the fields that its text is made of."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """The types that have vectors, and the dimension of the vectors."""

    dimension: int
    types: Mapping[str, EmbeddedType]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The input and output files, and the specification of what to embed."""

    source: Path
    output: Path
    spec: EmbedSpec


def read_manifest(path: Path) -> Manifest:
    """Read a manifest from a YAML file; its paths are relative to the file."""
    try:
        content: object = yaml.safe_load(_read(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _refuse_spec(path, f"not valid YAML: {error}") from error
    source = _text_at(content, "sources", "raw_seed") or _text_at(content, "seed", "data")
    if source is None:
        raise _refuse_spec(path, "specify the input: `sources: {raw_seed: rows.jsonl}`")
    output = _text_at(content, "artifacts", "embedded_seed") or _OUTPUT_OTHERWISE
    written = content.get("embeddings") if isinstance(content, Mapping) else None
    if written is None:
        raise _refuse_spec(
            path,
            "specify what to embed: `embeddings: {dimension: …, types: {Doc: {target, fields}}}`",
        )
    spec = parse_spec(written, path=path)
    return Manifest(path.parent / source, path.parent / output, spec)


def read_spec(path: Path) -> EmbedSpec:
    """Read a specification from a JSON file."""
    try:
        content: object = orjson.loads(_read(path))
    except orjson.JSONDecodeError as error:
        raise _refuse_spec(path, f"not valid JSON: {error}") from error
    return parse_spec(content, path=path)


def parse_spec(content: object, *, path: Path) -> EmbedSpec:
    """Parse a specification; `path` identifies it in messages."""
    fields = content if isinstance(content, Mapping) else {}
    dimension, types = fields.get("dimension"), fields.get("types")
    # In Python `True` is an `int`, but it is not a valid dimension.
    if type(dimension) is not int or not 1 <= dimension <= VECTOR_DIMENSION_MAX:
        raise _refuse_spec(
            path, f"`dimension` must be a whole number from 1 to {VECTOR_DIMENSION_MAX:,}"
        )
    if not isinstance(types, Mapping) or not types:
        raise _refuse_spec(
            path, "`types` names each type: `Doc: {target: vector, fields: [title]}`"
        )
    return EmbedSpec(dimension, {str(name): _parse_type(name, types[name], path) for name in types})


def _parse_type(name: object, content: object, path: Path) -> EmbeddedType:
    fields = content if isinstance(content, Mapping) else {}
    target, named = fields.get("target"), fields.get("fields")
    if not isinstance(target, str) or not target:
        raise _refuse_spec(path, f"{name}: `target` names the property that holds the vector")
    is_list = isinstance(named, list) and all(isinstance(each, str) and each for each in named)
    if not is_list or not named:
        raise _refuse_spec(path, f"{name}: `fields` lists the properties that the text is made of")
    return EmbeddedType(target, tuple(named))


def _text_at(content: object, *keys: str) -> str | None:
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content if isinstance(content, str) and content else None


def _read(path: Path) -> bytes:
    with reading(str(path)):
        return path.read_bytes()


def _refuse_spec(path: Path, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=str(path), expected="what to embed", value=None, problem=problem
    )


Progress = Callable[[str, int, int | None], None]
Write = Callable[[bytes], object]


class Mode(StrEnum):
    """What to do with the selected rows."""

    FILL_MISSING = "fill_missing"
    REEMBED_SELECTED = "reembed_selected"
    REEMBED_ALL = "reembed_all"
    CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects rows in which a field has a value, of one type or of any."""

    type: str | None
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Job:
    """Which rows to process, and how; `source` names the input in errors.

    Without types, all types are selected; without selectors, all rows. A row must match at least
    one selector.
    """

    source: str
    spec: EmbedSpec
    mode: Mode
    types: frozenset[str]
    selectors: tuple[Selector, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of rows in the file, and of selected, embedded and cleaned ones."""

    rows: int
    selected_rows: int
    embedded_rows: int
    cleaned_rows: int


def parse_selector(text: str) -> Selector:
    """Parse a selector of the form `[Type:]field=value`."""
    left, equals, value = text.partition("=")
    type, colon, field = left.rpartition(":")
    if not equals or not field or (colon and not type):
        raise InvalidValueError(
            subject="select",
            expected="[Type:]field=value",
            value=text,
            problem=f"{text!r} is not a valid selector; write it as `Decision:slug=b` or `slug=b`",
        )
    return Selector(type or None, field, value)


@contextmanager
def open_rows(path: Path) -> Iterator[BinaryIO]:
    """Open a file of rows."""
    with reading(str(path)):
        rows = path.open("rb")
    with rows:
        yield rows


@contextmanager
def new_rows(path: Path) -> Iterator[Write]:
    """A function that writes to a file, which replaces the existing one when the block ends."""
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
    """Process all rows of a job and report the counts.

    The embedder may be None only when the mode is `clean`.
    """
    unknown = sorted(job.types - job.spec.types.keys())
    if unknown:
        raise NotFoundError(
            kind="type",
            name=unknown[0],
            advice=f"embedded types: {', '.join(sorted(job.spec.types))}",
        )
    assert embedder is not None or job.mode is Mode.CLEAN, "the caller has found an embedder"
    work = _Work(job, embedder)
    numbered = enumerate(rows, 1)
    while batch := list(islice(numbered, LINES_PER_BATCH)):
        write(b"".join(work.transform(batch)))
        progress("embed", work.rows, None)
    return Report(work.rows, work.selected, work.embedded, work.cleaned)


@dataclass(frozen=True, slots=True)
class _Changed:
    """A row to be written with changes, and the text to embed for it, if any."""

    record: dict[str, object]
    content: dict[str, object]
    target: str
    text: str | None


@dataclass(slots=True)
class _Work:
    """A running job, and the counts so far."""

    job: Job
    embedder: Embedder | None
    rows: int = 0
    selected: int = 0
    embedded: int = 0
    cleaned: int = 0

    def transform(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
        """The output lines for a batch of input lines; their vectors are requested together."""
        rows = [self._transform_row(number, line) for number, line in lines]
        self._embed([each for each in rows if isinstance(each, _Changed)])
        return (each if isinstance(each, bytes) else _write_row(each) for each in rows)

    def _embed(self, rows: list[_Changed]) -> None:
        lacking = [each for each in rows if each.text is not None]
        if not lacking:
            return
        assert self.embedder is not None, "only cleaning needs no embedder"
        texts = [each.text for each in lacking if each.text is not None]
        vectors = self.embedder.embed_many(texts, self.job.spec.dimension)
        for each, vector in zip(lacking, vectors, strict=True):
            each.content[each.target] = vector
        self.embedded += len(lacking)

    def _transform_row(self, number: int, line: bytes) -> bytes | _Changed:
        if not line.strip():
            return line
        self.rows += 1
        record = _parse_row(number, line, self.job.source)
        type, content = record.get("type"), record.get("data")
        if not isinstance(type, str) or not isinstance(content, dict):
            return line
        declared = self.job.spec.types.get(type)
        if declared is None or not self._is_meant(type, content):
            return line
        self.selected += 1
        target = declared.target
        if self.job.mode is Mode.CLEAN:
            if target not in content:
                return line
            del content[target]
            self.cleaned += 1
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
    """The text to embed for a row: its type, and each field that is not blank, one per line."""
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
    # Vectors are written in single precision, their actual precision, with half as many digits.
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
        raise _refuse_row(number, source, f"not valid JSON: {error}") from error
    if not isinstance(record, dict):
        raise _refuse_row(number, source, "a row must be a JSON object on one line")
    return record


def _refuse_row(number: int, source: str, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=f"{source}, line {number:,}", expected="a row as JSON", value=None, problem=problem
    )
