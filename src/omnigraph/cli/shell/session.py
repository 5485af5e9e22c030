"""The state of an interactive session, its statements and its backslash commands.

A session runs one statement at a time and prints the result. Errors are raised to the caller, which
decides whether the shell continues. Where statements come from, a prompt or a pipe, is not known
here.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from omnigraph.cli.config import Format
from omnigraph.cli.formats import TableStyle, write_result
from omnigraph.cli.history_view import format_changes, read_history, summarize, view_history
from omnigraph.cli.output import (
    CommandError,
    Terminal,
    print_json,
    print_line,
    print_note,
    print_pieces,
)
from omnigraph.cli.shell.completion import CompletionNames
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.statements import (
    Command,
    Parameter,
    Query,
    TokenKind,
    find_type,
    parse_statement,
    scan,
)
from omnigraph.drawing.history import short_id
from omnigraph.http.encode import encode_mutation
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import NotFoundError
from omnigraph.model.limits import SHELL_CHANGES_SHOWN_MAX, SHELL_COMMITS_SHOWN
from omnigraph.model.names import MAIN, find_near_name
from omnigraph.model.source import Source
from omnigraph.model.types import SCALAR_BY_NAME

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph


@dataclass(frozen=True, slots=True)
class Display:
    """The terminal, and the table style for it."""

    terminal: Terminal
    look: TableStyle


class Session:
    """A graph, the current branch or commit, and the output format."""

    def __init__(
        self,
        graph: AnyGraph,
        *,
        commands: CommandTable,
        display: Callable[[], Display],
        format: Format,
        announce: Callable[[], None],
    ) -> None:
        self.graph, self.display, self.format = graph, display, format
        self.branch: str = MAIN
        self.commit_id: str | None = None
        self.parameters: dict[str, Parameter] = {}
        self.last_query: Query | None = None
        self.is_timed = False
        self.is_over = False
        self._commands, self._announce = commands, announce
        self._catalog: Catalog | None = None
        self._names: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    @property
    def prompt(self) -> str:
        """The prompt, which shows the current branch or commit."""
        place = self.branch if self.commit_id is None else f"@{short_id(self.commit_id)}"
        return f"{place}> "

    def run(self, text: str) -> None:
        """Run a statement and print its result."""
        began = time.perf_counter()
        statement = parse_statement(text, self.parameters)
        match statement:
            case Command(name, argument):
                self._commands.run(self, name, argument)
            case Query():
                self.last_query = statement
                self._run_query(statement)
        if self.is_timed and isinstance(statement, Query):
            print_note(f"{1000 * (time.perf_counter() - began):,.1f} ms")

    def vocabulary(self) -> CompletionNames:
        """The names for completion, read from the graph once and cached."""
        if self._catalog is None:
            self._catalog = compile_schema(Source("<schema>", self.graph.schema_source))
        if self._names is None:
            self._names = tuple(self.graph.branches()), tuple(self.graph.tags())
        branches, tags = self._names
        return CompletionNames(
            catalog=self._catalog,
            branches=branches,
            tags=tags,
            parameters=tuple(self.parameters),
            commands=self._commands.arguments,
        )

    def forget_names(self) -> None:
        """Clear the cached names, so that they are read again when next needed."""
        self._catalog = self._names = None

    def _run_query(self, query: Query) -> None:
        if query.is_mutation:
            self._mutate(query)
            return
        branch = None if self.commit_id is not None else self.branch
        result = self.graph.query(query.source, query.params, branch=branch, commit=self.commit_id)
        pieces = write_result(
            result,
            {"branch": branch, "snapshot": self.commit_id},
            format=self.format,
            look=self.display().look,
        )
        print_pieces(pieces)

    def _mutate(self, query: Query) -> None:
        if self.commit_id is not None:
            raise CommandError(
                f"the shell is at commit {self.commit_id}, which is read-only; "
                "nothing was done; return with \\now"
            )
        self._announce()
        done = self.graph.mutate(query.source, query.params, branch=self.branch)
        if self.format in (Format.JSON, Format.JSONL):
            print_json(
                encode_mutation(
                    done,
                    branch=self.branch,
                    query_name=query.name,
                    actor=self.graph.actor,
                )
            )
        elif done.commit_id is None:
            print_line("nothing changed")
        else:
            nodes, edges = done.affected_nodes, done.affected_edges
            print_line(
                f"{nodes:,} {'node' if nodes == 1 else 'nodes'}, "
                f"{edges:,} {'edge' if edges == 1 else 'edges'} changed on {self.branch}; "
                f"commit {done.commit_id}"
            )


_DECLARING = frozenset({"node", "edge", "interface"})


def find_type_text(source: str, name: str) -> str | None:
    """The text that declares a type; both texts if a node and an edge type have the name."""
    starts: list[tuple[int, str]] = []
    depth, before = 0, ""
    for token in scan(source):
        if token.is_blank:
            continue
        if token.kind is TokenKind.SIGN:
            depth += (token.text in "{([") - (token.text in "})]")
        if depth == 0 and before in _DECLARING and token.kind is TokenKind.WORD:
            starts.append((source.rfind(before, 0, token.start), token.text))
        before = token.text
    ends = [start for start, _ in starts[1:]] + [len(source)]
    found = [
        _without_trailing_comments(source[start:end])
        for (start, declared), end in zip(starts, ends, strict=True)
        if declared == name
    ]
    return "\n\n".join(found) or None


def _without_trailing_comments(text: str) -> str:
    """A declaration without the comments between it and the next one."""
    end = max((token.end for token in scan(text) if not token.is_blank), default=0)
    return text[:end]


_PARAMETER = re.compile(r"\$?([a-z_][A-Za-z0-9_]*)\s*(?::\s*([^=]+?))?\s*=\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One command: its name and usage, what it does, and what completes its argument."""

    name: str
    usage: str
    summary: str
    arguments: tuple[str, ...]
    run: Callable[[Session, str], None]


