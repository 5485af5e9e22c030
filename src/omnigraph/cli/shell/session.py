"""What a shell remembers between two statements, and what each of them does.

A session runs one statement at a time and prints what comes of it. Errors are raised: whether the
shell goes on is not decided here, nor where statements come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cli.config import Format
from omnigraph.cli.formats.printing import write_result
from omnigraph.cli.formats.table import Look
from omnigraph.cli.output import print_json, print_line, print_note, print_pieces
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.shell.completion import Vocabulary
from omnigraph.cli.terminal import Terminal
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.typed.statements import Command, Parameter, Query, parse_statement
from omnigraph.drawing.history import short_id
from omnigraph.model.catalog import Catalog
from omnigraph.model.names import MAIN
from omnigraph.model.source import Source
from omnigraph.wire.bodies import change_output

if TYPE_CHECKING:
    from omnigraph.cli.shell.commands import CommandTable
    from omnigraph.client.calls import GraphCalls


@dataclass(frozen=True, slots=True)
class Display:
    """How the terminal shows things."""

    terminal: Terminal
    look: Look


class Session:
    """A graph, where one looks at it, and how answers are shown."""

    def __init__(
        self,
        graph: GraphCalls,
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
        """What stands before the cursor: where one looks at the graph."""
        place = self.branch if self.commit_id is None else f"@{short_id(self.commit_id)}"
        return f"{place}> "

    def run(self, text: str) -> None:
        """Do what a statement asks for, and print what comes of it."""
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

    def vocabulary(self) -> Vocabulary:
        """What there is to name, asked of the graph once and kept."""
        if self._catalog is None:
            self._catalog = compile_schema(Source("<schema>", self.graph.schema_source))
        if self._names is None:
            self._names = tuple(self.graph.branches()), tuple(self.graph.tags())
        branches, tags = self._names
        return Vocabulary(
            catalog=self._catalog,
            branches=branches,
            tags=tags,
            parameters=tuple(self.parameters),
            commands=self._commands.arguments,
        )

    def forget_names(self) -> None:
        """Ask the graph again what there is to name, when it is next needed."""
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
                f"you are looking at commit {self.commit_id}, and the past cannot be changed; "
                "nothing was done; go back with \\now"
            )
        self._announce()
        done = self.graph.mutate(query.source, query.params, branch=self.branch)
        if self.format in (Format.JSON, Format.JSONL):
            print_json(
                change_output(
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
