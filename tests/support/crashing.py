"""Stores that fail on purpose: the two ports around real stores, with one fault between them.

Guarantees that the N-th durable effect is hit in the requested way, whatever code caused it and
whichever store it went to, and that nothing durable happens after a crash. Does not depend on
graphs, so it cannot overlook an effect that the engine does not report.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import ParamSpec, TypeVar

from omnigraph.errors import UnavailableError
from omnigraph.storage.ports import ObjectStore, Stores, TableStore

P = ParamSpec("P")
T = TypeVar("T")


class When(StrEnum):
    """What becomes of the call that is hit."""

    BEFORE = "the process stops before it happens"
    AFTER = "it happens, and the process stops before any caller receives a result"
    LOST = "it happens, and an error is reported"
    ERROR_ONCE = "it does not happen, and an error is reported"
    ERROR_FOR_EVER = "neither it nor any later one happens, and errors are reported"


# What the other ways leave behind, these leave one effect earlier.
REPRESENTATIVE_WAYS = (When.AFTER, When.LOST)


class Scope(StrEnum):
    """Which calls are counted, and so can be hit."""

    EFFECTS = "effect"
    CALLS = "call"


class SimulatedCrash(BaseException):
    """The world stopped; no `Exception`, so that no handler of the product can go on."""


class Fault:
    """One fault, shared by both stores of a graph."""

    def __init__(self, *, at: int, when: When, scope: Scope) -> None:
        self._at = at
        self.when = when
        self._scope = scope
        self._is_dead = False
        self._is_over = False
        self.seen = 0
        self.hit: str | None = None

    def __str__(self) -> str:
        return f"{self._scope} {self._at}, {self.hit or 'never reached'}: {self.when}"

    def effect(self, call: Callable[P, T]) -> Callable[P, T]:
        """A durable effect, which is always counted."""
        return self._counted(call)

    def harmless(self, call: Callable[P, T]) -> Callable[P, T]:
        """A read, or a write of unreferenced files: counted if every call is."""
        return call if self._scope is Scope.EFFECTS else self._counted(call)

    def end(self) -> None:
        """Count and hit nothing any more."""
        self._is_over = True

    def _counted(self, call: Callable[P, T]) -> Callable[P, T]:
        name = getattr(call, "__name__", repr(call))

        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            if self._is_dead:
                raise SimulatedCrash
            if self._is_over or not self._is_next_hit():
                return call(*args, **kwargs)
            self.hit = self.hit or name
            match self.when:
                case When.BEFORE:
                    self._is_dead = True
                    raise SimulatedCrash
                case When.AFTER:
                    call(*args, **kwargs)
                    self._is_dead = True
                    raise SimulatedCrash
                case When.LOST:
                    call(*args, **kwargs)
                    raise UnavailableError(action=name, reason="the response was lost")
                case When.ERROR_ONCE | When.ERROR_FOR_EVER:
                    raise UnavailableError(action=name, reason="the storage did not respond")

        return run

    def _is_next_hit(self) -> bool:
        self.seen += 1
        if self.when is When.ERROR_FOR_EVER:
            return self.seen >= self._at
        return self.seen == self._at


class CrashingObjects:
    """An object store that a fault runs through."""

    def __init__(self, objects: ObjectStore, fault: Fault) -> None:
        self.find = fault.harmless(objects.find)
        self.list = fault.harmless(objects.list)
        self.tokens = fault.harmless(objects.tokens)

        self.put = fault.effect(objects.put)
        self.put_if_absent = fault.effect(objects.put_if_absent)
        self.put_if_match = fault.effect(objects.put_if_match)
        self.delete = fault.effect(objects.delete)
        self.delete_prefix = fault.effect(objects.delete_prefix)


class CrashingTables:
    """A table store that a fault runs through."""

    def __init__(self, tables: TableStore, fault: Fault) -> None:
        self.with_workers = lambda workers: CrashingTables(tables.with_workers(workers), fault)
        # They call no store, so no fault can hit them.
        self.generation, self.folder = tables.generation, tables.folder
        self.metered = tables.metered
        self.find_head = fault.harmless(tables.find_head)
        self.schema = fault.harmless(tables.schema)
        self.column_numbers = fault.harmless(tables.column_numbers)
        self.find_ids = fault.harmless(tables.find_ids)
        self.find_rows = fault.harmless(tables.find_rows)
        self.scan, self.scan_batches = map(fault.harmless, (tables.scan, tables.scan_batches))
        self.scan_by_id = fault.harmless(tables.scan_by_id)
        self.read_blob = fault.harmless(tables.read_blob)
        self.scan_new = fault.harmless(tables.scan_new)
        self.find_delta = fault.harmless(tables.find_delta)
        self.follow_delta = fault.harmless(tables.follow_delta)
        self.count_delta = fault.harmless(tables.count_delta)
        self.take = fault.harmless(tables.take)
        self.find_nearest = fault.harmless(tables.find_nearest)
        self.stored_bytes = fault.harmless(tables.stored_bytes)
        self.indexes = fault.harmless(tables.indexes)
        self.plan_layout = fault.harmless(tables.plan_layout)
        self.count = fault.harmless(tables.count)
        self.fragment_row_counts = fault.harmless(tables.fragment_row_counts)
        self.parts = fault.harmless(tables.parts)
        self.describe = fault.harmless(tables.describe)
        self.find_transaction = fault.harmless(tables.find_transaction)
        self.find_operations = fault.harmless(tables.find_operations)
        self.branches = fault.harmless(tables.branches)
        self.is_fresh_fork = fault.harmless(tables.is_fresh_fork)
        self.find_outside = fault.harmless(tables.find_outside)
        self.versions = fault.harmless(tables.versions)
        self.find_version_before = fault.harmless(tables.find_version_before)
        self.preview_cleaning = fault.harmless(tables.preview_cleaning)

        self.stage_append = fault.harmless(tables.stage_append)
        self.stage_merge_insert = fault.harmless(tables.stage_merge_insert)
        self.stage_exchange = fault.harmless(tables.stage_exchange)
        self.stage_overwrite = fault.harmless(tables.stage_overwrite)
        self.stage_delete = fault.harmless(tables.stage_delete)
        self.stage_replacement = fault.harmless(tables.stage_replacement)
        self.stage_files = fault.harmless(tables.stage_files)
        self.stage_indexes = fault.harmless(tables.stage_indexes)
        self.stage_layout = fault.harmless(tables.stage_layout)
        self.stage_columns = fault.harmless(tables.stage_columns)

        self.create = fault.effect(tables.create)
        self.apply = fault.effect(tables.apply)
        self.compact = fault.effect(tables.compact)
        self.delete_files = fault.effect(tables.delete_files)
        self.fork = fault.effect(tables.fork)
        self.delete_branch = fault.effect(tables.delete_branch)
        self.restore = fault.effect(tables.restore)
        self.clean = fault.effect(tables.clean)


def crashing(stores: Stores, fault: Fault) -> Stores:
    """The stores of a graph with a fault between it and them."""
    return Stores(
        objects=CrashingObjects(stores.objects, fault), tables=CrashingTables(stores.tables, fault)
    )
