"""Which files a path means: one, those of a folder, or those that a pattern fits.

A folder is read whole, in the order of names; names that begin with a dot or an underscore are the
notes of programs. A file that is there is meant, whatever its name; only then is a name a pattern:
`*` and `?` and `[…]` fit parts of a name, `**` any number of folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.storage.outside_files import Entry, EntryKind, OutsideFiles, is_remote

_NAME_CHARACTERS_SHOWN = 200
_ANY_FOLDERS = "**"


def parse_path(given: str | os.PathLike[str]) -> str:
    """The place that a path or URI names: a local path, or one in S3."""
    text = os.fsdecode(given)
    if "://" not in text or _is_content(text):
        return str(Path(text))
    scheme, _, rest = text.partition("://")
    if scheme.lower() == "s3":
        if not rest.partition("/")[0]:
            raise refuse_path(text, "it needs a bucket: s3://bucket/key")
        return f"s3://{rest}"
    uri = urlsplit(text)
    if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
        raise refuse_path(text, "only files on local disks and in S3 can be read")
    return str(Path(unquote(uri.path)))


def find_files(path: str, files: OutsideFiles) -> Iterator[Entry]:
    """The files that a path means, in order, and those folders that are Lance tables."""
    found = files.find(path)
    if found is not None:
        yield from _open_folders(found, files)
        return
    # Once each: a pattern may fit a folder and what is in it.
    matches = {
        each.path: each for match in _expand(path, files) for each in _open_folders(match, files)
    }
    if not matches:
        raise _not_found(path)
    for name in sorted(matches, key=lambda each: each.split("/")):
        yield matches[name]


def refuse_path(path: str, problem: str) -> InvalidValueError:
    """The refusal of a path, whatever is in the file."""
    return InvalidValueError(subject=path, expected="rows", value=path, problem=problem)


def _open_folders(entry: Entry, files: OutsideFiles) -> Iterator[Entry]:
    if not entry.is_folder:
        yield entry
        return
    parts = files.entries(entry.path)
    if entry.name.endswith(".lance") or any(part.name == "_versions" for part in parts):
        yield entry
        return
    visible = [part for part in parts if not _is_hidden(part.name)]
    if not visible:
        raise refuse_path(entry.path, "the directory holds nothing to load")
    for part in visible:
        _require_no_link(part)
        yield from _open_folders(part, files)


def _expand(pattern: str, files: OutsideFiles) -> Iterator[Entry]:
    """What a pattern fits, some of it perhaps twice."""
    if _is_content(pattern) or not _has_wildcard(pattern):
        return iter(())
    if is_remote(pattern):
        bucket, _, key = pattern.removeprefix("s3://").partition("/")
        return _match(f"s3://{bucket}", key.strip("/").split("/"), files)
    path = Path(pattern)
    return _match(path.anchor or ".", path.relative_to(path.anchor).parts, files)


def _match(folder: str, parts: Sequence[str], files: OutsideFiles) -> Iterator[Entry]:
    if not parts:
        found = files.find(folder)
        if found is not None:
            yield found
    elif parts[0] == _ANY_FOLDERS:
        yield from _match(folder, parts[1:], files)
        for entry in _list_visible(folder, parts[0], files):
            if entry.is_folder:
                _require_no_link(entry)
                yield from _match(entry.path, parts, files)
    elif not _has_wildcard(parts[0]):
        yield from _match(_join(folder, parts[0]), parts[1:], files)
    else:
        for entry in _list_visible(folder, parts[0], files):
            if fnmatchcase(entry.name, parts[0]):
                yield from _match_below(entry, parts[1:], files)


def _match_below(entry: Entry, parts: Sequence[str], files: OutsideFiles) -> Iterator[Entry]:
    if not parts:
        yield entry
    elif entry.is_folder:
        _require_no_link(entry)
        yield from _match(entry.path, parts, files)


def _list_visible(path: str, part: str, files: OutsideFiles) -> Iterator[Entry]:
    """What is in a folder, if it is one, but for what is hidden from this part of a pattern."""
    found = files.find(path)
    if found is not None and found.is_folder:
        for entry in files.entries(path):
            if not _is_hidden(entry.name) or part.startswith(entry.name[0]):
                yield entry


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if is_remote(folder) else str(Path(folder, name))


def _has_wildcard(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _is_content(text: str) -> bool:
    """Whether a text is rather what a file holds than its name."""
    return "\n" in text or text.lstrip().startswith("{")


def _require_no_link(entry: Entry) -> None:
    if entry.kind is EntryKind.LINKED_FOLDER:
        # It could lead back here.
        problem = "a link to a directory is not followed; name the directory itself"
        raise refuse_path(entry.path, problem)


def _not_found(path: str) -> NotFoundError:
    advice = "to load a text, wrap it in io.StringIO" if _is_content(path) else "check the path"
    return NotFoundError(kind="file", name=path[:_NAME_CHARACTERS_SHOWN], advice=advice)
