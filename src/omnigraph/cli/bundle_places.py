"""Where policies are: in files, in a cluster's declarations, or among what it has applied.

Says what could be meant, and chooses nothing. Reads whole files but for those of a plain path,
which may have others beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.cli.applied_clusters import open_applied, telling_findings
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.scopes import ClusterScope
from omnigraph.cluster.config import CONFIG_FILE, ClusterConfig
from omnigraph.cluster.desired import read_config
from omnigraph.cluster.findings import Findings, StoppedError
from omnigraph.cluster.sources import read_policy_files
from omnigraph.model.deferred import defer
from omnigraph.policy.cedar import CEDAR_SUFFIX

if TYPE_CHECKING:
    from omnigraph.cluster import applied
else:
    # It brings the engine with it, and files do without.
    applied = defer("omnigraph.cluster.applied")

_YAML_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that could be meant; its source is a file, or the text of a bundle.

    `applies_to` are `cluster` and addresses of graphs; None where nobody has declared that.
    """

    name: str
    source: Path | bytes
    applies_to: tuple[str, ...] | None


def list_applied(scope: ClusterScope, environment: Mapping[str, str]) -> tuple[Candidate, ...]:
    """The policies that a cluster has applied, each as its digest says that it was."""
    cluster = open_applied(scope.root, environment)
    with telling_findings():
        if scope.graph is not None:
            # For its error: a graph that is not there is another mistake than one without a policy.
            applied.get_graph_uri(cluster, scope.graph)
        found = applied.read_policies(cluster)
    if not found:
        raise CommandError(f"no policy is applied in cluster {cluster.root.uri}")
    return tuple(Candidate(each.name, each.content, each.applies_to) for each in found)


def list_written(path: Path, *, graph: str | None) -> tuple[Candidate, ...]:
    """The policies of a path: a file, the declarations of a cluster, or a folder of files."""
    if not path.is_dir():
        return (Candidate(path.stem, path, None),)
    if (path / CONFIG_FILE).is_file():
        return _list_declared(path, graph=graph)
    cedar = sorted(path.glob(f"*{CEDAR_SUFFIX}"))
    # Beside policies in Cedar's language stand their groups, which are no policy.
    taken = {each.stem for each in cedar}
    files = sorted(each for each in path.iterdir() if each.suffix in _YAML_SUFFIXES)
    chosen = [*cedar, *(each for each in files if each.stem not in taken)]
    if not chosen:
        raise CommandError(f"there is no policy in '{path}': no .yaml and no .cedar file")
    return tuple(Candidate(each.stem, each, None) for each in sorted(chosen))


def _list_declared(folder: Path, *, graph: str | None) -> tuple[Candidate, ...]:
    findings = Findings()
    with telling_findings():
        config = _read_config(folder, findings)
        files = read_policy_files(config, folder, findings)
        if findings.has_errors:
            raise StoppedError(*findings)
    if graph is not None and graph not in config.graphs:
        raise CommandError(
            f"{folder / CONFIG_FILE} declares no graph '{graph}'; "
            f"{_listed('graphs', config.graphs)}"
        )
    if not files:
        raise CommandError(f"{folder / CONFIG_FILE} declares no policy")
    return tuple(
        Candidate(name, file.content, config.policies[name].applies_to)
        for name, file in sorted(files.items())
    )


def _read_config(folder: Path, findings: Findings) -> ClusterConfig:
    try:
        return read_config(folder, findings)
    except StoppedError:
        raise StoppedError(*findings) from None


def _listed(kind: str, names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return f"its {kind}: {listed}" if listed else f"it has no {kind}"
