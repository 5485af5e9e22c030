"""Parameters that several routes share: names, write options, counts, and error translation.

Names are parsed before permissions are checked, so that a policy sees the branch that is meant and
not another spelling of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph.http.responses import Target
from omnigraph.model.errors import CompileError, NotFoundError
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.server.context import RequestContext
from omnigraph.server.responses import (
    Response,
    StreamingResponse,
    bad_request,
    encode_headers,
    with_headers,
)

COMMIT_HEADER = "Omnigraph-Graph-Commit"
QUERY_NAME_HEADER = "Omnigraph-Query-Name"

# The diagnostic code of a query of the wrong kind.
_WRONG_KIND = "T38"

_NAMED_IN_BODIES = frozenset({"query", "type", "node type", "edge type"})
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0"})


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """The target of a read: a branch or a commit."""

    branch: BranchName | None
    commit: str | None

    @property
    def target(self) -> Target:
        """The target as responses show it."""
        return {"branch": self.branch, "snapshot": self.commit}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write.

    `if_commit` is the commit that the branch must be at; `idempotency_key` makes a retry safe.
    """

    if_commit: str | None
    idempotency_key: str | None


def parse_place(branch: str | None, snapshot: str | None) -> ReadTarget:
    """A branch or a commit, by default `main`; 400 if both are given."""
    if snapshot is not None:
        if branch is not None:
            raise bad_request("give a branch or a snapshot, not both")
        return ReadTarget(None, snapshot)
    return ReadTarget(parse_branch(branch), None)


def parse_branch(name: str | None) -> BranchName:
    """The branch that a request names, or `main`."""
    return MAIN if name is None else parse_branch_name(name)


def parse_write_options(call: RequestContext) -> WriteOptions:
    """The write options in the headers of a request."""
    return WriteOptions(call.header("omnigraph-if-graph-commit"), call.header("idempotency-key"))


def parse_params(params: object) -> Mapping[str, object] | None:
    """The values for a query's parameters; 400 unless they are an object or absent."""
    if params is None:
        return None
    if not isinstance(params, dict):
        raise bad_request("params: a JSON object is needed")
    return params


def parse_flag(call: RequestContext, name: str) -> bool:
    """A boolean query parameter, false if absent; 400 if it is neither true nor false."""
    given = call.argument(name)
    if given is None or given in _FALSE:
        return False
    if given not in _TRUE:
        raise bad_request(f"{name}: say true or false")
    return True


def parse_count(call: RequestContext, name: str, *, otherwise: int, least: int = 1) -> int:
    """A number in the query parameters, with a default; 400 if it is below `least`."""
    given = call.argument(name)
    if given is None:
        return otherwise
    if not (given.isascii() and given.isdigit() and len(given) <= 9 and int(given) >= least):
        raise bad_request(f"{name}: a positive number is needed")
    return int(given)


def parse_names(call: RequestContext, name: str) -> list[str] | None:
    """Comma-separated names in the query parameters; None if absent."""
    given = call.argument(name)
    return None if given is None else [each for each in given.split(",") if each]


@contextmanager
def translate_compile_errors(*, advice: str) -> Iterator[None]:
    """A block that translates errors about a query or schema text to HTTP errors.

    A name in a text or a body is part of the request, so an unknown one gives 400 and not 404. The
    error for a text of the wrong kind includes the advice, such as the route to use.
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
    """Whether a text was rejected because it is not a read, not a mutation, or finds no nodes."""
    return any(each.code == _WRONG_KIND for each in error.diagnostics)


def with_commit(answer: Response, commit_id: str | None) -> Response:
    """The same response with its commit in a header."""
    return answer if commit_id is None else with_headers(answer, {COMMIT_HEADER: commit_id})


def deprecated(
    answer: Response | StreamingResponse, *, successor: str
) -> Response | StreamingResponse:
    """The response of a deprecated route, with a link to its successor."""
    headers = {"Deprecation": "true", "Link": f'<{successor}>; rel="successor-version"'}
    return replace(answer, headers=(*answer.headers, *encode_headers(headers)))
