"""The `omnigraph` command: runs the command that was asked for and turns errors into exits.

Exits with 0 on success, 1 when the work failed, 2 when the command line was wrong. Nothing but a
command's payload goes to standard output. The only module here that reads the environment.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from io import TextIOWrapper

import click

import omnigraph
from omnigraph.cli.command import Group
from omnigraph.cli.display import make_lines_harmless
from omnigraph.cli.flags import global_options
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.short_life import hasten_end, hasten_start
from omnigraph.cli.spellings import modernize
from omnigraph.model.errors import GraphError

PROGRAM = "omnigraph"


def main() -> None:
    """Run the command line of this process and exit."""
    _open_closed_streams()
    _write_out_unknown_characters()
    hasten_start()
    code = run(sys.argv[1:], environment=os.environ)
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would try and complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # A reader of a pipe that has left wants no more, not even to hear about it.
        if code == 0 and not isinstance(error, BrokenPipeError):
            _fail(f"cannot write the output: {error.strerror}")
        code = 1
    hasten_end()
    sys.exit(code)


def run(arguments: Sequence[str], *, environment: Mapping[str, str]) -> int:
    """Run a command line and return its exit code; what is printed may still be on its way."""
    modern, warning = modernize(arguments)
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
        return _fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted")
    except OSError as error:
        return _fail(_explain(error))
    except Exception as error:  # noqa: BLE001  # the outermost: a bug ends as any failure does
        traceback.print_exception(error)
        return _fail("this is a mistake in omnigraph; please report it with the lines above")
    # Outside its standalone mode click returns the code of an early exit, such as `--help`'s.
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
    """Give a process whose standard streams were closed empty ones.

    The next files to be opened would otherwise be taken for them, and messages end up in a graph.
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
    """Print a character that the standard output has no bytes for as an escape.

    To fail there would call a write failed that was done.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _explain(error: OSError) -> str:
    if error.filename is not None:
        return f"{error.filename}: {error.strerror or error}"
    if error.errno == errno.ENOSPC:
        # Files of graphs have names, so this is a stream.
        return f"cannot write the output: {error.strerror}; what was asked for may be done"
    return error.strerror or str(error)


def _fail(message: str) -> int:
    click.echo(f"Error: {make_lines_harmless(message)}", err=True)
    return 1
