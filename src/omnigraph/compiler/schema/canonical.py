"""The canonical form of a schema: compact JSON, equal exactly when two schemas mean the same.

It is stored beside a graph and hashed to recognise its schema, so every field and its place is part
of a format on disk (version 1). Hints for the migration planner are no part of it. Decoding proves
the form, not the meaning: that was the checker's, before anything was encoded.
"""

import hashlib
import json
from typing import TypeAlias

from omnigraph.compiler.schema.annotations import annotation_key
from omnigraph.compiler.schema.check import make_catalog
from omnigraph.compiler.schema.constraints import constraint_key
from omnigraph.compiler.schema.identities import property_identity, type_identity
from omnigraph.model.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    Index,
    Interface,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.model.types import SCALAR_BY_NAME, PropertyType, Scalar, Vector

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

FORMAT_VERSION = 1


def encode_schema(catalog: Catalog) -> str:
    """The canonical form of a schema."""
    return json.dumps(document_of(catalog), separators=(",", ":"), ensure_ascii=False)


def hash_schema(catalog: Catalog) -> str:
    """The hash by which a schema is recognised, whatever its text looked like."""
    return f"sha256:{hashlib.sha256(encode_schema(catalog).encode()).hexdigest()}"


def decode_schema(text: str) -> Catalog:
    """The schema of a canonical form, in whatever layout; `ValueError` if it is not exactly one.

    A missing or additional field, a wrong number and a wrong order are all refused.
    """
    try:
        document: Json = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("the canonical form is nested too deeply") from error
    match document:
        case {"ir_version": 1, "interfaces": [*interfaces], "nodes": [*nodes], "edges": [*edges]}:
            catalog = make_catalog(
                map(_decode_interface, interfaces),
                map(_decode_node, nodes),
                map(_decode_edge, edges),
            )
        case _:
            raise _invalid(document)
    if document_of(catalog) != document:
        raise ValueError("the canonical form is not the one that its own schema has")
    return catalog


def document_of(catalog: Catalog) -> dict[str, Json]:
    """The canonical form before it is text."""
    return {
        "ir_version": FORMAT_VERSION,
        "interfaces": [_encode_interface(each) for each in catalog.interfaces.values()],
        "nodes": [_encode_node(each) for each in catalog.nodes.values()],
        "edges": [_encode_edge(each) for each in catalog.edges.values()],
    }


def encode_type(type: PropertyType) -> dict[str, Json]:
    """A property's type as the canonical form writes it."""
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
    """A constraint as the canonical form writes it."""
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


def encode_annotations(annotations: tuple[Annotation, ...]) -> list[Json]:
    """Annotations as the canonical form writes them."""
    return [_encode_annotation(each) for each in annotations]


def _encode_interface(interface: Interface) -> Json:
    return {
        "name": interface.name,
        "type_id": type_identity(interface.kind, interface.name),
        "properties": _encode_properties(interface),
    }


def _encode_node(node: NodeType) -> Json:
    return {
        "name": node.name,
        "type_id": type_identity(node.kind, node.name),
        "annotations": encode_annotations(node.annotations),
        "implements": [*node.implements],
        "properties": _encode_properties(node),
        "constraints": [encode_constraint(each) for each in node.constraints],
    }


def _encode_edge(edge: EdgeType) -> Json:
    return {
        "name": edge.name,
        "type_id": type_identity(edge.kind, edge.name),
        "annotations": encode_annotations(edge.annotations),
        "from_type": edge.source,
        "to_type": edge.target,
        "cardinality": {"min": edge.cardinality.minimum, "max": edge.cardinality.maximum},
        "properties": _encode_properties(edge),
        "constraints": [encode_constraint(each) for each in edge.constraints],
    }


def _encode_properties(owner: Interface | NodeType | EdgeType) -> list[Json]:
    return [_encode_property(owner, each) for each in owner.properties.values()]


def _encode_property(owner: Interface | NodeType | EdgeType, prop: Property) -> Json:
    return {
        "name": prop.name,
        "prop_id": property_identity(owner.kind, owner.name, prop.name),
        "prop_type": encode_type(prop.type),
        "annotations": encode_annotations(prop.annotations),
    }


def _encode_annotation(annotation: Annotation) -> Json:
    encoded: dict[str, Json] = {"name": annotation.name, "value": annotation.value}
    if annotation.arguments:
        encoded["kwargs"] = dict(annotation.arguments)
    return encoded


def _encode_bound(bound: int | float | None) -> Json:
    if bound is None:
        return None
    return {"Integer": bound} if isinstance(bound, int) else {"Float": bound}


def _decode_interface(encoded: Json) -> Interface:
    match encoded:
        case {"name": str(name), "properties": [*properties]}:
            return Interface(name, _decode_properties(properties))
        case _:
            raise _invalid(encoded)


