"""Results of a retrieval: passages, receipts, and packing into a token budget.

All values are immutable and serializable. A receipt contains everything that a replay needs
besides the graph. Passages are packed in rank order; one that does not fit is skipped, and only
the first may be truncated. Values are indented in the text, so no value can imitate a heading or
another property.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import orjson

from omnigraph.model.errors import InvalidValueError

RECEIPT_FORMAT = 1
"""Unchanged as long as equal receipts mean equal results."""

TokenCount = Callable[[str], int]
"""Counts the tokens of a text."""


@dataclass(frozen=True, slots=True, order=True)
class NodeName:
    """The identity of a node: its type and its id."""

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
    """The rank of a node in one ranking, from 1, and its relevance or distance there.

    `arm` names the ranker, under the name of its field in receipts. `score` is None if the ranking
    is a query that returns neither.
    """

    arm: str
    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a node in a result, and the reason for it.

    `score` is the fused score of all rankings, 0 for a neighbour that is in none of them. `path`
    leads from `seed`, which the search found, to the node; it is empty for a node that the search
    found itself. A gap between two ranks is a passage that did not fit. Only the first passage may
    be truncated.
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
    """One node of a result: its place, its properties, and both as text."""

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
        """The rank of the passage, from 1."""
        return self.place.rank


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query vector, the model that computed it, and the hash of its text.

    `model` and `text_hash` are None if the caller supplied the vector.
    """

    model: str | None
    text_hash: str | None
    numbers: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """All parameters of a search; None for `types` or `edges` means all of them."""

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
    """All parameters of a retrieval that starts from the nodes of a query.

    None for `edges` means all of them. `params` has a JSON value for every parameter. `now` is the
    time at which the query ran, None unless the query uses it. `query` is None if a server does not
    disclose the text of the stored query `name`.
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
    """A description of how a result was computed, from which `replay` computes it again.

    `query_hash` is the hash of the request and the vectors, `text_hash` that of the packed text.
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
        """The receipt as JSON values, which `replay` also accepts."""
        encoded: dict[str, object] = orjson.loads(orjson.dumps(self))
        return encoded


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A retrieval result: passages, best first, and all of them as one text within the budget.

    `left_out` is the number of further passages that were found and did not fit.
    """

    passages: tuple[Passage, ...]
    text: str
    tokens: int
    left_out: int
    receipt: Receipt


def refuse_receipt(problem: str) -> InvalidValueError:
    """The error for a receipt that cannot be replayed."""
    return InvalidValueError(
        subject="receipt", expected="a receipt of this graph", value=None, problem=problem
    )


def hash_text(text: str) -> str:
    """The hash by which receipts identify a text."""
    return sha256(text.encode()).hexdigest()


BYTES_RULE = "utf8/4"
"""The default rule for counting tokens: one token for every four bytes of UTF-8."""

_BETWEEN = "\n\n"
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Packed:
    """The passages that fit, and their text."""

    passages: tuple[Passage, ...]
    text: str
    tokens: int


def count_bytes(text: str) -> int:
    """The approximate number of tokens of a text: a quarter of its bytes in UTF-8, rounded up."""
    return -(-len(text.encode()) // 4)


def write_passage(place: Place, properties: Mapping[str, object]) -> Passage:
    """The passage of a node with some properties."""
    heading = _write_node(place.node)
    if place.path:
        parts = [_write_node(place.seed)]
        for step in place.path:
            arrow = f"-{step.edge}->" if step.direction == "out" else f"<-{step.edge}-"
            parts += [arrow, _write_node(step.node)]
        heading += f" ({' '.join(parts)})"
    lines = [heading, *(f"  {name}: {_write(value)}" for name, value in properties.items())]
    return Passage(place, properties, "\n".join(lines))


def pack(passages: Sequence[Passage], *, budget: int, count: TokenCount) -> Packed:
    """The passages that fit, in order; if the first one does not fit, it is truncated.

    Raises `InvalidValueError` if `count` does not return a number of tokens.
    """
    retained: list[Passage] = []
    text = ""
    tokens = 0
    for position, each in enumerate(passages):
        grown = f"{text}{_BETWEEN}{each.text}" if retained else each.text
        needed = _count(grown, count)
        if needed <= budget:
            retained.append(each)
            text, tokens = grown, needed
        elif position == 0:
            cut = _cut(each.text, budget=budget, count=count)
            if not cut:
                break
            place = replace(each.place, is_cut=True)
            return Packed((replace(each, place=place, text=cut),), cut, _count(cut, count))
    return Packed(tuple(retained), text, tokens)


def _cut(text: str, *, budget: int, count: TokenCount) -> str:
    """The longest prefix of a text that fits together with an ellipsis; empty if none fits."""
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if _count(text[:middle] + _CUT, count) <= budget:
            fits = middle
        else:
            too_long = middle
    return text[:fits] + _CUT if fits else ""


def _count(text: str, count: TokenCount) -> int:
    found: object = count(text)
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    raise InvalidValueError(
        subject="count_tokens",
        expected="a whole number",
        value=found,
        problem=f"it returned {found!r}, which is not a number of tokens",
    )


def _write_node(node: NodeName) -> str:
    return f"{node.type} {_write_json(node.id)}"


def _write(value: object) -> str:
    if isinstance(value, str):
        # Every character that a reader may interpret as a line break counts as one here.
        return "\n    ".join(value.splitlines())
    return _write_json(value)


def _write_json(value: object) -> str:
    return orjson.dumps(value).decode()
