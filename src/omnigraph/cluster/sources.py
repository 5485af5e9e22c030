"""The files that a configuration names: schemas, queries and policies, read once and kept.

What was read is what is checked, planned and applied; `find_changed` tells whether somebody has
edited a file since. Does not know what the files mean, but for which queries one declares.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cluster.config import CONFIG_FILE, ClusterConfig, GraphDeclaration
from omnigraph.cluster.digests import digest_bytes
from omnigraph.cluster.findings import Findings
from omnigraph.cluster.limits import CONFIG_BYTES_MAX, SOURCE_BYTES_MAX
from omnigraph.model.names import find_near_name

_QUERY_SUFFIX = ".gq"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was read; `path` is relative to the configuration, if it lies below it."""

    path: str
    content: bytes

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        return digest_bytes(self.content)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A file of queries; `name` is the one query that it is there for, None if all of them are."""

    file: SourceFile
    name: str | None


@dataclass(frozen=True, slots=True)
class GraphSources:
    """The files of one graph; the schema is None if it could not be read."""

    schema: SourceFile | None
    queries: tuple[QueryFile, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """All files of a configuration, those that could be read."""

    folder: Path
    config: SourceFile
    graphs: Mapping[str, GraphSources]
    policies: Mapping[str, SourceFile]

    def files(self) -> Iterable[SourceFile]:
        """Every file, some perhaps twice."""
        yield self.config
        for each in self.graphs.values():
            yield from [] if each.schema is None else [each.schema]
            yield from (query.file for query in each.queries)
        yield from self.policies.values()

    def find_changed(self) -> list[str]:
        """The paths of files that no longer are what was read."""
        changed = []
        for file in {each.path: each for each in self.files()}.values():
            try:
                is_same = (self.folder / file.path).read_bytes() == file.content
            except OSError:
                is_same = False
            if not is_same:
                changed.append(file.path)
        return sorted(changed)


def read_config_file(folder: Path, findings: Findings) -> SourceFile | None:
    """The text of the configuration in a folder; None, and a finding, if there is none."""
    # Unlike a path's own method it has an answer for names that no system takes.
    if not os.path.isdir(folder):  # noqa: PTH112
        problem = "it is a file" if os.path.isfile(folder) else "there is no such folder"  # noqa: PTH113
        findings.error(
            "config_dir_not_found",
            str(folder),
            f"{problem}; name the folder that holds {CONFIG_FILE}",
        )
        return None
    file = _read_file(folder, CONFIG_FILE, "cluster_config_read_error", CONFIG_FILE, findings)
    if file is not None and len(file.content) > CONFIG_BYTES_MAX:
        findings.error(
            "cluster_config_read_error", CONFIG_FILE, f"it has more than {CONFIG_BYTES_MAX} bytes"
        )
        return None
    return file


def read_sources(
    config: ClusterConfig, file: SourceFile, folder: Path, findings: Findings
) -> Sources:
    """Read every file that a configuration names; what cannot be read is told."""
    return Sources(
        folder=folder,
        config=file,
        graphs={
            id: GraphSources(
                schema=_read_file(
                    folder, each.schema, "schema_file_missing", f"graphs.{id}.schema", findings
                ),
                queries=tuple(_read_queries(folder, each, findings)),
            )
            for id, each in config.graphs.items()
        },
        policies=read_policy_files(config, folder, findings),
    )


def read_policy_files(
    config: ClusterConfig, folder: Path, findings: Findings
) -> dict[str, SourceFile]:
    """Read the policies that a configuration names; what cannot be read is told."""
    found: dict[str, SourceFile] = {}
    for name, each in config.policies.items():
        place = f"policies.{name}.file"
        file = _read_file(folder, each.file, "policy_file_missing", place, findings)
        if file is not None:
            found[name] = file
    return found


def _read_queries(folder: Path, graph: GraphDeclaration, findings: Findings) -> Iterable[QueryFile]:
    place = f"graphs.{graph.id}.queries"
    for name, path in graph.file_by_query.items():
        file = _read_file(folder, path, "query_file_missing", f"{place}.{name}.file", findings)
        if file is not None:
            yield QueryFile(file, name)
    seen: set[Path] = set()
    for path in graph.query_paths:
        for each in _discover(folder, path, place, findings):
            file = _read_file(folder, each, "query_file_missing", place, findings)
            resolved = None if file is None else (folder / each).resolve()
            if file is not None and resolved is not None and resolved not in seen:
                seen.add(resolved)
                yield QueryFile(file, None)


def _discover(folder: Path, path: str, place: str, findings: Findings) -> list[str]:
    """The files of a path: those of a folder's top level by name, or the file itself."""
    try:
        with os.scandir(folder / path) as listed:
            names = sorted(
                each.name
                for each in listed
                if Path(each.name).suffix == _QUERY_SUFFIX and each.is_file()
            )
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # Whether it can be read as a file turns out when it is.
        return [path]
    except OSError as error:
        findings.error("query_dir_unreadable", place, f"{path}: {error.strerror or error}")
        return []
    if not names:
        findings.warn("query_dir_empty", place, f"{path} holds no {_QUERY_SUFFIX} file")
    return [str(Path(path) / name) for name in names]


def _read_file(
    folder: Path, path: str, code: str, place: str, findings: Findings
) -> SourceFile | None:
    content = _read(folder, path, code, place, findings)
    return None if content is None else SourceFile(path, content)


def _read(folder: Path, path: str, code: str, place: str, findings: Findings) -> bytes | None:
    if not path:
        # That it is missing has been told.
        return None
    try:
        with (folder / path).open("rb") as file:
            content = file.read(SOURCE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        advice = _advise(folder, path) if isinstance(error, FileNotFoundError) else ""
        findings.error(code, place, f"cannot read {path}: {reason.lower()}{advice}")
        return None
    if len(content) > SOURCE_BYTES_MAX:
        findings.error(code, place, f"{path} has more than {SOURCE_BYTES_MAX} bytes")
        return None
    return content


def _advise(folder: Path, path: str) -> str:
    """What to do about a file that is not there."""
    if path == CONFIG_FILE:
        return f"; write it, or name the folder that holds {CONFIG_FILE}"
    try:
        near = find_near_name(Path(path).name, os.listdir((folder / path).parent))  # noqa: PTH208
    except OSError:
        return ""
    return "" if near is None else f"; did you mean `{Path(path).parent / near}`?"
