"""OmniGraph: a typed property graph on Lance, in which every commit is atomic."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph import errors, spark
    from omnigraph.api import connect, init, open, relocate
    from omnigraph.client.remote import RemoteGraph
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.input.csv_files import CsvFile
    from omnigraph.engine.read.budget import CallLimits

__version__ = "0.1.0"

__all__ = [
    "CallLimits",
    "CsvFile",
    "Graph",
    "RemoteGraph",
    "__version__",
    "connect",
    "errors",
    "init",
    "open",
    "relocate",
    "spark",
]


def __getattr__(name: str) -> object:
    # The command line and the build import this module and do not need Lance and its dependencies.
    if name in ("CallLimits", "CsvFile", "Graph", "init", "open", "relocate"):
        return getattr(import_module("omnigraph.api"), name)
    # A client does not need the modules that open a graph either.
    if name == "connect":
        return import_module("omnigraph.client.remote").connect
    if name == "RemoteGraph":
        return import_module("omnigraph.client.remote").RemoteGraph
    if name in ("errors", "spark"):
        return import_module(f"omnigraph.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: object) -> None:
    """Register `%gq_open`, `%%gq` and `%gq_log` in a notebook; called by `%load_ext omnigraph`."""
    import_module("omnigraph.notebook.magics").load(shell)
