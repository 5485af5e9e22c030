"""Valid reads, generated against a catalog: patterns, conditions and blocks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.types import PropertyType, are_comparable
from tests.support.choices import Choices
from tests.support.generated_output import write_output
from tests.support.generated_values import COMPARATORS, STRING, Values

_BLOCK_DEPTH_MAX = 2
_HOPS = ("", "", "{1,1}", "{ 2 , 3 }", "{1,3}", "{2,2}")
_HOPS_BETWEEN_TYPES = ("", "", "{1,1}", "{1,3}")


def write_read(choices: Choices, catalog: Catalog, values: Values) -> str:
    """The body of a read."""
    pattern = _Pattern()
    writer = _PatternWriter(choices, catalog, values)
    clauses = [writer.write_binding(pattern), *writer.write_clauses(pattern, depth=0)]
    output = write_output(choices, pattern.variables, values)
    return f"match {{\n{_indent(clauses)}\n}}\n{output}"


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The variables in reach, by name; those that an optional block of this list introduced."""

    variables: dict[str, NodeType | EdgeType] = field(default_factory=dict)
    optional_here: set[str] = field(default_factory=set)

    def nodes(self) -> list[tuple[str, NodeType]]:
        """The variables that stand for nodes."""
        return [(name, t) for name, t in self.variables.items() if isinstance(t, NodeType)]

    def comparable(self) -> list[tuple[str, PropertyType]]:
        """Every `$variable.property` that may stand in a comparison."""
        return [
            (f"${name}.{prop.name}", prop.type)
            for name, type in self.variables.items()
            for prop in type.properties.values()
            if not prop.type.is_blob and not prop.type.is_vector
        ]


