"""Prepared queries: reads that are compiled once and called with values.

A call reads the current state of a branch, or a commit, as any other read does. If the schema of
that state is not the one of the previous call, the query is compiled again first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from omnigraph.compiler.ir import Parameter
from omnigraph.engine.ops.query import QueryCache
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.read.plan import Plan
from omnigraph.engine.results import Result
from omnigraph.engine.state.schema_files import AcceptedSchema
from omnigraph.model.errors import InvalidValueError


class ReadCall(Protocol):
    """Runs a read with the given parameters."""

    def __call__(
        self,
        params: Mapping[str, object],
        *,
        branch: str | None,
        commit: str | None,
        limits: CallLimits | None,
    ) -> Result:
        """The result on a branch or at a commit."""


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A read query that was compiled once; it is called with its parameters by keyword.

    It is safe to share between threads. `parameters` are those that the query declares.
    """

    name: str
    parameters: tuple[Parameter, ...]
    _run: ReadCall

    def __repr__(self) -> str:
        declared = ", ".join(f"${each.name}: {each.type}" for each in self.parameters)
        return f"PreparedQuery({self.name}({declared}))"

    def __call__(
        self,
        params: Mapping[str, object] | None = None,
        /,
        *,
        branch: str | None = None,
        commit: str | None = None,
        limits: CallLimits | None = None,
        **values: object,
    ) -> Result:
        """Run the query on a branch (default `main`) or at a commit.

        A parameter is given by keyword, or in `params` if it is named `branch`, `commit` or
        `limits`.
        """
        for name in values.keys() & (params or {}):
            raise InvalidValueError(
                subject=f"param '{name}'",
                expected="one value",
                value=values[name],
                problem="it is given by keyword and in `params`",
            )
        given = {**params, **values} if params else values
        return self._run(given, branch=branch, commit=commit, limits=limits)


class PreparedPlan:
    """The plan of a read under the schema for which it was last requested."""

    def __init__(self, source: str, *, name: str | None, compiled: QueryCache) -> None:
        self._source, self._name, self._compiled = source, name, compiled
        self._known: tuple[AcceptedSchema, Plan] | None = None

    def under(self, accepted_schema: AcceptedSchema) -> Plan:
        """The plan under a schema; raises `CompileError` if the query does not match it."""
        # Read once, because another thread may replace the pair.
        known = self._known
        if known is not None and known[0] is accepted_schema:
            return known[1]
        plan = self._compiled.read(self._source, name=self._name, accepted_schema=accepted_schema)
        self._known = accepted_schema, plan
        return plan
