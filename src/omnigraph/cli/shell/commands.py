"""The commands of the shell: words after a backslash.

A table from each word to what it does; `\\help` and completion are made of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from omnigraph.cli.change_view import summarize, view_changes
from omnigraph.cli.config import Format
from omnigraph.cli.output import print_line
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.shell.history_view import read_history, view_history
from omnigraph.cli.shell.limits import SHELL_CHANGES_SHOWN_MAX, SHELL_COMMITS_SHOWN
from omnigraph.cli.shell.schema_text import find_declaration
from omnigraph.cli.shell.session import Session
from omnigraph.compiler.typed.statements import Parameter, Query, find_type, parse_statement
from omnigraph.model.errors import NotFoundError
from omnigraph.model.names import find_near_name
from omnigraph.model.types import SCALAR_BY_NAME

_PARAMETER = re.compile(r"\$?([a-z_][A-Za-z0-9_]*)\s*(?::\s*([^=]+?))?\s*=\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One command: how it is written, what it does, and what completes its argument."""

    name: str
    usage: str
    summary: str
    arguments: tuple[str, ...]
    run: Callable[[Session, str], None]


class CommandTable:
    """The commands by their names."""

    def __init__(self, commands: tuple[ShellCommand, ...]) -> None:
        self._by_name = {each.name: each for each in commands}

    @property
    def arguments(self) -> Mapping[str, tuple[str, ...]]:
        """What completes the argument of each command."""
        return {name: each.arguments for name, each in self._by_name.items()}

    def run(self, session: Session, name: str, argument: str) -> None:
        """Do what a command is for."""
        found = self._by_name.get(name) or self._by_name.get(_SHORT.get(name, ""))
        if found is None:
            near = find_near_name(name, self._by_name)
            advice = f"did you mean \\{near}?" if near else "\\help lists the commands"
            raise CommandError(f"there is no command \\{name}; {advice}")
        found.run(session, argument)


_DIGITS_MAX = 9
_SHORT = {"q": "quit", "?": "help", "h": "help"}


def shell_commands() -> CommandTable:
    """All commands of the shell."""
    return CommandTable(COMMANDS)


def _go_to_branch(session: Session, name: str) -> None:
    if not name:
        print_line(session.branch)
        return
    session.graph.head(name)
    session.branch, session.commit_id = name, None
    session.forget_names()


def _go_to_commit(session: Session, name: str) -> None:
    if not name:
        raise CommandError("name a commit or a tag: \\at v1")
    session.commit_id = session.graph.commit(name).id


def _go_to_now(session: Session, argument: str) -> None:
    del argument
    session.commit_id = None


def _list_branches(session: Session, argument: str) -> None:
    del argument
    session.forget_names()
    for name in session.graph.branches():
        print_line(f"{'*' if name == session.branch else ' '} {name}")


def _show_log(session: Session, argument: str) -> None:
    if argument and not (argument.isdecimal() and len(argument) <= _DIGITS_MAX):
        raise CommandError("say how many commits to show: \\log 10")
    limit = max(int(argument), 1) if argument else SHELL_COMMITS_SHOWN
    history = read_history(session.graph, branches=(), limit=limit)
    for line in view_history(history, session.display().terminal):
        print_line(line)


def _show_schema(session: Session, name: str) -> None:
    session.forget_names()
    source = session.graph.schema_source
    if not name:
        print_line(source.strip("\n"))
        return
    declaration = find_declaration(source, name)
    if declaration is None:
        raise NotFoundError(kind="type", name=name, advice="\\schema shows all of them")
    print_line(declaration)


def _show_difference(session: Session, argument: str) -> None:
    match argument.split():
        case [old, new]:
            changes = session.graph.diff(old, new)
        case [old]:
            changes = session.graph.diff(old, session.commit_id or session.branch)
        case _:
            raise CommandError("name two branches, commits or tags: \\diff main draft")
    shown = islice(changes, SHELL_CHANGES_SHOWN_MAX)
    for line in view_changes(shown, session.display().terminal):
        print_line(line)
    if len(changes) > SHELL_CHANGES_SHOWN_MAX:
        print_line(f"... and {len(changes) - SHELL_CHANGES_SHOWN_MAX:,} more")
    print_line(summarize(changes.stats))


