"""The commands `merge`, `revert` and `cherry-pick`; conflicts and decisions as text.

All three show conflicts in one format: base, source and target side by side, then the next command.
Unresolved conflicts change nothing and give exit code 1. Decision files are YAML or JSON with the
same fields as over HTTP, and an entry that is not filled in is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Unpack

import click
import yaml

from omnigraph.cli.advice import write_command, write_options
from omnigraph.cli.command import command
from omnigraph.cli.inputs import STANDARD_OUTPUT, read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    BRANCH_OPTION,
    IF_COMMIT_OPTION,
    JSON_OPTION,
    KEY_OPTION,
    URI_OPTION,
)
from omnigraph.cli.output import (
    PLAIN,
    Colour,
    CommandError,
    Terminal,
    clip,
    fill,
    measure,
    print_json,
    print_line,
    print_note,
    print_pieces,
    show_name,
    show_value,
    standard_error,
    standard_output,
)
from omnigraph.cli.targets import Target
from omnigraph.http.encode import conflict_output, merge_output, replay_output
from omnigraph.http.problems import error_body
from omnigraph.model.errors import Conflict, InvalidValueError, MergeConflictError, plural
from omnigraph.model.ports import WriteConditions
from omnigraph.storage.environment import expand_home

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph
    from omnigraph.engine.results import MergeResult
    from omnigraph.http.responses import MergeOutput

_SIDES = ("base", "source", "target")
_GAP = "  "
_NARROWEST_COLUMN = 8
_WIDEST_NAME = 24

# The id of such a conflict is that of a node with too many or too few edges; the decisions are
# about these edges.
_ABOUT_EDGES = "cardinality_violation"
_ID_OF_AN_EDGE = "the id of an edge"
_ADVICE_ABOUT_EDGES = "# To decide about edges, uncomment and complete an entry for each:"


def format_conflicts(conflicts: Sequence[Conflict], terminal: Terminal) -> Iterator[str]:
    """A block of lines for each conflict, followed by an empty line."""
    for number, conflict in enumerate(conflicts, 1):
        head = f"conflict {number} of {len(conflicts)}: {_subject(conflict)} ({conflict.kind})"
        yield terminal.paint(terminal.cut(head), Colour.BOLD)
        yield terminal.cut(f"  {conflict.message}")
        yield from _view_versions(conflict, terminal)
        yield ""


def has_versions(conflicts: Sequence[Conflict]) -> bool:
    """Whether the values of the conflicting rows are known."""
    return any(each.base or each.source or each.target for each in conflicts)


def write_decisions(conflicts: Sequence[Conflict], *, source: str, target: str) -> str:
    """A file of decisions to fill in; an entry without a decision is rejected when it is read."""
    parts = [
        f"# Decisions for merging {show_name(source)} into {show_name(target)}.",
        "# Set the choice of each entry to `source` or `target`, or replace it by a `row`",
        "# with all values.",
    ]
    for conflict in conflicts:
        details = [f"  {conflict.message}", *_view_versions(conflict, PLAIN)]
        parts += [
            "",
            f"# {_subject(conflict)} ({conflict.kind})",
            *(f"# {each}" for each in details),
        ]
        if conflict.kind == _ABOUT_EDGES:
            entry = _write_entry({"type": conflict.type, "id": _ID_OF_AN_EDGE})
            parts += [_ADVICE_ABOUT_EDGES, *(f"# {each}" for each in (*entry, "  choice:"))]
        else:
            parts += [*_write_entry({"type": conflict.type, "id": conflict.id}), "  choice:"]
    return "\n".join(parts) + "\n"


def show_decision(conflict: Conflict) -> tuple[str, ...]:
    """An example of a decision."""
    id = _ID_OF_AN_EDGE if conflict.kind == _ABOUT_EDGES else conflict.id
    return _write_entry({"type": conflict.type, "id": id, "choice": "source"})


def parse_decisions(text: str, *, name: str) -> dict[tuple[str, str], object]:
    """The decisions in a YAML or JSON text; `name` is for messages."""
    try:
        content: object = yaml.load(text, Loader=_JsonLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _refuse(name, f"not valid YAML or JSON: {error}") from error
    if not isinstance(content, list):
        raise _refuse(name, "decisions must be a list; begin each entry with `- type: …`")
    decisions: dict[tuple[str, str], object] = {}
    for number, entry in enumerate(content, 1):
        key, decision = _parse_decision(entry, name=name, number=number)
        if key in decisions:
            raise _refuse(name, f"{key[0]} '{key[1]}' has two decisions; remove one")
        decisions[key] = decision
    return decisions


class _JsonLoader(yaml.SafeLoader):
    """A YAML loader limited to JSON values: a date is read as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _parse_decision(entry: object, *, name: str, number: int) -> tuple[tuple[str, str], object]:
    fields = entry if isinstance(entry, Mapping) else {}
    type, id = fields.get("type"), fields.get("id")
    if not isinstance(type, str) or not isinstance(id, str):
        raise _refuse(name, f"entry {number} needs a `type` and an `id`, both as text")
    odd = sorted(str(key) for key in fields if key not in ("type", "id", "choice", "row"))
    if odd:
        raise _refuse(name, f"entry {number} has `{odd[0]}`; expected `choice` or `row`")
    choice, row = fields.get("choice"), fields.get("row")
    match choice, row:
        case (("source" | "target"), None):
            return (type, id), choice
        case None, Mapping():
            return (type, id), row
        case None, None:
            raise _refuse(
                name,
                f"{type} '{id}' is undecided; expected `choice: source`, `choice: target` or `row`",
            )
        case _:
            raise _refuse(name, f"{type} '{id}' needs `choice: source`, `choice: target` or a row")


