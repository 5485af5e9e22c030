"""The errors of OmniGraph. The type says what happened to the graph; the message explains it.

::

    GraphError                     .code .outcome
    ├── RequestError               UNCHANGED: the request must change
    │   ├── CompileError             .diagnostics .source
    │   ├── InvalidNameError         .kind .name
    │   ├── InvalidValueError        .subject .type .value
    │   ├── LimitExceededError       .resource .limit .found
    │   ├── ForbiddenError           .actor .action
    │   │   └── PolicyDeniedError      .branch .target
    │   ├── NotFoundError            .kind .name
    │   ├── AlreadyExistsError       .kind .name
    │   ├── StillNeededError         .kind .name .needed_by
    │   ├── FeedGapError             .commit_id .resume
    │   ├── UnreadableError          .path .reason
    │   ├── IntegrityError           .violations .count
    │   ├── KeyConflictError         .type .id
    │   ├── MergeConflictError       .conflicts
    │   └── UnsupportedChangeError   .steps
    ├── MovedError                 MOVED: the graph moved first; nothing was written
    │   ├── ExpectedVersionMismatchError  .table_key .expected .actual
    │   ├── ReadSetChangedError      .member .expected .actual
    │   ├── SchemaChangedError       .reason
    │   ├── DriftError               .type .expected .actual
    │   └── PreconditionFailedError  .expected .actual
    ├── UncertainError             UNCERTAIN: something may have been written; recover first
    │   ├── RecoveryRequiredError    .operation_id
    │   └── UnexpectedBaseError      .table .expected .found
    ├── UnavailableError           UNCHANGED: the storage did not answer
    │   ├── BusyError                .action .holder
    │   └── EmbeddingError           .action .reason
    └── CorruptError               BROKEN: what is stored breaks a rule; stop

Callers decide by type, `code` and `outcome`, never by the text of a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from omnigraph.model.limits import VALUE_CHARACTERS_SHOWN_MAX, VIOLATIONS_SHOWN_MAX
from omnigraph.model.source import Diagnostic, Source, render_diagnostic


@dataclass(frozen=True, slots=True)
class LocatedMessage:
    """What is wrong with a row, and its position in the input; empty if that is not known."""

    place: str
    message: str


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The number of rows of a type that violate a rule, and the first of them.

    The type is None if a record is too malformed to have one.
    """

    type: str | None
    rule: str
    property: str | None
    count: int
    shown: tuple[LocatedMessage, ...]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The rules that the rows of a load violate; its text form is written for people.

    `location` is where the rejected rows were written, None if they were not.
    """

    rules: tuple[RuleReport, ...]
    location: str | None

    @property
    def count(self) -> int:
        """The total number of violations."""
        return sum(each.count for each in self.rules)

    def __str__(self) -> str:
        lines = []
        for each in self.rules:
            subject = ".".join(filter(None, (each.type, each.property))) or "records"
            lines.append(f"{each.count} x {each.rule} on {subject}")
            lines += [
                f"  {shown.place}: {shown.message}" if shown.place else f"  {shown.message}"
                for shown in each.shown
            ]
            if each.count > len(each.shown):
                lines.append(f"  and {each.count - len(each.shown)} more")
        if self.location is not None:
            lines.append(f"rejected rows are in {self.location}")
        return "\n".join(lines) or "nothing was wrong"


NOTHING_WRONG = LoadReport((), None)


_PUBLIC_MODULE = "omnigraph.errors"


class Outcome(StrEnum):
    """The effect on the graph of an operation that raised an error."""

    UNCHANGED = "unchanged"
    MOVED = "moved"
    UNCERTAIN = "uncertain"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Violation:
    """One row that violates one rule; `property` is None if the rule spans several properties."""

    type: str
    id: str
    rule: str
    property: str | None
    value: object
    message: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """One row that both sides of a merge changed, with its three row versions (None: absent)."""

    type: str
    id: str
    kind: str
    message: str
    base: Mapping[str, object] | None
    source: Mapping[str, object] | None
    target: Mapping[str, object] | None


class GraphError(Exception):
    """The base class of the errors that OmniGraph raises deliberately."""

    code: ClassVar[str]
    outcome: ClassVar[Outcome]

    # Tracebacks, and pickles of Spark tasks, name the module that callers import.
    __module__ = _PUBLIC_MODULE

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__:
            cls.__module__ = _PUBLIC_MODULE

    def __reduce__(self) -> tuple[object, ...]:
        # By default an exception is pickled as a call with its message, but fields are keywords.
        return _restore, (type(self), self.args, vars(self))


def _restore(
    kind: type[GraphError], arguments: tuple[object, ...], fields: Mapping[str, object]
) -> GraphError:
    error = kind.__new__(kind, *arguments)
    vars(error).update(fields)
    return error


class RequestError(GraphError):
    """The request cannot be executed as it is; the graph is unchanged."""

    code = "bad_request"
    outcome = Outcome.UNCHANGED


class CompileError(RequestError):
    """A schema or query was rejected; `diagnostics` lists every problem found."""

    def __init__(self, *, diagnostics: Sequence[Diagnostic], source: Source) -> None:
        super().__init__("\n".join(render_diagnostic(each, source) for each in diagnostics))
        self.diagnostics = tuple(diagnostics)
        self.source = source


class InvalidNameError(RequestError):
    """A name violates the naming rule of its kind."""

    def __init__(self, *, kind: str, name: str, rule: str) -> None:
        super().__init__(f"invalid {kind} {name!r}: {rule}")
        self.kind, self.name = kind, name


class InvalidValueError(RequestError):
    """A value does not match the expected type."""

    def __init__(self, *, subject: str, expected: str, value: object, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject, self.type, self.value = subject, expected, value


class NotFoundError(RequestError):
    """Something named by the request does not exist."""

    code = "not_found"

    def __init__(self, *, kind: str, name: str, advice: str) -> None:
        super().__init__(f"{kind} '{name}' not found{advice and f'; {advice}'}")
        self.kind, self.name = kind, name


class UnreadableError(RequestError):
    """A file named by the request exists but cannot be read."""

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__(f"cannot read '{path}': {reason}")
        self.path, self.reason = path, reason


class LimitExceededError(RequestError):
    """The request exceeds a limit."""

    code = "resource_limit"

    def __init__(self, *, resource: str, limit: int, found: int, advice: str = "") -> None:
        super().__init__(
            f"{resource} is {found:,}; at most {limit:,} is allowed{advice and f'; {advice}'}"
        )
        self.resource, self.limit, self.found = resource, limit, found


AUTHENTICATE = "authenticate"
"""The action of a caller whose token the server rejects."""


class ForbiddenError(RequestError):
    """The policy, or the way the graph was opened, does not allow the actor to do this."""

    code = "forbidden"

    def __init__(self, *, actor: str | None, action: str, reason: str) -> None:
        super().__init__(f"{actor or 'this caller'} may not {action}: {reason}")
        self.actor, self.action = actor, action


class PolicyDeniedError(ForbiddenError):
    """The policy does not allow the actor to do this on the branches concerned."""

    def __init__(
        self,
        *,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        reason: str,
    ) -> None:
        RequestError.__init__(
            self,
            f"policy denied action '{action}'"
            + (f" on branch '{branch}'" if branch is not None else "")
            + (f" targeting branch '{target}'" if target is not None else "")
            + (f" for actor '{actor}'" if actor is not None else " for a caller without a name")
            + (reason and f": {reason}"),
        )
        self.actor, self.action = actor, action
        self.branch, self.target = branch, target


class AlreadyExistsError(RequestError):
    """Something that the request would create already exists."""

    code = "conflict"

    def __init__(self, *, kind: str, name: str, advice: str) -> None:
        super().__init__(f"{kind} '{name}' already exists{advice and f'; {advice}'}")
        self.kind, self.name = kind, name


class FeedGapError(RequestError):
    """A change feed reached a commit whose rows were cleaned up; `resume` continues after it."""

    code = "change_feed_gap"

    def __init__(self, *, commit_id: str, resume: str) -> None:
        super().__init__(
            f"what commit {commit_id} changed is no longer known: its rows were cleaned up; "
            "take the rows of the branch as they are, by `export`, and go on with "
            f'`changes("{resume}")`'
        )
        self.commit_id, self.resume = commit_id, resume


class StillNeededError(RequestError):
    """Something that the request would delete is still in use; `needed_by` says by what."""

    code = "conflict"

    def __init__(self, *, kind: str, name: str, needed_by: str, advice: str) -> None:
        super().__init__(
            f"{kind} '{name}' is kept: {needed_by} still depends on it{advice and f'; {advice}'}"
        )
        self.kind, self.name, self.needed_by = kind, name, needed_by


class IntegrityError(RequestError):
    """Rows of the request violate rules of the schema; `violations` lists the first of them.

    `count` is the total number of violations. A bulk load has a `report` with positions in its
    input.
    """

    def __init__(
        self, *, violations: Sequence[Violation], count: int, report: LoadReport | None = None
    ) -> None:
        shown = [each.message for each in violations[:VIOLATIONS_SHOWN_MAX]]
        if count > len(shown):
            shown.append(f"and {count - len(shown)} more")
        super().__init__("; ".join(shown) + "; the graph is unchanged")
        self.violations, self.count, self.report = tuple(violations), count, report


class KeyConflictError(RequestError):
    """An append contains an id that already exists."""

    code = "key_conflict"

    def __init__(self, *, type: str, id: str) -> None:
        super().__init__(f"{type} '{id}' already exists; to replace it, load with mode \"merge\"")
        self.type, self.id = type, id


class MergeConflictError(RequestError):
    """Both sides of a merge changed the same rows, and a person must resolve the conflicts."""

    code = "conflict"

    def __init__(self, *, conflicts: Sequence[Conflict]) -> None:
        shown = [each.message for each in conflicts[:VIOLATIONS_SHOWN_MAX]]
        if len(conflicts) > len(shown):
            shown.append(f"and {len(conflicts) - len(shown)} more")
        super().__init__("; ".join(shown) + "; the target branch is unchanged")
        self.conflicts = tuple(conflicts)


class UnsupportedChangeError(RequestError):
    """A schema cannot be applied because some of its changes are not supported."""

    def __init__(self, *, steps: Sequence[Mapping[str, object]], reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons) + "; the schema is unchanged")
        self.steps = tuple(steps)


class MovedError(GraphError):
    """Another writer was first and nothing was written; prepare the operation again and retry."""

    code = "conflict"
    outcome = Outcome.MOVED


class ExpectedVersionMismatchError(MovedError):
    """A type changed by the write has advanced since the write was prepared."""

    def __init__(self, *, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stale view of '{table_key}': prepared at version {expected}, now at {actual}; "
            "nothing was written; refresh and retry"
        )
        self.table_key, self.expected, self.actual = table_key, expected, actual


class ReadSetChangedError(MovedError):
    """Something that the write relied on has changed since the write was prepared."""

    def __init__(self, *, member: str, expected: str, actual: str) -> None:
        super().__init__(
            f"{member} moved from {expected} to {actual}; nothing was written; refresh and retry"
        )
        self.member, self.expected, self.actual = member, expected, actual


class SchemaChangedError(MovedError):
    """The stored schema is not the one this graph was opened with."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"{reason}; nothing was written")
        self.reason = reason


