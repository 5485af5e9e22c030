"""Which policy a command is about, of those that could be meant, ready to be asked.

The one place that chooses. A policy that comes out of here is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cli.bundle_places import Candidate, list_applied, list_written
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.scopes import ClusterScope
from omnigraph.cluster.addresses import CLUSTER, graph_address, name_of
from omnigraph.model.errors import InvalidValueError
from omnigraph.policy.bundle import BundleKind, parse_bundle, read_bundle
from omnigraph.policy.cedar import CEDAR_SUFFIX
from omnigraph.policy.gate import PolicyGate, open_gate

_GRAPH_OTHERWISE = "default"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The policy that is meant, and the gate that it makes.

    `actors` are those whom it knows, None where its rules themselves say who is meant; `warnings`
    tell what is written in it and means nothing.
    """

    name: str
    gate: PolicyGate
    actors: frozenset[str] | None
    warnings: tuple[str, ...]


def open_applied_bundle(
    scope: ClusterScope, *, bundle: str | None, environment: Mapping[str, str]
) -> Chosen:
    """The policy that flags name, of those that a cluster has applied."""
    candidates = list_applied(scope, environment)
    return _open_bound(_choose(candidates, graph=scope.graph, bundle=bundle), graph=scope.graph)


def open_written_bundle(path: str, *, graph: str | None, bundle: str | None) -> Chosen:
    """The policy that flags name, of those in files."""
    found = _choose(list_written(Path(path), graph=graph), graph=graph, bundle=bundle)
    if found.applies_to is not None:
        return _open_bound(found, graph=graph)
    graph_id = graph or _GRAPH_OTHERWISE
    try:
        return _open(found, kind=BundleKind.GRAPH, graph_id=graph_id)
    except InvalidValueError as error:
        # What makes no sense for a graph may be the policy of a server.
        try:
            return _open(found, kind=BundleKind.SERVER, graph_id=None)
        except InvalidValueError:
            raise error from None


def _open_bound(found: Candidate, *, graph: str | None) -> Chosen:
    """A policy of which it is declared what it applies to; it is valid for all of that."""
    bindings = found.applies_to or ()
    graphs = [name_of(each) for each in bindings if each != CLUSTER]
    opened: list[Chosen] = []
    if graphs:
        graph_id = graph if graph in graphs else graphs[0]
        opened.append(_open(found, kind=BundleKind.GRAPH, graph_id=graph_id))
    if CLUSTER in bindings:
        opened.append(_open(found, kind=BundleKind.SERVER, graph_id=None))
    if not opened:
        raise CommandError(f"policy '{found.name}' applies to nothing; bind it in cluster.yaml")
    return opened[0]


def _open(found: Candidate, *, kind: BundleKind, graph_id: str | None) -> Chosen:
    match found.source:
        case Path() as path if path.suffix == CEDAR_SUFFIX:
            return Chosen(found.name, open_gate(path, kind=kind, graph_id=graph_id), None, ())
        case Path() as path:
            bundle = read_bundle(path, kind=kind)
        case content:
            bundle = parse_bundle(content, kind=kind, name=found.name)
    gate = open_gate(bundle, kind=kind, graph_id=graph_id)
    return Chosen(found.name, gate, bundle.actors, bundle.warnings)


def _choose(candidates: Sequence[Candidate], *, graph: str | None, bundle: str | None) -> Candidate:
    if bundle is not None:
        return _choose_by_name(candidates, bundle)
    if graph is None or (len(candidates) == 1 and candidates[0].applies_to is None):
        return _require_one(candidates)
    if any(each.applies_to is not None for each in candidates):
        return _choose_by_graph(candidates, graph)
    return _choose_by_name(candidates, graph)


def _choose_by_name(candidates: Sequence[Candidate], name: str) -> Candidate:
    for each in candidates:
        file = each.source.name if isinstance(each.source, Path) else None
        if name in (each.name, file):
            return each
    raise CommandError(f"there is no policy '{name}'; there is: {_names_of(candidates)}")


def _choose_by_graph(candidates: Sequence[Candidate], graph: str) -> Candidate:
    """The policy of a graph, else that of the whole cluster."""
    for scope in (graph_address(graph), CLUSTER):
        bound = [each for each in candidates if scope in (each.applies_to or ())]
        if bound:
            return _require_one(bound)
    raise CommandError(
        f"no policy applies to graph '{graph}'; choose one with --bundle NAME: "
        f"{_names_of(candidates)}"
    )


def _require_one(candidates: Sequence[Candidate]) -> Candidate:
    if len(candidates) > 1:
        raise CommandError(
            f"there are {len(candidates)} policies: {_names_of(candidates)}; say which with "
            "--bundle NAME"
        )
    return candidates[0]


def _names_of(candidates: Iterable[Candidate]) -> str:
    return ", ".join(each.name for each in candidates)
