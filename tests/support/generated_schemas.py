"""Valid schemas, generated: every type, constraint and annotation, under awkward names.

Guarantees that the checker has no reason to refuse a text from here. Knows the rules of the
language from its reference, not from the checker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.model.types import NUMBERS, PropertyType, Scalar, Vector
from tests.support.choices import Choices

# Words of either language are names wherever a name may stand.
TYPE_NAMES = (
    "Person", "Company", "Document", "T", "A_1", "Node", "Edge", "String", "Vector", "Date",
)  # fmt: skip
EDGE_NAMES = (
    "Knows", "WorksAt", "E", "Contains", "In", "Is", "Order", "Starts_with", "Not_", "As",
)  # fmt: skip
INTERFACE_NAMES = ("Named", "Dated", "I", "Interface")
PROPERTY_NAMES = (
    "name", "age", "x", "_y", "camelCase", "node", "edge", "interface", "enum", "implements", "key",
    "match", "return", "count", "limit", "offset", "order", "asc", "contains", "in", "is", "not",
    "as", "or", "and", "optional", "distinct", "set", "where", "insert", "null", "query", "date",
)  # fmt: skip
INHERITED_NAMES = ("title", "created", "i_1", "description")

_SCALARS = tuple(Scalar)
_TEXTS = (
    "text", "", 'a \\"quoted\\" word', "back\\\\slash", "two\\nlines", "ünï → 漢字", "// no", "/*",
)  # fmt: skip
_PATTERNS = ("^[a-z]+$", "\\\\d{1,3}", "(a+)+$", "(?i)x|y", "[^\\\\s]", "a{1000}")
_BOUNDS = ("0..1", "-2.5..", "..10", "0 .. 99999999999999999999")
_CARDINALITIES = ("", " @card(0..)", " @card(1..1)", " @card( 2 .. 30 )")
_ENUMS = (("a",), ("open", "closed"), ("1st", "2nd"), ("x-1", "_", "TRUE"))


@dataclass(frozen=True, slots=True)
class _Declared:
    """A property as it will be written."""

    name: str
    type: PropertyType


@st.composite
def schema_texts(draw: DrawFn) -> str:
    """A schema that compiles."""
    choices = Choices(draw)
    interfaces = {
        name: _declare(choices, INHERITED_NAMES, most=2)
        for name in choices.some(INTERFACE_NAMES, least=0, most=2)
    }
    nodes = choices.some(TYPE_NAMES, least=1, most=4)
    edges = choices.some(EDGE_NAMES, least=0, most=4)
    declarations = [
        *(_write_node(choices, name, interfaces) for name in nodes),
        *(_write_edge(choices, name, nodes) for name in edges),
        *(_write_interface(choices, name, own) for name, own in interfaces.items()),
    ]
    return "\n\n".join(declarations)


def _declare(choices: Choices, names: Sequence[str], *, most: int) -> list[_Declared]:
    chosen = choices.some(names, least=0, most=most)
    return [_Declared(name, _choose_type(choices)) for name in chosen]


def _choose_type(choices: Choices) -> PropertyType:
    is_nullable = choices.often()
    match choices.count(9):
        case 0:
            return PropertyType(Scalar.STRING, is_nullable, enum_values=choices.one(_ENUMS))
        case 1:
            return PropertyType(Vector(choices.one([1, 3])), is_nullable)
        case 2 | 3:
            listable = [scalar for scalar in _SCALARS if scalar is not Scalar.BLOB]
            return PropertyType(choices.one(listable), is_nullable, is_list=True)
        case _:
            return PropertyType(choices.one(_SCALARS), is_nullable)


def _write_interface(choices: Choices, name: str, properties: Sequence[_Declared]) -> str:
    lines = [f"{each.name}: {each.type}{_annotate(choices)}" for each in properties]
    return _write_body(f"interface {name}", lines)


def _write_node(choices: Choices, name: str, interfaces: Mapping[str, list[_Declared]]) -> str:
    implemented = _choose_implemented(choices, interfaces)
    own = _declare(choices, PROPERTY_NAMES, most=5)
    inherited = [each for interface in implemented for each in interfaces[interface]]
    # A node may repeat what it inherits, as long as the type is the same.
    repeated = [each for each in inherited if choices.often()]
    lines = [_write_property(choices, each, own) for each in (*own, *repeated)]
    lines += _write_constraints(choices, [*own, *inherited])
    implements = f" implements {' , '.join(implemented)}" if implemented else ""
    return _write_body(f"node {name}{_annotate_type(choices)}{implements}", lines)


def _choose_implemented(choices: Choices, interfaces: Mapping[str, list[_Declared]]) -> list[str]:
    """Interfaces that share no property, because sharing asks for equal annotations too."""
    chosen: list[str] = []
    for name in choices.some(list(interfaces), least=0, most=2):
        taken = {each.name for interface in chosen for each in interfaces[interface]}
        if not taken & {each.name for each in interfaces[name]}:
            chosen.append(name)
    return chosen


def _write_edge(choices: Choices, name: str, nodes: Sequence[str]) -> str:
    source, target = choices.one(nodes), choices.one(nodes)
    cardinality = choices.one(_CARDINALITIES)
    heading = f"edge {name}: {source} -> {target}{cardinality}{_annotate_type(choices)}"
    own = _declare(choices, PROPERTY_NAMES, most=3)
    lines = [f"{each.name}: {each.type}{_annotate(choices)}" for each in own]
    lines += choices.some(["@unique(src, dst)", "@index(src)", "@unique(dst)"], least=0, most=2)
    return _write_body(heading, lines) if lines or choices.often() else heading


def _write_property(choices: Choices, declared: _Declared, owned: Sequence[_Declared]) -> str:
    words = [""]
    if declared.type.is_scalar:
        words += ["@unique", "@index", "@index @unique"]
    if declared.type.is_scalar and declared.type.is_string:
        words += ['@index(language="french")', '@unique @index(language="ngram")']
    texts = [each.name for each in owned if each.type.is_string]
    if declared.type.is_vector and texts:
        words += ["@index", f'@embed("{texts[0]}")', f'@embed({texts[0]}, model="m")']
    return f"{declared.name}: {declared.type} {choices.one(words)}{_annotate(choices)}"


def _write_constraints(choices: Choices, columns: Sequence[_Declared]) -> list[str]:
    scalars = [each for each in columns if each.type.is_scalar]
    names = [each.name for each in scalars]
    required = [each.name for each in scalars if not each.type.is_nullable]
    lines: list[str] = []
    if required and choices.often():
        lines.append(f"@key({', '.join(choices.some(required, least=1, most=2))})")
    if names and choices.often():
        lines.append(f"@unique({' , '.join(choices.some(names, least=1, most=3))})")
        lines.append(f"@index({choices.one(names)})")
    for each in scalars:
        if each.type.element in NUMBERS and choices.often():
            lines.append(f"@range({each.name}, {choices.one(_BOUNDS)})")
        elif each.type.is_string and choices.often():
            lines.append(f'@check({each.name}, "{choices.one(_PATTERNS)}")')
    return lines


def _annotate_type(choices: Choices) -> str:
    """Annotations of a type's first line."""
    return " @instruction(word)" * choices.seldom() + _annotate(choices)


def _annotate(choices: Choices) -> str:
    """Annotations that may stand on anything."""
    if not choices.seldom():
        return ""
    text = choices.one(_TEXTS)
    annotations = ['@rename_from("Old")', "@custom", f'@custom("{text}", n=1, on=true)']
    annotations += [f'@description("{text}")'] if text else []
    return f" {choices.one(annotations)}"


def _write_body(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{heading} {{", *(f"  {line}" for line in lines), "}"])
