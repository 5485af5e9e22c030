"""Compiled queries, kept by their text: the same call compiles once for each schema."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from omnigraph.compiler.compile import compile_mutation, compile_read
from omnigraph.compiler.ir import MutationIR, ReadIR
from omnigraph.engine.read.plan import Plan, plan_read
from omnigraph.engine.state.contract import Contract
from omnigraph.model.limits import COMPILED_QUERIES_MAX
from omnigraph.model.observer import Event, Observer
from omnigraph.model.source import Source

Q = TypeVar("Q")

_Key = tuple[str, str | None, str]
"""A text, the name of the query in it, and the hash of the schema it was compiled for."""


class CompiledQueries:
    """The queries compiled last, up to a bound; safe to share between threads."""

    def __init__(self, observer: Observer) -> None:
        self._mutations: _Kept[MutationIR] = _Kept(observer)
        self._reads: _Kept[Plan] = _Kept(observer)

    def mutation(self, text: str, *, name: str | None, contract: Contract) -> MutationIR:
        """A mutation's IR; `CompileError` says everything that is wrong with it."""

        def compile() -> MutationIR:
            ir = compile_mutation(Source("<mutation>", text), contract.catalog, name=name).ir
            assert isinstance(ir, MutationIR)
            return ir

        return self._mutations.get((text, name, contract.schema_hash), compile)

    def read(self, text: str, *, name: str | None, contract: Contract) -> Plan:
        """A read's plan; `CompileError` says everything that is wrong with it."""

        def compile() -> Plan:
            ir = compile_read(Source("<query>", text), contract.catalog, name=name).ir
            assert isinstance(ir, ReadIR)
            return plan_read(ir)

        return self._reads.get((text, name, contract.schema_hash), compile)


class _Kept(Generic[Q]):
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._lock = Lock()
        self._by_key: OrderedDict[_Key, Q] = OrderedDict()

    def get(self, key: _Key, compile: Callable[[], Q]) -> Q:
        with self._lock:
            found = self._by_key.get(key)
            if found is not None:
                self._by_key.move_to_end(key)
        self._observer.count(Event.COMPILED_MISS if found is None else Event.COMPILED_HIT)
        if found is not None:
            return found
        compiled = compile()
        with self._lock:
            self._by_key[key] = compiled
            if len(self._by_key) > COMPILED_QUERIES_MAX:
                self._by_key.popitem(last=False)
        return compiled
