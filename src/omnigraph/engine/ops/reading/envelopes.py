"""What an NDJSON record must be, values aside: its members, its type, the ends of an edge.

Every rule exists twice: over many records at once, to say quickly that all is well, and over one
record, to say what is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import NoneType

from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.reading.columns import name_kind
from omnigraph.engine.ops.reading.rows import describe_unknown
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.names import find_near_name

Record = dict[str, object]

_NODE_FIELDS = frozenset({"type", "data"})
_EDGE_FIELDS = frozenset({"edge", "from", "to", "data"})


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Well-formed records of one type, in order: their properties and, of edges, their ends.

    `member_count` is how many members all their objects have.
    """

    declared: NodeType | EdgeType
    properties: Sequence[Record]
    ends: Sequence[Sequence[object]]
    member_count: int


def open_envelopes(records: Sequence[Record], catalog: Catalog) -> list[Envelopes] | None:
    """The records by type; None if some may not be well-formed, so that each must be looked at."""
    if not set(map(type, records)) <= {dict}:
        return None
    names = [record.get("type") for record in records]
    if not set(map(type, names)) <= {str, NoneType}:
        return None
    opened: list[Envelopes | None] = []
    for name, group in _group(records, names):
        if name is None:
            opened += _open_edges(group, catalog)
        else:
            node = catalog.nodes.get(str(name))
            opened.append(_open(group, node, ends=()) if node else None)
    certain = [each for each in opened if each is not None]
    return certain if len(certain) == len(opened) else None


def find_problem(record: object, catalog: Catalog) -> str | None:
    """What is wrong with a record, if anything."""
    if not isinstance(record, dict):
        return f"expected 'type' or 'edge' in an object, not {name_kind(record)}"
    if "type" in record and "edge" in record:
        return "both 'type' and 'edge' are given; a record has one of them"
    if "type" in record:
        return _find_node_problem(record, catalog)
    if "edge" in record:
        return _find_edge_problem(record, catalog)
    return "expected 'type' or 'edge'"


def _group(
    records: Sequence[Record], names: Sequence[object]
) -> Iterable[tuple[object, Sequence[Record]]]:
    if len(set(names)) == 1:
        return [(names[0], records)]
    groups: dict[object, list[Record]] = defaultdict(list)
    for record, name in zip(records, names, strict=True):
        groups[name].append(record)
    return groups.items()


def _open_edges(records: Sequence[Record], catalog: Catalog) -> list[Envelopes | None]:
    spellings = [record.get("edge") for record in records]
    if set(map(type, spellings)) != {str}:
        return [None]
    edge_by_spelling = {each: catalog.find_edge(str(each)) for each in set(spellings)}
    names = [edge and edge.name for edge in map(edge_by_spelling.__getitem__, spellings)]
    opened: list[Envelopes | None] = []
    for name, group in _group(records, names):
        ends = [each.get("from") for each in group], [each.get("to") for each in group]
        is_certain = name is not None and {*map(type, ends[0]), *map(type, ends[1])} == {str}
        opened.append(_open(group, catalog.edges[str(name)], ends=ends) if is_certain else None)
    return opened


def _open(
    records: Sequence[Record],
    declared: NodeType | EdgeType,
    *,
    ends: Sequence[Sequence[object]],
) -> Envelopes | None:
    given = [record.get("data") for record in records]
    kinds = set(map(type, given))
    absent_count = sum(each is None for each in given) if NoneType in kinds else 0
    # The members looked at are those there are, or some record has one that it should not have.
    known_count = len(records) * (len(ends) + 2) - absent_count
    found_count = sum(map(len, records))
    if found_count != known_count or not kinds <= {dict, NoneType}:
        return None
    properties = [each if isinstance(each, dict) else {} for each in given]
    names = set[str]().union(*properties)
    if not names <= declared.properties.keys() | {"id"}:
        return None
    if "id" in names and any(each.get("id", "") is None for each in properties):
        return None
    return Envelopes(declared, properties, ends, found_count + sum(map(len, properties)))


def _find_node_problem(record: Record, catalog: Catalog) -> str | None:
    if unknown := [field for field in record if field not in _NODE_FIELDS]:
        return f"unknown field {show_text(unknown[0])}; a node has 'type' and 'data'"
    name = record["type"]
    if not isinstance(name, str):
        return f"'type' must be a string, not {name_kind(name)}"
    if name not in catalog.nodes:
        return f"unknown node type {show_text(name)}{_advise(name, catalog.nodes)}"
    return _find_property_problem(record, catalog.nodes[name])


def _find_edge_problem(record: Record, catalog: Catalog) -> str | None:
    if unknown := [field for field in record if field not in _EDGE_FIELDS]:
        return f"unknown field {show_text(unknown[0])}; an edge has 'edge', 'from', 'to' and 'data'"
    name = record["edge"]
    if not isinstance(name, str):
        return f"'edge' must be a string, not {name_kind(name)}"
    edge = catalog.find_edge(name)
    if edge is None:
        return f"unknown edge type {show_text(name)}{_advise(name, catalog.edges)}"
    for end in ("from", "to"):
        if end not in record:
            return f"edge missing '{end}'"
        if not isinstance(record[end], str):
            return f"'{end}' must be a string, not {name_kind(record[end])}"
    return _find_property_problem(record, edge)


def _find_property_problem(record: Record, declared: NodeType | EdgeType) -> str | None:
    given = record.get("data", {})
    if not isinstance(given, dict):
        return f"'data' must be an object, not {name_kind(given)}"
    for name in given:
        if name != "id" and name not in declared.properties:
            return describe_unknown(declared, name, ends="'from' and 'to', beside 'data'")
    if given.get("id", "") is None:
        return "'id' must be a string, not null; leave it out to have one made"
    return None


def _advise(name: str, candidates: Iterable[str]) -> str:
    near = find_near_name(name, candidates)
    return "" if near is None else f"; did you mean '{near}'?"
