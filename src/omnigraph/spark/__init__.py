"""Bulk loads on Spark: many rows, one commit. `session` is public and needs PySpark."""

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.model.errors import UnavailableError

if TYPE_CHECKING:
    from omnigraph.spark.sessions import session

__all__ = ["session"]


def __getattr__(name: str) -> object:
    # Importing the package must not import PySpark.
    if name != "session":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("omnigraph.spark.sessions"), name)
    except ModuleNotFoundError as error:
        package, _, _ = str(error.name).partition(".")
        advice = "install it with `pip install 'pyspark[connect]>=4.3,<4.4'`"
        raise UnavailableError(
            action="start Spark", reason=f"{package} is not installed; {advice}"
        ) from error
