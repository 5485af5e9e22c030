"""What a query's names mean at one point of it: parameters, variables and the catalog.

A scope grows as clauses are checked in written order. A block gets a scope of its own that sees
the outer one; what it binds stays inside, unless the block is optional.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from omnigraph.compiler.diagnostics import Diagnostics, advise_name
from omnigraph.compiler.query.syntax import Variable
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.names import find_near_name
from omnigraph.model.source import Span
from omnigraph.model.types import PropertyType

NOW_PARAMETER = "__nanograph_now"
"""The name under which results show `now()`; no parameter may take it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a variable is bound to; an optional one may be bound to nothing."""

    type: NodeType | EdgeType
    is_optional: bool


@dataclass(slots=True)
class Scope:
    """The names in reach, and where faults are reported."""

    catalog: Catalog
    parameters: Mapping[str, PropertyType]
    diagnostics: Diagnostics
    variables: ChainMap[str, Bound] = field(default_factory=ChainMap)
    """What is bound, by this block and then by those around it; copying would be too slow."""
    optional_here: set[str] = field(default_factory=set)
    """What an optional block of this very clause list introduced."""
    hidden: dict[str, Span] = field(default_factory=dict)
    """What a `not` block of this very clause list used for itself, and where that block stands."""
    announced: ChainMap[str, None] = field(default_factory=ChainMap)
    """What some clause in reach binds, perhaps one that is still to come."""
    mentioned: dict[str, None] = field(default_factory=dict)
    """What the clauses of this list mention, those of inner blocks included, in that order."""
    broken: set[str] = field(default_factory=set)
    """What a refused clause or parameter would have meant; what follows from it is no fault."""

    def enter(self) -> Scope:
        """A scope for a block: sees everything here, keeps what it binds."""
        return replace(
            self,
            variables=self.variables.new_child(),
            announced=self.announced.new_child(),
            mentioned={},
            optional_here=set(),
            hidden={},
        )

    @property
    def depth(self) -> int:
        """How many blocks stand around."""
        return len(self.variables.maps) - 1

    def is_bound(self, name: str) -> bool:
        """Whether an earlier clause binds a variable, or would have."""
        return name in self.variables or name in self.broken

    def bind(self, variable: Variable, type: NodeType | EdgeType) -> None:
        """Bind a fresh variable for the clauses that follow."""
        self._require_unused(variable.name)
        self.variables[variable.name] = Bound(type, is_optional=False)

    def bind_optional(self, name: str, type: NodeType | EdgeType) -> None:
        """Bind a variable that an optional block introduced."""
        self._require_unused(name)
        self.variables[name] = Bound(type, is_optional=True)
        self.optional_here.add(name)

    def hide(self, block_by_name: Mapping[str, Span]) -> None:
        """Note the variables that a `not` block used for itself."""
        for name, block in block_by_name.items():
            if name not in self.variables and name not in self.parameters:
                self.hidden.setdefault(name, block)

    def break_off(self, *variables: Variable | None) -> None:
        """Note the names that a refused clause or parameter leaves without meaning."""
        names = (variable.name for variable in variables if variable is not None)
        self.broken.update(
            name for name in names if name not in self.variables and name not in self.parameters
        )

    def find_node(self, variable: Variable) -> NodeType | None:
        """The node type that a variable is bound to, if it is bound to one."""
        bound = self.variables.get(variable.name)
        return bound.type if bound is not None and isinstance(bound.type, NodeType) else None

    def _require_unused(self, name: str) -> None:
        # A block sees only what is bound before it, and clause order changes no result: so a name
        # cannot mean one thing in the block and another behind it.
        if name in self.hidden:
            problem = f"the not block uses `${name}`, which is bound only behind it"
            advice = "move the block to the end, or choose another name"
            self.diagnostics.error("T9", problem, self.hidden[name], advice)

    def report_unbound(self, code: str, variable: Variable) -> None:
        """Report a variable that no earlier clause binds."""
        if variable.name in self.broken:
            return
        problem = f"`${variable.name}` is not bound by an earlier clause and is no parameter"
        advice = self._advise_on_unbound(code, variable.name)
        self.diagnostics.error(code, problem, variable.span, advice)

    def _advise_on_unbound(self, code: str, name: str) -> str | None:
        if name in self.hidden:
            return "it exists only inside the not block"
        if name in self.announced:
            return "move this clause behind the one that binds it"
        return self.advise_near(
            name, chain(self.variables, self.parameters), is_value=code == "T31"
        )

    def advise_near(self, name: str, candidates: Iterable[str], *, is_value: bool) -> str | None:
        """The variable that was meant; else, where a value is needed, how to declare it."""
        if self.diagnostics.is_full:
            return None
        names = [f"${each}" for each in candidates]
        if is_value and find_near_name(f"${name}", names) is None:
            return f"declare it: `query name(${name}: …)`"
        return advise_name(f"${name}", names)