class DriftError(MovedError):
    """A type's table is ahead of the version in the graph's history, and no write explains it."""

    def __init__(self, *, type: str, expected: int, actual: int, advice: str) -> None:
        super().__init__(
            f"the table of {type} is at version {actual}, but history names {expected}: "
            f"something outside OmniGraph wrote to it; nothing was written; {advice}"
        )
        self.type, self.expected, self.actual = type, expected, actual


class PreconditionFailedError(MovedError):
    """The branch is not at the commit that the caller expected."""

    code = "precondition_failed"

    def __init__(self, *, expected: str, actual: str) -> None:
        super().__init__(
            f"the branch is at commit {actual}, not at {expected}; nothing was written"
        )
        self.expected, self.actual = expected, actual


class UncertainError(GraphError):
    """Something may have been written; recover first, because a retry could write it twice."""

    code = "recovery_required"
    outcome = Outcome.UNCERTAIN


class RecoveryRequiredError(UncertainError):
    """A write stopped between its first durable effect and its publish."""

    def __init__(self, *, operation_id: str) -> None:
        super().__init__(
            f"write {operation_id} stopped on its way; readers see all of it or none; "
            "the next write, `refresh` or `open` finishes or undoes it"
        )
        self.operation_id = operation_id


class UnexpectedBaseError(UncertainError):
    """A staged write landed on a version that it was not prepared for."""

    def __init__(self, *, table: str, expected: int, found: int) -> None:
        super().__init__(f"a write to '{table}' landed at version {found}, not at {expected}")
        self.table, self.expected, self.found = table, expected, found


