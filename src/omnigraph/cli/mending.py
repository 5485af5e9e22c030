"""Advice about a graph as commands: a doctor names calls of Python, and people type.

Pure. Advice that names no call stays as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from omnigraph.cli.next_commands import write_command
from omnigraph.cli.targets import Target

_CALL = re.compile(r"`graph\.(\w+)(?:\((.*?)\))?`")


def find_command(advice: str, target: Target) -> str | None:
    """The command that does the first call that an advice names; None if it names none."""
    found = _CALL.search(advice)
    return None if found is None else _command_of(found[1], found[2] or "", target)


def rewrite(advice: str, target: Target) -> str:
    """The advice with commands in the place of calls."""

    def replace(found: re.Match[str]) -> str:
        written = _command_of(found[1], found[2] or "", target)
        return found[0] if written is None else f"`{written}`"

    text = _CALL.sub(replace, advice)
    text = text.replace("`confirm=True`", "`--confirm`").replace("`force=True`", "`--force`")
    return text.replace('`mode="overwrite"`', "`--mode overwrite`")


def _command_of(call: str, arguments: str, target: Target) -> str | None:
    positional, named = _read_arguments(arguments)
    branch = ["--branch", named["branch"]] if "branch" in named else []
    words: Mapping[str, list[str]] = {
        # To open a graph for writing ends what has stopped, and repair begins with that.
        "refresh": ["repair"],
        "repair": ["repair"],
        "optimize": ["optimize", *branch],
        "ensure_indices": ["optimize", *branch],
        "cleanup": ["cleanup", "--keep", named.get("keep", "10"), "--confirm"],
        "delete_tag": ["tag", "delete", *positional],
        "mutate": ["mutate", "--query", "FILE"],
    }
    return write_command(*words[call], target=target) if call in words else None


def _read_arguments(text: str) -> tuple[list[str], dict[str, str]]:
    call = ast.parse(f"call({text})", mode="eval").body
    assert isinstance(call, ast.Call), "an advice names calls"
    positional = [str(ast.literal_eval(each)) for each in call.args]
    named = {str(each.arg): str(ast.literal_eval(each.value)) for each in call.keywords}
    return positional, named
