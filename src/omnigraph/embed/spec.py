"""What is to be embedded in a file of rows: of which types, made of which fields, kept where.

Read from a manifest (YAML) or from a specification (JSON); what exists is valid, and keys that mean
something to others are ignored. Does not know rows, nor who makes vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import yaml

from omnigraph.model.errors import InvalidValueError, NotFoundError, UnreadableError
from omnigraph.model.limits import VECTOR_DIMENSION_MAX

_OUTPUT_OTHERWISE = "./build/seed.embedded.jsonl"


@dataclass(frozen=True, slots=True)
class EmbeddedType:
    """One type: the property that holds the vector, and the fields that its text is made of."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """The types that have vectors, and how long these are."""

    dimension: int
    types: Mapping[str, EmbeddedType]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Where rows come from and go to, and what is embedded in them."""

    source: Path
    output: Path
    spec: EmbedSpec


def read_manifest(path: Path) -> Manifest:
    """The manifest of a YAML file; paths in it are relative to the file."""
    try:
        content: object = yaml.safe_load(_read(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _refuse(path, f"this is no YAML: {error}") from error
    source = _text_at(content, "sources", "raw_seed") or _text_at(content, "seed", "data")
    if source is None:
        raise _refuse(path, "say where the rows are: `sources: {raw_seed: rows.jsonl}`")
    output = _text_at(content, "artifacts", "embedded_seed") or _OUTPUT_OTHERWISE
    written = content.get("embeddings") if isinstance(content, Mapping) else None
    if written is None:
        raise _refuse(
            path,
            "say what to embed: `embeddings: {dimension: …, types: {Doc: {target, fields}}}`",
        )
    spec = parse_spec(written, path=path)
    return Manifest(path.parent / source, path.parent / output, spec)


def read_spec(path: Path) -> EmbedSpec:
    """The specification of a JSON file."""
    try:
        content: object = orjson.loads(_read(path))
    except orjson.JSONDecodeError as error:
        raise _refuse(path, f"this is no JSON: {error}") from error
    return parse_spec(content, path=path)


def parse_spec(content: object, *, path: Path) -> EmbedSpec:
    """The specification that a file holds; `path` is for messages."""
    fields = content if isinstance(content, Mapping) else {}
    dimension, types = fields.get("dimension"), fields.get("types")
    # In Python `true` is a number too, and here it is none.
    if type(dimension) is not int or not 1 <= dimension <= VECTOR_DIMENSION_MAX:
        raise _refuse(path, f"`dimension` is a whole number from 1 to {VECTOR_DIMENSION_MAX:,}")
    if not isinstance(types, Mapping) or not types:
        raise _refuse(path, "`types` names each type: `Doc: {target: vector, fields: [title]}`")
    return EmbedSpec(dimension, {str(name): _parse_type(name, types[name], path) for name in types})


def _parse_type(name: object, content: object, path: Path) -> EmbeddedType:
    fields = content if isinstance(content, Mapping) else {}
    target, named = fields.get("target"), fields.get("fields")
    if not isinstance(target, str) or not target:
        raise _refuse(path, f"{name}: `target` names the property that holds the vector")
    is_list = isinstance(named, list) and all(isinstance(each, str) and each for each in named)
    if not is_list or not named:
        raise _refuse(path, f"{name}: `fields` lists the properties that the text is made of")
    return EmbeddedType(target, tuple(named))


def _text_at(content: object, *keys: str) -> str | None:
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content if isinstance(content, str) and content else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(kind="file", name=str(path), advice="check the path") from error
    except OSError as error:
        raise UnreadableError(path=str(path), reason=error.strerror or str(error)) from error


def _refuse(path: Path, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=str(path), expected="what to embed", value=None, problem=problem
    )
