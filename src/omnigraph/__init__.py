"""OmniGraph: a typed property graph on Lance whose every commit lands whole or not at all."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.api import init, open
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.ops.reading.csv_files import CsvFile
    from omnigraph.engine.read.budget import CallLimits

__version__ = "0.1.0"

__all__ = ["CallLimits", "CsvFile", "Graph", "__version__", "init", "open"]


def __getattr__(name: str) -> object:
    # The command line and the build import this module, and need nothing of what Lance brings.
    if name in ("CallLimits", "CsvFile", "Graph", "init", "open"):
        return getattr(import_module("omnigraph.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
