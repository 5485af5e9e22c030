"""The commands `profile`, `login`, `logout`, `graphs`, `completion` and `version`.

Tokens are stored in a file that only its owner can read. A profile that cannot be used is listed
with its error. Only `graphs` contacts a server.
"""

from __future__ import annotations

import sys
from getpass import getpass
from typing import TypedDict

import click
from click.shell_completion import ShellComplete, get_completion_class

import omnigraph
from omnigraph.cli.command import command
from omnigraph.cli.config import Defaults, Format, OperatorConfig, Profile
from omnigraph.cli.credentials import remove_token, require_name, store_token
from omnigraph.cli.invocation import Invocation, list_server_graphs
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import CommandError, print_line, print_note
from omnigraph.cli.targets import (
    ClusterScope,
    Scope,
    ServedTarget,
    StoreTarget,
    active_profile,
    get_profile,
    require_one_binding,
    scope_of_defaults,
    scope_of_profile,
)


class _Listed(TypedDict):
    """A profile as the list shows it; `error` is the reason why it cannot be used."""

    name: str
    binding: str
    scope_kind: str
    target: str | None
    valid: bool
    error: str | None
    default_graph: str | None
    active: bool


@command(JSON_OPTION)
def list_profiles(invocation: Invocation) -> None:
    """List the profiles, including unusable ones; `*` marks the active one."""
    config = invocation.config
    active = active_profile(invocation.flags, invocation.environment)
    listed = [
        _describe(name, profile, config, is_active=name == active)
        for name, profile in config.profiles.items()
    ]
    invocation.print_output([*listed], map(_view_listed, listed))
    if not listed and not invocation.is_json:
        print_note(f"no profiles in {invocation.config_path}")


@command(JSON_OPTION)
@click.argument("name", required=False)
def show(invocation: Invocation, name: str | None) -> None:
    """Show what the profile NAME addresses.

    Without NAME: the active profile, or the defaults if there is none.
    """
    config = invocation.config
    chosen = name if name is not None else active_profile(invocation.flags, invocation.environment)
    scope: Scope | None
    kind: str
    target: str | None
    if chosen is None:
        kind, target = _default_binding(config.defaults)
        scope = scope_of_defaults(graph=None, config=config)
    else:
        kind, target = require_one_binding(chosen, get_profile(chosen, config))
        scope = scope_of_profile(chosen, graph=None, config=config)
    endpoint, graph = _endpoint_of(scope)
    payload = {
        "name": "(defaults)" if chosen is None else chosen,
        "scope_kind": kind,
        "target": target,
        "endpoint": endpoint,
        "default_graph": graph,
        "output_format": str(config.defaults.output or Format.TABLE),
    }
    lines = [f"{key}: {'-' if value is None else value}" for key, value in payload.items()]
    invocation.print_output(payload, lines)


def _describe(name: str, profile: Profile, config: OperatorConfig, *, is_active: bool) -> _Listed:
    error = None
    try:
        scope_of_profile(name, graph=None, config=config)
    except CommandError as refusal:
        error = str(refusal)
    kind, target = ("invalid", None) if error is not None else profile.bindings[0]
    return {
        "name": name,
        "binding": " ".join(f"{kind}={value}" for kind, value in profile.bindings),
        "scope_kind": kind,
        "target": target,
        "valid": error is None,
        "error": error,
        "default_graph": profile.default_graph,
        "active": is_active,
    }


def _view_listed(listed: _Listed) -> str:
    mark = "*" if listed["active"] else " "
    shown = listed["binding"] if listed["valid"] else f"invalid: {listed['error']}"
    graph = "" if listed["default_graph"] is None else f" graph={listed['default_graph']}"
    return f"{mark} {listed['name']} {shown}{graph}"


def _default_binding(defaults: Defaults) -> tuple[str, str | None]:
    if defaults.server is not None:
        return "server", defaults.server
    return ("none", None) if defaults.store is None else ("store", defaults.store)


def _endpoint_of(scope: Scope | None) -> tuple[str | None, str | None]:
    """The address of a scope, and its graph if it names one."""
    match scope:
        case None:
            return None, None
        case ServedTarget(base_url=url, graph_id=graph):
            return url, graph
        case ClusterScope(root=root, graph=graph):
            return root, graph
        case StoreTarget(uri=uri):
            return uri, None


@command(JSON_OPTION)
@click.argument("name")
@click.option("--token", metavar="TOKEN", help="The token; by default, a line is read from stdin.")
def login(invocation: Invocation, name: str, token: str | None) -> None:
    """Store the token of the server NAME in a file that only you can read.

    Other users of this machine may see `--token` while the command runs; they cannot see stdin.
    """
    require_name(name)
    is_declared = name in invocation.config.url_by_server
    given = (_read_line(name) if token is None else token).strip()
    if not given:
        raise CommandError("the token is empty; nothing was stored")
    path = invocation.credentials_path
    store_token(path, name, given)
    if not is_declared:
        print_note(
            f"note: there is no `{name}` under `servers:` in {invocation.config_path}; the token "
            "is used when it is added"
        )
    output = {"server": name, "credentials_path": str(path), "declared": is_declared}
    invocation.print_output(output, [f"stored the token of {name} in {path}"])


@command(JSON_OPTION)
@click.argument("name")
def logout(invocation: Invocation, name: str) -> None:
    """Delete the stored token of the server NAME, if there is one."""
    require_name(name)
    path = invocation.credentials_path
    remove_token(path, name)
    output = {"server": name, "credentials_path": str(path)}
    invocation.print_output(output, [f"removed the token of {name} from {path}"])


def _read_line(name: str) -> str:
    if sys.stdin.isatty():
        return getpass(f"Token of {name}: ", stream=sys.stderr)
    try:
        return sys.stdin.readline()
    except UnicodeDecodeError as error:
        raise CommandError("the token is not valid text; nothing was stored") from error


@command(JSON_OPTION)
@click.option("--uri", metavar="URL", help="The server, instead of --server.")
def list_graphs(invocation: Invocation) -> None:
    """List the graphs that a server serves."""
    served = sorted(list_server_graphs(invocation.server_target()), key=lambda each: each.graph_id)
    output = {"graphs": [{"graph_id": each.graph_id, "uri": each.uri} for each in served]}
    invocation.print_output(output, [f"{each.graph_id} {each.uri}" for each in served])


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(invocation: Invocation, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    To enable it in every new shell, add the line to its start-up file:
      eval "$(omnigraph completion bash)"        in ~/.bashrc
      eval "$(omnigraph completion zsh)"         in ~/.zshrc, after compinit
      omnigraph completion fish | source         in ~/.config/fish/config.fish
    """
    del invocation
    root = click.get_current_context().find_root()
    made = get_completion_class(shell)
    assert made is not None, "click completes for these shells"
    program = root.info_name or "omnigraph"
    complete = made(root.command, {}, program, f"_{program}_COMPLETE".upper())
    # Skips the first step of click's bash class, which starts bash to check its version.
    print_line(ShellComplete.source(complete).strip())


@command()
def version(invocation: Invocation) -> None:
    """Print the version."""
    del invocation
    print_line(f"omnigraph {omnigraph.__version__}")
