"""Answers of reads that were given lately: the same question at the same commit has the same one.

Kept under the commit, so nothing has to be taken back: when a branch moves, other questions are
asked. Only answers that are the same for whoever may ask are kept, and no long ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from omnigraph.engine.read.warm import Warm
from omnigraph.server.limits import KEPT_ANSWER_BYTES_MAX, KEPT_ANSWERS_BYTES_MAX

_OVERHEAD_BYTES = 512
"""About what an entry takes beside its texts."""


@dataclass(frozen=True, slots=True)
class Question:
    """All that decides an answer: what is asked, at which commit, in which format.

    `origin` tells how the graph was opened: with another provider of vectors, a text finds others.
    """

    graph_id: str
    origin: Hashable
    commit_id: str
    branch: str
    source: str
    name: str | None
    params: str
    is_arrow: bool


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A body with what its headers say."""

    commit_id: str
    query_name: str
    body: bytes


class KeptAnswers:
    """The answers that were asked for last, up to a number of bytes; safe between threads."""

    def __init__(self) -> None:
        self._kept: Warm[Question, tuple[KeptAnswer, int]] = Warm(
            bytes_max=KEPT_ANSWERS_BYTES_MAX, size_of=lambda each: each[1]
        )

    def find(self, question: Question) -> KeptAnswer | None:
        """The answer, if it was given lately."""
        found = self._kept.find(question)
        return None if found is None else found[0]

    def keep(self, question: Question, answer: KeptAnswer) -> None:
        """Keep an answer for whoever asks next, unless it is long."""
        texts = len(answer.body) + len(question.source) + len(question.params)
        if answer.commit_id == question.commit_id and texts <= KEPT_ANSWER_BYTES_MAX:
            self._kept.keep(question, (answer, texts + _OVERHEAD_BYTES))


def depends_on_time(source: str) -> bool:
    """Whether a query may ask what time it is: one that does has the word."""
    return "now" in source.lower()
