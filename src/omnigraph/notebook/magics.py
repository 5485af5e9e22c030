"""The magics that `%load_ext omnigraph` adds to a notebook: `%gq_open`, `%%gq` and `%gq_log`.

An error in a cell is reported in one line, without a traceback. Parameters take their values from
the variables of the notebook. A cell writes only with `--mutate`.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import omnigraph
from omnigraph.client.remote import AnyGraph, RemoteGraph
from omnigraph.compiler.statements import (
    Parameter,
    Query,
    find_type,
    find_used,
    is_command,
    parse_statement,
    split_statements,
)
from omnigraph.engine.graph import Graph
from omnigraph.engine.results import MutationResult, Result
from omnigraph.model.errors import GraphError
from omnigraph.model.limits import PICTURE_COMMITS_MAX
from omnigraph.notebook.pictures import HistoryPicture, draw


def load(shell: InteractiveShell) -> None:
    """Register the magics in a notebook."""
    cells = GraphCells(shell)
    magics = shell.magics_manager
    magics.register_function(cells.open, "line", "gq_open")
    magics.register_function(cells.run, "cell", "gq")
    magics.register_function(cells.log, "line", "gq_log")


class GraphCells:
    """The magics of a notebook, and the graph that they use once one is opened."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._graph: AnyGraph | None = None
        self._is_own = False

    def open(self, line: str) -> None:
        """Open the graph for the following cells: `%gq_open URI|URL [--graph ID]`.

        A variable that holds an open graph can replace its URI. `--token` names the variable that
        holds the token of a server, `--as` is the actor of writes, and `--read-only` forbids
        writes.
        """
        parser = _parser("%gq_open", "--graph", "--token")
        parser.add_argument("uri")
        parser.add_argument("--as", dest="actor")
        parser.add_argument("--read-only", dest="is_read_only", action="store_true")
        given = _parse(parser, line)
        chosen: object = self._shell.user_ns.get(given.uri)
        opened = chosen if isinstance(chosen, Graph | RemoteGraph) else None
        try:
            graph = self._reach(given) if opened is None else opened
        except GraphError as error:
            raise UsageError(str(error)) from error
        if self._is_own and self._graph is not None:
            self._graph.close()
        self._graph, self._is_own = graph, opened is None

    def run(self, line: str, cell: str) -> Result | MutationResult:
        """Run the query of a cell: `%%gq [--branch B] [--at COMMIT] [--params VAR] [--out NAME]`.

        A cell that changes rows requires `--mutate`.
        """
        parser = _parser("%%gq", "--branch", "--at", "--params", "--out")
        parser.add_argument("--mutate", dest="is_mutation", action="store_true")
        given = _parse(parser, line)
        graph = self._require_graph()
        try:
            result = self._run_query(graph, cell, given)
        except GraphError as error:
            raise UsageError(str(error)) from error
        if given.out is not None:
            self._shell.user_ns[given.out] = result
        return result

    def log(self, line: str) -> HistoryPicture:
        """Draw the history of the graph: `%gq_log [--branch B] [--limit N]`."""
        parser = _parser("%gq_log")
        parser.add_argument("--branch", action="append")
        parser.add_argument("--limit", type=int, default=PICTURE_COMMITS_MAX)
        given = _parse(parser, line)
        try:
            return draw(self._require_graph(), given.branch, limit=given.limit)
        except GraphError as error:
            raise UsageError(str(error)) from error

    def _reach(self, given: Namespace) -> AnyGraph:
        if not given.uri.lower().startswith(("http://", "https://")):
            return omnigraph.open(given.uri, read_only=given.is_read_only, actor=given.actor)
        token = None if given.token is None else self._variable(given.token, "--token")
        if token is not None and not isinstance(token, str):
            raise UsageError(f"the variable '{given.token}' is not a string")
        return omnigraph.connect(given.uri, graph=given.graph, token=token)

    def _run_query(self, graph: AnyGraph, cell: str, given: Namespace) -> Result | MutationResult:
        query = self._read_query(cell, given)
        if not query.is_mutation:
            branch = None if given.at is not None else given.branch
            return graph.query(query.source, query.params, branch=branch, commit=given.at)
        if not given.is_mutation:
            raise UsageError("this cell changes the graph and was not run; use %%gq --mutate")
        if given.at is not None:
            raise UsageError("a past commit cannot be changed; omit --at")
        return graph.mutate(query.source, query.params, branch=given.branch or "main")

    def _read_query(self, cell: str, given: Namespace) -> Query:
        match split_statements(cell):
            case [text] if not is_command(text):
                statement = parse_statement(text, self._find_parameters(text, given.params))
                assert isinstance(statement, Query), "a text without a backslash is a query"
                return statement
            case []:
                raise UsageError("this cell is empty; write a query below the first line")
            case statements:
                raise UsageError(f"a cell runs one query, not {len(statements)}")

    def _find_parameters(self, text: str, variable: str | None) -> dict[str, Parameter]:
        """The parameters of a text with values from `--params`, or else from the notebook."""
        chosen = {} if variable is None else self._variable(variable, "--params")
        if not isinstance(chosen, Mapping):
            raise UsageError(f"the variable '{variable}' is not a dict of parameters")
        values = {**self._shell.user_ns, **chosen}
        found: dict[str, Parameter] = {}
        for name in find_used(text):
            if name in values:
                type = find_type(values[name])
                found[name] = Parameter(type or _TYPE_OTHERWISE, values[name])
        return found

    def _variable(self, name: str, flag: str) -> object:
        if name not in self._shell.user_ns:
            raise UsageError(f"{flag}: the variable '{name}' is not defined")
        value: object = self._shell.user_ns[name]
        return value

    def _require_graph(self) -> AnyGraph:
        if self._graph is None:
            raise UsageError("no graph is open; run %gq_open URI first")
        return self._graph


_TYPE_OTHERWISE = "String?"


class _Parser(ArgumentParser):
    """Parses the arguments of a magic; errors are reported in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        raise UsageError(f"{self.prog}: {message}")


def _parse(parser: ArgumentParser, line: str) -> Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{parser.prog}: {error}") from error
    return parser.parse_args(words)


def _parser(prog: str, *options: str) -> ArgumentParser:
    parser = _Parser(prog=prog, add_help=False)
    for option in options:
        parser.add_argument(option)
    return parser