class CommandTable:
    """The commands by name."""

    def __init__(self, commands: tuple[ShellCommand, ...]) -> None:
        self._by_name = {each.name: each for each in commands}

    @property
    def arguments(self) -> Mapping[str, tuple[str, ...]]:
        """What completes the argument of each command."""
        return {name: each.arguments for name, each in self._by_name.items()}

    def run(self, session: Session, name: str, argument: str) -> None:
        """Run a command; `CommandError` if it is unknown."""
        found = self._by_name.get(name) or self._by_name.get(_SHORT.get(name, ""))
        if found is None:
            near = find_near_name(name, self._by_name)
            advice = f"did you mean \\{near}?" if near else "\\help lists the commands"
            raise CommandError(f"there is no command \\{name}; {advice}")
        found.run(session, argument)


_DIGITS_MAX = 9
_SHORT = {"q": "quit", "exit": "quit", "?": "help", "h": "help"}
_CREATE = "--create"


def shell_commands() -> CommandTable:
    """All commands of the shell."""
    return CommandTable(COMMANDS)


def _go_to_branch(session: Session, argument: str) -> None:
    match argument.split():
        case []:
            print_line(session.branch)
            return
        case [flag, name] if flag == _CREATE:
            _create_branch(session, name)
        case [name] if not name.startswith("-"):
            _require_branch(session, name)
        case _:
            raise CommandError(f"name one branch: \\branch draft, or \\branch {_CREATE} draft")
    session.branch, session.commit_id = name, None
    session.forget_names()


def _create_branch(session: Session, name: str) -> None:
    if session.commit_id is not None:
        raise CommandError(
            f"a branch is created from the head of another, and the shell is at commit "
            f"{session.commit_id}; nothing was created; return with \\now"
        )
    session.graph.create_branch(name, base=session.branch)


def _require_branch(session: Session, name: str) -> None:
    try:
        session.graph.head(name)
    except NotFoundError as error:
        cure = f"\\branch {_CREATE} {name} creates it from {session.branch}"
        raise CommandError(f"{error}; {cure}") from error


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
        raise CommandError("expected a number of commits: \\log 10")
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
    declaration = find_type_text(source, name)
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
    for line in format_changes(shown, session.display().terminal):
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
        raise CommandError('expected a JSON value for the parameter: \\param name="Ann"')
    name, type, text = found[1], found[2], found[3]
    try:
        value: object = json.loads(text)
    except RecursionError as error:
        raise CommandError(f"the value of ${name} is nested too deeply") from error
    except ValueError as error:
        raise CommandError(
            f"the value of ${name} is not valid JSON ({error}); text needs quotes: \\param {name}="
            f"{json.dumps(text, ensure_ascii=False)}"
        ) from error
    declared = type or find_type(value)
    if declared is None:
        kinds = ", ".join(SCALAR_BY_NAME)
        raise CommandError(
            f"the type of ${name} cannot be derived from its value; declare it, as one of {kinds} "
            f"or a list of one: \\param {name}: String? = {text}"
        )
    session.parameters[name] = Parameter(declared, value)


def _set_format(session: Session, argument: str) -> None:
    if argument not in tuple(Format):
        raise CommandError(
            f"the formats are {', '.join(Format)}; the current one is {session.format}"
        )
    session.format = Format(argument)


def _toggle_timing(session: Session, argument: str) -> None:
    del argument
    session.is_timed = not session.is_timed
    print_line(f"timing is {'on' if session.is_timed else 'off'}")


def _explain(session: Session, argument: str) -> None:
    query = parse_statement(argument, session.parameters) if argument else session.last_query
    if not isinstance(query, Query):
        raise CommandError("there is no query to explain yet; add one after \\explain")
    if query.is_mutation:
        raise CommandError("only reads have a plan; this is a mutation")
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
        "branch",
        "\\branch [--create] NAME",
        "Switch to another branch, or create one.",
        ("branch",),
        _go_to_branch,
    ),
    ShellCommand("branches", "\\branches", "List the branches.", (), _list_branches),
    ShellCommand(
        "at", "\\at COMMIT|TAG", "Switch to a commit or tag, read-only.", ("tag",), _go_to_commit
    ),
    ShellCommand("now", "\\now", "Return to the branch.", (), _go_to_now),
    ShellCommand("log", "\\log [N]", "Show the newest commits.", (), _show_log),
    ShellCommand("schema", "\\schema [TYPE]", "Show the schema.", ("type",), _show_schema),
    ShellCommand(
        "diff",
        "\\diff A [B]",
        "Show the differences between two branches, commits or tags.",
        ("branch", "tag"),
        _show_difference,
    ),
    ShellCommand("param", "\\param NAME[: TYPE]=JSON", "Set a parameter.", (), _set_parameter),
    ShellCommand(
        "format", "\\format FORMAT", "Set the output format of rows.", tuple(Format), _set_format
    ),
    ShellCommand("timing", "\\timing", "Turn timing of statements on or off.", (), _toggle_timing),
    ShellCommand(
        "explain",
        "\\explain [QUERY]",
        "Show the execution plan of a query, or of the last one.",
        (),
        _explain,
    ),
    ShellCommand("help", "\\help", "Show this help; also `help` and `?`.", (), _show_help),
    ShellCommand("quit", "\\quit", "Exit; also `quit`, `exit` and Ctrl-D.", (), _leave),
)

_HELP = (
    "",
    "A query may be complete, or only the part between its braces:",
    "  match { $p: Person } return { $p.name } limit 5",
    "It ends with `;` or an empty line. Tab completes; Ctrl-C clears the input.",
)
