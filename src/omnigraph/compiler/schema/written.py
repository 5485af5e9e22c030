"""A catalog printed as `.pg` text in one normal form, so that people can read what was compiled.

Promises that compiling the text gives the same catalog again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.model.catalog import (
    ANY_CARDINALITY,
    Annotation,
    Catalog,
    Constraint,
    EdgeType,
    NodeType,
    Property,
    describe_constraint,
    quote_text,
)


def write_schema(catalog: Catalog) -> str:
    """The catalog as a schema: one declaration a paragraph, one property or constraint a line."""
    declarations = [
        *(
            _declare(f"interface {each.name}", each.properties.values(), ())
            for each in catalog.interfaces.values()
        ),
        *(
            _declare(_node_heading(each), each.properties.values(), each.constraints)
            for each in catalog.nodes.values()
        ),
        *(
            _declare(_edge_heading(each), each.properties.values(), each.constraints)
            for each in catalog.edges.values()
        ),
    ]
    return "\n".join(declarations)


def _node_heading(node: NodeType) -> str:
    annotations = _annotations(node.annotations, node.renamed_from)
    implements = f" implements {', '.join(node.implements)}" if node.implements else ""
    return f"node {node.name}{annotations}{implements}"


def _edge_heading(edge: EdgeType) -> str:
    card = "" if edge.cardinality == ANY_CARDINALITY else f" @card({edge.cardinality})"
    annotations = _annotations(edge.annotations, edge.renamed_from)
    return f"edge {edge.name}: {edge.source} -> {edge.target}{card}{annotations}"


def _declare(
    heading: str, properties: Iterable[Property], constraints: Iterable[Constraint]
) -> str:
    declared = list(properties)
    implied = {
        f"@{annotation.name}({prop.name})" for prop in declared for annotation in prop.annotations
    }
    written = (describe_constraint(each) for each in constraints)
    # Before the properties, where a constraint cannot be taken for a property's annotation.
    lines = [each for each in written if each not in implied]
    lines += [
        f"{prop.name}: {prop.type}{_annotations(prop.annotations, prop.renamed_from)}"
        for prop in declared
    ]
    return "\n".join([f"{heading} {{", *(f"  {line}" for line in lines), "}\n"])


def _annotations(annotations: Iterable[Annotation], renamed_from: str | None) -> str:
    hint = [] if renamed_from is None else [Annotation("rename_from", renamed_from, ())]
    return "".join(f" {_annotation(each)}" for each in (*annotations, *hint))


def _annotation(annotation: Annotation) -> str:
    arguments = ", ".join(_arguments(annotation))
    return f"@{annotation.name}({arguments})" if arguments else f"@{annotation.name}"


def _arguments(annotation: Annotation) -> Iterator[str]:
    if annotation.value is not None:
        yield quote_text(annotation.value)
    for name, value in annotation.arguments:
        yield f"{name}={quote_text(value)}"
