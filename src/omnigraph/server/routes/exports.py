"""The route that writes a branch out as lines of JSON, a piece in memory at a time."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator

from omnigraph.engine.graph import Graph
from omnigraph.model.errors import ForbiddenError
from omnigraph.model.names import BranchName
from omnigraph.model.policy import Action
from omnigraph.server.answers import NDJSON, Answer, Stream
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX, EXPORT_PIECE_CHARACTERS
from omnigraph.server.problems import bad_request
from omnigraph.server.requests import EXPORT
from omnigraph.server.routes.terms import parse_place, refusing
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.export_lines import LineSelection, select_lines


async def export(call: Call) -> Answer | Stream:
    """POST /graphs/{graph_id}/export"""
    asked = EXPORT.read(call.body or b"{}")
    place = parse_place(asked.branch, asked.snapshot)
    selection = select_lines(asked.type_names or [], asked.table_keys or [])
    if place.branch is not None:
        call.require(Action.EXPORT, branch=place.branch, target=None)

    def work(graph: Graph) -> Iterator[bytes]:
        if place.branch is not None:
            _require_known(asked.table_keys or [], graph, branch=place.branch)
        with refusing(advice=""):
            lines = graph.export(branch=place.branch, commit=place.commit, types=selection.types)
        return _join(lines, selection)

    return await call.stream(work, content_type=NDJSON)


def _require_known(keys: Collection[str], graph: Graph, *, branch: BranchName) -> None:
    """Raise if a key names a type of the other kind; a name that no type has is found elsewhere."""
    if not keys:
        return
    try:
        known = graph.tables(branch)
    except ForbiddenError:
        # Who may export and not read gets the lines that there are.
        return
    for key in keys:
        if key not in known:
            raise bad_request(f"table_keys: there is no '{key}'")


def _join(lines: Iterator[str], selection: LineSelection) -> Generator[bytes]:
    """The lines in pieces; an iterator that is closed before its end lets go of the rows."""
    held: list[str] = []
    size = 0
    try:
        for line in selection.keep(lines):
            held.append(line)
            size += len(line)
            if size >= EXPORT_PIECE_CHARACTERS:
                yield "\n".join([*held, ""]).encode()
                held, size = [], 0
        if held:
            yield "\n".join([*held, ""]).encode()
    finally:
        if isinstance(lines, Generator):
            lines.close()


ROUTES = (Route("POST", f"{GRAPH}/export", Body.OPTIONAL_JSON, BODY_BYTES_MAX, export),)
