"""What generated reads return: columns, aggregates, rankings, order and window."""

from collections.abc import Mapping, Sequence

from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.types import INTEGERS, PropertyType, Scalar, Vector
from tests.support.choices import Choices
from tests.support.generated_values import INTEGER, STRING, Values

_ALIASES = ("n", "total", "as_", "order", "desc_", "count", "limit", "distinct", "x")


def write_output(
    choices: Choices, variables: Mapping[str, NodeType | EdgeType], values: Values
) -> str:
    """Everything behind the pattern that binds the variables."""
    output = _Output(choices, variables, values)
    match choices.count(3):
        case 0:
            return output.write_aggregate()
        case 1 if rankings := output.rankings():
            return output.write_ranked(rankings)
        case _:
            return output.write_plain()


class _Output:
    """Writes the output of one read."""

    def __init__(
        self, choices: Choices, variables: Mapping[str, NodeType | EdgeType], values: Values
    ) -> None:
        self._choices = choices
        self._values = values
        self._variables = variables
        self._nodes = [(n, type) for n, type in variables.items() if isinstance(type, NodeType)]
        self._properties = [
            (f"${name}.{prop.name}", prop.type)
            for name, type in variables.items()
            for prop in type.properties.values()
            if not prop.type.is_blob
        ]

    def write_plain(self) -> str:
        """Columns, perhaps distinct, in an order that they or the properties give."""
        distinct = self._choices.one(["", "distinct "])
        columns = {alias: self._choose_column() for alias in self._choose_aliases()}
        keys = [alias for alias, (_, type) in columns.items() if type.is_scalar]
        if not distinct:
            keys += [path for path, type in self._properties if type.is_scalar]
        written = [f"{path} as {alias}" for alias, (path, _) in columns.items()]
        if self._choices.seldom():
            scores = [each for each in self.rankings() if not each.startswith("rrf")]
            written += self._choices.some(scores, least=1, most=1)
        return self._write_end(f"return {distinct}{{ {self._separate(written)} }}", keys)

    def write_aggregate(self) -> str:
        """Aggregates beside group keys."""
        numbers = [path for path, type in self._properties if type.is_number]
        texts = [path for path, type in self._properties if type.is_string]
        groups = [path for path, type in self._properties if type.is_scalar]
        groups = self._choices.some(groups, least=0, most=2)
        # A list can be a group key, but nothing is ordered by it.
        lists = [path for path, type in self._properties if not type.is_scalar]
        lists = lists[:1] if self._choices.seldom() else []
        anything = [f"${name}" for name in self._variables]
        anything += [path for path, _ in self._properties]
        functions = ["count(*)", f"count({self._choices.one(anything)})"]
        functions += [f"count(distinct {self._choices.one(anything)})"]
        functions += [
            f"{word}({path})"
            for path in self._choices.some(numbers, least=1, most=2)
            for word in ("sum", "avg", "min", "max")
        ]
        extremes = self._choices.some(texts, least=0, most=2)
        functions += [f"{self._choices.one(['max', 'min'])}({path})" for path in extremes]
        by_alias = {alias: self._choices.one(functions) for alias in self._choose_aliases()}
        written = [f"{function} as {alias}" for alias, function in by_alias.items()]
        keys = [alias for alias, function in by_alias.items() if self._is_exact(function)]
        distinct = "distinct " * self._choices.seldom()
        returned = f"return {distinct}{{ {self._separate([*lists, *groups, *written])} }}"
        return self._write_end(returned, [*groups, *keys])

    def _is_exact(self, function: str) -> bool:
        """Whether an aggregate is the same however its numbers are added up.

        Two sums of floats that should be equal may not be, and then their order means nothing.
        """
        word, _, path = function.removesuffix(")").partition("(")
        if word not in ("sum", "avg"):
            return True
        element = dict(self._properties)[path].element
        return element in (Scalar.I32, Scalar.U32) or (word == "sum" and element in INTEGERS)

    def rankings(self) -> list[str]:
        """The rankings that the variables allow."""
        found: list[str] = []
        for name, node in self._nodes:
            near = [
                f"nearest(${name}.{each.name}, {self._write_vector(each.type.element)})"
                for each in node.properties.values()
                if isinstance(each.type.element, Vector)
            ]
            text = [
                f"bm25(${name}.{each.name}, {self._values.write(STRING)})"
                for each in node.properties.values()
                if each.type.is_string
            ]
            found += near + text
            if near and text:
                found += [f"rrf({near[0]}, {text[0]})", f"rrf({text[0]}, {near[0]}, 10)"]
            if len(text) > 1:
                found.append(f"rrf({text[0]}, {text[1]}, 1)")
        return found

    def write_ranked(self, rankings: Sequence[str]) -> str:
        """Columns in the order of a ranking, perhaps with its score."""
        ranking = self._choices.one(rankings)
        columns = [self._choose_column()[0]]
        if self._choices.often():
            columns.append(f"{ranking} as score")
        lines = [f"return {{ {self._separate(columns)} }}"]
        is_named = len(columns) > 1 and self._choices.often()
        lines.append(f"order {{ {'score' if is_named else ranking} }}")
        if not ranking.startswith("bm25") or self._choices.often():
            lines.append(f"limit {self._values.write_limit()}")
        if self._choices.seldom():
            lines.append(f"offset {self._values.write_offset()}")
        return "\n".join(lines)

    def _write_vector(self, vector: Vector) -> str:
        return self._values.write(PropertyType(vector) if self._choices.often() else STRING)

    def _choose_column(self) -> tuple[str, PropertyType]:
        nodes = [(f"${name}", STRING) for name, _ in self._nodes]
        constants = [('"text"', STRING), ("-1", INTEGER), ("now()", PropertyType(Scalar.DATETIME))]
        if self._properties and self._choices.often():
            return self._choices.one(self._properties)
        return self._choices.one([*nodes, *constants])

    def _choose_aliases(self) -> list[str]:
        return self._choices.some(_ALIASES, least=1, most=3)

    def _write_end(self, returned: str, keys: Sequence[str]) -> str:
        lines = [returned]
        if keys and self._choices.often():
            chosen = self._choices.some(keys, least=1, most=2)
            directed = (f"{key}{self._choices.one(['', ' asc', ' desc'])}" for key in chosen)
            lines.append(f"order {{ {', '.join(directed)} }}")
        window = [f"limit {self._values.write_limit()}"] if self._choices.often() else []
        if self._choices.seldom():
            # Either may come first.
            place = self._choices.count(len(window))
            window.insert(place, f"offset {self._values.write_offset()}")
        return "\n".join([*lines, *window])

    def _separate(self, written: Sequence[str]) -> str:
        return self._choices.one([", ", " ", " ,\n"]).join(written)
