"""The errors that callers catch, one tree under `GraphError`; `omnigraph.model.errors` draws it."""

from omnigraph.model.errors import (
    CompileError,
    GraphError,
    InvalidValueError,
    NotFoundError,
    Outcome,
    RequestError,
    UnreadableError,
)

__all__ = [
    "CompileError",
    "GraphError",
    "InvalidValueError",
    "NotFoundError",
    "Outcome",
    "RequestError",
    "UnreadableError",
]
