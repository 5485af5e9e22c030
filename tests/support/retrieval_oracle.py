"""The expected result of a retrieval, computed in plain Python over plain rows.

Rankings are asked of ordinary queries, everything behind them is done here: fusion, neighbourhood,
writing and packing, each in another way than the engine's.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph import Graph
from tests.support.graphs import contents

SCHEMA = """
node Author { name: String @key  about: String? }
node Paper {
  title: String @key
  abstract: String? @index
  body: String? @index
  year: I32?
  topic: Vector(2)?
}
edge Cites: Paper -> Paper
edge Wrote: Author -> Paper
"""

ENDS = {"Cites": ("Paper", "Paper"), "Wrote": ("Author", "Paper")}
TEXTS = (("Author", "about"), ("Author", "name"), ("Paper", "abstract"), ("Paper", "body"))
SHOWN = {"Author": ("about", "name"), "Paper": ("abstract", "body", "title", "year")}

Node = tuple[str, str]
Path = tuple[tuple[str, str, Node], ...]


@dataclass(frozen=True, slots=True)
class RetrievalInput:
    """What is asked of both."""

    text: str
    vector: tuple[float, float] | None
    hops: int
    k: int
    budget: int
    weights: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Expected:
    """The nodes of a result with the paths to them, its text, and how many did not fit."""

    nodes: Sequence[tuple[Node, Path]]
    text: str
    left_out: int


def expected_retrieval(graph: Graph, request: RetrievalInput, *, branch: str = "main") -> Expected:
    """The expected result of a retrieval over all types and edges."""
    scores = _scores(graph, request, branch)
    seeds = sorted(scores, key=lambda node: (-scores[node], node))[: request.k]
    paths: dict[Node, tuple[Node, Path]] = {node: (node, ()) for node in seeds}
    rows = contents(graph, branch)
    last = seeds
    for _ in range(request.hops):
        last = _widen(last, paths, _steps(rows), scores)
    return _pack(paths, rows, request.budget)


# Search


def _scores(graph: Graph, request: RetrievalInput, branch: str) -> Mapping[Node, float]:
    scores: dict[Node, float] = {}
    words, vectors = request.weights
    rankings: list[tuple[str, str, float]] = []
    for type_name, name in TEXTS if words else ():
        rankings.append((type_name, f"bm25($n.{name}, $text)", words))
    if vectors and request.vector is not None:
        rankings.append(("Paper", "nearest($n.topic, $vector)", vectors))
    for type_name, ranking, weight in rankings:
        source = (
            f"query q($text: String, $vector: Vector(2)?) {{ match {{ $n: {type_name} }} "
            f"return {{ $n as id }} order {{ {ranking} }} limit 100 }}"
        )
        params = {"text": request.text, "vector": request.vector and list(request.vector)}
        for place, row in enumerate(graph.query(source, params, branch=branch)):
            node = (type_name, str(row["id"]))
            scores[node] = scores.get(node, 0.0) + weight / (61 + place)
    return scores


# Neighbourhood

_Steps = Mapping[Node, Sequence[tuple[str, str, Node]]]


def _steps(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> _Steps:
    steps: dict[Node, list[tuple[str, str, Node]]] = {}
    for name, (source, target) in ENDS.items():
        for row in rows.get(name, {}).values():
            start, end = (source, str(row["from"])), (target, str(row["to"]))
            steps.setdefault(start, []).append((name, "out", end))
            steps.setdefault(end, []).append((name, "in", start))
    return steps


def _widen(
    starts: Sequence[Node],
    paths: dict[Node, tuple[Node, Path]],
    steps: _Steps,
    scores: Mapping[Node, float],
) -> list[Node]:
    queues = deque(
        (
            start,
            deque(
                sorted(
                    set(steps.get(start, ())),
                    key=lambda step: (-scores.get(step[2], 0), step[0], step[1] == "in", step[2]),
                )
            ),
        )
        for start in starts
    )
    taken = []
    while queues:
        start, queue = queues.popleft()
        while queue and queue[0][2] in paths:
            queue.popleft()
        if queue:
            step = queue.popleft()
            seed, path = paths[start]
            paths[step[2]] = (seed, (*path, step))
            taken.append(step[2])
            queues.append((start, queue))
    return taken


# Packing


def _pack(
    paths: Mapping[Node, tuple[Node, Path]],
    rows: Mapping[str, Mapping[str, Mapping[str, object]]],
    budget: int,
) -> Expected:
    room = 4 * budget
    reached: list[tuple[Node, Path]] = []
    text = b""
    for number, (node, (seed, path)) in enumerate(paths.items()):
        written = _write(node, seed, path, rows[node[0]][node[1]]).encode()
        between = b"\n\n" if reached else b""
        if len(text + between + written) <= room:
            text += between + written
            reached.append((node, path))
        elif number == 0:
            beginning = written.decode()
            while beginning and len(f"{beginning}…".encode()) > room:
                beginning = beginning[:-1]
            if not beginning:
                return Expected([], "", len(paths))
            return Expected([(node, path)], f"{beginning}…", len(paths) - 1)
    return Expected(reached, text.decode(), len(paths) - len(reached))


def _write(node: Node, seed: Node, path: Path, row: Mapping[str, object]) -> str:
    lines = [_name(node)]
    if path:
        walked = _name(seed)
        for edge, direction, end in path:
            walked += f" -{edge}-> " if direction == "out" else f" <-{edge}- "
            walked += _name(end)
        lines[0] += f" ({walked})"
    for name in SHOWN[node[0]]:
        value = row.get(name)
        if value is not None:
            shown = value if isinstance(value, str) else json.dumps(value)
            lines.append(f"  {name}: " + "\n    ".join(shown.splitlines()))
    return "\n".join(lines)


def _name(node: Node) -> str:
    return f"{node[0]} {json.dumps(node[1], ensure_ascii=False)}"
