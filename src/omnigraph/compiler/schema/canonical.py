"""The two serialized forms of a catalog: canonical JSON with its hash, and formatted `.pg` text.

Two schemas have equal canonical forms exactly when they mean the same, apart from hints for the
migration planner. The canonical form is an on-disk format (version 1): every field and its
position is part of it. It is compared and never decoded, because the text from which it was made is
stored beside it. Compiling the formatted text gives the same catalog.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias, TypeVar

from omnigraph.compiler.schema.check import make_catalog, property_id, type_id
from omnigraph.model.catalog import (
    ANY_CARDINALITY,
    Annotation,
    Catalog,
    Check,
    Constraint,
    DeclaredType,
    EdgeType,
    Index,
    Interface,
    Key,
    NodeType,
    Range,
    Unique,
    describe_constraint,
    quote_text,
)
from omnigraph.model.types import PropertyType, Vector

T = TypeVar("T", Interface, NodeType, EdgeType)
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

FORMAT_VERSION = 1


def encode_schema(catalog: Catalog) -> str:
    """Encode a schema in its canonical form."""
    return json.dumps(document_of(catalog), separators=(",", ":"), ensure_ascii=False)


def hash_schema(catalog: Catalog) -> str:
    """The hash that identifies a schema independently of its text."""
    return f"sha256:{hashlib.sha256(encode_schema(catalog).encode()).hexdigest()}"


def without_hints(catalog: Catalog) -> Catalog:
    """The same catalog without hints for the migration planner, as its canonical form has none."""

    def plain(declared: T) -> T:
        properties = {
            name: replace(each, renamed_from=None) for name, each in declared.properties.items()
        }
        return replace(declared, properties=properties)

    return make_catalog(
        map(plain, catalog.interfaces.values()),
        (replace(plain(each), renamed_from=None) for each in catalog.nodes.values()),
        (replace(plain(each), renamed_from=None) for each in catalog.edges.values()),
    )


def document_of(catalog: Catalog) -> dict[str, Json]:
    """The canonical form as a JSON document, before it is serialized."""
    return {
        "ir_version": FORMAT_VERSION,
        "interfaces": [_encode_interface(each) for each in catalog.interfaces.values()],
        "nodes": [_encode_node(each) for each in catalog.nodes.values()],
        "edges": [_encode_edge(each) for each in catalog.edges.values()],
    }


def encode_type(type: PropertyType) -> dict[str, Json]:
    """Encode a property type for the canonical form."""
    match type.element:
        case Vector(dimension):
            scalar: Json = {"Vector": dimension}
        case _:
            scalar = str(type.element)
    return {
        "scalar": scalar,
        "nullable": type.is_nullable,
        "list": type.is_list,
        "enum_values": None if type.enum_values is None else [*type.enum_values],
    }


def encode_constraint(constraint: Constraint) -> dict[str, Json]:
    """Encode a constraint for the canonical form."""
    match constraint:
        case Key(columns):
            return {"Key": [*columns]}
        case Unique(columns):
            return {"Unique": [*columns]}
        case Index(columns):
            return {"Index": [*columns]}
        case Range(name, minimum, maximum):
            low, high = _encode_bound(minimum), _encode_bound(maximum)
            return {"Range": {"property": name, "min": low, "max": high}}
        case Check(name, pattern):
            return {"Check": {"property": name, "pattern": pattern}}


def encode_annotation(annotation: Annotation) -> Json:
    """Encode an annotation for the canonical form."""
    encoded: dict[str, Json] = {"name": annotation.name, "value": annotation.value}
    if annotation.arguments:
        encoded["kwargs"] = dict(annotation.arguments)
    return encoded


def _encode_interface(interface: Interface) -> Json:
    return {
        "name": interface.name,
        "type_id": type_id(interface.kind, interface.name),
        "properties": _encode_properties(interface),
    }


def _encode_node(node: NodeType) -> Json:
    return {
        "name": node.name,
        "type_id": type_id(node.kind, node.name),
        "annotations": [encode_annotation(each) for each in node.annotations],
        "implements": [*node.implements],
        "properties": _encode_properties(node),
        "constraints": [encode_constraint(each) for each in node.constraints],
    }


def _encode_edge(edge: EdgeType) -> Json:
    return {
        "name": edge.name,
        "type_id": type_id(edge.kind, edge.name),
        "annotations": [encode_annotation(each) for each in edge.annotations],
        "from_type": edge.source,
        "to_type": edge.target,
        "cardinality": {"min": edge.cardinality.minimum, "max": edge.cardinality.maximum},
        "properties": _encode_properties(edge),
        "constraints": [encode_constraint(each) for each in edge.constraints],
    }


def _encode_properties(owner: DeclaredType) -> list[Json]:
    return [
        {
            "name": prop.name,
            "prop_id": property_id(owner.kind, owner.name, prop.name),
            "prop_type": encode_type(prop.type),
            "annotations": [encode_annotation(each) for each in prop.annotations],
        }
        for prop in owner.properties.values()
    ]


def _encode_bound(bound: int | float | None) -> Json:
    if bound is None:
        return None
    return {"Integer": bound} if isinstance(bound, int) else {"Float": bound}


def format_schema(catalog: Catalog) -> str:
    """Format a catalog as text: a paragraph per declaration, a line per property or constraint."""
    declared = (*catalog.interfaces.values(), *catalog.stored_types())
    return "\n".join(_format_type(each) for each in declared)


def _format_type(type: DeclaredType) -> str:
    implied = {
        f"@{annotation.name}({prop.name})"
        for prop in type.properties.values()
        for annotation in prop.annotations
    }
    constraints = () if isinstance(type, Interface) else type.constraints
    written = (describe_constraint(each) for each in constraints)
    # Constraints come first, where they cannot be read as the annotation of a property.
    lines = [each for each in written if each not in implied]
    lines += [
        f"{prop.name}: {prop.type}{_annotations(prop.annotations, prop.renamed_from)}"
        for prop in type.properties.values()
    ]
    return "\n".join([f"{_heading(type)} {{", *(f"  {line}" for line in lines), "}\n"])


def _heading(type: DeclaredType) -> str:
    match type:
        case Interface(name=name):
            return f"interface {name}"
        case NodeType(name=name):
            annotations = _annotations(type.annotations, type.renamed_from)
            implements = f" implements {', '.join(type.implements)}" if type.implements else ""
            return f"node {name}{annotations}{implements}"
        case EdgeType(name=name):
            card = "" if type.cardinality == ANY_CARDINALITY else f" @card({type.cardinality})"
            annotations = _annotations(type.annotations, type.renamed_from)
            return f"edge {name}: {type.source} -> {type.target}{card}{annotations}"


def _annotations(annotations: Iterable[Annotation], renamed_from: str | None) -> str:
    hint = [] if renamed_from is None else [Annotation("rename_from", renamed_from, ())]
    return "".join(f" {_annotation(each)}" for each in (*annotations, *hint))


def _annotation(annotation: Annotation) -> str:
    arguments = [f"{name}={quote_text(value)}" for name, value in annotation.arguments]
    if annotation.value is not None:
        arguments.insert(0, quote_text(annotation.value))
    return f"@{annotation.name}({', '.join(arguments)})" if arguments else f"@{annotation.name}"
