"""Which policy a command is about.

The one place that chooses: today among files that a path names. A policy of a cluster would be one
more source of `Candidate`s here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cli.refusals import CommandError
from omnigraph.model.errors import InvalidValueError
from omnigraph.policy.bundle import BundleKind, read_bundle
from omnigraph.policy.cedar import CEDAR_SUFFIX
from omnigraph.policy.gate import PolicyGate, open_gate

_YAML_SUFFIXES = (".yaml", ".yml")
_GRAPH_OTHERWISE = "default"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that could be meant, and its file."""

    name: str
    path: Path


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


def open_chosen(
    *, config: str | None, cluster: str | None, graph: str | None, bundle: str | None
) -> Chosen:
    """The policy that flags name, ready to be asked; it is valid."""
    found = _choose(_list_candidates(config=config, cluster=cluster), graph=graph, bundle=bundle)
    try:
        return _open(found, kind=BundleKind.GRAPH, graph_id=graph or _GRAPH_OTHERWISE)
    except InvalidValueError as error:
        # What makes no sense for a graph may be the policy of a server.
        try:
            return _open(found, kind=BundleKind.SERVER, graph_id=None)
        except InvalidValueError:
            raise error from None


def _open(found: Candidate, *, kind: BundleKind, graph_id: str | None) -> Chosen:
    if found.path.suffix == CEDAR_SUFFIX:
        return Chosen(found.name, open_gate(found.path, kind=kind, graph_id=graph_id), None, ())
    bundle = read_bundle(found.path, kind=kind)
    gate = open_gate(bundle, kind=kind, graph_id=graph_id)
    return Chosen(found.name, gate, bundle.actors, bundle.warnings)


def _list_candidates(*, config: str | None, cluster: str | None) -> tuple[Candidate, ...]:
    if cluster is not None:
        raise CommandError(
            "there are no clusters yet; name the policy's file, or the folder of several, with "
            "--config PATH"
        )
    if config is None:
        raise CommandError("name the policy's file, or the folder of several, with --config PATH")
    path = Path(config)
    if not path.is_dir():
        return (Candidate(path.stem, path),)
    cedar = sorted(path.glob(f"*{CEDAR_SUFFIX}"))
    # Beside policies in Cedar's language stand their groups, which are no policy.
    taken = {each.stem for each in cedar}
    files = sorted(each for each in path.iterdir() if each.suffix in _YAML_SUFFIXES)
    chosen = [*cedar, *(each for each in files if each.stem not in taken)]
    if not chosen:
        raise CommandError(f"there is no policy in '{config}': no .yaml and no .cedar file")
    return tuple(Candidate(each.stem, each) for each in sorted(chosen))


def _choose(candidates: Sequence[Candidate], *, graph: str | None, bundle: str | None) -> Candidate:
    if len(candidates) == 1 and bundle is None:
        return candidates[0]
    names = ", ".join(each.name for each in candidates)
    wanted = bundle if bundle is not None else graph
    if wanted is None:
        raise CommandError(
            f"there are {len(candidates)} policies: {names}; say which with --bundle NAME"
        )
    for each in candidates:
        if wanted in (each.name, each.path.name):
            return each
    raise CommandError(f"there is no policy '{wanted}'; there is: {names}")
