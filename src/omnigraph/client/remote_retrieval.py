"""The retrieval calls of a remote graph: retrieve passages for a prompt, and replay a receipt.

Arguments are validated as for a graph in storage, so both raise the same errors. The modules that
validate and decode need array libraries and are imported on first use, because most calls do not
need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from omnigraph.client.requests import (
    READ,
    GraphEndpoint,
    encode_limits,
    encode_place,
    encode_query,
    plain_params,
    plain_row,
)
from omnigraph.engine.read.budget import CallLimits
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import BUDGET_TOKENS, FOUND, HOPS
from omnigraph.model.names import require_text
from omnigraph.model.runtime import lazy_module

if TYPE_CHECKING:
    from omnigraph.engine.retrieval import receipts, requests, results
    from omnigraph.engine.retrieval.requests import RetrievalOptions
    from omnigraph.engine.retrieval.results import Receipt, Request, Retrieval
    from omnigraph.http import retrievals
else:
    results = lazy_module("omnigraph.engine.retrieval.results")
    receipts = lazy_module("omnigraph.engine.retrieval.receipts")
    requests = lazy_module("omnigraph.engine.retrieval.requests")
    retrievals = lazy_module("omnigraph.http.retrievals")


class RemoteRetrieval:
    """The retrieval calls of a remote graph."""

    _routes: GraphEndpoint

    def retrieve(  # noqa: PLR0913  # the published signature
        self,
        text: str,
        *,
        types: str | Sequence[str] | None = None,
        hops: int = HOPS,
        edges: str | Sequence[str] | None = None,
        k: int = FOUND,
        budget_tokens: int = BUDGET_TOKENS,
        branch: str | None = None,
        commit: str | None = None,
        vector: Sequence[float] | None = None,
        word_weight: float = 1.0,
        vector_weight: float = 1.0,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """As `Graph.retrieve`; the server embeds the text.

        Tokens are counted as a quarter of the bytes, because a `count_tokens` function cannot be
        sent.
        """
        _require_no_count(count_tokens)
        fields = {
            "text": text,
            "types": types,
            "edges": edges,
            "hops": hops,
            "k": k,
            "budget_tokens": budget_tokens,
            "word_weight": word_weight,
            "vector_weight": vector_weight,
            "counted_by": results.BYTES_RULE,
        }
        body: dict[str, object] = {
            **_encode_options(requests.parse_request(fields)),
            "vector": None if vector is None else requests.parse_vector(vector),
            **encode_place(branch, commit),
            **encode_limits(limits),
        }
        return self._retrieve("retrieve", body=body, text=None)

    def retrieve_by(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        hops: int = HOPS,
        edges: str | Sequence[str] | None = None,
        budget_tokens: int = BUDGET_TOKENS,
        branch: str | None = None,
        commit: str | None = None,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        _require_no_count(count_tokens)
        body = {
            **encode_query(source, params, name),
            **_encode_expansion(hops, edges, budget_tokens),
            **encode_place(branch, commit),
            **encode_limits(limits),
        }
        return self._retrieve("retrieve-by", body=body, text=source)

    def retrieve_stored(  # noqa: PLR0913  # the published signature
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        hops: int = HOPS,
        edges: str | Sequence[str] | None = None,
        budget_tokens: int = BUDGET_TOKENS,
        branch: str | None = None,
        commit: str | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """Passages of the nodes that a stored query of the server finds, and of their neighbours.

        The receipt names the query but does not contain its text, so only the server can replay it,
        as long as it has the query.
        """
        require_text(name, subject="name")
        body = {
            "params": plain_params(params),
            **_encode_expansion(hops, edges, budget_tokens),
            **encode_place(branch, commit),
            **encode_limits(limits),
        }
        return self._retrieve("queries", name, "retrieve", body=body, text=None)

    def replay(
        self,
        receipt: Receipt | Mapping[str, object],
        *,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        _require_no_count(count_tokens)
        fields = receipts.receipt_json(receipt)
        body = {"receipt": plain_row(fields, subject="receipt"), **encode_limits(limits)}
        return self._retrieve("replay", body=body, text=None)

    def _retrieve(self, *parts: str, body: Mapping[str, object], text: str | None) -> Retrieval:
        return self._routes.post(
            "retrieve",
            *parts,
            decode=retrievals.retrieval_of,
            body=body,
            options=READ,
            text=text,
        )


def _encode_expansion(
    hops: int, edges: str | Sequence[str] | None, budget_tokens: int
) -> Mapping[str, object]:
    fields = {"hops": hops, "edges": edges, "budget_tokens": budget_tokens}
    return _encode_options(requests.parse_options({**fields, "counted_by": results.BYTES_RULE}))


def _encode_options(parsed: Request | RetrievalOptions) -> dict[str, object]:
    """Parsed options as request fields; the server alone decides how it counts tokens."""
    fields = asdict(parsed)
    del fields["counted_by"]
    return fields


def _require_no_count(count_tokens: object) -> None:
    if count_tokens is not None:
        raise InvalidValueError(
            subject="count_tokens",
            expected="None",
            value=type(count_tokens).__name__,
            problem="a function cannot be sent to a server, which counts a token per four bytes; "
            "omit it, or open the graph by its uri",
        )