def _decode_node(encoded: Json) -> NodeType:
    match encoded:
        case {
            "name": str(name),
            "annotations": [*annotations],
            "implements": [*implements],
            "properties": [*properties],
            "constraints": [*constraints],
        }:
            return NodeType(
                name,
                _decode_properties(properties),
                _decode_constraints(constraints),
                _decode_annotations(annotations),
                _decode_names(implements),
                renamed_from=None,
            )
        case _:
            raise _invalid(encoded)


def _decode_edge(encoded: Json) -> EdgeType:
    match encoded:
        case {
            "name": str(name),
            "annotations": [*annotations],
            "from_type": str(source),
            "to_type": str(target),
            "cardinality": {"min": minimum, "max": maximum},
            "properties": [*properties],
            "constraints": [*constraints],
        }:
            return EdgeType(
                name,
                source,
                target,
                Cardinality(
                    _decode_integer(minimum), None if maximum is None else _decode_integer(maximum)
                ),
                _decode_properties(properties),
                _decode_constraints(constraints),
                _decode_annotations(annotations),
                renamed_from=None,
            )
        case _:
            raise _invalid(encoded)


def _decode_properties(encoded: list[Json]) -> dict[str, Property]:
    properties = {prop.name: prop for prop in map(_decode_property, encoded)}
    return dict(sorted(properties.items()))


def _decode_property(encoded: Json) -> Property:
    match encoded:
        case {"name": str(name), "prop_type": type, "annotations": [*annotations]}:
            kept = _decode_annotations(annotations)
            return Property(name, _decode_type(type), kept, renamed_from=None)
        case _:
            raise _invalid(encoded)


def _decode_type(encoded: Json) -> PropertyType:
    match encoded:
        case {
            "scalar": scalar,
            "nullable": bool(is_nullable),
            "list": bool(is_list),
            "enum_values": None | [*_] as values,
        }:
            enum_values = None if values is None else _decode_names(values)
            return PropertyType(_decode_element(scalar), is_nullable, is_list, enum_values)
        case _:
            raise _invalid(encoded)


def _decode_element(encoded: Json) -> Scalar | Vector:
    match encoded:
        case {"Vector": dimension}:
            return Vector(_decode_integer(dimension))
        case str(name) if name in SCALAR_BY_NAME:
            return SCALAR_BY_NAME[name]
        case _:
            raise _invalid(encoded)


def _decode_constraints(encoded: list[Json]) -> tuple[Constraint, ...]:
    return tuple(sorted(map(_decode_constraint, encoded), key=constraint_key))


def _decode_constraint(encoded: Json) -> Constraint:
    match encoded:
        case {"Key": [*columns]}:
            return Key(_decode_names(columns))
        case {"Unique": [*columns]}:
            return Unique(_decode_names(columns))
        case {"Index": [*columns]}:
            return Index(_decode_names(columns))
        case {"Range": {"property": str(name), "min": minimum, "max": maximum}}:
            return Range(name, _decode_bound(minimum), _decode_bound(maximum))
        case {"Check": {"property": str(name), "pattern": str(pattern)}}:
            return Check(name, pattern)
        case _:
            raise _invalid(encoded)


def _decode_bound(encoded: Json) -> int | float | None:
    match encoded:
        case None:
            return None
        case {"Integer": bound}:
            return _decode_integer(bound)
        case {"Float": float(bound)}:
            return bound
        case _:
            raise _invalid(encoded)


def _decode_annotations(encoded: list[Json]) -> tuple[Annotation, ...]:
    return tuple(sorted(map(_decode_annotation, encoded), key=annotation_key))


def _decode_annotation(encoded: Json) -> Annotation:
    match encoded:
        case {"name": str(name), "value": None | str() as value, **others}:
            arguments = others.get("kwargs", {})
            if isinstance(arguments, dict):
                pairs = ((key, _decode_text(each)) for key, each in arguments.items())
                return Annotation(name, value, tuple(sorted(pairs)))
            raise _invalid(encoded)
        case _:
            raise _invalid(encoded)


def _decode_names(encoded: list[Json]) -> tuple[str, ...]:
    return tuple(sorted(map(_decode_text, encoded)))


def _decode_text(encoded: Json) -> str:
    if isinstance(encoded, str):
        return encoded
    raise _invalid(encoded)


def _decode_integer(encoded: Json) -> int:
    if isinstance(encoded, int) and not isinstance(encoded, bool):
        return encoded
    raise _invalid(encoded)


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no part of the canonical form")


def _invalid(encoded: Json) -> ValueError:
    return ValueError(f"not part of a schema in canonical form: {str(encoded)[:80]}")
