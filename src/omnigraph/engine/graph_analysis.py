"""The call of a graph that starts an analysis: algorithms over its nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.engine.engines import parse_engine
from omnigraph.engine.opened import OpenGraph
from omnigraph.model.deferred import defer
from omnigraph.model.policy import Action

if TYPE_CHECKING:
    from omnigraph.engine.analysis import algorithms as analyses
    from omnigraph.engine.analysis import selection as selections
    from omnigraph.engine.analysis.algorithms import Algorithms
else:
    analyses = defer("omnigraph.engine.analysis.algorithms")
    selections = defer("omnigraph.engine.analysis.selection")


class GraphAnalysis:
    """What the shape of a graph says about its nodes."""

    _open: OpenGraph

    def algorithms(
        self,
        edges: str | Sequence[str],
        *,
        branch: str | None = None,
        commit: str | None = None,
        engine: str = "local",
        spark: object = None,
    ) -> Algorithms:
        """The algorithms over one or several edge types and all nodes of the types they connect.

        They look at a branch as it is now, `main` if none is named, or at a commit. `engine` says
        where they run: `local`, in the memory of this process, or `spark`.
        """
        chosen = parse_engine(engine, spark=spark)
        basis = self._open.at(branch, commit, action=Action.READ)
        return analyses.Algorithms(
            selections.parse_selection(edges, basis.catalog),
            basis=basis,
            is_past=commit is not None,
            engine=chosen,
            spark=spark,
            opened=self._open,
        )
