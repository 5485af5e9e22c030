"""Inputs of loads on Spark, and what becomes of a graph that is given one.

The outcome does not contain generated ids, so that two loads of the same input can be compared.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.engine.results import LoadResult
from omnigraph.errors import GraphError, IntegrityError
from tests.support.graphs import Contents, Record, contents

_MADE_ID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")


def write_files(folder: Path, files: Sequence[bytes]) -> list[Path]:
    """The files of a story in a folder."""
    folder.mkdir()
    paths = [folder / f"{number}.jsonl" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    return paths


def write_lines(path: Path, *records: Record) -> Path:
    """A file of records, one a line."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def share_small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have even a few lines shared by several tasks, for the test."""
    monkeypatch.setattr("omnigraph.spark.load.inputs.PARTITION_BYTES_MIN", 1)


def files_below(root: Path) -> frozenset[str]:
    """The files that hold rows of a graph or say which are gone, named by a version or not."""
    kinds = ("data", "_deletions")
    return frozenset(str(each) for kind in kinds for each in root.glob(f"*/*/**/{kind}/*"))


def changing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does that never gives the same names twice."""
    for batch in batches:
        yield pa.record_batch({"name": [str(uuid.uuid4()) for _ in range(batch.num_rows)]})


# What became of a load


@dataclass(frozen=True, slots=True)
class Ending:
    """What a load said and left: with the names of made-up ids hidden, and rows in a fixed order.

    `reported` is the result, or the class and the message of an error; `rows` are those of all
    branches.
    """

    reported: Sequence[object]
    violations: Sequence[str]
    rows: Mapping[str, Mapping[str, Sequence[str]]]


def run_to_end(graph: Graph, run: Callable[[], LoadResult], *, known: Contents) -> Ending:
    """Load something, and look at what became of it; `known` are the rows from before."""
    names = _names_in(known)
    violations: Sequence[str] = ()
    reported: Sequence[object]
    try:
        done = run()
    except GraphError as error:
        reported = (type(error), _hide(str(error), names))
        if isinstance(error, IntegrityError):
            reported = (*reported, error.count)
            violations = [_hide(repr(each), names) for each in error.violations]
    else:
        reported = (
            dict(done.nodes_loaded),
            dict(done.edges_loaded),
            (done.branch, done.base_branch, done.branch_created),
            done.commit_id is None,
        )
    return Ending(reported, violations, plain_rows(graph, known=known))


def plain_rows(graph: Graph, *, known: Contents) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """The rows of all branches by type, as sorted texts without made-up ids."""
    names = _names_in(known)
    return {branch: _plain_rows(contents(graph, branch), names) for branch in graph.branches()}


def _names_in(known: Contents) -> frozenset[str]:
    return frozenset(id for rows in known.values() for id in rows)


def _hide(text: str, names: frozenset[str]) -> str:
    return _MADE_ID.sub(lambda met: met[0] if met[0] in names else "<made>", text)


def _plain_rows(found: Contents, names: frozenset[str]) -> Mapping[str, Sequence[str]]:
    return {
        type_name: sorted(
            f"{_hide(id, names)} {json.dumps(row, sort_keys=True)}" for id, row in rows.items()
        )
        for type_name, rows in found.items()
        if rows
    }
