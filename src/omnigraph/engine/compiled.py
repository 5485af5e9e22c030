"""Compiled mutations, kept by their text: the same call compiles once for each schema."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from omnigraph.compiler.compile import compile_mutation
from omnigraph.compiler.ir import MutationIR
from omnigraph.engine.state.contract import Contract
from omnigraph.model.limits import COMPILED_QUERIES_MAX
from omnigraph.model.source import Source


class CompiledQueries:
    """The queries compiled last, up to a bound; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._mutations: OrderedDict[tuple[str, str | None, str], MutationIR] = OrderedDict()

    def mutation(self, text: str, *, name: str | None, contract: Contract) -> MutationIR:
        """A mutation's IR; `CompileError` says everything that is wrong with it."""
        key = (text, name, contract.schema_hash)
        with self._lock:
            if key in self._mutations:
                self._mutations.move_to_end(key)
                return self._mutations[key]
        ir = compile_mutation(Source("<mutation>", text), contract.catalog, name=name).ir
        assert isinstance(ir, MutationIR)
        with self._lock:
            self._mutations[key] = ir
            if len(self._mutations) > COMPILED_QUERIES_MAX:
                self._mutations.popitem(last=False)
        return ir
