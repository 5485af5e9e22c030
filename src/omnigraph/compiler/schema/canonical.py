"""The two serialized forms of a catalog: canonical JSON with its hash, and formatted `.pg` text.

Two schemas have equal canonical forms exactly when they mean the same, apart from hints for the
migration planner. The canonical form is an on-disk format (version 1): every field and its
position is part of it. Decoding verifies the form and not the meaning, which the checker verified
before encoding. Compiling the formatted text gives the same catalog.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TypeAlias

from omnigraph.compiler.schema.annotations import annotation_key
from omnigraph.compiler.schema.check import make_catalog, property_id, type_id
from omnigraph.compiler.schema.constraints import constraint_key
from omnigraph.model.catalog import (
    ANY_CARDINALITY,
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Constraint,
    DeclaredType,
    EdgeType,
    Index,
    Interface,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
    describe_constraint,
    quote_text,
)
from omnigraph.model.types import SCALAR_BY_NAME, PropertyType, Scalar, Vector

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

FORMAT_VERSION = 1


def encode_schema(catalog: Catalog) -> str:
    """Encode a schema in its canonical form."""
    return json.dumps(document_of(catalog), separators=(",", ":"), ensure_ascii=False)


def hash_schema(catalog: Catalog) -> str:
    """The hash that identifies a schema independently of its text."""
    return f"sha256:{hashlib.sha256(encode_schema(catalog).encode()).hexdigest()}"


def decode_schema(text: str) -> Catalog:
    """Decode a canonical form in any JSON layout; raises `ValueError` if it is not exactly valid.

    A missing or additional field, a wrong number and a wrong order are all rejected.
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


def encode_annotations(annotations: tuple[Annotation, ...]) -> list[Json]:
    """Encode annotations for the canonical form."""
    return [_encode_annotation(each) for each in annotations]


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
        "annotations": encode_annotations(node.annotations),
        "implements": [*node.implements],
        "properties": _encode_properties(node),
        "constraints": [encode_constraint(each) for each in node.constraints],
    }


def _encode_edge(edge: EdgeType) -> Json:
    return {
        "name": edge.name,
        "type_id": type_id(edge.kind, edge.name),
        "annotations": encode_annotations(edge.annotations),
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
            "annotations": encode_annotations(prop.annotations),
        }
        for prop in owner.properties.values()
    ]


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
            retained = _decode_annotations(annotations)
            return Property(name, _decode_type(type), retained, renamed_from=None)
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
    raise ValueError(f"{constant} is not part of the canonical form")


def _invalid(encoded: Json) -> ValueError:
    return ValueError(f"not part of a schema in canonical form: {str(encoded)[:80]}")


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
