"""Conditions about the rows of one type, from the text of a condition to what rows are asked.

A condition is written as behind the `where` of a mutation, and compiled as one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from omnigraph.compiler.compile import compile_mutation
from omnigraph.compiler.ir import Condition, Delete, MutationIR
from omnigraph.engine.read.conditions import (
    ALWAYS,
    NEVER,
    BoundCondition,
    Compare,
    Every,
    HasElement,
    HasText,
    IsNull,
    IsPresent,
    OneOf,
    Some,
)
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.source import Source


def compile_row_condition(
    text: str, declared: NodeType | EdgeType, *, catalog: Catalog, parameters: str
) -> Condition:
    """The condition that a text says of the rows of a type; `CompileError` says what is wrong.

    `parameters` declare what the text may name, as a query does.
    """
    written = f"query rows({parameters}) {{ delete {declared.name} where\n{text}\n}}"
    ir = compile_mutation(Source("<where>", written), _alone(declared, catalog), name=None).ir
    assert isinstance(ir, MutationIR), "a read would not have been compiled"
    match ir.operations:
        case (Delete(condition=condition),):
            return condition
        case _:
            raise InvalidValueError(
                subject="where",
                expected="a condition",
                value=text,
                problem="it is one condition and nothing else",
            )


def settle(condition: BoundCondition, *, stored: Collection[str]) -> BoundCondition:
    """The condition of rows that have only some columns: the others count as null."""
    match condition:
        case Every(parts):
            settled = [settle(each, stored=stored) for each in parts]
            kept = tuple(each for each in settled if each != ALWAYS)
            return NEVER if NEVER in kept else Every(kept)
        case Some(parts):
            settled = [settle(each, stored=stored) for each in parts]
            kept = tuple(each for each in settled if each != NEVER)
            return ALWAYS if ALWAYS in kept else Some(kept)
        case IsNull(name):
            return condition if name in stored else ALWAYS
        case IsPresent(name):
            return condition if name in stored else NEVER
        case Compare(column) | OneOf(column) | HasElement(column) | HasText(column):
            return condition if column.name in stored else NEVER


def columns_of(condition: BoundCondition) -> Iterator[str]:
    """The columns that a condition is about, some more than once."""
    match condition:
        case Every(parts) | Some(parts):
            for each in parts:
                yield from columns_of(each)
        case IsNull(name) | IsPresent(name):
            yield name
        case Compare(column) | OneOf(column) | HasElement(column) | HasText(column):
            yield column.name


def _alone(declared: NodeType | EdgeType, catalog: Catalog) -> Catalog:
    """A catalog of one type, so that its name means nothing else."""
    match declared:
        case NodeType():
            return replace(catalog, nodes={declared.name: declared}, edges={})
        case EdgeType():
            return replace(catalog, nodes={}, edges={declared.name: declared})
