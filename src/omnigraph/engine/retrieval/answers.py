"""What a retrieval returns: passages in order, their text for a prompt, and a receipt.

Plain values: a receipt is all that is needed to have the same answer again, and can be kept as
JSON. Knows neither how passages are found nor how they are packed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import orjson

RECEIPT_FORMAT = 1
"""Stays the same as long as equal receipts mean equal answers."""

TokenCount = Callable[[str], int]
"""Says how many tokens a text is."""


@dataclass(frozen=True, slots=True, order=True)
class NodeName:
    """A node: only its type and its id together name it."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
class PathStep:
    """One edge of a path: its type, whether it is followed `out` or `in`, and where it leads."""

    edge: str
    direction: str
    node: NodeName


@dataclass(frozen=True, slots=True)
class ArmRank:
    """A node's place in one ranking, counted from 1, and its relevance or distance there; None
    where the ranking is a query that tells neither."""

    arm: str
    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands in an answer, and why.

    `score` is that of all rankings together, 0 for a neighbour that none of them names. `path`
    leads from `seed`, which the search found, to the node; it is empty for what was found itself.
    A gap between two ranks is a passage that did not fit. Only the first passage may be cut.
    """

    rank: int
    node: NodeName
    score: float
    arms: tuple[ArmRank, ...]
    seed: NodeName
    path: tuple[PathStep, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """One node of an answer: its place, what it holds, and both as text."""

    place: Place
    properties: Mapping[str, object]
    text: str

    @property
    def type(self) -> str:
        """The node's type."""
        return self.place.node.type

    @property
    def id(self) -> str:
        """The node's id."""
        return self.place.node.id

    @property
    def rank(self) -> int:
        """Its place, counted from 1."""
        return self.place.rank


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A vector that was looked for, the model that made it, and the hash of the text that it was
    made of; None for both if the caller gave it."""

    model: str | None
    text_hash: str | None
    numbers: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, all of it; None for types and edges means every one."""

    text: str
    types: tuple[str, ...] | None
    edges: tuple[str, ...] | None
    hops: int
    k: int
    budget_tokens: int
    word_weight: float
    vector_weight: float
    counted_by: str


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What was asked by a query whose nodes come first; None for edges means every one.

    `params` has a value for every parameter, as JSON has it. `now` is when the query ran, None
    unless it asks for the time. `query` is None where a server keeps the text of `name` to itself.
    """

    query: str | None
    name: str
    params: Mapping[str, object]
    now: str | None
    edges: tuple[str, ...] | None
    hops: int
    budget_tokens: int
    counted_by: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an answer was made of, so that `replay` makes it again.

    `query_hash` is that of the request and the vectors, `text_hash` that of the packed text.
    """

    commit_id: str
    query_hash: str
    request: Request | QueryRequest
    vectors: tuple[QueryVector, ...]
    arms: tuple[str, ...]
    places: tuple[Place, ...]
    left_out: int
    tokens: int
    text_hash: str
    format: int = RECEIPT_FORMAT

    def to_json(self) -> dict[str, object]:
        """The receipt as values of JSON, which `replay` takes as well."""
        made: dict[str, object] = orjson.loads(orjson.dumps(self))
        return made


@dataclass(frozen=True, slots=True)
class Retrieval:
    """An answer: passages, best first, and all of them as one text within the budget.

    `left_out` is how many passages were found beside these and did not fit.
    """

    passages: tuple[Passage, ...]
    text: str
    tokens: int
    left_out: int
    receipt: Receipt


def hash_text(text: str) -> str:
    """What receipts tell a text by."""
    return sha256(text.encode()).hexdigest()
