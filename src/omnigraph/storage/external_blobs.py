"""References to blobs outside of a graph: which of them are followed, and what they name.

None is, unless it lies below a place that whoever opened the graph allowed. What is read becomes
part of the graph, so that a commit stays what it was whatever happens to the file. A link that
leads out of an allowed folder is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from urllib.parse import unquote

from omnigraph.model.errors import InvalidValueError, LimitExceededError
from omnigraph.model.limits import PROPERTY_BYTES_MAX, REFERENCE_CHARACTERS_MAX
from omnigraph.storage.object_errors import storage_errors
from omnigraph.storage.objects import open_bucket

_REFERENCE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_UNFIT = re.compile(r"[\x00-\x1f\x7f?#\\]")
_SCHEMES = ("file", "s3")
_ALLOW = 'open the graph with external_blobs=("{}",) to allow what lies below it'


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder or file: a bucket, or the local disk if empty, and the parts of a path in it."""

    scheme: str
    bucket: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    def holds(self, other: _Place) -> bool:
        """Whether another place lies below this one."""
        return (
            (self.scheme, self.bucket) == (other.scheme, other.bucket)
            and len(self.parts) < len(other.parts)
            and other.parts[: len(self.parts)] == self.parts
        )


@dataclass(frozen=True, slots=True)
class ExternalBlobs:
    """The places below which references are followed, and how to reach them."""

    allowed: tuple[_Place, ...]
    # Options hold secrets: they are no part of what is printed.
    storage_options: Mapping[str, str] = field(repr=False, hash=False)

    def read(self, reference: str) -> bytes:
        """The content that a reference names; `ValueError` says why it is not to be had."""
        place = _parse(reference)
        if not any(each.holds(place) for each in self.allowed):
            above = f"{reference.rpartition('/')[0]}/"
            advice = _ALLOW.format(above)
            raise ValueError(f'references are not followed there; give "base64:…", or {advice}')
        with storage_errors(f"read {reference}"):
            try:
                return self._read_file(place) if place.scheme == "file" else self._read_key(place)
            except (FileNotFoundError, NotADirectoryError, RuntimeError) as error:
                # The last is what a link that leads to itself is to Python.
                raise ValueError("the reference names nothing that is there") from error

    def _read_file(self, place: _Place) -> bytes:
        path = Path("/" + place.path).resolve(strict=True)
        folders = [Path("/" + each.path).resolve() for each in self.allowed if each.holds(place)]
        if not any(path.is_relative_to(folder) for folder in folders):
            raise ValueError("the reference is a link that leads out of what is allowed")
        found = path.stat()
        if not S_ISREG(found.st_mode):
            raise ValueError("the reference names no file")
        _require_size(found.st_size)
        return path.read_bytes()

    def _read_key(self, place: _Place) -> bytes:
        found = open_bucket(place.bucket, "", self.storage_options).get(place.path)
        _require_size(found.meta["size"])
        return bytes(found.bytes())


NO_EXTERNAL_BLOBS = ExternalBlobs((), {})
"""No reference is followed."""


def parse_external_blobs(
    prefixes: Iterable[str], *, storage_options: Mapping[str, str]
) -> ExternalBlobs:
    """The places that a caller allows."""
    if isinstance(prefixes, str):
        raise _refuse(prefixes, f"several places are needed, such as ({prefixes!r},)")
    allowed = []
    for each in prefixes:
        if not isinstance(each, str):
            raise _refuse(each, "a place is a text such as s3://bucket/prefix")
        try:
            allowed.append(_parse(each.rstrip("/")))
        except ValueError as error:
            raise _refuse(each, str(error)) from error
    return ExternalBlobs(tuple(allowed), dict(storage_options))


def _parse(reference: str) -> _Place:
    if len(reference) > REFERENCE_CHARACTERS_MAX:
        raise ValueError('a blob is given as "base64:…"; this is too long for a reference')
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise ValueError('a blob is given as "base64:…"')
    scheme, rest = found[1].lower(), found[2]
    if scheme not in _SCHEMES:
        raise ValueError(f'{scheme}:// is never followed; give the content as "base64:…"')
    bucket, slash, path = rest.partition("/")
    if scheme == "file":
        bucket = "" if bucket == "localhost" else bucket
        path = unquote(path)
    parts = tuple(path.split("/")) if path else ()
    is_plain = not any(part in ("", ".", "..") for part in parts)
    is_placed = bool(slash and not bucket) if scheme == "file" else bool(bucket)
    if not is_plain or not is_placed or _UNFIT.search(rest) or _UNFIT.search(path):
        raise ValueError("a reference is file:///folder/file or s3://bucket/key, spelled plainly")
    return _Place(scheme, bucket, parts)


def _require_size(byte_count: int) -> None:
    if byte_count > PROPERTY_BYTES_MAX:
        raise LimitExceededError(
            resource="the bytes of a property", limit=PROPERTY_BYTES_MAX, found=byte_count
        )


def _refuse(given: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject="external_blobs", expected="places", value=given, problem=problem
    )
