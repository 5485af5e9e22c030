"""What a ranking compares with: the vector of a query, the constant of a fusion.

The same for every executor, refusals included. Looks at no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph.compiler.ir import Given, Nearest, PropertyValue, Value
from omnigraph.engine.read.matching import Inputs
from omnigraph.model.catalog import Catalog
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import EmbeddingError, InvalidValueError
from omnigraph.model.types import Vector

QueryVector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors that one read compares with; without an embedder texts have none."""

    inputs: Inputs
    embedder: Embedder | None
    catalog: Catalog
    type_by_variable: Mapping[str, str]

    def find(self, ranking: Nearest) -> QueryVector | None:
        """The vector that a ranking measures distances from, None if that is null.

        A text that cannot be embedded raises `EmbeddingError`, and `InvalidValueError` if its
        vector could not be compared.
        """
        element = ranking.field.type.element
        assert isinstance(element, Vector), "only vectors have neighbours"
        value = self.inputs.value_of(ranking.query)
        if value is None:
            return None
        if isinstance(value, str):
            value = self._embed(value, ranking.field, element.dimension)
        assert isinstance(value, tuple)
        return np.array([_number(each) for each in value], np.float32)

    def _embed(self, text: str, field: PropertyValue, dimension: int) -> Value:
        if self.embedder is None:
            raise EmbeddingError(
                action=f"embed the text that ${field.variable}.{field.property} is compared with",
                reason="no embedding provider is configured; set OMNIGRAPH_EMBEDDINGS_MOCK=1 for "
                "the built-in one, or give a vector",
            )
        self._require_model(field, self.embedder)
        return self.embedder.embed(text, dimension)

    def _require_model(self, field: PropertyValue, embedder: Embedder) -> None:
        type_name = self.type_by_variable[field.variable]
        declared = self.catalog.nodes[type_name].properties[field.property]
        recorded = declared.embedding.model if declared.embedding is not None else None
        if recorded is not None and recorded != embedder.model:
            raise InvalidValueError(
                subject=f"{type_name}.{field.property}",
                expected=f"a vector of model '{recorded}'",
                value=None,
                problem=f"its vectors were made by model '{recorded}', and texts are embedded by "
                f"'{embedder.model}'; configure '{recorded}' or give a vector",
            )


def fusion_constant(k: Given, inputs: Inputs) -> int | None:
    """The constant of `rrf()`, which is positive; None if it is null."""
    constant = inputs.value_of(k)
    if constant is None:
        return None
    assert isinstance(constant, int)
    if constant <= 0:
        raise InvalidValueError(
            subject="the constant of rrf()",
            expected="a positive number",
            value=constant,
            problem=f"{constant} is not positive",
        )
    return constant


def _number(value: Value) -> float:
    assert isinstance(value, int | float), "the compiler lets only numbers be a vector"
    return float(value)
