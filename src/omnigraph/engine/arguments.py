"""What the calls of a graph can be asked for and this version cannot do: refused, never ignored."""

from __future__ import annotations

from omnigraph.model.errors import InvalidValueError


def require_local(engine: str, spark: object) -> None:
    """Raise unless a read is to run in this process."""
    if engine == "local" and spark is None:
        return
    raise InvalidValueError(
        subject="engine",
        expected="local",
        value=engine,
        problem='this version answers queries in process only; use "local" and leave `spark` out',
    )
