"""`omnigraph login` and `omnigraph logout`: the token of a server, kept and forgotten."""

from __future__ import annotations

import sys
from getpass import getpass

import click

from omnigraph.cli.command import command
from omnigraph.cli.credentials import remove_token, require_name, store_token
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import print_json, print_line, print_note
from omnigraph.cli.refusals import CommandError


@command()
@click.argument("name")
@click.option("--token", metavar="TOKEN", help="The token; without, a line of stdin is read.")
@JSON_OPTION
@click.pass_obj
def login(invocation: Invocation, name: str, token: str | None, *, is_json: bool) -> None:
    """Keep the token of the server NAME, in a file that only you can read.

    Others who use this machine may see `--token` while the command runs; they cannot see stdin.
    """
    require_name(name)
    is_declared = name in invocation.config.url_by_server
    given = (_read_line(name) if token is None else token).strip()
    if not given:
        raise CommandError("the token is blank; nothing was stored")
    path = invocation.credentials_path
    store_token(path, name, given)
    if not is_declared:
        print_note(
            f"note: there is no `{name}` under `servers:` in {invocation.config_path}; the token "
            "is used once its url is there"
        )
    if is_json:
        print_json({"server": name, "credentials_path": str(path), "declared": is_declared})
    else:
        print_line(f"stored the token of {name} in {path}")


@command()
@click.argument("name")
@JSON_OPTION
@click.pass_obj
def logout(invocation: Invocation, name: str, *, is_json: bool) -> None:
    """Forget the token of the server NAME; without one, nothing happens."""
    require_name(name)
    path = invocation.credentials_path
    remove_token(path, name)
    if is_json:
        print_json({"server": name, "credentials_path": str(path)})
    else:
        print_line(f"removed the token of {name} from {path}")


def _read_line(name: str) -> str:
    if sys.stdin.isatty():
        return getpass(f"Token of {name}: ", stream=sys.stderr)
    try:
        return sys.stdin.readline()
    except UnicodeDecodeError as error:
        raise CommandError("the token is no text; nothing was stored") from error