def _set_parameter(session: Session, argument: str) -> None:
    if not argument:
        for name, each in session.parameters.items():
            print_line(f"${name}: {each.type} = {json.dumps(each.value, ensure_ascii=False)}")
        return
    found = _PARAMETER.fullmatch(argument)
    if found is None:
        raise CommandError('give a parameter a value, which is JSON: \\param name="Ann"')
    name, type, text = found[1], found[2], found[3]
    try:
        value: object = json.loads(text)
    except RecursionError as error:
        raise CommandError(f"the value of ${name} is nested too deep") from error
    except ValueError as error:
        raise CommandError(
            f"the value of ${name} is no JSON ({error}); a text needs quotes: \\param {name}="
            f"{json.dumps(text, ensure_ascii=False)}"
        ) from error
    declared = type or find_type(value)
    if declared is None:
        kinds = ", ".join(SCALAR_BY_NAME)
        raise CommandError(
            f"the type of ${name} cannot be told from its value; say it, as one of {kinds} "
            f"or a list of one: \\param {name}: String? = {text}"
        )
    session.parameters[name] = Parameter(declared, value)


def _set_format(session: Session, argument: str) -> None:
    if argument not in tuple(Format):
        raise CommandError(f"the formats are {', '.join(Format)}; this is {session.format}")
    session.format = Format(argument)


def _toggle_timing(session: Session, argument: str) -> None:
    del argument
    session.is_timed = not session.is_timed
    print_line(f"timing is {'on' if session.is_timed else 'off'}")


def _explain(session: Session, argument: str) -> None:
    query = parse_statement(argument, session.parameters) if argument else session.last_query
    if not isinstance(query, Query):
        raise CommandError("there is no query yet to explain; write one behind \\explain")
    if query.is_mutation:
        raise CommandError("only reads are planned; this is a mutation")
    print_line(session.graph.explain(query.source, branch=session.branch))


def _show_help(session: Session, argument: str) -> None:
    del session, argument
    width = max(len(each.usage) for each in COMMANDS)
    for each in COMMANDS:
        print_line(f"{each.usage:<{width}}  {each.summary}")
    for line in _HELP:
        print_line(line)


def _leave(session: Session, argument: str) -> None:
    del argument
    session.is_over = True


COMMANDS = (
    ShellCommand(
        "branch", "\\branch NAME", "Read and write another branch.", ("branch",), _go_to_branch
    ),
    ShellCommand("branches", "\\branches", "List the branches.", (), _list_branches),
    ShellCommand("at", "\\at COMMIT|TAG", "Read a commit of the past.", ("tag",), _go_to_commit),
    ShellCommand("now", "\\now", "Come back to the branch.", (), _go_to_now),
    ShellCommand("log", "\\log [N]", "Draw the newest commits.", (), _show_log),
    ShellCommand("schema", "\\schema [TYPE]", "Show the schema.", ("type",), _show_schema),
    ShellCommand(
        "diff",
        "\\diff A [B]",
        "Show what differs between two branches, commits or tags.",
        ("branch", "tag"),
        _show_difference,
    ),
    ShellCommand(
        "param", "\\param NAME[: TYPE]=JSON", "Give a parameter a value.", (), _set_parameter
    ),
    ShellCommand(
        "format", "\\format FORMAT", "Show rows in another way.", tuple(Format), _set_format
    ),
    ShellCommand("timing", "\\timing", "Say how long statements take, or not.", (), _toggle_timing),
    ShellCommand(
        "explain", "\\explain [QUERY]", "Show how a query, or the last one, runs.", (), _explain
    ),
    ShellCommand("help", "\\help", "Show this.", (), _show_help),
    ShellCommand("quit", "\\quit", "Leave; so does Ctrl-D.", (), _leave),
)

_HELP = (
    "",
    "A query may be whole, or only what stands between its braces:",
    "  match { $p: Person } return { $p.name } limit 5",
    "It ends with `;` or an empty line. Tab completes; Ctrl-C clears what was typed.",
)
