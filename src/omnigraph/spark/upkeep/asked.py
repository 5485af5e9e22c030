"""What working something out will ask of versions: found out without a row, then answered in parts.

The code that compares states asks for rows in which versions differ, and what it asks does not hang
on rows. So it is run once over nothing, to hear the questions, and then by every task, over those
rows of the answers that lie in its range of ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.engine.ops.type_changes import place_of
from omnigraph.model.limits import SPARK_PART_ROWS_MAX
from omnigraph.spark.upkeep.ranges import Piece
from omnigraph.storage.delta_parts import DeltaPart
from omnigraph.storage.lance_delta_parts import plan_delta
from omnigraph.storage.ports import TableDelta, TableStore, TableVersion

_NOTHING = pa.table({})


@dataclass(frozen=True, slots=True)
class Question:
    """Which rows of `new` another version lacks or has elsewhere, and the other way round; without
    an `old` version, all of them."""

    old: TableVersion | None
    new: TableVersion


@dataclass(frozen=True, slots=True)
class Questions:
    """Hears what is asked, and answers that there is nothing."""

    heard: dict[Question, None] = field(default_factory=dict)

    def schema(self, at: TableVersion) -> pa.Schema:  # noqa: ARG002  # nobody is to ask for more
        """No columns."""
        return pa.schema([])

    def scan(
        self,
        at: TableVersion,
        *,
        columns: Sequence[str],  # noqa: ARG002  # tasks read those of the type
        predicate: str | None,
    ) -> pa.Table:
        """No rows."""
        assert predicate is None, "states are compared whole"
        self.heard[Question(None, at)] = None
        return _NOTHING

    def find_delta(
        self,
        old: TableVersion,
        new: TableVersion,
        *,
        columns: Sequence[str],  # noqa: ARG002  # tasks read those of the type
    ) -> TableDelta:
        """No difference."""
        self.heard[Question(old, new)] = None
        return TableDelta(gone=_NOTHING, come=_NOTHING)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers with the rows that a task was sent; of those that were not, there are none."""

    questions: tuple[Question, ...]
    rows_by_sort: Mapping[int, pa.Table]

    @staticmethod
    def of(questions: Sequence[Question], pieces: Iterable[Piece]) -> Answers:
        """What the pieces of a range say."""
        batches: dict[int, list[pa.RecordBatch]] = {}
        for each in pieces:
            batches.setdefault(each.sort, []).append(each.rows)
        rows = {sort: pa.Table.from_batches(each) for sort, each in batches.items()}
        return Answers(tuple(questions), rows)

    def schema(self, at: TableVersion) -> pa.Schema:  # noqa: ARG002  # rows come as they are
        """No columns: rows come with those they have."""
        return pa.schema([])

    def scan(
        self,
        at: TableVersion,
        *,
        columns: Sequence[str],  # noqa: ARG002  # rows come with those they have
        predicate: str | None,  # noqa: ARG002  # as it was asked
    ) -> pa.Table:
        """The rows of a version."""
        return self.come(Question(None, at))

    def find_delta(
        self,
        old: TableVersion,
        new: TableVersion,
        *,
        columns: Sequence[str],  # noqa: ARG002  # rows come with those they have
    ) -> TableDelta:
        """The rows in which two versions differ."""
        question = Question(old, new)
        return TableDelta(gone=self.gone(question), come=self.come(question))

    def gone(self, question: Question) -> pa.Table:
        """The rows of the old version that the new one lacks or has elsewhere."""
        return self._rows(2 * self._place(question))

    def come(self, question: Question) -> pa.Table:
        """The rows of the new version that the old one lacks or has elsewhere."""
        return self._rows(2 * self._place(question) + 1)

    def _place(self, question: Question) -> int:
        return self.questions.index(question)

    def _rows(self, sort: int) -> pa.Table:
        return self.rows_by_sort.get(sort, _NOTHING)


def plan_answers(
    questions: Sequence[Question], tables: TableStore
) -> Iterator[tuple[int, DeltaPart]]:
    """The rows that answer questions, in parts, each with the sort that tells its rows."""
    for place, each in enumerate(questions):
        if each.old is None:
            for part in tables.parts(each.new, rows_max=SPARK_PART_ROWS_MAX):
                yield 2 * place + 1, DeltaPart(part, None)
            continue
        old, new = place_of(each.old, tables), place_of(each.new, tables)
        delta = plan_delta(old, new, rows_max=SPARK_PART_ROWS_MAX)
        yield from ((2 * place, part) for part in delta.gone)
        yield from ((2 * place + 1, part) for part in delta.come)
