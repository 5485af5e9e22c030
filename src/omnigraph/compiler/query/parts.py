"""The connected parts of a pattern: which variables hang together, and a warning when some do not.

Parts that nothing connects are combined each with each. That is legal, seldom meant, and what a
misspelt variable amounts to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from omnigraph.compiler.query.scope import Scope
from omnigraph.compiler.query.syntax import Binding, Clause, Traversal, Variable, variables_in


def connect(groups: Iterable[Sequence[str]]) -> dict[str, str]:
    """The part of each name, called by one of them, when the names of a group hang together."""
    part_by_name: dict[str, str] = {}

    def find(name: str) -> str:
        while (above := part_by_name.setdefault(name, name)) != name:
            part_by_name[name] = part_by_name[above]
            name = above
        return name

    for first, *others in groups:
        root = find(first)
        for other in others:
            part_by_name[find(other)] = root
    return {name: find(name) for name in list(part_by_name)}


def warn_about_combinations(clauses: Sequence[Clause], scope: Scope) -> None:
    """Warn of every part of a pattern that nothing connects with the first one."""
    mentioned = ([name for name in variables_in([c]) if name in scope.variables] for c in clauses)
    parts = connect(names for names in mentioned if names)
    seen: dict[str, str] = {}
    for variable in _bound_variables(clauses):
        if variable.name not in parts or parts[variable.name] in seen:
            continue
        if seen:
            first = next(iter(seen.values()))
            problem = f"nothing connects `${variable.name}` with `${first}`"
            advice = "every combination is returned; connect them by an edge or a condition"
            scope.diagnostics.warn("W3", problem, variable.span, advice)
        seen[parts[variable.name]] = variable.name


def _bound_variables(clauses: Sequence[Clause]) -> Iterator[Variable]:
    for clause in clauses:
        match clause:
            case Binding(variable=variable):
                yield variable
            case Traversal(source=source, target=target):
                yield from (source, target)
            case _:
                pass