def _write_entry(entry: Mapping[str, str]) -> tuple[str, ...]:
    written = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=1_000_000)
    return tuple(written.rstrip("\n").split("\n"))


def _subject(conflict: Conflict) -> str:
    return f"{conflict.type} {show_name(conflict.id)}"


def _view_versions(conflict: Conflict, terminal: Terminal) -> Iterator[str]:
    versions = (conflict.base, conflict.source, conflict.target)
    if all(version is None for version in versions):
        return
    names = _list_names(versions)
    absence = "absent" if conflict.base is None else "deleted"
    heads = [
        side if version is not None else f"{side} ({absence})"
        for side, version in zip(_SIDES, versions, strict=True)
    ]
    cells = [
        [show_value(version.get(name)) if version else "" for version in versions] for name in names
    ]
    margin = min(max(map(measure, names), default=0), _WIDEST_NAME)
    widths = _find_widths([heads, *cells], margin, terminal.width)
    yield terminal.paint(_row("", heads, margin, widths), Colour.FAINT)
    for name, row in zip(names, cells, strict=True):
        yield _row(name, row, margin, widths)


def _list_names(versions: Sequence[Mapping[str, object] | None]) -> list[str]:
    """The properties in which the row versions differ; for a single one, all that have a value."""
    there = [version for version in versions if version is not None]
    names = list(dict.fromkeys(each for version in there for each in version))
    first, others = there[0], there[1:]
    return [
        name
        for name in names
        if name != "id"
        and (
            any(version.get(name) != first.get(name) for version in others)
            if others
            else first[name] is not None
        )
    ]


