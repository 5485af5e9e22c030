"""What requests have in common: what they name, on what terms they write, how they are refused.

Names are parsed before anybody is asked for permission, so that a policy judges the branch that is
meant and not another spelling of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph.model.errors import CompileError, NotFoundError
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.server.answers import Answer, Stream, encode_headers, with_headers
from omnigraph.server.calls import Call
from omnigraph.server.problems import bad_request
from omnigraph.wire.shapes import Target

COMMIT_HEADER = "Omnigraph-Graph-Commit"
QUERY_NAME_HEADER = "Omnigraph-Query-Name"

# The diagnostic of a text that is of another kind than is needed.
_WRONG_KIND = "T38"

_NAMED_IN_BODIES = frozenset({"query", "type", "node type", "edge type"})
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0"})


@dataclass(frozen=True, slots=True)
class Place:
    """What a read is about: a branch, or a commit."""

    branch: BranchName | None
    commit: str | None

    @property
    def target(self) -> Target:
        """The same as answers tell it."""
        return {"branch": self.branch, "snapshot": self.commit}


@dataclass(frozen=True, slots=True)
class WriteTerms:
    """On what terms a write is asked for: the commit that the branch must be at, and the key that
    makes asking again safe."""

    if_commit: str | None
    idempotency_key: str | None


def parse_place(branch: str | None, snapshot: str | None) -> Place:
    """A branch or a commit, `main` if neither is named; 400 if both are."""
    if snapshot is not None:
        if branch is not None:
            raise bad_request("give a branch or a snapshot, not both")
        return Place(None, snapshot)
    return Place(parse_branch(branch), None)


def parse_branch(name: str | None) -> BranchName:
    """The branch that a request names, or `main`."""
    return MAIN if name is None else parse_branch_name(name)


def find_terms(call: Call) -> WriteTerms:
    """The terms that the headers of a request say."""
    return WriteTerms(call.header("omnigraph-if-graph-commit"), call.header("idempotency-key"))


def parse_params(params: object) -> Mapping[str, object] | None:
    """The values for a query's parameters; 400 unless they are an object or absent."""
    if params is None:
        return None
    if not isinstance(params, dict):
        raise bad_request("params: a JSON object is needed")
    return params


def parse_flag(call: Call, name: str) -> bool:
    """Whether `?name=true` was asked; 400 for what is neither true nor false."""
    given = call.argument(name)
    if given is None or given in _FALSE:
        return False
    if given not in _TRUE:
        raise bad_request(f"{name}: say true or false")
    return True


def parse_count(call: Call, name: str, *, otherwise: int, least: int = 1) -> int:
    """A number that follows `?`, not below the least that makes sense."""
    given = call.argument(name)
    if given is None:
        return otherwise
    if not (given.isascii() and given.isdigit() and len(given) <= 9 and int(given) >= least):
        raise bad_request(f"{name}: a positive number is needed")
    return int(given)


def parse_names(call: Call, name: str) -> list[str] | None:
    """Names with commas between them that follow `?`; None if there are none."""
    given = call.argument(name)
    return None if given is None else [each for each in given.split(",") if each]


@contextmanager
def refusing(*, advice: str) -> Iterator[None]:
    """A block whose refusals of a text are told in words of HTTP.

    What a text or a body names is part of the request, so that it is missing there is a 400. A text
    of the wrong kind is told which route is for it.
    """
    try:
        yield
    except CompileError as error:
        if is_of_wrong_kind(error):
            raise bad_request(f"{error}\n{advice}", told=error) from error
        raise
    except NotFoundError as error:
        if error.kind in _NAMED_IN_BODIES:
            raise bad_request(str(error), told=error) from error
        raise


def is_of_wrong_kind(error: CompileError) -> bool:
    """Whether a text was refused because it is no read, no mutation, or finds no nodes."""
    return any(each.code == _WRONG_KIND for each in error.diagnostics)


def with_commit(answer: Answer, commit_id: str | None) -> Answer:
    """The same answer, with the commit that it is about in a header."""
    return answer if commit_id is None else with_headers(answer, {COMMIT_HEADER: commit_id})


def deprecated(answer: Answer | Stream, *, successor: str) -> Answer | Stream:
    """The answer of a route that another has taken the place of."""
    headers = {"Deprecation": "true", "Link": f'<{successor}>; rel="successor-version"'}
    return replace(answer, headers=(*answer.headers, *encode_headers(headers)))
