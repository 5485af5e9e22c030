"""Modules that are imported when they are first used, so that a call pays for what it needs only.

A module imports what it defers under `TYPE_CHECKING`, where readers, type checkers and the contract
of layers see it, and takes it from `defer` when it runs. Does not know what is worth deferring:
what most calls do without, and what takes milliseconds to import.
"""

from __future__ import annotations

from importlib import import_module


class Deferred:
    """A module that is imported when something of it is asked for; safe between threads."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self._name), name)


def defer(name: str) -> Deferred:
    """The module of a name, imported at its first use."""
    return Deferred(name)
