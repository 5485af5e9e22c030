"""Analyses: what an algorithm found, as rows, as frames, or written back to the graph.

An analysis never changes, and tells of one commit. One that was worked out on Spark stays there
until somebody asks for its rows. Does not know how anything was worked out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from omnigraph.engine.analysis.requests import Progression, Shape
from omnigraph.engine.analysis.writing import WriteCall
from omnigraph.engine.results import MutationResult, Result, ResultColumn
from omnigraph.engine.settings import require_text
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import parse_branch_name
from omnigraph.model.types import STRING

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame


class Answer(Protocol):
    """The rows of an analysis, wherever they are."""

    @property
    def progression(self) -> Progression:
        """How they were come by."""

    def result(self) -> Result:
        """All rows in this process, in order."""

    def frame(self, session: object) -> DataFrame:
        """All rows as a frame of Spark."""

    def write(self, call: WriteCall) -> MutationResult:
        """Make values a property of their nodes, as one commit or not at all."""


class Analysis:
    """What an algorithm says of each node: `type`, `id` and values, ordered by type and id."""

    def __init__(
        self, answer: Answer, *, shape: Shape, titles: tuple[str, ...], branch: str | None
    ) -> None:
        self._answer, self._shape, self._titles, self._branch = answer, shape, titles, branch

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return ["type", "id", *self._shape.values]

    @property
    def iterations(self) -> int:
        """How many rounds it took; 1 for what is not worked out by rounds."""
        return self._answer.progression.iterations

    @property
    def has_converged(self) -> bool:
        """Whether it ended by itself, and not because it may take no more rounds."""
        return self._answer.progression.has_converged

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows as dicts of JSON values."""
        return self._result.rows

    def __len__(self) -> int:
        return len(self._result)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self._result)

    def __repr__(self) -> str:
        return f"<Analysis: {self._shape.title} of {', '.join(self._titles)}>"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._result.to_arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for any library that reads Arrow streams."""
        return self._result.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        return self._result.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars frame."""
        return self._result.to_polars()

    def to_spark(self, session: object = None) -> DataFrame:
        """The rows as a frame of Spark, in no order; those that are on Spark stay there."""
        return self._answer.frame(session)

    def write_property(
        self,
        property: str,
        *,
        column: str | None = None,
        type: str | None = None,
        branch: str | None = None,
        actor: str | None = None,
    ) -> MutationResult:
        """Make a column a property of the nodes on a branch, as one commit, or change nothing.

        Without a column it is the one that the algorithm is about, without a type all of them,
        without a branch the one that was looked at. The property must be declared; the others of a
        node stay as they are, and so does a node that has the value already or has no row.
        """
        require_text(property, subject="property")
        chosen = self._shape.main if column is None else column
        if chosen not in self._shape.values:
            problem = f"{chosen!r} is none of {', '.join(self._shape.values)}"
            raise _refuse("column", chosen, problem)
        if type is not None and type not in self._titles:
            raise _refuse("type", type, f"{type!r} is none of {', '.join(self._titles)}")
        target = self._branch if branch is None else branch
        if target is None:
            raise _refuse("branch", None, "a commit was looked at; say which branch to write to")
        return self._answer.write(
            WriteCall(
                column=chosen,
                value_type=self._shape.values[chosen],
                property=property,
                type_names=self._titles if type is None else (type,),
                branch=parse_branch_name(target),
                actor=actor,
            )
        )

    @cached_property
    def _result(self) -> Result:
        return self._answer.result()


def result_columns(shape: Shape) -> tuple[ResultColumn, ...]:
    """The columns of an answer as those of a result."""
    columns = {"type": STRING, "id": STRING, **shape.values}
    return tuple(ResultColumn(name, type, is_aggregate=False) for name, type in columns.items())


def _refuse(subject: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=subject, expected="an argument that fits", value=value, problem=problem
    )
