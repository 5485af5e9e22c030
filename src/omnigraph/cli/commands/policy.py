"""The commands `policy validate`, `policy test` and `policy explain`; selection of a policy.

A policy comes from a file, a folder, a cluster configuration or the applied state of a cluster.
Ambiguous selections are rejected, and a selected policy is always valid. Only the applied state
needs the engine, which is imported then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli.advice import write_command, write_options
from omnigraph.cli.command import command
from omnigraph.cli.inputs import read_bytes
from omnigraph.cli.invocation import Invocation, open_applied, translate_findings
from omnigraph.cli.output import CommandError, print_line, print_note, show_count
from omnigraph.cli.targets import ClusterScope
from omnigraph.cluster.config import CONFIG_FILE
from omnigraph.cluster.desired import read_config
from omnigraph.cluster.resources import CLUSTER, Findings, StoppedError, graph_address, name_of
from omnigraph.cluster.sources import read_policy_files
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.runtime import lazy_module
from omnigraph.policy import checking
from omnigraph.policy.bundle import BundleKind, parse_bundle, read_bundle
from omnigraph.policy.cedar import CEDAR_SUFFIX
from omnigraph.policy.gate import PolicyGate, open_gate
from omnigraph.storage.environment import expand_home

if TYPE_CHECKING:
    from omnigraph.cluster import catalog
else:
    # Imported lazily: it imports the engine, which policy files do not need.
    catalog = lazy_module("omnigraph.cluster.catalog")

_YAML_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that may be selected; its source is a file, or the text of a bundle.

    `applies_to` are `cluster` and addresses of graphs; None if that is not declared.
    """

    name: str
    source: Path | bytes
    applies_to: tuple[str, ...] | None


def _list_applied(scope: ClusterScope, environment: Mapping[str, str]) -> tuple[Candidate, ...]:
    """The policies that a cluster has applied, each with the content of its digest."""
    cluster = open_applied(scope.root, environment)
    with translate_findings():
        if scope.graph is not None:
            # Called for its error: a missing graph is a different error than a graph without a
            # policy.
            catalog.get_graph_uri(cluster, scope.graph)
        found = catalog.read_policies(cluster)
    if not found:
        raise CommandError(f"no policy is applied in cluster {cluster.root.uri}")
    return tuple(Candidate(each.name, each.content, each.applies_to) for each in found)


def _list_files(path: Path, *, graph: str | None) -> tuple[Candidate, ...]:
    """The policies of a path: a file, the declarations of a cluster, or a folder of files."""
    if not path.is_dir():
        return (Candidate(path.stem, path, None),)
    if (path / CONFIG_FILE).is_file():
        return _list_declared(path, graph=graph)
    cedar = sorted(path.glob(f"*{CEDAR_SUFFIX}"))
    # A YAML file with the name of a Cedar file holds its groups and is not a policy.
    taken = {each.stem for each in cedar}
    files = sorted(each for each in path.iterdir() if each.suffix in _YAML_SUFFIXES)
    chosen = [*cedar, *(each for each in files if each.stem not in taken)]
    if not chosen:
        raise CommandError(f"there is no policy in '{path}': no .yaml and no .cedar file")
    return tuple(Candidate(each.stem, each, None) for each in sorted(chosen))


def _list_declared(folder: Path, *, graph: str | None) -> tuple[Candidate, ...]:
    findings = Findings()
    with translate_findings():
        try:
            config = read_config(folder, findings)
        except StoppedError:
            raise StoppedError(*findings) from None
        files = read_policy_files(config, folder, findings)
        if findings.has_errors:
            raise StoppedError(*findings)
    if graph is not None and graph not in config.graphs:
        listed = ", ".join(sorted(config.graphs))
        known = f"its graphs: {listed}" if listed else "it has no graphs"
        raise CommandError(f"{folder / CONFIG_FILE} declares no graph '{graph}'; {known}")
    if not files:
        raise CommandError(f"{folder / CONFIG_FILE} declares no policy")
    return tuple(
        Candidate(name, file.content, config.policies[name].applies_to)
        for name, file in sorted(files.items())
    )


