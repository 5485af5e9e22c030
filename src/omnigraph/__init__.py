"""OmniGraph: a typed property graph on Lance whose every commit lands whole or not at all."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.api import connect, init, open
    from omnigraph.client.remote import RemoteGraph
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.ops.reading.csv_files import CsvFile
    from omnigraph.engine.read.budget import CallLimits

__version__ = "0.1.0"

__all__ = [
    "CallLimits",
    "CsvFile",
    "Graph",
    "RemoteGraph",
    "__version__",
    "connect",
    "init",
    "open",
]


def __getattr__(name: str) -> object:
    # The command line and the build import this module, and need nothing of what Lance brings.
    if name in ("CallLimits", "CsvFile", "Graph", "init", "open"):
        return getattr(import_module("omnigraph.api"), name)
    # Nor does a client need what opens a graph.
    if name == "connect":
        return import_module("omnigraph.client.connecting").connect
    if name == "RemoteGraph":
        return import_module("omnigraph.client.remote").RemoteGraph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """Add `%gq_open`, `%%gq` and `%gq_log` to a notebook that said `%load_ext omnigraph`."""
    import_module("omnigraph.notebook.magics").load(shell)
