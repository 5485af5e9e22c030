"""LangChain integration: `OmnigraphRetriever`, which requires the extra `langchain`."""

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.model.errors import UnavailableError

if TYPE_CHECKING:
    from omnigraph.langchain.retriever import OmnigraphRetriever

__all__ = ["OmnigraphRetriever"]


def __getattr__(name: str) -> object:
    # Imported on first use, so that importing this package does not wait for LangChain.
    if name != "OmnigraphRetriever":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("omnigraph.langchain.retriever"), name)
    except ModuleNotFoundError as error:
        package, _, _ = str(error.name).partition(".")
        advice = "install it with `pip install 'omnigraph[langchain]'`"
        raise UnavailableError(
            action="make a retriever", reason=f"{package} is not installed; {advice}"
        ) from error
