"""The state of an interactive session, its statements and its backslash commands.

A session runs one statement at a time and prints the result. Errors are raised to the caller, which
decides whether the shell continues. Where statements come from, a prompt or a pipe, is not known
here.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from omnigraph.cli.config import Format
from omnigraph.cli.formats import print_result
from omnigraph.cli.history_view import format_changes, read_history, summarize, view_history
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.output import (
    CommandError,
    Terminal,
    print_json,
    print_line,
    print_note,
    standard_output,
)
from omnigraph.cli.shell.completion import CompletionNames
from omnigraph.cli.targets import Target
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
from omnigraph.http.responses import Target as Place
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import NotFoundError, plural
from omnigraph.model.limits import COMMITS_SHOWN_MAX, SHELL_CHANGES_SHOWN_MAX
from omnigraph.model.names import MAIN, find_near_name
from omnigraph.model.source import Source
from omnigraph.model.types import SCALAR_BY_NAME

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph


class Session:
    """A graph, the current branch or commit, and the output format."""

    def __init__(
        self, graph: AnyGraph, invocation: Invocation, target: Target, *, format: Format
    ) -> None:
        self.graph, self.format = graph, format
        self.branch: str = MAIN
        self.commit_id: str | None = None
        self.parameters: dict[str, Parameter] = {}
        self.last_query: Query | None = None
        self.is_timed = False
        self.is_over = False
        self._invocation, self._target = invocation, target
        self._is_announced = False
        self._catalog: Catalog | None = None
        self._names: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    @property
    def terminal(self) -> Terminal:
        """The terminal now; it may be resized between results."""
        return standard_output(self._invocation.environment)

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
                found = COMMANDS.get(_LONG_NAMES.get(name, name))
                if found is None:
                    near = find_near_name(name, COMMANDS)
                    advice = f"did you mean \\{near}?" if near else "\\help lists the commands"
                    raise CommandError(f"there is no command \\{name}; {advice}")
                found.run(self, argument)
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
            commands={name: each.arguments for name, each in COMMANDS.items()},
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
        place: Place = {"branch": branch, "snapshot": self.commit_id}
        print_result(self._invocation, result, place, format=self.format)

    def _mutate(self, query: Query) -> None:
        if self.commit_id is not None:
            raise CommandError(
                f"the shell is at commit {self.commit_id}, which is read-only; "
                "nothing was done; return with \\now"
            )
        if not self._is_announced:
            self._invocation.announce("shell", self._target)
            self._is_announced = True
        done = self.graph.mutate(query.source, query.params, branch=self.branch)
        if self.format in (Format.JSON, Format.JSONL):
            actor = self.graph.actor
            print_json(
                encode_mutation(done, branch=self.branch, query_name=query.name, actor=actor)
            )
        elif done.commit_id is None:
            print_line("nothing changed")
        else:
            nodes, edges = done.affected_nodes, done.affected_edges
            print_line(
                f"{nodes:,} {plural(nodes, 'node')}, {edges:,} {plural(edges, 'edge')} "
                f"changed on {self.branch}; commit {done.commit_id}"
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
    """One command: its usage, what it does, and what completes its argument."""

    usage: str
    summary: str
    arguments: tuple[str, ...]
    run: Callable[[Session, str], None]


_DIGITS_MAX = 9
_LONG_NAMES = {"q": "quit", "exit": "quit", "?": "help", "h": "help"}
_CREATE = "--create"


def _go_to_branch(session: Session, argument: str) -> None:
    match argument.split():
        case []:
            print_line(session.branch)
            return
        case [flag, name] if flag == _CREATE:
            if session.commit_id is not None:
                raise CommandError(
                    f"a branch is created from the head of another, and the shell is at commit "
                    f"{session.commit_id}; nothing was created; return with \\now"
                )
            session.graph.create_branch(name, base=session.branch)
        case [name] if not name.startswith("-"):
            try:
                session.graph.head(name)
            except NotFoundError as error:
                cure = f"\\branch {_CREATE} {name} creates it from {session.branch}"
                raise CommandError(f"{error}; {cure}") from error
        case _:
            raise CommandError(f"name one branch: \\branch draft, or \\branch {_CREATE} draft")
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
        raise CommandError("expected a number of commits: \\log 10")
    limit = max(int(argument), 1) if argument else COMMITS_SHOWN_MAX
    history = read_history(session.graph, branches=(), limit=limit)
    for line in view_history(history, session.terminal):
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
    for line in format_changes(shown, session.terminal):
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
    width = max(len(each.usage) for each in COMMANDS.values())
    for each in COMMANDS.values():
        print_line(f"{each.usage:<{width}}  {each.summary}")
    print_line(_HELP)


def _leave(session: Session, argument: str) -> None:
    del argument
    session.is_over = True


_COMMANDS = (
    ShellCommand(
        "\\branch [--create] NAME",
        "Switch to another branch, or create one.",
        ("branch",),
        _go_to_branch,
    ),
    ShellCommand("\\branches", "List the branches.", (), _list_branches),
    ShellCommand(
        "\\at COMMIT|TAG", "Switch to a commit or tag, read-only.", ("tag",), _go_to_commit
    ),
    ShellCommand("\\now", "Return to the branch.", (), _go_to_now),
    ShellCommand("\\log [N]", "Show the newest commits.", (), _show_log),
    ShellCommand("\\schema [TYPE]", "Show the schema.", ("type",), _show_schema),
    ShellCommand(
        "\\diff A [B]",
        "Show the differences between two branches, commits or tags.",
        ("branch", "tag"),
        _show_difference,
    ),
    ShellCommand("\\param NAME[: TYPE]=JSON", "Set a parameter.", (), _set_parameter),
    ShellCommand("\\format FORMAT", "Set the output format of rows.", tuple(Format), _set_format),
    ShellCommand("\\timing", "Turn timing of statements on or off.", (), _toggle_timing),
    ShellCommand(
        "\\explain [QUERY]", "Show the execution plan of a query, or of the last one.", (), _explain
    ),
    ShellCommand("\\help", "Show this help; also `help` and `?`.", (), _show_help),
    ShellCommand("\\quit", "Exit; also `quit`, `exit` and Ctrl-D.", (), _leave),
)

COMMANDS = {each.usage.split()[0].removeprefix("\\"): each for each in _COMMANDS}

_HELP = """
A query may be complete, or only the part between its braces:
  match { $p: Person } return { $p.name } limit 5
It ends with `;` or an empty line. Tab completes; Ctrl-C clears the input."""
