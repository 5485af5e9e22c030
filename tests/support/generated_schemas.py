"""Valid schemas, generated: every type, constraint and annotation, under awkward names.

Promises that the checker has no reason to refuse a text from here. Knows the rules of the
language from its reference, not from the checker.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from omnigraph.model.types import NUMBERS, PropertyType, Scalar, Vector

# Words of either language are names wherever a name may stand.
TYPE_NAMES = (
    "Person", "Company", "Document", "Topic", "T", "A_1", "Node", "Edge", "String", "Vector", "Date",
)  # fmt: skip
EDGE_NAMES = (
    "Knows", "WorksAt", "Cites", "E", "Contains", "In", "Is", "Order", "StartsWith", "Not_", "As",
)  # fmt: skip
INTERFACE_NAMES = ("Named", "Dated", "I", "Interface")
PROPERTY_NAMES = (
    "name", "age", "x", "_y", "camelCase", "node", "edge", "interface", "enum", "implements", "key",
    "match", "return", "count", "limit", "offset", "order", "asc", "contains", "in", "is", "not",
    "as", "or", "and", "optional", "distinct", "set", "where", "insert", "null", "query", "date",
)  # fmt: skip
INHERITED_NAMES = ("title", "created", "i_1", "description")

_TEXTS = ("text", "", 'a \\"quoted\\" word', "back\\\\slash", "two\\nlines", "ünï → 漢字", "// no", "/*")
_PATTERNS = ("^[a-z]+$", "\\\\d{1,3}", "(a+)+$", "(?i)x|y", "[^\\\\s]", "a{1000}")
_ENUMS = (("a",), ("open", "closed"), ("1st", "2nd"), ("x-1", "_", "TRUE"))


@dataclass(frozen=True, slots=True)
class _Declared:
    """A property as it will be written."""

    name: str
    type: PropertyType


@st.composite
def schema_texts(draw: DrawFn) -> str:
    """A schema that compiles."""
    interfaces = {
        name: _draw_properties(draw, INHERITED_NAMES, size_max=2)
        for name in _draw_names(draw, INTERFACE_NAMES, size_max=2)
    }
    nodes = _draw_names(draw, TYPE_NAMES, size_min=1, size_max=4)
    edges = _draw_names(draw, EDGE_NAMES, size_max=4)
    declarations = [
        *(_write_interface(draw, name, own) for name, own in interfaces.items()),
        *(_write_node(draw, name, interfaces) for name in nodes),
        *(_write_edge(draw, name, nodes) for name in edges),
    ]
    return "\n\n".join(draw(st.permutations(declarations)))


def property_types() -> SearchStrategy[PropertyType]:
    """Every type that a property can have."""
    is_nullable = st.booleans()
    listable = [scalar for scalar in Scalar if scalar is not Scalar.BLOB]
    return st.one_of(
        st.builds(PropertyType, st.sampled_from(Scalar), is_nullable),
        st.builds(PropertyType, st.sampled_from(listable), is_nullable, st.just(True)),
        st.builds(PropertyType, st.sampled_from([Vector(1), Vector(3)]), is_nullable),
        st.builds(
            PropertyType,
            st.just(Scalar.STRING),
            is_nullable,
            st.just(False),
            st.sampled_from(_ENUMS),
        ),
    )


def _draw_names(
    draw: DrawFn, names: Sequence[str], *, size_min: int = 0, size_max: int
) -> list[str]:
    return draw(
        st.lists(st.sampled_from(names), min_size=size_min, max_size=size_max, unique=True)
    )


def _draw_properties(draw: DrawFn, names: Sequence[str], *, size_max: int) -> list[_Declared]:
    return [
        _Declared(name, draw(property_types()))
        for name in _draw_names(draw, names, size_max=size_max)
    ]


def _write_interface(draw: DrawFn, name: str, properties: Sequence[_Declared]) -> str:
    lines = [f"{each.name}: {each.type}{_describe(draw)}" for each in properties]
    return _write_body(f"interface {name}", lines)


def _write_node(draw: DrawFn, name: str, interfaces: dict[str, list[_Declared]]) -> str:
    implemented = _draw_implemented(draw, interfaces)
    own = _draw_properties(draw, PROPERTY_NAMES, size_max=5)
    inherited = [each for interface in implemented for each in interfaces[interface]]
    # A node may repeat what it inherits, as long as the type is the same.
    repeated = [each for each in inherited if draw(st.booleans())]
    columns = [*own, *inherited]
    lines = [_write_property(draw, each, own) for each in (*own, *repeated)]
    lines += _draw_constraints(draw, columns)
    implements = f" implements {' , '.join(implemented)}" if implemented else ""
    return _write_body(f"node {name}{_describe(draw, is_type=True)}{implements}", lines)


def _draw_implemented(draw: DrawFn, interfaces: dict[str, list[_Declared]]) -> list[str]:
    """Interfaces that share no property, because sharing asks for equal annotations too."""
    chosen: list[str] = []
    for name in _draw_names(draw, tuple(interfaces), size_max=2) if interfaces else ():
        taken = {each.name for interface in chosen for each in interfaces[interface]}
        if not taken & {each.name for each in interfaces[name]}:
            chosen.append(name)
    return chosen


def _write_edge(draw: DrawFn, name: str, nodes: Sequence[str]) -> str:
    source, target = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
    cardinality = draw(st.sampled_from(["", " @card(0..)", " @card(1..1)", " @card( 2 .. 30 )"]))
    heading = f"edge {name}: {source} -> {target}{cardinality}{_describe(draw, is_type=True)}"
    own = _draw_properties(draw, PROPERTY_NAMES, size_max=3)
    lines = [f"{each.name}: {each.type}{_describe(draw)}" for each in own]
    lines += draw(st.sampled_from([[], ["@unique(src, dst)"], ["@index(src)", "@unique(dst)"]]))
    return _write_body(heading, lines) if lines or draw(st.booleans()) else heading


def _write_property(draw: DrawFn, declared: _Declared, owned: Sequence[_Declared]) -> str:
    words = [*_sugar(declared.type), "", "", ""]
    texts = [each.name for each in owned if each.type.is_string]
    if declared.type.is_vector and texts:
        words += [f'@embed("{texts[0]}")', f'@embed({texts[0]}, model="m")']
    annotation = draw(st.sampled_from(words))
    return f"{declared.name}: {declared.type} {annotation}{_describe(draw)}"


def _sugar(type: PropertyType) -> list[str]:
    if type.is_scalar:
        return ["@unique", "@index", "@index @unique"]
    return ["@index"] if type.is_vector else []


def _draw_constraints(draw: DrawFn, columns: Sequence[_Declared]) -> list[str]:
    scalars = [each for each in columns if each.type.is_scalar]
    keys = [each.name for each in scalars if not each.type.is_nullable]
    lines: list[str] = []
    if keys and draw(st.booleans()):
        lines.append(f"@key({', '.join(_draw_names(draw, keys, size_min=1, size_max=2))})")
    if scalars and draw(st.booleans()):
        names = [each.name for each in scalars]
        lines.append(f"@unique({' , '.join(_draw_names(draw, names, size_min=1, size_max=3))})")
        lines.append(f"@index({draw(st.sampled_from(names))})")
    for each in scalars:
        if each.type.element in NUMBERS:
            bounds = draw(st.sampled_from(["0..1", "-2.5..", "..10", "0 .. 99999999999999999999"]))
            lines.append(f"@range({each.name}, {bounds})")
        elif each.type.is_string:
            lines.append(f'@check({each.name}, "{draw(st.sampled_from(_PATTERNS))}")')
    return lines


def _describe(draw: DrawFn, *, is_type: bool = False) -> str:
    """Annotations that may stand on anything."""
    text = draw(st.sampled_from(_TEXTS))
    choices = ["", "", "", '@rename_from("Old")', "@custom", f'@custom("{text}", n=1, on=true)']
    if text:
        choices.append(f'@description("{text}")')
        choices += [f'@instruction("{text}")'] if is_type else []
    return f" {draw(st.sampled_from(choices))}"


def _write_body(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{heading} {{", *(f"  {line}" for line in lines), "}"])