class UnavailableError(GraphError):
    """The storage or Spark did not respond or refused: disk full, no permission, no network."""

    code = "unavailable"
    outcome = Outcome.UNCHANGED

    is_disk_full = False
    """Whether a disk or a quota is full, so that a retry helps only after space is freed."""

    def __init__(self, *, action: str, reason: str) -> None:
        super().__init__(f"cannot {action}: {reason}")
        self.action, self.reason = action, reason


class BusyError(UnavailableError):
    """Another writer held a lock for longer than this write may wait; `holder` says which one."""

    def __init__(self, *, action: str, holder: str, waited_s: float) -> None:
        super().__init__(
            action=action,
            reason=f"{holder} has been writing there for more than {waited_s:g} s; "
            "try again when that write is done, or end it if it hangs",
        )
        self.holder = holder


class EmbeddingError(UnavailableError):
    """Texts cannot be embedded: the provider does not respond, refuses, or is not configured."""


class CorruptError(GraphError):
    """The stored data violates an invariant that every write maintains; stop, and do not write."""

    code = "internal"
    outcome = Outcome.BROKEN

    def __init__(self, *, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject, self.problem = subject, problem


@contextmanager
def reading(path: str) -> Iterator[None]:
    """A block whose failures to read a file become `NotFoundError` or `UnreadableError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(kind="file", name=path, advice="check the path") from error
    except OSError as error:
        raise UnreadableError(path=path, reason=error.strerror or str(error)) from error


class ConflictKind(StrEnum):
    """Why two sides of a merge conflict."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


def show_text(text: str) -> str:
    """A text in quotes, truncated to a readable length."""
    if len(text) > VALUE_CHARACTERS_SHOWN_MAX:
        text = f"{text[:VALUE_CHARACTERS_SHOWN_MAX]}…"
    return f"'{text}'"


def plural(count: int, one: str, many: str | None = None) -> str:
    """The noun that follows a count: "row" after 1, "rows" after any other number."""
    if count == 1:
        return one
    return many or f"{one}s"
