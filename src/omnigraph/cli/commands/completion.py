"""`omnigraph completion`: the script that makes a shell complete our command lines."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from omnigraph.cli.command import command
from omnigraph.cli.output import print_line

_SHELLS = ("bash", "zsh", "fish")


@command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    To have it in every shell that you start, put this line into its start-up file:
      eval "$(omnigraph completion bash)"        in ~/.bashrc
      eval "$(omnigraph completion zsh)"         in ~/.zshrc, after compinit
      omnigraph completion fish | source         in ~/.config/fish/config.fish
    """
    root = context.find_root()
    made = get_completion_class(shell)
    assert made is not None, "click completes for these shells"
    program = root.info_name or "omnigraph"
    complete = made(root.command, {}, program, f"_{program}_COMPLETE".upper())
    # Past what click's bash class does first: starting bash, to look at its version.
    print_line(ShellComplete.source(complete).strip())
