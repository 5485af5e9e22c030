"""Commands as a second start finds things: on a warm disk, with cached bytecode."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class Starter:
    """Starts commands in a folder, with bytecode of their own."""

    def __init__(self, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
        self._environment = {
            **kept,
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            # Whoever measures has settings that others do not have.
            "OMNIGRAPH_HOME": str(folder / "home"),
        }
        self._folder = folder

    def __call__(self, *command: str) -> Callable[[], object]:
        """A run of a command that must succeed; what it prints does not matter."""
        return lambda: subprocess.run(
            command,
            check=True,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment,
        )
