"""Values in generated queries: literals that fit a type, and parameters declared on the way.

Guarantees that whatever is written here fits the type it was asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.model.types import NUMBERS, PropertyType, Scalar, Vector
from tests.support.choices import Choices

STRING = PropertyType(Scalar.STRING)
INTEGER = PropertyType(Scalar.I64)

COMPARATORS = ("=", "!=", "<", "<=", ">", ">=")
_PARAMETER_NAMES = ("q", "name_", "limit", "x1", "_p", "contains", "now", "not", "type", "z")
_LITERALS: Mapping[Scalar | Vector, Sequence[str]] = {
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
    Scalar.DATE: ('date("2024-06-01")', 'date( "2024-6-1" )'),
}


@dataclass(frozen=True, slots=True)
class Values:
    """Writes values for one query and remembers the parameters that it used."""

    choices: Choices
    parameters: dict[str, PropertyType] = field(default_factory=dict)
    literals: Mapping[Scalar | Vector, Sequence[str]] = field(default_factory=lambda: _LITERALS)
    """What may be written for a value of a type; a vector that is not there is made up."""

    def write(self, type: PropertyType) -> str:
        """A literal or a parameter of a type; never null."""
        if self.choices.often():
            return self.write_parameter(type)
        if type.element is Scalar.DATETIME and not type.is_list and self.choices.often():
            return "now()"
        return self.write_literal(type)

    def write_literal(self, type: PropertyType) -> str:
        """A literal of a type."""
        if isinstance(type.element, Vector) and type.element not in self.literals:
            return f"[{', '.join(['0.5'] * type.element.dimension)}]"
        if type.enum_values is not None:
            return f'"{self.choices.one(type.enum_values)}"'
        if not type.is_list:
            return self.choices.one(self.literals[type.element])
        elements = [self.write_literal(type.list_element) for _ in range(self.choices.count(2))]
        return f"[{', '.join(elements)}]"

    def write_parameter(self, type: PropertyType) -> str:
        """A parameter of a type, declared if there is none yet."""
        # There are no enum parameters, and nullability never decides whether types fit.
        wanted = replace(type, enum_values=None, is_nullable=self.choices.seldom())
        known = [name for name, given in self.parameters.items() if given == wanted]
        free = [name for name in _PARAMETER_NAMES if name not in self.parameters]
        name = self.choices.one(known or free or [f"p{len(self.parameters)}"])
        self.parameters[name] = wanted
        return f"${name}"

    def write_limit(self) -> str:
        """What may stand behind `limit`."""
        return self._write_row_count("rows", ("10", "2", "3", "1", "0", "9223372036854775807"))

    def write_offset(self) -> str:
        """What may stand behind `offset`."""
        return self._write_row_count("skipped", ("1", "0", "2", "1", "9223372036854775807"))

    def _write_row_count(self, parameter: str, numbers: Sequence[str]) -> str:
        if self.choices.often():
            return self.choices.one(numbers)
        self.parameters[parameter] = INTEGER
        return f"${parameter}"

    def write_declarations(self) -> str:
        """The parameters as a query's heading declares them."""
        return ", ".join(f"${name}: {type}" for name, type in self.parameters.items())

    def write_comparison(
        self, left: str, type: PropertyType, *, text_operators: Sequence[str]
    ) -> str:
        """A comparison of a property that is neither a vector nor a blob."""
        if type.is_list:
            element = self.write(type.list_element)
            return f"{left} contains {element}" if self.choices.often() else f"{element} in {left}"
        match self.choices.count(4):
            case 0 if type.is_string and text_operators:
                return f"{left} {self.choices.one(text_operators)} {self.write(STRING)}"
            case 1:
                return f"{left} in {self._write_options(type)}"
            case 2 if type.element in NUMBERS:
                # Any two numbers may be compared.
                other = PropertyType(self.choices.one([Scalar.I64, Scalar.U32, Scalar.F64]))
                return f"{left} {self.choices.one(COMPARATORS)} {self.write(other)}"
            case 3 if text_operators:
                return f"{self.write_literal(type)} {self.choices.one(COMPARATORS)} {left}"
            case _:
                return f"{left} {self.choices.one(COMPARATORS)} {self.write(type)}"

    def join(self, write: Callable[[], str]) -> str:
        """One condition, or several under `and`, `or` and parentheses."""
        match self.choices.count(5):
            case 4:
                return f"{write()} or {write()} and {write()}"
            case 5:
                return f"({write()} or ({write()})) and {write()}"
            case _:
                return write()

    def _write_options(self, type: PropertyType) -> str:
        if self.choices.often():
            return self.write_parameter(replace(type, is_list=True))
        return f"[{self.write_literal(type)}, {self.write_literal(type)}]"
