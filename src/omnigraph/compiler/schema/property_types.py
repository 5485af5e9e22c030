"""Declared property types: from the words of a type expression to a `PropertyType`."""

from omnigraph.compiler.diagnostics import Diagnostics, advise_name
from omnigraph.compiler.schema.syntax import (
    EnumTypeSyntax,
    ListTypeSyntax,
    PropertySyntax,
    ScalarTypeSyntax,
    Word,
)
from omnigraph.model.limits import VECTOR_DIMENSION_MAX
from omnigraph.model.source import Span
from omnigraph.model.types import SCALAR_BY_NAME, PropertyType, Scalar, Vector

TYPE_WORDS = (*SCALAR_BY_NAME, "Vector")

# What other languages call our types. Near spellings are found without a list.
_TYPE_BY_FOREIGN_NAME = {
    "text": "String",
    "varchar": "String",
    "char": "String",
    "uuid": "String",
    "json": "String",
    "int": "I32` or `I64",
    "integer": "I32` or `I64",
    "long": "I64",
    "bigint": "I64",
    "smallint": "I32",
    "float": "F32` or `F64",
    "double": "F64",
    "real": "F32",
    "number": "F64` or `I64",
    "decimal": "F64",
    "numeric": "F64",
    "timestamp": "DateTime",
    "time": "DateTime",
    "bytes": "Blob",
    "binary": "Blob",
    "list": "[String]",
    "array": "[String]",
    "embedding": "Vector(n)",
}


def check_type(declared: PropertySyntax, diagnostics: Diagnostics) -> PropertyType | None:
    """The type of a declared property, or `None` after reporting why it has none."""
    match declared.type:
        case ScalarTypeSyntax(name=Word(text="Vector") as name, dimension=dimension):
            if not is_dimension(dimension, name.span, diagnostics):
                return None
            assert dimension is not None
            return PropertyType(Vector(dimension), is_nullable=declared.is_nullable)
        case ScalarTypeSyntax(name=name, dimension=dimension):
            scalar = find_scalar(name, diagnostics)
            if scalar is not None and dimension is not None:
                problem = f"{name.text} takes no number; only Vector does"
                diagnostics.error("S1", problem, name.span, f"write `{name.text}`")
            return None if scalar is None else PropertyType(scalar, declared.is_nullable)
        case ListTypeSyntax(element=element):
            if element.text in {"Blob", "Vector"}:
                problem = f"a list of {element.text} is not supported"
                diagnostics.error("S2", problem, element.span)
                return None
            scalar = find_scalar(element, diagnostics)
            return (
                None if scalar is None else PropertyType(scalar, declared.is_nullable, is_list=True)
            )
        case EnumTypeSyntax(values=values):
            return _check_enum(values, declared, diagnostics)


def find_scalar(name: Word, diagnostics: Diagnostics) -> Scalar | None:
    """The scalar that a word names, reporting a word that names none."""
    if (scalar := SCALAR_BY_NAME.get(name.text)) is not None:
        return scalar
    ours = _TYPE_BY_FOREIGN_NAME.get(name.text.lower())
    advice = f"write `{ours}`" if ours else advise_name(name.text, TYPE_WORDS) or _ALL_TYPES
    diagnostics.error("S1", f"unknown property type `{name.text}`", name.span, advice)
    return None


_ALL_TYPES = (
    f"the types are {', '.join(SCALAR_BY_NAME)}, Vector(n), enum(…) and lists like [String]; "
    "to point at another node declare an edge type"
)


def is_dimension(dimension: int | None, span: Span, diagnostics: Diagnostics) -> bool:
    """Whether a vector's dimension is one, reporting it otherwise."""
    if dimension is None:
        diagnostics.error("S3", "Vector needs a dimension", span, "write `Vector(3)`")
    elif dimension < 1:
        diagnostics.error("S3", "Vector dimension must be greater than zero", span)
    elif dimension > VECTOR_DIMENSION_MAX:
        problem = f"Vector dimension exceeds maximum supported {VECTOR_DIMENSION_MAX}"
        diagnostics.error("S3", problem, span)
    else:
        return True
    return False


def _check_enum(
    values: tuple[Word, ...], declared: PropertySyntax, diagnostics: Diagnostics
) -> PropertyType | None:
    texts: set[str] = set()
    for value in values:
        if value.text in texts:
            problem = f"the enum has duplicate values: `{value.text}`"
            diagnostics.error("S4", problem, value.span, "keep one")
            return None
        texts.add(value.text)
    return PropertyType(Scalar.STRING, declared.is_nullable, enum_values=tuple(sorted(texts)))
