"""Files and directories of local disks, as rows: Parquet, Arrow, CSV by their suffix, else NDJSON.

A file with such a suffix holds rows of one type: the one that the caller names, else the one that
the file or its directory is named after. A directory is read whole, in the order of names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from errno import ENAMETOOLONG
from pathlib import Path
from stat import S_ISDIR
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
from pyarrow import csv, parquet

from omnigraph.engine.ops.reading.blocks import read_blocks
from omnigraph.engine.ops.reading.frames import read_table
from omnigraph.engine.ops.reading.records import read_records
from omnigraph.engine.ops.reading.rows import Rows, type_of
from omnigraph.engine.ops.reading.type_names import find_type
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError, UnreadableError
from omnigraph.model.types import NUMBERS, Scalar
from omnigraph.storage.arrow_schema import arrow_type, table_schema
from omnigraph.storage.external_blobs import ExternalBlobs

Declared = NodeType | EdgeType

_NAME_CHARACTERS_SHOWN = 200


def parse_path(given: str | os.PathLike[str]) -> Path:
    """The local file that a path or URI names."""
    text = os.fsdecode(given)
    if "://" not in text:
        return Path(text)
    uri = urlsplit(text)
    if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
        raise _refuse(text, "only files on local disks can be read")
    return Path(url2pathname(uri.path))


def read_path(
    path: Path, *, declared: Declared | None, catalog: Catalog, external: ExternalBlobs
) -> Iterator[Rows]:
    """The rows of a file or directory, all of one type if the caller names one."""
    if not _is_directory(path):
        yield from _read_file(path, declared, catalog, external)
        return
    parts = _list(path)
    if path.suffix == ".lance" or path / "_versions" in parts:
        raise _refuse(path, "Lance tables cannot be loaded yet; give their rows as Arrow")
    # Names that begin like this are the notes of programs, not their rows.
    parts = [part for part in parts if not part.name.startswith((".", "_"))]
    if not parts:
        raise _refuse(path, "the directory holds nothing to load")
    for part in parts:
        if part.is_symlink() and _is_directory(part):
            # It could lead back here.
            raise _refuse(part, "a link to a directory is not followed; name the directory itself")
        yield from read_path(part, declared=declared, catalog=catalog, external=external)


def _is_directory(path: Path) -> bool:
    try:
        return S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise _not_found(path) from error
    except OSError as error:
        if error.errno == ENAMETOOLONG:
            raise _not_found(path) from error
        raise _unreadable(path, error) from error


def _list(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError as error:
        raise _unreadable(path, error) from error


def _read_file(
    path: Path, declared: Declared | None, catalog: Catalog, external: ExternalBlobs
) -> Iterator[Rows]:
    name = f"{path}: "
    match path.suffix.lower():
        case ".parquet":
            declared = declared or _name_type(path, catalog)
            yield from read_table(_read_parquet(path), declared, name=name, external=external)
        case ".arrow":
            declared = declared or _name_type(path, catalog)
            yield from read_table(_read_arrow(path), declared, name=name, external=external)
        case ".csv":
            declared = declared or _name_type(path, catalog)
            table = _read_csv(path, declared)
            yield from read_table(table, declared, name=name, external=external)
        case ".lance":
            raise _refuse(path, "a Lance table is a directory")
        case _ if declared is not None:
            raise _refuse(path, "records of NDJSON name their types; give the path by itself")
        case _:
            yield from _read_ndjson(path, catalog, external)


def _name_type(path: Path, catalog: Catalog) -> Declared:
    names = (path.stem, path.absolute().parent.stem)
    found = find_type(names[0], catalog) or find_type(names[1], catalog)
    if found is None:
        problem = f"neither '{names[0]}' nor '{names[1]}' is a type; name the file after its type"
        raise _refuse(path, problem)
    return found


def _read_ndjson(path: Path, catalog: Catalog, external: ExternalBlobs) -> Iterator[Rows]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        blocks = read_blocks(file, name=str(path))
        yield from read_records(blocks, name=f"{path}: ", catalog=catalog, external=external)


def _read_parquet(path: Path) -> pa.Table:
    try:
        with parquet.ParquetFile(path) as file:
            return file.read()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _read_arrow(path: Path) -> pa.Table:
    try:
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_file(file) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _read_csv(path: Path, declared: Declared) -> pa.Table:
    schema = table_schema(declared)
    options = csv.ConvertOptions(
        column_types={name: _csv_type(declared, name) for name in schema.names},
        # An empty field is null, a quoted empty field an empty text.
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["true", "True", "TRUE"],
        false_values=["false", "False", "FALSE"],
    )
    try:
        return csv.read_csv(
            path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=options
        )
    except pa.ArrowInvalid as error:
        raise _refuse(path, str(error)) from error
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _csv_type(declared: Declared, column: str) -> pa.DataType:
    """What a field is read as; whatever has a text form of its own is read as text."""
    wanted = type_of(declared, column)
    is_plain = wanted.element in NUMBERS | {Scalar.BOOL} and not wanted.is_list
    return arrow_type(wanted) if is_plain else pa.string()


def _not_found(path: Path) -> NotFoundError:
    text = str(path)
    is_content = "\n" in text or text.lstrip().startswith("{")
    advice = "to load a text, wrap it in io.StringIO" if is_content else "check the path"
    return NotFoundError(kind="file", name=text[:_NAME_CHARACTERS_SHOWN], advice=advice)


def _unreadable(path: Path, error: Exception) -> UnreadableError:
    reason = error.strerror if isinstance(error, OSError) else None
    return UnreadableError(path=str(path), reason=reason or str(error))


def _refuse(path: Path | str, problem: str) -> InvalidValueError:
    return InvalidValueError(subject=str(path), expected="rows", value=str(path), problem=problem)
