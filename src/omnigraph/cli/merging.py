"""Merging as people do it: try, look at what is in conflict, decide, merge.

The one way in which every command merges. What a dry run finds is its payload; what stops a merge
is an error, told with the same view. Either way conflicts end with what to type next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from omnigraph.cli.conflict_view import (
    has_images,
    parse_decisions,
    show_decision,
    view_conflicts,
    write_decisions,
)
from omnigraph.cli.files import STANDARD_OUTPUT, read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.next_commands import write_command, write_options
from omnigraph.cli.output import print_json, print_line, print_note, print_pieces
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.targets import Target
from omnigraph.cli.terminal import Terminal, standard_error, standard_output, waiting
from omnigraph.cli.value_text import show_name
from omnigraph.model.errors import Conflict, MergeConflictError
from omnigraph.wire.bodies import conflict_output, merge_output

if TYPE_CHECKING:
    from omnigraph.client.calls import GraphCalls
    from omnigraph.engine.results import MergeResult
    from omnigraph.wire.shapes import MergeOutput

_FILE_TO_WRITE = "decisions.yaml"


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """A merge as it was typed; `verb` is the command, for the echo."""

    verb: str
    source: str
    into: str
    is_dry_run: bool
    granularity: str
    resolve_path: str | None
    decisions_path: str | None
    if_commit: str | None
    idempotency_key: str | None
    is_json: bool

    @property
    def is_piped(self) -> bool:
        """Whether decisions to be filled in are the payload, in the place of what people see."""
        return self.decisions_path == STANDARD_OUTPUT


def merge_and_tell(invocation: Invocation, order: MergeOrder, *, uri: str | None) -> None:
    """Merge, or try it, and print what came of it; conflicts end with exit code 1."""
    if order.is_piped and order.is_json:
        raise click.UsageError("--json and --write-decisions - exclude each other")
    target = invocation.target(uri)
    resolve = None if order.resolve_path is None else _read_decisions(order.resolve_path)
    path = order.decisions_path
    if path is not None and not order.is_piped and Path(path).exists():
        raise CommandError(
            f"'{path}' is there already, and may hold decisions; name another "
            "file, or delete it; nothing was merged"
        )
    if not order.is_dry_run:
        invocation.announce(order.verb, target)
    teller = _Teller(invocation, order, target)
    with invocation.open(target, read_only=order.is_dry_run) as graph:
        try:
            with waiting(f"merge {order.source}", invocation.environment):
                done = _merge(graph, order, resolve, is_dry_run=order.is_dry_run)
        except MergeConflictError as error:
            conflicts = error.conflicts
            if not has_images(conflicts):
                # A server tells what a refused merge was about, and the values to who tries one.
                conflicts = _merge(graph, order, resolve, is_dry_run=True).conflicts or conflicts
            teller.refuse(conflicts, actor=graph.actor)
        teller.tell(done, actor=graph.actor)


def _read_decisions(path: str) -> Mapping[tuple[str, str], object]:
    source = read_source(path)
    return parse_decisions(source.text, name=source.name)


def _merge(
    graph: GraphCalls,
    order: MergeOrder,
    resolve: Mapping[tuple[str, str], object] | None,
    *,
    is_dry_run: bool,
) -> MergeResult:
    return graph.merge(
        order.source,
        into=order.into,
        dry_run=is_dry_run,
        granularity=order.granularity,
        resolve=resolve,
        if_commit=order.if_commit,
        idempotency_key=None if is_dry_run else order.idempotency_key,
    )


@dataclass(frozen=True, slots=True)
class _Teller:
    """Prints what came of a merge."""

    invocation: Invocation
    order: MergeOrder
    target: Target

    def tell(self, done: MergeResult, *, actor: str | None) -> None:
        """What was merged, or would be; conflicts of a dry run are what it was asked for."""
        order = self.order
        if order.is_json:
            print_json(merge_output(done, source=order.source, target=order.into, actor=actor))
        if not done.conflicts:
            self._note_unwritten()
            self._print_outcome(done)
            return
        self._write_decisions(done.conflicts)
        if not self.order.is_json:
            self._show(done.conflicts)
        raise click.exceptions.Exit(1)

    def refuse(self, conflicts: Sequence[Conflict], *, actor: str | None) -> NoReturn:
        """Why nothing was merged."""
        self._write_decisions(conflicts)
        into = show_name(self.order.into)
        print_note(f"Error: {self._headline(conflicts)}; {into} is unchanged")
        if self.order.is_json:
            body: MergeOutput = {
                "source": self.order.source,
                "target": self.order.into,
                "outcome": "conflicts",
                "actor_id": actor,
                "commit_id": None,
                "conflicts": [conflict_output(each) for each in conflicts],
            }
            print_json(body)
        else:
            print_note("")
            for line in self._blocks(conflicts, standard_error(self.invocation.environment)):
                print_note(line)
        raise click.exceptions.Exit(1)

    def _show(self, conflicts: Sequence[Conflict]) -> None:
        environment = self.invocation.environment
        if self.order.is_piped:
            say, terminal = print_note, standard_error(environment)
        else:
            say, terminal = print_line, standard_output(environment)
        say(f"{self._headline(conflicts)}\n")
        for line in self._blocks(conflicts, terminal):
            say(line)

    def _print_outcome(self, done: MergeResult) -> None:
        if not self.order.is_json:
            source, into = show_name(self.order.source), show_name(self.order.into)
            verb = "would merge" if self.order.is_dry_run else "merged"
            say = print_note if self.order.is_piped else print_line
            say(f"{verb} {source} into {into}: {done.outcome}")

    def _headline(self, conflicts: Sequence[Conflict]) -> str:
        source, into = show_name(self.order.source), show_name(self.order.into)
        count = f"{len(conflicts):,} conflict{'s' * (len(conflicts) > 1)}"
        return f"merge conflicts: {source} and {into} have {count}"

    def _blocks(self, conflicts: Sequence[Conflict], terminal: Terminal) -> Iterator[str]:
        yield from view_conflicts(conflicts, terminal)
        path = _FILE_TO_WRITE if self.order.is_piped else self.order.decisions_path
        if path is None:
            yield f"To decide, write a file such as {_FILE_TO_WRITE} with an entry for each:"
            yield ""
            yield from (f"  {line}" for line in show_decision(conflicts[0]))
            yield ""
            yield "`choice` is source or target; a `row` with all values may stand in its place."
            yield f"To get such a file to fill in, add --write-decisions {_FILE_TO_WRITE}."
        elif self.order.is_piped:
            yield f"What is printed has an entry for each; give all a choice, in {path}, say."
        else:
            yield f"{path} has an entry for each; give all of them a choice."
        yield "Then type:"
        yield ""
        yield f"  {self._next_command(path or _FILE_TO_WRITE)}"

    def _next_command(self, path: str) -> str:
        order = self.order
        granularity = None if order.granularity == "row" else order.granularity
        options = write_options(
            [("--into", order.into), ("--granularity", granularity), ("--resolve", path)]
        )
        return write_command("merge", order.source, *options, target=self.target)

    def _write_decisions(self, conflicts: Sequence[Conflict]) -> None:
        path = self.order.decisions_path
        if path is None:
            return
        text = write_decisions(conflicts, source=self.order.source, target=self.order.into)
        if self.order.is_piped:
            print_pieces([text.encode()])
        else:
            Path(path).write_text(text, encoding="utf-8")

    def _note_unwritten(self) -> None:
        if self.order.is_piped:
            print_note("there is nothing to decide")
        elif self.order.decisions_path is not None:
            print_note(f"there is nothing to decide; '{self.order.decisions_path}' was not written")
