"""Selects where a call runs: in this process, or on Spark.

The caller provides the Spark implementation as the name of a package; the engine never imports it
directly. A session that a call cannot use is rejected, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from omnigraph.model.errors import InvalidValueError, UnavailableError

if TYPE_CHECKING:
    from omnigraph.engine.settings import Settings


class Engine(StrEnum):
    """The engine that runs a call."""

    LOCAL = "local"
    SPARK = "spark"


def parse_engine(written: str, *, spark: object) -> Engine:
    """The engine that a caller names, checked against the presence of a Spark session."""
    match written:
        case Engine.LOCAL if spark is not None:
            problem = 'a local call does not accept a session; use engine="spark"'
        case Engine.LOCAL | Engine.SPARK:
            return Engine(written)
        case _:
            problem = f"{written!r} is neither local nor spark"
    raise InvalidValueError(
        subject="engine", expected="local or spark", value=written, problem=problem
    )


def choose_engine(written: str, *, spark: object, is_large: Callable[[], bool]) -> Engine:
    """The engine that a caller names; `auto` selects Spark for large work, or with a session."""
    if written != "auto":
        return parse_engine(written, spark=spark)
    return Engine.SPARK if spark is not None or is_large() else Engine.LOCAL


def get_spark_module(name: str, *, settings: Settings, action: str) -> ModuleType:
    """The module that implements an action on Spark.

    Raises `UnavailableError`, which names the action, if the graph was opened without a Spark
    package or if a required package is not installed.
    """
    if settings.spark_package is None:
        raise UnavailableError(
            action=f"{action} on Spark", reason="the graph was opened without a Spark package"
        )
    try:
        return import_module(f"{settings.spark_package}.{name}")
    except ModuleNotFoundError as error:
        reason = (
            f"the package {error.name} is not installed; install omnigraph with its dependencies"
        )
        raise UnavailableError(action=f"{action} on Spark", reason=reason) from error
