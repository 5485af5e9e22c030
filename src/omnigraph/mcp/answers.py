"""What tools answer, as plain values of JSON: rows, counts, passages, branches and commits.

Promises that no answer outgrows its bounds, and that whatever is left out is counted and said. The
names of fields are those of the HTTP answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from omnigraph.mcp.limits import COMMITS_MAX, ROWS_BYTES_MAX, ROWS_MAX
from omnigraph.mcp.ports import Answer
from omnigraph.wire.bodies import commit_output
from omnigraph.wire.row_text import encode_objects

if TYPE_CHECKING:
    from omnigraph.engine.results import MutationResult, Result
    from omnigraph.engine.retrieval.answers import Retrieval
    from omnigraph.engine.state.history import Commit


def answer_rows(result: Result) -> Answer:
    """The first rows of a result; how many there are in all, and a note if that is more."""
    rows = _cut(orjson.loads(b"[" + encode_objects(result.to_arrow().slice(0, ROWS_MAX)) + b"]"))
    answer: Answer = {
        "columns": result.columns,
        "rows": rows,
        "row_count": len(result),
        "commit_id": result.commit_id,
    }
    if len(rows) < len(result):
        answer["note"] = (
            f"Only the first {len(rows):,} of {len(result):,} rows are shown; ask for fewer, or "
            f"for fewer columns."
        )
    return answer


def answer_change(done: MutationResult, *, branch: str) -> Answer:
    """What a mutation touched, and where."""
    return {
        "affected_nodes": done.affected_nodes,
        "affected_edges": done.affected_edges,
        "branch": branch,
        "commit_id": done.commit_id,
    }


def answer_retrieval(found: Retrieval) -> Answer:
    """The text for a prompt, and which nodes it is made of, best first."""
    return {
        "text": found.text,
        "tokens": found.tokens,
        "passages": [
            {"rank": each.rank, "type": each.type, "id": each.id} for each in found.passages
        ],
        "left_out": found.left_out,
        "commit_id": found.receipt.commit_id,
    }


def answer_branches(names: Sequence[str]) -> Answer:
    """The branches, by name."""
    return {"branches": sorted(names)}


def answer_commits(commits: Sequence[Commit], *, branch: str) -> Answer:
    """The newest commits of a branch, newest first, and how many there are in all."""
    newest = commits[: -COMMITS_MAX - 1 : -1]
    return {
        "branch": branch,
        "commit_count": len(commits),
        "commits": [commit_output(each) for each in newest],
    }


def _cut(rows: list[object]) -> list[object]:
    size = 0
    for number, row in enumerate(rows):
        size += len(orjson.dumps(row))
        if size > ROWS_BYTES_MAX:
            return rows[:number]
    return rows
