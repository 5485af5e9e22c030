"""What a process that runs one command leaves out, to start and to end sooner.

Only the start of the program calls this, once: a process in which commands are run beside other
things is left as it is. Nothing here changes what a command does.
"""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec
from inspect import currentframe
from opcode import opmap

_COLLECTED_AFTER_MAX = 300_000
"""New objects before garbage is looked for: importing all that a command needs makes fewer."""


def hasten_start() -> None:
    """Import nothing that the command itself does not ask for, and look for garbage later."""
    gc.set_threshold(_COLLECTED_AFTER_MAX)
    sys.meta_path.insert(0, _PandasWhenImported())


def hasten_end() -> None:
    """Leave what is still there to the operating system; nothing of it is garbage."""
    gc.freeze()


class _PandasWhenImported:
    """Finds no pandas for those who only want to know whether there is one.

    With the first Python value that Arrow 26 takes, and so when Lance is imported, it asks for
    pandas, to know pandas' missing values among others. No command has any. Arrow asks from C, and
    once; an `import` and `import_module` find pandas as ever, and Arrow makes frames of it.
    """

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """None, which sends who imports to the next finder."""
        del path, target
        if fullname == "pandas" and not _is_imported_by_python():
            raise ModuleNotFoundError(f"{fullname} is not needed yet", name=fullname)
        return None


def _is_imported_by_python() -> bool:
    """Whether the import that is under way was written in Python; so it is, if in doubt."""
    frame = currentframe()
    while frame is not None and frame.f_code.co_name != "_find_and_load":
        frame = frame.f_back
    asking = None if frame is None else frame.f_back
    if asking is None or asking.f_code.co_name == "_gcd_import":
        return True
    return asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_NAME"]
