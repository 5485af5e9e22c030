"""The `omnigraph` program: entry point, exit codes, deprecated spellings and start-up tuning.

Exits with 0 on success, 1 if the command failed and 2 if the command line was wrong. Standard
output carries only the payload of a command. This is the only module of the package that reads the
process environment. Start-up tuning applies to the process of the program, never to callers of
`run`.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from inspect import currentframe
from io import TextIOWrapper
from opcode import opmap

import click

import omnigraph
from omnigraph.cli.command import Group
from omnigraph.cli.options import VALUE_FLAGS, global_options
from omnigraph.cli.output import CommandError, explain_failure, make_lines_harmless
from omnigraph.model.errors import (
    ExpectedVersionMismatchError,
    GraphError,
    PreconditionFailedError,
    ReadSetChangedError,
)

_COLLECTED_AFTER_MAX = 300_000
"""Allocations before a garbage collection; importing all that a command needs makes fewer."""


def defer_imports() -> None:
    """Delay the import of pandas until a command needs it, and delay garbage collection."""
    gc.set_threshold(_COLLECTED_AFTER_MAX)
    sys.meta_path.insert(0, _PandasWhenImported())


def skip_teardown() -> None:
    """Leave live objects to the operating system at exit; none of them is garbage."""
    gc.freeze()


class _PandasWhenImported:
    """A finder that hides pandas from code that only probes for it.

    When Arrow 26 converts its first Python value, which happens when Lance is imported, it imports
    pandas to recognize its missing values, among others. No command has any. Arrow does so once and
    from C; `import` statements and `import_module` find pandas as usual, and Arrow can then make
    data frames.
    """

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """None, which continues with the next finder, or an error if pandas is only probed for."""
        del path, target
        if fullname == "pandas" and not _is_imported_by_python():
            raise ModuleNotFoundError(f"{fullname} is not needed yet", name=fullname)
        return None


def _is_imported_by_python() -> bool:
    """Whether the current import is by Python code; True if that cannot be determined."""
    frame = currentframe()
    while frame is not None and frame.f_code.co_name != "_find_and_load":
        frame = frame.f_back
    importer = None if frame is None else frame.f_back
    if importer is None or importer.f_code.co_name == "_gcd_import":
        return True
    return importer.f_code.co_code[importer.f_lasti] == opmap["IMPORT_NAME"]


_TODAY = {
    ("query", "lint"): "lint",
    ("query", "check"): "lint",
    ("read",): "query",
    ("change",): "mutate",
    ("check",): "lint",
}


def replace_deprecated(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments with deprecated spellings replaced, and a warning if there were any."""
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] in VALUE_FLAGS else 1
    for old, today in _TODAY.items():
        if tuple(arguments[place : place + len(old)]) == old:
            modern = [*arguments[:place], today, *arguments[place + len(old) :]]
            return modern, (
                f"warning: `omnigraph {' '.join(old)}` is deprecated; use `omnigraph {today}`"
            )
    return list(arguments), None


PROGRAM = "omnigraph"

EXIT_FAILED = 1
EXIT_MOVED = 4
"""The exit code of a failed compare-and-swap, so that a script can detect it and retry."""

# Not all errors of a graph that moved: drift and a changed schema file are not to be retried.
_LOST_SWAPS = (PreconditionFailedError, ExpectedVersionMismatchError, ReadSetChangedError)


def main() -> None:
    """Run the command line of this process and exit."""
    _open_closed_streams()
    _write_out_unknown_characters()
    defer_imports()
    code = run(sys.argv[1:], environment=os.environ)
    try:
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python would flush again at exit, and print the error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # If the reader of a pipe closed it early, no error is printed.
        if code == 0 and not isinstance(error, BrokenPipeError):
            _fail(f"cannot write the output: {error.strerror}")
        code = 1
    skip_teardown()
    sys.exit(code)


def run(arguments: Sequence[str], *, environment: Mapping[str, str]) -> int:
    """Run a command line and return its exit code; output may still be buffered."""
    modern, warning = replace_deprecated(arguments)
    if warning is not None:
        click.echo(warning, err=True)
    try:
        returned = make_root().main(
            modern, prog_name=PROGRAM, standalone_mode=False, obj=environment
        )
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (GraphError, CommandError) as error:
        _fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
        return EXIT_MOVED if isinstance(error, _LOST_SWAPS) else EXIT_FAILED
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted")
    except OSError as error:
        return _fail(explain_failure(error))
    except Exception as error:  # noqa: BLE001  # the outermost: a bug ends as any failure does
        traceback.print_exception(error)
        return _fail("this is a bug in omnigraph; please report it with the traceback above")
    # Outside standalone mode, click returns the code of an early exit, such as that of `--help`.
    return returned if isinstance(returned, int) else 0


def make_root() -> Group:
    """The whole program as one group of commands."""
    version = click.version_option(
        omnigraph.__version__, "-v", "--version", message=f"{PROGRAM} %(version)s"
    )
    return version(
        Group(
            PROGRAM,
            params=global_options(),
            help="A typed property graph with branches, on open Lance tables.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
    )


def _open_closed_streams() -> None:
    """Replace closed standard streams by empty ones.

    Otherwise the next files to be opened would get their descriptors, and messages would be written
    into a graph.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def _write_out_unknown_characters() -> None:
    """Print characters that standard output cannot encode as escapes.

    An encoding error would otherwise report a completed write as failed.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _fail(message: str) -> int:
    click.echo(f"Error: {make_lines_harmless(message)}", err=True)
    return EXIT_FAILED
