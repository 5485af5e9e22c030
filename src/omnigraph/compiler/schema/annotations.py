"""Annotations: the words that are valid in each place, and their values.

Constraints are written like annotations; `is_constraint` distinguishes them. Their columns are
checked in `constraints`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from omnigraph.compiler.diagnostics import Diagnostics, advise_name
from omnigraph.compiler.parser import Literal, Name
from omnigraph.compiler.schema.parser import AnnotationSyntax, KeywordArgument, RangeArgument
from omnigraph.model.catalog import (
    COLUMN_CONSTRAINTS,
    SEARCHED_CONSTRAINTS,
    Annotation,
    TypeKind,
)
from omnigraph.model.source import Span
from omnigraph.model.types import PropertyType, TextLanguage

PROPERTY_CONSTRAINT_WORDS = frozenset(COLUMN_CONSTRAINTS)
CONSTRAINT_WORDS = PROPERTY_CONSTRAINT_WORDS | {"range", "check"}

_PROPERTY_WORDS = PROPERTY_CONSTRAINT_WORDS | {"embed"}
_TEXT_WORDS = frozenset({"description", "instruction", "rename_from"})
_ONCE_WORDS = _PROPERTY_WORDS | _TEXT_WORDS

CONSTRAINT_ADVICE = {
    "range": "write it as `@range(property, low..high)`",
    "check": 'write it as `@check(property, "pattern")`',
}

_EDGE_ADVICE = {
    "key": "edges have ids of their own; for one edge per pair write `@unique(src, dst)` in braces",
    "unique": "for one edge per pair write `{ @unique(src, dst) }`",
    "index": "the ends of an edge are always indexed; remove it",
}


@dataclass(frozen=True, slots=True)
class CheckedAnnotation:
    """An annotation that is valid in its place, and the position for later errors."""

    annotation: Annotation
    span: Span


def is_constraint(written: AnnotationSyntax) -> bool:
    """Whether an annotation is a constraint: a constraint word with arguments.

    Options alone, like a language, belong to the property that the annotation follows.
    """
    word = written.name.text
    if word in SEARCHED_CONSTRAINTS:
        return not all(isinstance(each, KeywordArgument) for each in written.arguments)
    return word in CONSTRAINT_WORDS and bool(written.arguments)


def split_rename(
    checked: Iterable[CheckedAnnotation],
) -> tuple[tuple[Annotation, ...], str | None]:
    """The annotations that are part of the schema, in order, and the old name of a rename hint."""
    annotations = sorted((each.annotation for each in checked), key=annotation_key)
    hints = [each.value for each in annotations if each.name == "rename_from"]
    return tuple(a for a in annotations if a.name != "rename_from"), hints[0] if hints else None


def annotation_key(annotation: Annotation) -> tuple[str, bool, str, tuple[tuple[str, str], ...]]:
    """The sort key of annotations: the name, then the value; no value sorts first."""
    value = annotation.value
    return annotation.name, value is not None, value or "", annotation.arguments


def check_type_annotations(
    written: Sequence[AnnotationSyntax], *, owner: Name, kind: TypeKind, diagnostics: Diagnostics
) -> list[CheckedAnnotation]:
    """Check the annotations in the declaration line of a type."""
    allowed: list[AnnotationSyntax] = []
    for each in written:
        word = each.name.text
        if word in _PROPERTY_WORDS and kind is TypeKind.EDGE:
            problem = f"@{word} is not supported on edges"
            diagnostics.error("S5", problem, each.span, _EDGE_ADVICE.get(word))
        elif word in _PROPERTY_WORDS:
            problem = f"@{word} is only supported on node properties or as body constraint"
            place = "between the braces" if each.arguments else "behind a property's type"
            diagnostics.error("S5", problem, each.span, f"move it {place}")
        elif word in CONSTRAINT_WORDS:
            problem = f"@{word} constrains a property; it belongs in the body"
            diagnostics.error("S5", problem, each.span, "move it between the braces")
        elif not _refuse_cardinality(each, diagnostics):
            allowed.append(each)
    return _check_values(allowed, owner, diagnostics)


def check_property_annotations(
    written: Sequence[AnnotationSyntax],
    *,
    owner: Name,
    kind: TypeKind,
    type: PropertyType,
    diagnostics: Diagnostics,
) -> list[CheckedAnnotation]:
    """Check the annotations after a property's type."""
    allowed: list[AnnotationSyntax] = []
    for each in written:
        word = each.name.text
        if _refuse_cardinality(each, diagnostics):
            continue
        if word == "instruction":
            problem = "@instruction is only supported on node and edge types"
            diagnostics.error("S5", problem, each.span, "use @description here")
        elif word in CONSTRAINT_ADVICE:
            problem = f"@{word} needs arguments"
            diagnostics.error("S11", problem, each.span, CONSTRAINT_ADVICE[word])
        elif kind is TypeKind.EDGE and word in {"key", "embed"}:
            problem = f"@{word} is not supported on edge properties"
            diagnostics.error("S5", problem, each.span, _EDGE_ADVICE.get(word))
        elif shape := _unsupported_shape(word, type):
            problem = f"@{word} is not supported on {shape} property `{owner.text}`"
            diagnostics.error("S6", problem, each.span)
        else:
            allowed.append(each)
    checked = _check_values(allowed, owner, diagnostics)
    return _check_languages(checked, owner, type, diagnostics)


