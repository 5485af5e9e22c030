"""The calls of a graph that retrieve what an agent should read, and retrieve it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.retrieval.limits import BUDGET_TOKENS, FOUND, HOPS
from omnigraph.engine.settings import require_text
from omnigraph.model.deferred import defer
from omnigraph.model.observer import Phase
from omnigraph.model.policy import Action

if TYPE_CHECKING:
    from omnigraph.engine.retrieval import answers, by_query, packing, receipts, requests
    from omnigraph.engine.retrieval import run as retrieving
    from omnigraph.engine.retrieval.answers import Receipt, Retrieval
    from omnigraph.engine.retrieval.reads import Reads
    from omnigraph.engine.state.authority import Basis
else:
    answers = defer("omnigraph.engine.retrieval.answers")
    by_query = defer("omnigraph.engine.retrieval.by_query")
    packing = defer("omnigraph.engine.retrieval.packing")
    receipts = defer("omnigraph.engine.retrieval.receipts")
    requests = defer("omnigraph.engine.retrieval.requests")
    retrieving = defer("omnigraph.engine.retrieval.run")


class GraphRetrieval:
    """What a graph holds about a text."""

    _open: OpenGraph

    def retrieve(
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
        they fit into the budget. `vector` stands in for that of the text. Tokens are counted as a
        quarter of the bytes unless `count_tokens` counts them. The receipt of the answer gives the
        same answer again.
        """
        request = requests.parse_request(
            {
                "text": text,
                "types": types,
                "edges": edges,
                "hops": hops,
                "k": k,
                "budget_tokens": budget_tokens,
                "word_weight": word_weight,
                "vector_weight": vector_weight,
                "counted_by": packing.BYTES_RULE if count_tokens is None else "caller",
            }
        )
        given = None if vector is None else requests.parse_vector(vector)
        with self._open.settings.observer.phase(Phase.PIN):
            basis = self._open.at(branch, commit, action=Action.READ)
        reads = self._start_reads(basis, limits)
        with self._open.telling_gone(basis):
            vectors = retrieving.find_vectors(request, reads, given=given)
            return retrieving.retrieve(
                request, vectors, reads=reads, count_tokens=count_tokens or packing.count_bytes
            )

    def retrieve_by(
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
        require_text(source, subject="source")
        terms = requests.parse_terms(
            {
                "edges": edges,
                "hops": hops,
                "budget_tokens": budget_tokens,
                "counted_by": packing.BYTES_RULE if count_tokens is None else "caller",
            }
        )
        with self._open.settings.observer.phase(Phase.PIN):
            basis = self._open.at(branch, commit, action=Action.READ)
        with self._open.telling_gone(basis):
            return by_query.retrieve_by(
                source,
                params,
                name=name,
                terms=terms,
                compiled=self._open.compiled,
                reads=self._start_reads(basis, limits),
                count_tokens=count_tokens or packing.count_bytes,
            )

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
        asked = receipts.parse_receipt(receipt, count_tokens=count_tokens)
        with self._open.settings.observer.phase(Phase.PIN):
            basis = self._open.at(None, asked.commit_id, action=Action.READ)
        reads, count = self._start_reads(basis, limits), count_tokens or packing.count_bytes
        with self._open.telling_gone(basis):
            if isinstance(asked.request, answers.QueryRequest):
                answer = by_query.retrieve_again(
                    asked.request,
                    asked.vectors,
                    compiled=self._open.compiled,
                    reads=reads,
                    count_tokens=count,
                )
            else:
                answer = retrieving.retrieve(
                    asked.request, asked.vectors, reads=reads, count_tokens=count
                )
        receipts.require_same(answer.receipt, asked)
        return answer

    def _start_reads(self, basis: Basis, limits: CallLimits | None) -> Reads:
        path, settings = self._open.reads, self._open.settings
        path = replace(path, allowance=path.allowance.within(limits))
        now = settings.runtime.now()
        return retrieving.start_reads(basis, path=path, observer=settings.observer, now=now)
