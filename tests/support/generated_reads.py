"""Valid reads, generated against a catalog: patterns, conditions, blocks, output and order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.types import PropertyType, Scalar, Vector
from tests.support.generated_values import Values

_STRING = PropertyType(Scalar.STRING)
_INTEGER = PropertyType(Scalar.I64)
_BLOCKS_MAX = 2
_ALIASES = ("n", "total", "as_", "order", "desc_", "count", "limit", "distinct", "x")


@dataclass(slots=True)
class _Pattern:
    """The variables in reach, by name; those that an optional block of this list introduced."""

    variables: dict[str, NodeType | EdgeType] = field(default_factory=dict)
    optional_here: set[str] = field(default_factory=set)

    def enter(self) -> _Pattern:
        return _Pattern(dict(self.variables))

    def nodes(self) -> list[tuple[str, NodeType]]:
        return [(name, t) for name, t in self.variables.items() if isinstance(t, NodeType)]

    def properties(self) -> list[tuple[str, PropertyType]]:
        """Every readable `$variable.property` with its type."""
        return [
            (f"${name}.{prop.name}", prop.type)
            for name, type in self.variables.items()
            for prop in type.properties.values()
            if not prop.type.is_blob
        ]


def draw_read(draw: DrawFn, catalog: Catalog, values: Values) -> str:
    """The body of a read."""
    writer = _ReadWriter(draw, catalog, values)
    pattern = _Pattern()
    clauses = [writer.write_binding(pattern)]
    clauses += writer.write_clauses(pattern, depth=0)
    return f"match {{\n{_indent(clauses)}\n}}\n{_Output(draw, pattern, values).write()}"


class _ReadWriter:
    """Writes clauses; every variable it makes has a name of its own."""

    def __init__(self, draw: DrawFn, catalog: Catalog, values: Values) -> None:
        self._draw = draw
        self._catalog = catalog
        self._values = values
        self._variable_count = 0

    def write_binding(self, pattern: _Pattern) -> str:
        """Bind a new variable, perhaps with conditions."""
        node = self._draw(st.sampled_from(list(self._catalog.nodes.values())))
        name = self._fresh()
        pattern.variables[name] = node
        matchable = [
            each
            for each in node.properties.values()
            if not each.type.is_blob and not each.type.is_vector
        ]
        if not matchable or self._values.is_chosen():
            return f"${name}: {node.name}"
        prop = self._draw(st.sampled_from(matchable))
        value = self._values.write_value(replace(prop.type, is_list=False))
        return f"${name}: {node.name} {{ {prop.name}: {value}{self._values.choose(['', ','])} }}"

    def write_clauses(self, pattern: _Pattern, *, depth: int) -> list[str]:
        """Up to four more clauses of any kind."""
        return [self._write_clause(pattern, depth) for _ in range(self._draw(st.integers(0, 4)))]

    def _write_clause(self, pattern: _Pattern, depth: int) -> str:
        kinds = ["binding", "filter", "filter"]
        kinds += ["walk", "walk", "walk"] if self._catalog.edges else []
        kinds += ["not", "optional"] if depth < _BLOCKS_MAX else []
        match self._values.choose(kinds):
            case "walk":
                return self._write_walk(pattern)
            case "filter":
                return self._values.join(lambda: self._write_filter(pattern))
            case "binding":
                return self.write_binding(pattern)
            case word:
                return self._write_block(word, pattern, depth)

    def _write_block(self, word: str, pattern: _Pattern, depth: int) -> str:
        inner = pattern.enter()
        clauses = [self._values.join(lambda: self._write_filter(inner))]
        clauses += self.write_clauses(inner, depth=depth + 1)
        if word == "optional":
            introduced = inner.variables.keys() - pattern.variables.keys()
            pattern.optional_here |= introduced
            pattern.variables |= {name: inner.variables[name] for name in introduced}
        return f"{word} {{\n{_indent(clauses)}\n}}"

    def _write_walk(self, pattern: _Pattern) -> str:
        edge = self._draw(st.sampled_from(list(self._catalog.edges.values())))
        source = self._choose_end(edge.source, pattern)
        target = self._choose_end(edge.target, pattern)
        word = f"{edge.name[0].lower()}{edge.name[1:]}"
        is_loop = edge.source == edge.target
        if is_loop and self._values.is_chosen():
            word = f"<{word}>"
        elif not is_loop and source != "_" and self._values.is_chosen():
            # Between two types either end may be written first, once one of them is known.
            if source in pattern.variables or target in pattern.variables:
                source, target = target, source
        bound = self._values.choose(["", "", "$_: ", f"${self._fresh()}: "])
        hops = "" if bound else self._values.choose(["", "", "{1,1}", "{ 2 , 3 }"])
        for name, type_name in ((source, edge.source), (target, edge.target)):
            if name != "_" and name not in pattern.variables:
                pattern.variables[name] = self._catalog.nodes[type_name]
        if bound and bound != "$_: ":
            pattern.variables[bound[1:-2]] = edge
        return f"${source} {bound}{word}{hops} ${target}"

    def _choose_end(self, type_name: str, pattern: _Pattern) -> str:
        known = [
            name
            for name, node in pattern.nodes()
            if node.name == type_name and name not in pattern.optional_here
        ]
        return self._values.choose([*known, *known, self._fresh(), "_"])

    def _write_filter(self, pattern: _Pattern) -> str:
        name, node = self._draw(st.sampled_from(pattern.nodes()))
        searched = [each.name for each in node.properties.values() if each.type.is_string]
        comparable = [(p, t) for p, t in pattern.properties() if not t.is_vector]
        match self._values.choose(["compare", "compare", "search", "null"]):
            case "compare" if comparable:
                left, type = self._draw(st.sampled_from(comparable))
                operators = ("contains", "starts_with")
                return self._values.write_comparison(left, type, text_operators=operators)
            case "search" if searched:
                return self._write_search(f"${name}.{self._values.choose(searched)}")
            case _:
                return f"${name} is {self._values.choose(['', 'not '])}null"

    def _write_search(self, field: str) -> str:
        text = self._values.write_value(_STRING)
        truth = self._values.choose(["", "", " = true", " != true", " = false"])
        match self._values.choose(["search", "match_text", "fuzzy"]):
            case "fuzzy" if self._values.is_chosen():
                return f"fuzzy({field}, {text}, {self._values.write_value(_INTEGER)}){truth}"
            case function:
                return f"{function}({field}, {text}){truth}"

    def _fresh(self) -> str:
        self._variable_count += 1
        return f"v{self._variable_count}"


@dataclass(slots=True)
class _Output:
    """Writes what comes after a pattern."""

    draw: DrawFn
    pattern: _Pattern
    values: Values

    def write(self) -> str:
        """Columns, order and window of one of three kinds."""
        match self.values.choose(["plain", "plain", "aggregate", "ranked"]):
            case "aggregate":
                return self._write_aggregate()
            case "ranked" if rankings := self._rankings():
                return self._write_ranked(rankings)
            case _:
                return self._write_plain()

    def _write_plain(self) -> str:
        distinct = self.values.choose(["", "distinct "])
        columns = {alias: self._write_column() for alias in self._draw_aliases()}
        orderable = [alias for alias, (_, type) in columns.items() if type.is_scalar]
        properties = [path for path, type in self.pattern.properties() if type.is_scalar]
        keys = [*orderable, *(() if distinct else properties)]
        written = [f"{text} as {alias}" for alias, (text, _) in columns.items()]
        return self._write_end(f"return {distinct}{{ {self._separate(written)} }}", keys)

    def _write_aggregate(self) -> str:
        paths = self.pattern.properties()
        numbers = [path for path, type in paths if type.is_number]
        texts = [path for path, type in paths if type.is_string]
        nodes = [f"${name}" for name, _ in self.pattern.nodes()]
        anything = [path for path, _ in paths] + [f"${name}" for name in self.pattern.variables]
        functions = ["count(*)", f"count({self.values.choose(anything)})"]
        functions += [f"count(distinct {self.values.choose(anything)})"]
        functions += [f"{word}({path})" for path in numbers[:2] for word in ("sum", "avg", "min")]
        functions += [f"max({path})" for path in (texts + nodes)[:2]]
        aliases = self._draw_aliases()
        written = [f"{self.values.choose(functions)} as {alias}" for alias in aliases]
        groups = [path for path, type in paths if type.is_scalar and self.values.is_chosen()][:2]
        body = self._separate([*groups, *written])
        return self._write_end(f"return {{ {body} }}", [*groups, *aliases])

    def _write_ranked(self, rankings: list[str]) -> str:
        ranking = self.values.choose(rankings)
        columns = [self._write_column()[0]]
        if self.values.is_chosen() and ranking.startswith("rrf"):
            columns.append(f"{ranking} as score")
            ranking = "score"
        count = self.values.write_value(_INTEGER) if self.values.is_chosen() else "10"
        limit = self._write_count() if count == "10" else "10"
        return f"return {{ {self._separate(columns)} }}\norder {{ {ranking} }}\nlimit {limit}"

    def _rankings(self) -> list[str]:
        found: list[str] = []
        for name, node in self.pattern.nodes():
            near = [
                f"nearest(${name}.{each.name}, {self._write_query(each.type.element)})"
                for each in node.properties.values()
                if isinstance(each.type.element, Vector)
            ]
            text = [
                f'bm25(${name}.{each.name}, "word")'
                for each in node.properties.values()
                if each.type.is_string
            ]
            found += near + text
            if near and text:
                found += [f"rrf({near[0]}, {text[0]})", f"rrf({text[0]}, {near[0]}, 10)"]
        return found

    def _write_query(self, vector: Vector) -> str:
        wanted = PropertyType(vector) if self.values.is_chosen() else _STRING
        return self.values.write_value(wanted)

    def _write_column(self) -> tuple[str, PropertyType]:
        """A returned expression and its type."""
        paths = self.pattern.properties()
        if paths and self.values.is_chosen():
            return self.draw(st.sampled_from(paths))
        nodes = [(f"${name}", _STRING) for name, _ in self.pattern.nodes()]
        constants = [('"text"', _STRING), ("-1", _INTEGER), ("now()", PropertyType(Scalar.DATETIME))]
        return self.draw(st.sampled_from([*nodes, *constants]))

    def _draw_aliases(self) -> list[str]:
        return self.draw(st.lists(st.sampled_from(_ALIASES), min_size=1, max_size=3, unique=True))

    def _write_end(self, returned: str, keys: list[str]) -> str:
        lines = [returned]
        if keys and self.values.is_chosen():
            chosen = [self.values.choose(keys) for _ in range(self.draw(st.integers(1, 2)))]
            directed = (f"{key}{self.values.choose(['', ' asc', ' desc'])}" for key in chosen)
            lines.append(f"order {{ {', '.join(directed)} }}")
        window = [f"limit {self._write_count()}", f"offset {self._write_count()}"]
        lines += self.draw(st.sampled_from([[], window[:1], window[1:], window, window[::-1]]))
        return "\n".join(lines)

    def _write_count(self) -> str:
        if self.values.is_chosen():
            return self.values.choose(["0", "10", "9223372036854775807"])
        name = next((n for n, t in self.values.parameters.items() if t == _INTEGER), "rows")
        self.values.parameters[name] = _INTEGER
        return f"${name}"

    def _separate(self, written: list[str]) -> str:
        return self.values.choose([", ", " ", " ,\n"]).join(written)


def _indent(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for text in lines for line in text.splitlines())