class _PatternWriter:
    """Writes clauses; every variable it makes has a name of its own."""

    def __init__(self, choices: Choices, catalog: Catalog, values: Values) -> None:
        self._choices = choices
        self._nodes = list(catalog.nodes.values())
        self._edges = list(catalog.edges.values())
        self._values = values
        self._variable_count = 0

    def write_binding(self, pattern: _Pattern) -> str:
        """Bind a new variable, perhaps with a condition."""
        node, name = self._choices.one(self._nodes), self._make_variable()
        pattern.variables[name] = node
        matchable = [
            each
            for each in node.properties.values()
            if not each.type.is_blob and not each.type.is_vector
        ]
        if not matchable or not self._choices.seldom():
            return f"${name}: {node.name}"
        prop = self._choices.one(matchable)
        value = self._values.write(replace(prop.type, is_list=False))
        return f"${name}: {node.name} {{ {prop.name}: {value}{self._choices.one(['', ','])} }}"

    def _write_second_binding(self, pattern: _Pattern) -> str:
        """Bind a variable again that is bound, which only adds conditions."""
        known = [
            (name, node, [each for each in node.properties.values() if each.type.is_scalar])
            for name, node in pattern.nodes()
            if name not in pattern.optional_here
        ]
        known = [each for each in known if each[2]]
        if not known:
            return self.write_binding(pattern)
        name, node, properties = self._choices.one(known)
        prop = self._choices.one(properties)
        return f"${name}: {node.name} {{ {prop.name}: {self._values.write(prop.type)} }}"

    def write_clauses(self, pattern: _Pattern, *, depth: int) -> list[str]:
        """Up to four more clauses of any kind."""
        return [self._write_clause(pattern, depth) for _ in range(self._choices.count(4))]

    def _write_clause(self, pattern: _Pattern, depth: int) -> str:
        kinds = ["filter", "filter", "again", "binding"]
        kinds += ["walk", "walk", "walk", "walk"] if self._edges else []
        kinds += ["not", "optional"] if depth < _BLOCK_DEPTH_MAX else []
        match self._choices.one(kinds):
            case "filter":
                return self._values.join(lambda: self._write_filter(pattern))
            case "binding":
                return self.write_binding(pattern)
            case "again":
                return self._write_second_binding(pattern)
            case "walk":
                return self._write_walk(pattern)
            case word:
                return self._write_block(word, pattern, depth)

    def _write_block(self, word: str, pattern: _Pattern, depth: int) -> str:
        inner = _Pattern(dict(pattern.variables))
        # A block has to mention an outer variable, and at first there are no others.
        anchors = self._anchors(inner)
        if anchors and self._choices.often():
            clauses = [self._write_walk(inner, self._choices.one(anchors))]
        else:
            clauses = [self._values.join(lambda: self._write_filter(inner))]
        clauses += self.write_clauses(inner, depth=depth + 1)
        if word == "optional":
            pattern.optional_here.update(inner.variables.keys() - pattern.variables.keys())
            pattern.variables.update(inner.variables)
        return f"{word} {{\n{_indent(clauses)}\n}}"

    def _write_filter(self, pattern: _Pattern) -> str:
        name, node = self._choices.one(pattern.nodes())
        texts = [each.name for each in node.properties.values() if each.type.is_string]
        comparable = pattern.comparable()
        match self._choices.count(5):
            case 0 | 1 if comparable:
                path, type = self._choices.one(comparable)
                operators = ("contains", "starts_with")
                return self._values.write_comparison(path, type, text_operators=operators)
            case 2 if texts:
                return self._write_search(f"${name}.{self._choices.one(texts)}")
            case 3 if comparable:
                return self._write_pair(comparable)
            case 4 if node.properties:
                known = [each.name for each in node.properties.values() if not each.type.is_blob]
                path = f"${name}.{self._choices.one(known)}" if known else f"${name}"
                return f"{path} is {self._choices.one(['', 'not '])}null"
            case _:
                return f"${name} is {self._choices.one(['', 'not '])}null"

    def _write_pair(self, comparable: list[tuple[str, PropertyType]]) -> str:
        """Two properties compared, if need be one with itself."""
        path, type = self._choices.one(comparable)
        if type.is_list:
            element = type.list_element
            others = [p for p, other in comparable if are_comparable(element, other)]
            if not others:
                return f"{path} contains {self._values.write(element)}"
            other = self._choices.one(others)
            return f"{path} contains {other}" if self._choices.often() else f"{other} in {path}"
        other = self._choices.one([p for p, each in comparable if are_comparable(type, each)])
        operators = [*COMPARATORS, *(("contains", "starts_with") if type.is_string else ())]
        return f"{path} {self._choices.one(operators)} {other}"

    def _write_search(self, path: str) -> str:
        function = self._choices.one(["search", "match_text", "fuzzy"])
        arguments = [path, self._values.write(STRING)]
        if function == "fuzzy" and self._choices.often():
            arguments.append(self._choices.one(["0", "1", "2"]))
        truth = self._choices.one(["", "", " = true", " != true", " = false"])
        return f"{function}({', '.join(arguments)}){truth}"

    def _anchors(self, pattern: _Pattern) -> list[tuple[EdgeType, int, str]]:
        """The edges that a known variable may be an end of: which end, and which variable."""
        return [
            (edge, position, name)
            for edge in self._edges
            for position, end in enumerate((edge.source, edge.target))
            for name, node in pattern.nodes()
            if node.name == end and name not in pattern.optional_here
        ]

    def _write_walk(
        self, pattern: _Pattern, anchor: tuple[EdgeType, int, str] | None = None
    ) -> str:
        edge = anchor[0] if anchor else self._choices.one(self._edges)
        ends = [self._choose_end(node, pattern) for node in (edge.source, edge.target)]
        if anchor:
            ends[anchor[1]] = anchor[2]
        word = f"{edge.name[0].lower()}{edge.name[1:]}"
        if edge.source == edge.target and self._choices.often():
            word = f"<{word}>"
        edge_variable = self._choices.one(["", "", "_", self._make_variable()])
        # An edge between two types cannot be followed twice in a row.
        bounds = _HOPS if edge.source == edge.target else _HOPS_BETWEEN_TYPES
        hops = "" if edge_variable else self._choices.one(bounds)
        # Between two types either end may be written first, once one of them is known.
        is_known = any(name in pattern.variables for name in ends)
        is_turned = is_known and edge.source != edge.target and self._choices.often()
        for name, node in zip(ends, (edge.source, edge.target), strict=True):
            if name != "_":
                declared = next(each for each in self._nodes if each.name == node)
                pattern.variables.setdefault(name, declared)
        if edge_variable not in {"", "_"}:
            pattern.variables[edge_variable] = edge
        first, second = reversed(ends) if is_turned else ends
        return f"${first} {f'${edge_variable}: ' * bool(edge_variable)}{word}{hops} ${second}"

    def _choose_end(self, type_name: str, pattern: _Pattern) -> str:
        known = [
            name
            for name, node in pattern.nodes()
            if node.name == type_name and name not in pattern.optional_here
        ]
        return self._choices.one([*known, self._make_variable(), "_"])

    def _make_variable(self) -> str:
        self._variable_count += 1
        return f"v{self._variable_count}"


def _indent(texts: list[str]) -> str:
    return "\n".join(f"  {line}" for text in texts for line in text.splitlines())
