"""The calls of a served graph that retrieve what an agent should read, and retrieve it again.

What is asked is checked here as it is where the graph is stored, so that it is refused alike. What
checks and reads brings arrays with it and is found by its name, because most calls do without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.client.exchanges import Safety
from omnigraph.client.params import plain_params, plain_row
from omnigraph.client.reading_terms import tell_limits, tell_place
from omnigraph.client.routes import Routes
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.retrieval.limits import BUDGET_TOKENS, FOUND, HOPS
from omnigraph.model.arguments import require_text
from omnigraph.model.deferred import defer
from omnigraph.model.errors import InvalidValueError

if TYPE_CHECKING:
    from omnigraph.engine.retrieval import packing, receipts, requests
    from omnigraph.engine.retrieval.answers import Receipt, Retrieval
    from omnigraph.wire import retrievals
else:
    packing = defer("omnigraph.engine.retrieval.packing")
    receipts = defer("omnigraph.engine.retrieval.receipts")
    requests = defer("omnigraph.engine.retrieval.requests")
    retrievals = defer("omnigraph.wire.retrievals")


class RemoteRetrieval:
    """What a graph holds about a text, asked of a server."""

    _routes: Routes

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
        """What a branch, `main` if none is named, or a commit holds about a text, for a prompt.

        The `k` best nodes of some types by words and vectors, then their neighbours, as far as
        they fit into the budget. Texts are embedded by the server. Tokens are counted as a quarter
        of the bytes: a function that counts them cannot be sent.
        """
        _require_no_count(count_tokens)
        asked = requests.parse_request(
            {
                "text": text,
                "types": types,
                "edges": edges,
                "hops": hops,
                "k": k,
                "budget_tokens": budget_tokens,
                "word_weight": word_weight,
                "vector_weight": vector_weight,
                "counted_by": packing.BYTES_RULE,
            }
        )
        body: dict[str, object] = {
            "text": asked.text,
            "types": asked.types,
            "edges": asked.edges,
            "hops": asked.hops,
            "k": asked.k,
            "budget_tokens": asked.budget_tokens,
            "vector": None if vector is None else requests.parse_vector(vector),
            "word_weight": asked.word_weight,
            "vector_weight": asked.vector_weight,
            **tell_place(branch, commit),
            **tell_limits(limits),
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
        """What the nodes that the read of a `.gq` text finds, and those near them, hold.

        They are those of the variable whose property it returns first, in the order of its rows,
        each once; `CompileError` if it returns none. The rest is as for `retrieve`.
        """
        _require_no_count(count_tokens)
        require_text(source, subject="source")
        if name is not None:
            require_text(name, subject="name")
        body = {
            "query": source,
            "name": name,
            "params": plain_params(params),
            **_terms(hops, edges, budget_tokens),
            **tell_place(branch, commit),
            **tell_limits(limits),
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
        """What the nodes that a stored query of the server finds, and those near them, hold.

        The receipt says which query that was and not what it looks for: it is replayed by the
        server, while that still has the query.
        """
        require_text(name, subject="name")
        body = {
            "params": plain_params(params),
            **_terms(hops, edges, budget_tokens),
            **tell_place(branch, commit),
            **tell_limits(limits),
        }
        return self._retrieve("queries", name, "retrieve", body=body, text=None)

    def replay(
        self,
        receipt: Receipt | Mapping[str, object],
        *,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """The answer that a receipt, or one as JSON, was given out with; no text is embedded.

        `NotFoundError` if its commit was cleaned up, and `InvalidValueError` if the commit does
        not answer so: the receipt was changed, or another part of the graph is seen.
        """
        _require_no_count(count_tokens)
        told = receipts.tell_receipt(receipt)
        body = {"receipt": plain_row(told, subject="receipt"), **tell_limits(limits)}
        return self._retrieve("replay", body=body, text=None)

    def _retrieve(self, *parts: str, body: Mapping[str, object], text: str | None) -> Retrieval:
        return self._routes.post(
            "retrieve",
            *parts,
            make=retrievals.retrieval_of,
            body=body,
            safety=Safety.READ,
            text=text,
        )


def _terms(
    hops: int, edges: str | Sequence[str] | None, budget_tokens: int
) -> Mapping[str, object]:
    asked = {"hops": hops, "edges": edges, "budget_tokens": budget_tokens}
    terms = requests.parse_terms({**asked, "counted_by": packing.BYTES_RULE})
    return {"hops": terms.hops, "edges": terms.edges, "budget_tokens": terms.budget_tokens}


def _require_no_count(count_tokens: object) -> None:
    if count_tokens is not None:
        raise InvalidValueError(
            subject="count_tokens",
            expected="None",
            value=type(count_tokens).__name__,
            problem="a function cannot be sent to a server; leave it out and give the budget in "
            "fours of bytes, or open the graph by its uri",
        )
