"""Runs commands with a warm file system cache and cached bytecode."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class CommandRunner:
    """Runs commands in a folder, with a separate bytecode cache."""

    def __init__(self, folder: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
        self._environment = {
            **inherited,
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            # Isolates the runs from the settings of the current user.
            "OMNIGRAPH_HOME": str(folder / "home"),
        }
        self._folder = folder

    def __call__(self, *command: str) -> Callable[[], object]:
        """Return a call that runs a command, discards its output and requires exit code 0."""
        return lambda: subprocess.run(
            command,
            check=True,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment,
        )