def _find_widths(rows: Sequence[Sequence[str]], margin: int, width: int | None) -> list[int]:
    wanted = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    if width is None:
        return wanted
    room = width - 4 - margin - len(_GAP) * len(wanted)
    share = max(room // len(wanted), _NARROWEST_COLUMN)
    # Width that some columns do not need goes to those that need more.
    spare = sum(max(share - each, 0) for each in wanted)
    greedy = sum(each > share for each in wanted)
    most = share + (spare // greedy if greedy else 0)
    return [min(each, most) for each in wanted]


def _row(name: str, cells: Sequence[str], margin: int, widths: Sequence[int]) -> str:
    shown = [fill(clip(cell, width), width) for cell, width in zip(cells, widths, strict=True)]
    return f"    {fill(clip(name, margin), margin)}{_GAP}{_GAP.join(shown)}".rstrip()


def _refuse(name: str, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=name, expected="decisions about conflicts", value=None, problem=problem
    )


_FILE_TO_WRITE = "decisions.yaml"


@dataclass(frozen=True, slots=True)
class _Report:
    """Prints the result of a merge."""

    invocation: Invocation
    target: Target
    source: str
    into: str
    is_dry_run: bool
    granularity: str
    decisions_path: str | None

    @property
    def is_piped(self) -> bool:
        """Whether standard output receives the decisions to fill in, instead of text for people."""
        return self.decisions_path == STANDARD_OUTPUT

    def show(self, done: MergeResult, *, actor: str | None) -> None:
        """Print what was merged, or would be; exits with 1 for the conflicts of a dry run."""
        if self.invocation.is_json:
            print_json(merge_output(done, source=self.source, target=self.into, actor=actor))
        if done.conflicts:
            self._write_decisions(done.conflicts)
            if not self.invocation.is_json:
                self._show_conflicts(done.conflicts)
            raise click.exceptions.Exit(1)
        if self.is_piped:
            print_note("there are no conflicts")
        elif self.decisions_path is not None:
            print_note(f"there are no conflicts; '{self.decisions_path}' was not written")
        if not self.invocation.is_json:
            verb = "would merge" if self.is_dry_run else "merged"
            say = print_note if self.is_piped else print_line
            say(f"{verb} {show_name(self.source)} into {show_name(self.into)}: {done.outcome}")

    def refuse(self, conflicts: Sequence[Conflict], *, actor: str | None) -> NoReturn:
        """Print why nothing was merged, and exit with 1."""
        self._write_decisions(conflicts)
        problem = f"{self._headline(conflicts)}; {show_name(self.into)} is unchanged"
        print_note(f"Error: {problem}")
        if self.invocation.is_json:
            body: MergeOutput = {
                "source": self.source,
                "target": self.into,
                "outcome": "conflicts",
                "actor_id": actor,
                "commit_id": None,
                "conflicts": [conflict_output(each) for each in conflicts],
            }
            print_json({"error": problem, "code": MergeConflictError.code, **body})
        else:
            print_note("")
            for line in self._blocks(conflicts, standard_error(self.invocation.environment)):
                print_note(line)
        raise click.exceptions.Exit(1)

    def _show_conflicts(self, conflicts: Sequence[Conflict]) -> None:
        environment = self.invocation.environment
        if self.is_piped:
            say, terminal = print_note, standard_error(environment)
        else:
            say, terminal = print_line, standard_output(environment)
        say(f"{self._headline(conflicts)}\n")
        for line in self._blocks(conflicts, terminal):
            say(line)

    def _headline(self, conflicts: Sequence[Conflict]) -> str:
        count = f"{len(conflicts):,} {plural(len(conflicts), 'conflict')}"
        return f"merge conflicts: {show_name(self.source)} and {show_name(self.into)} have {count}"

    def _blocks(self, conflicts: Sequence[Conflict], terminal: Terminal) -> Iterator[str]:
        yield from format_conflicts(conflicts, terminal)
        path = _FILE_TO_WRITE if self.is_piped else self.decisions_path
        if path is None:
            path = _FILE_TO_WRITE
            yield f"To decide, write a file such as {path} with an entry for each:"
            yield ""
            yield from (f"  {line}" for line in show_decision(conflicts[0]))
            yield ""
            yield "`choice` is source or target; or give a `row` with all values instead."
            yield f"To generate such a file, add --write-decisions {path}."
        elif self.is_piped:
            yield f"The output has an entry for each; save it as {path} and set all choices."
        else:
            yield f"{path} has an entry for each; set the choice of all of them."
        yield "Then run:"
        yield ""
        granularity = None if self.granularity == "row" else self.granularity
        options = write_options(
            [("--into", self.into), ("--granularity", granularity), ("--resolve", path)]
        )
        yield f"  {write_command('merge', self.source, *options, target=self.target)}"

    def _write_decisions(self, conflicts: Sequence[Conflict]) -> None:
        if self.decisions_path is None:
            return
        text = write_decisions(conflicts, source=self.source, target=self.into)
        if self.is_piped:
            print_pieces([text.encode()])
        else:
            expand_home(self.decisions_path).write_text(text, encoding="utf-8")


@command(IF_COMMIT_OPTION, KEY_OPTION, JSON_OPTION)
@click.argument("source")
@URI_OPTION
@click.option(
    "--into", default="main", show_default=True, metavar="BRANCH", help="The branch to merge into."
)
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only report the outcome.")
@click.option(
    "--granularity",
    type=click.Choice(["row", "property"]),
    default="row",
    show_default=True,
    help="Whether changes conflict by row or by property.",
)
@click.option(
    "--resolve",
    "resolve_path",
    metavar="FILE",
    help="A file with decisions about conflicts, YAML or JSON.",
)
@click.option(
    "--write-decisions",
    "decisions_path",
    metavar="FILE",
    help="Write a template for decisions to a new file; `-` is stdout.",
)
def merge(  # noqa: PLR0913  # one per flag
    invocation: Invocation,
    *,
    source: str,
    into: str,
    is_dry_run: bool,
    granularity: str,
    resolve_path: str | None,
    decisions_path: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
) -> None:
    """Merge the branch SOURCE into another branch, or preview the merge.

    Exits with 1 if there are unresolved conflicts: they are shown side by side, and nothing is
    merged.
    """
    is_piped = decisions_path == STANDARD_OUTPUT
    if is_piped and invocation.is_json:
        raise click.UsageError("--json and --write-decisions - are mutually exclusive")
    target = invocation.target()
    resolve = None
    if resolve_path is not None:
        decided = read_source(resolve_path)
        resolve = parse_decisions(decided.text, name=decided.name)
    if decisions_path is not None and not is_piped and expand_home(decisions_path).exists():
        raise CommandError(
            f"'{decisions_path}' exists already and may contain decisions; name another "
            "file, or delete it; nothing was merged"
        )
    if not is_dry_run:
        # The same function implements `omnigraph branch merge`.
        invocation.announce(click.get_current_context().command_path.partition(" ")[2], target)
    report = _Report(invocation, target, source, into, is_dry_run, granularity, decisions_path)
    with invocation.open(target, read_only=is_dry_run) as graph:
        run = partial(
            graph.merge,
            source,
            into=into,
            granularity=granularity,
            resolve=resolve,
            if_commit=if_commit,
        )
        try:
            with invocation.waiting(f"merge {source}"):
                done = run(
                    dry_run=is_dry_run, idempotency_key=None if is_dry_run else idempotency_key
                )
        except MergeConflictError as error:
            conflicts = error.conflicts
            if not has_versions(conflicts):
                # A server lists the conflicts of a failed merge without values, and shows these in
                # a dry run.
                conflicts = run(dry_run=True, idempotency_key=None).conflicts or conflicts
            report.refuse(conflicts, actor=graph.actor)
        report.show(done, actor=graph.actor)


@command(URI_OPTION, BRANCH_OPTION, IF_COMMIT_OPTION, KEY_OPTION, JSON_OPTION)
@click.argument("commit")
def revert(
    invocation: Invocation, *, commit: str, branch: str, **conditions: Unpack[WriteConditions]
) -> None:
    """Undo the changes of COMMIT on a branch, as a new commit; later commits remain."""

    def run(graph: AnyGraph) -> MergeResult:
        return graph.revert(commit, branch=branch, **conditions)

    _replay(invocation, run, verb="revert", commit=commit, branch=branch)


@command(IF_COMMIT_OPTION, KEY_OPTION, JSON_OPTION)
@click.argument("commit")
@URI_OPTION
@click.option(
    "--onto", default="main", show_default=True, metavar="BRANCH", help="The branch to change."
)
def cherry_pick(
    invocation: Invocation, *, commit: str, onto: str, **conditions: Unpack[WriteConditions]
) -> None:
    """Apply the changes of COMMIT to a branch, as a new commit."""

    def run(graph: AnyGraph) -> MergeResult:
        return graph.cherry_pick(commit, onto=onto, **conditions)

    _replay(invocation, run, verb="cherry-pick", commit=commit, branch=onto)


_DONE_BY_VERB = {"revert": "reverted", "cherry-pick": "picked"}


def _replay(
    invocation: Invocation,
    run: Callable[[AnyGraph], MergeResult],
    *,
    verb: str,
    commit: str,
    branch: str,
) -> None:
    """Run a revert or a cherry-pick; conflicts are shown side by side and cannot be resolved."""
    target = invocation.target()
    with invocation.open_to_write(verb, target) as graph:
        try:
            with invocation.waiting(verb):
                done = run(graph)
        except MergeConflictError as error:
            count = len(error.conflicts)
            print_note(
                f"Error: {count:,} {plural(count, 'row')} changed on {show_name(branch)} since; "
                f"{show_name(branch)} is unchanged"
            )
            if invocation.is_json:
                print_json(error_body(error, message=str(error)))
                raise click.exceptions.Exit(1) from error
            print_note("")
            for line in format_conflicts(error.conflicts, standard_error(invocation.environment)):
                print_note(line)
            print_note("Correct these rows with `omnigraph mutate`. To see later changes, run:")
            print_note(f"\n  {write_command('diff', commit, branch, target=target)}")
            raise click.exceptions.Exit(1) from error
        output = replay_output(done, branch=branch, actor=graph.actor)
    lines = [f"{_DONE_BY_VERB[verb]} {show_name(commit)} on {show_name(branch)}: {done.outcome}"]
    if done.commit_id is not None:
        lines.append(f"commit: {done.commit_id}")
    invocation.print_output(output, lines)
