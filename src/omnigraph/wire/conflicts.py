"""How a conflict of a merge names its type: by the key that answers have always used."""

from __future__ import annotations

from omnigraph.model.errors import Conflict

_EDGE_COLUMNS = ["id", "src", "dst"]
_KINDS_OF_EDGES = frozenset({"orphan_edge", "cardinality_violation"})


def table_key_of(conflict: Conflict) -> str:
    """`node:` or `edge:` and the name of the type."""
    images = (conflict.source, conflict.target, conflict.base)
    image = next((each for each in images if each is not None), {})
    # The images of an edge begin with its ends, whatever its properties are.
    is_edge = conflict.kind in _KINDS_OF_EDGES or list(image)[:3] == _EDGE_COLUMNS
    return f"{'edge' if is_edge else 'node'}:{conflict.type}"