_LANGUAGE_ADVICE = f"the languages are {', '.join(TextLanguage)}"


def _check_languages(
    checked: Sequence[CheckedAnnotation], owner: Name, type: PropertyType, diagnostics: Diagnostics
) -> list[CheckedAnnotation]:
    """The annotations, without a language that is the default."""
    default = (("language", str(TextLanguage.ENGLISH)),)
    found: list[CheckedAnnotation] = []
    has_language = False
    for each in checked:
        annotation = each.annotation
        if annotation.name in SEARCHED_CONSTRAINTS and annotation.arguments:
            _check_language(each, owner, type, diagnostics)
            if has_language:
                problem = f"`{owner.text}` declares its language multiple times"
                diagnostics.error("S18", problem, each.span, "keep one")
            has_language = True
            if annotation.arguments == default:
                annotation = replace(annotation, arguments=())
        found.append(CheckedAnnotation(annotation, each.span))
    return found


def _check_language(
    each: CheckedAnnotation, owner: Name, type: PropertyType, diagnostics: Diagnostics
) -> None:
    word = each.annotation.name
    for name, value in each.annotation.arguments:
        if name != "language":
            problem = f"@{word} has no argument `{name}`; only 'language' is supported"
            diagnostics.error("S18", problem, each.span, f'write `@{word}(language="german")`')
        elif not type.is_string:
            problem = f"only a String has a language; `{owner.text}` is {type}"
            diagnostics.error("S18", problem, each.span, f"write `@{word}`")
        elif value not in frozenset(TextLanguage):
            advice = advise_name(value, TextLanguage) or _LANGUAGE_ADVICE
            diagnostics.error("S18", f"unknown language `{value}`", each.span, advice)


def _unsupported_shape(word: str, type: PropertyType) -> str | None:
    if word not in _PROPERTY_WORDS:
        return None
    if type.is_list:
        return "list"
    if type.is_blob:
        return "blob"
    if type.is_vector and word in {"key", "unique"}:
        return "vector"
    return None


def _refuse_cardinality(annotation: AnnotationSyntax, diagnostics: Diagnostics) -> bool:
    """Report `@card` in places where it would have no effect."""
    if annotation.name.text != "card":
        return False
    problem = "@card may appear once, on the first line of an edge, before other annotations"
    advice = "write `edge Name: From -> To @card(0..1)`"
    diagnostics.error("S13", problem, annotation.span, advice)
    return True


def _check_values(
    written: Sequence[AnnotationSyntax], owner: Name, diagnostics: Diagnostics
) -> list[CheckedAnnotation]:
    seen: set[str] = set()
    checked: list[CheckedAnnotation] = []
    for each in written:
        word = each.name.text
        if word in _ONCE_WORDS and word in seen:
            problem = f"`{owner.text}` declares @{word} multiple times"
            diagnostics.error("S8", problem, each.span, "keep one")
            continue
        seen.add(word)
        if (annotation := _check_arguments(each, diagnostics)) is not None:
            checked.append(CheckedAnnotation(annotation, each.span))
    return checked


def _check_arguments(each: AnnotationSyntax, diagnostics: Diagnostics) -> Annotation | None:
    word = each.name.text
    values = [a for a in each.arguments if isinstance(a, Name | Literal)]
    keywords = [a for a in each.arguments if isinstance(a, KeywordArgument)]
    names = [keyword.name.text for keyword in keywords]
    value = _text_of(values[0]) if values else None
    needs_value = word not in SEARCHED_CONSTRAINTS
    problem, advice = None, None
    if any(isinstance(a, RangeArgument) for a in each.arguments):
        problem = f"@{word} takes no range"
    elif word in _TEXT_WORDS and (len(values) != 1 or keywords or not (value or "").strip()):
        problem, advice = f"@{word} takes exactly one text that is not empty", f'@{word}("…")'
    elif len(values) > 1 or (needs_value and keywords and each.arguments[0] not in values):
        problem = f"@{word} takes one value and then only `name=value` arguments"
    elif len(set(names)) < len(names):
        problem = f"@{word} repeats an argument"
    if problem is not None:
        diagnostics.error("S14", problem, each.span, advice and f"write `{advice}`")
        return None
    arguments = tuple(sorted((keyword.name.text, _text_of(keyword.value)) for keyword in keywords))
    return Annotation(word, value, arguments)


def _text_of(argument: Name | Literal) -> str:
    """An argument as the text that is stored in the metadata."""
    if isinstance(argument, Name):
        return argument.text
    if isinstance(argument.value, bool):
        return str(argument.value).lower()
    return str(argument.value)