_GRAPH_OTHERWISE = "default"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The selected policy and its gate.

    `actors` are the actors that it declares, None if its rules themselves name them; `warnings`
    describe parts that have no effect.
    """

    name: str
    gate: PolicyGate
    actors: frozenset[str] | None
    warnings: tuple[str, ...]


def _open_written(path: str, *, graph: str | None, bundle: str | None) -> Chosen:
    """The selected policy among those in files."""
    found = _choose(_list_files(expand_home(path), graph=graph), graph=graph, bundle=bundle)
    if found.applies_to is not None:
        return _open_bound(found, graph=graph)
    graph_id = graph or _GRAPH_OTHERWISE
    try:
        return _open_bundle(found, kind=BundleKind.GRAPH, graph_id=graph_id)
    except InvalidValueError as error:
        # A policy that is invalid for a graph may be the policy of a server.
        try:
            return _open_bundle(found, kind=BundleKind.SERVER, graph_id=None)
        except InvalidValueError:
            raise error from None


def _open_bound(found: Candidate, *, graph: str | None) -> Chosen:
    """A policy with declared bindings, validated for each kind of binding."""
    bindings = found.applies_to or ()
    graphs = [name_of(each) for each in bindings if each != CLUSTER]
    opened: list[Chosen] = []
    if graphs:
        graph_id = graph if graph in graphs else graphs[0]
        opened.append(_open_bundle(found, kind=BundleKind.GRAPH, graph_id=graph_id))
    if CLUSTER in bindings:
        opened.append(_open_bundle(found, kind=BundleKind.SERVER, graph_id=None))
    if not opened:
        raise CommandError(f"policy '{found.name}' applies to nothing; bind it in cluster.yaml")
    return opened[0]


def _open_bundle(found: Candidate, *, kind: BundleKind, graph_id: str | None) -> Chosen:
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
    """The policy of a graph, or else that of the whole cluster."""
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
            f"there are {len(candidates)} policies: {_names_of(candidates)}; choose one with "
            "--bundle NAME"
        )
    return candidates[0]


def _names_of(candidates: Iterable[Candidate]) -> str:
    return ", ".join(each.name for each in candidates)


_CONFIG_OPTION = click.option(
    "--config",
    metavar="PATH",
    help="A policy file, a folder of policy files, or a folder with `cluster.yaml`.",
)
_BUNDLE_OPTION = click.option(
    "--bundle", metavar="NAME", help="The name of the policy, if there are several."
)


@command(_CONFIG_OPTION, _BUNDLE_OPTION)
def validate(invocation: Invocation, *, config: str | None, bundle: str | None) -> None:
    """Check that a policy can be read and that its rules are valid."""
    chosen = _open(invocation, config=config, bundle=bundle)
    for warning in chosen.warnings:
        print_note(f"warning: {warning}")
    known = "" if chosen.actors is None else f" [{show_count(len(chosen.actors), 'actor')}]"
    print_line(f"policy valid: bundle '{chosen.name}'{known}")


@command()
@_CONFIG_OPTION
@_BUNDLE_OPTION
@click.option("--tests", "tests_path", required=True, metavar="FILE", help="The test cases, YAML.")
def test(
    invocation: Invocation, *, config: str | None, bundle: str | None, tests_path: str
) -> None:
    """Evaluate a policy for each case of a file, and compare with the expected decisions.

    Exits with 1 if a decision differs.
    """
    chosen = _open(invocation, config=config, bundle=bundle)
    report = checking.run_cases(
        chosen.gate, checking.parse_cases(read_bytes(tests_path), name=tests_path)
    )
    if not report.mismatches:
        print_line(f"policy tests passed: {show_count(report.case_count, 'case')}")
        return
    ids = ", ".join(each.case.id for each in report.mismatches)
    failed = f"{len(report.mismatches)} of {show_count(report.case_count, 'case')}"
    print_note(f"Error: {failed} failed: {ids}")
    for each in report.mismatches:
        wanted = "allow" if each.case.is_to_be_allowed else "deny"
        print_note(f"    {each.case.id}: expected {wanted}, but {each.decision.message}")
    request = report.mismatches[0].case.access
    options = write_options(
        [
            ("--config", config),
            ("--cluster", invocation.flags.cluster),
            ("--profile", invocation.flags.profile),
            ("--graph", invocation.flags.graph),
            ("--bundle", bundle),
            ("--actor", request.actor),
            ("--action", request.action.value),
            ("--branch", request.branch),
            ("--target-branch", request.target),
        ]
    )
    again = write_command("policy", "explain", *options, target=None)
    print_note(f"To explain the first one, run:\n\n  {again}")
    sys.exit(1)


@command()
@_CONFIG_OPTION
@_BUNDLE_OPTION
@click.option("--actor", required=True, metavar="ACTOR", help="The actor of the request.")
@click.option("--action", required=True, metavar="ACTION", help="The action, such as `change`.")
@click.option("--branch", metavar="BRANCH", help="The branch that is read or changed.")
@click.option(
    "--target-branch", metavar="BRANCH", help="The branch that is merged into or created."
)
def explain(
    invocation: Invocation,
    *,
    config: str | None,
    bundle: str | None,
    actor: str,
    action: str,
    branch: str | None,
    target_branch: str | None,
) -> None:
    """Show whether an actor may perform an action, and by which rule."""
    chosen = _open(invocation, config=config, bundle=bundle)
    decision = checking.explain(
        chosen.gate, actor=actor, action=action, branch=branch, target=target_branch
    )
    for line in checking.describe(decision):
        print_line(line)


def _open(invocation: Invocation, *, config: str | None, bundle: str | None) -> Chosen:
    """The policy in the named files, or else of the cluster."""
    flags = invocation.flags
    if config is not None and flags.cluster is not None:
        raise CommandError("--config and --cluster are mutually exclusive; remove one of them")
    if config is not None:
        return _open_written(config, graph=flags.graph, bundle=bundle)
    scope = invocation.find_cluster_scope()
    if scope is None:
        raise CommandError(
            "name the cluster of the policy with --cluster <dir|uri|name>, or its "
            "file or folder with --config PATH"
        )
    candidates = _list_applied(scope, invocation.environment)
    return _open_bound(_choose(candidates, graph=scope.graph, bundle=bundle), graph=scope.graph)
