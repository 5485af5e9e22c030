"""The codes of diagnostics, read from the compiler's source instead of a list."""

import ast
import re
from collections.abc import Iterator

from tests.support.source_tree import product_modules

CODE = re.compile(r"[PSCTDMW]\d+")


def codes_in_source(*packages: str) -> Iterator[tuple[str, str]]:
    """Each code that a module of these packages reports, and the place where it does."""
    for module in product_modules():
        if not module.name.startswith(packages):
            continue
        for node in ast.walk(module.tree):
            match node:
                case ast.Constant(value=str(text)) if CODE.fullmatch(text):
                    yield text, module.place(node)
                case _:
                    pass
