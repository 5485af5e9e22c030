"""The build hook that compiles the grammars to parser tables.

Guarantees that every wheel and every editable install contains tables built from its own grammars,
so that starting the program never compiles a grammar. Does not know the format of the tables: the
compiler writes and reads them.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ParserTablesHook(BuildHookInterface[BuilderConfig]):
    """Runs before hatchling collects the files of a wheel."""

    # hatchling requires both arguments; the tables do not depend on them.
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the tables beside the grammars."""
        # First on the path, so that an installed copy of the package is not imported instead.
        sys.path.insert(0, str(Path(self.root, "src")))
        importlib.import_module("omnigraph.compiler.parser_tables").write_tables()
