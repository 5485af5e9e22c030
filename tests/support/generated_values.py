"""Values in generated queries: literals that fit a type, and parameters declared on the way.

Promises that whatever is written here fits the type it was asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.model.types import FLOATS, NUMBERS, PropertyType, Scalar, Vector

COMPARATORS = ("=", "!=", "<", "<=", ">", ">=")
PARAMETER_NAMES = ("q", "name_", "limit", "x1", "_p", "contains", "now", "not", "type", "z")

_LITERALS = {
    Scalar.STRING: ('"text"', '""', '"say \\"hi\\""', '"// 漢"'),
    Scalar.BLOB: ('"base64:AA=="',),
    Scalar.BOOL: ("true", "false"),
    Scalar.I32: ("0", "-7", "2147483647"),
    Scalar.I64: ("0", "-7", "-9223372036854775808"),
    Scalar.U32: ("0", "4294967295"),
    Scalar.U64: ("0", "9223372036854775807"),
    Scalar.F32: ("1.5", "-2e3", "4"),
    Scalar.F64: ("1.5", "-2.25E-3", "4"),
    Scalar.DATETIME: ('datetime("2024-06-01T12:00:00.250+02:00")', 'datetime("20240601")'),
    Scalar.DATE: ('date("2024-06-01")', 'date( "2024-6-1T00:00:00Z" )'),
}


@dataclass(slots=True)
class Values:
    """Writes values for one query and remembers the parameters that it used."""

    draw: DrawFn
    parameters: dict[str, PropertyType] = field(default_factory=dict)

    def choose(self, choices: Sequence[str]) -> str:
        """One of some texts."""
        return self.draw(st.sampled_from(choices))

    def is_chosen(self) -> bool:
        """Yes or no."""
        return self.draw(st.booleans())

    def write_value(self, type: PropertyType) -> str:
        """A literal or a parameter of a type; never null."""
        if self.is_chosen():
            return self.write_literal(type)
        if type.element is Scalar.DATETIME and not type.is_list and self.is_chosen():
            return "now()"
        return self.write_parameter(type)

    def write_literal(self, type: PropertyType) -> str:
        """A literal of a type."""
        if isinstance(type.element, Vector):
            return f"[{', '.join(['0.5'] * type.element.dimension)}]"
        if type.enum_values is not None:
            return f'"{self.choose(type.enum_values)}"'
        if not type.is_list:
            return self.choose(_LITERALS[type.element])
        count = self.draw(st.integers(0, 2))
        return f"[{', '.join(self.write_literal(type.list_element) for _ in range(count))}]"

    def write_parameter(self, type: PropertyType) -> str:
        """A parameter of a type, declared if there is none yet."""
        # There are no enum parameters, and nullability never decides whether types fit.
        wanted = replace(type, enum_values=None, is_nullable=self.is_chosen())
        known = [name for name, given in self.parameters.items() if given == wanted]
        free = [name for name in PARAMETER_NAMES if name not in self.parameters]
        name = self.choose(known or free or [f"p{len(self.parameters)}"])
        self.parameters[name] = wanted
        return f"${name}"

    def write_declarations(self) -> str:
        """The parameters as a query's heading declares them."""
        return ", ".join(f"${name}: {type}" for name, type in self.parameters.items())

    def write_comparison(
        self, left: str, type: PropertyType, *, text_operators: Sequence[str]
    ) -> str:
        """A comparison of a property that is neither a vector nor a blob."""
        if type.is_list:
            return f"{left} contains {self.write_value(type.list_element)}"
        match self.choose(["compare", "text" if text_operators else "in", "in"]):
            case "text" if type.is_string:
                return f"{left} {self.choose(text_operators)} {self.write_value(_STRING)}"
            case "in":
                options = replace(type, enum_values=None, is_list=True, is_nullable=False)
                write = self.write_literal if self.is_chosen() else self.write_parameter
                return f"{left} in {write(options)}"
            case _:
                return f"{left} {self.choose(COMPARATORS)} {self.write_value(_meet(type, self))}"

    def join(self, write: Callable[[], str]) -> str:
        """One condition, or several under `and`, `or` and parentheses."""
        match self.draw(st.integers(0, 5)):
            case 0:
                return f"{write()} or {write()} and {write()}"
            case 1:
                return f"({write()} or ({write()})) and {write()}"
            case _:
                return write()


_STRING = PropertyType(Scalar.STRING)


def _meet(type: PropertyType, values: Values) -> PropertyType:
    """A type that may be compared with another: itself, or any number with a number."""
    if type.element in NUMBERS and values.is_chosen():
        return PropertyType(values.draw(st.sampled_from(sorted(FLOATS | {Scalar.I64}))))
    return type
