"""The build hook that turns the grammars into parser tables.

Promises that every wheel and every editable install carries tables made from its own grammars, so
that starting the program never compiles one. Does not know what a table holds: the compiler writes
them and the compiler reads them.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ParserTablesHook(BuildHookInterface[BuilderConfig]):
    """Runs before hatchling collects the files of a wheel."""

    # Both arguments are hatchling's: the tables are the same for a plain and an editable build.
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the tables beside the grammars."""
        # First in the path, or an installed copy would write the tables of its own grammars.
        sys.path.insert(0, str(Path(self.root, "src")))
        importlib.import_module("omnigraph.compiler.parser_tables").write_tables()
