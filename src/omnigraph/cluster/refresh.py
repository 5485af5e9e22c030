"""`refresh` and `import`: making the ledger say what is really there.

Graphs are opened for reading only. What is found becomes what counts as applied, so that the next
apply starts from the truth; where that differs from what was applied, the status says drifted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omnigraph.cluster.addresses import graph_address, schema_address
from omnigraph.cluster.approvals import list_approvals
from omnigraph.cluster.catalog_blobs import BadBlob, BlobFault, check_blob, has_blob
from omnigraph.cluster.desired import Desired
from omnigraph.cluster.findings import Findings, StoppedError, error_finding, telling
from omnigraph.cluster.graphs import Absent, Broken, Live, Remains
from omnigraph.cluster.ledger import (
    APPLIED,
    EMPTY,
    STATE_PATH,
    AppliedResource,
    Ledger,
    ResourceStatus,
    Status,
    create_ledger,
    find_ledger,
    get_ledger,
    replace_ledger,
)
from omnigraph.cluster.reports import StateReport
from omnigraph.cluster.session import Session
from omnigraph.cluster.sweep import encode_live, retire, sweep
from omnigraph.cluster.world import Cluster, World


def refresh(folder: Path, world: World, *, actor: str | None) -> StateReport:
    """Look at every graph and content again, and write what was found."""
    session = Session(folder, world, Findings())
    with session.findings.stopping():
        cluster, desired = session.open_desired()
        with session.holding("refresh", is_locked=desired.config.is_locked, actor=actor):
            stored = get_ledger(cluster.objects)
            approvals = list_approvals(cluster.objects, session.findings)
            swept = sweep(cluster, stored.ledger, approvals, session.findings)
            ledger = _observe_graphs(
                cluster, desired, swept.ledger, swept.pending, session.findings
            )
            ledger = _check_blobs(cluster, ledger, session.findings)
            replace_ledger(ledger, over=stored, objects=cluster.objects)
            retire(cluster, swept.retired, session.findings)
    facts = session.facts()
    return StateReport(session.heading(), "refresh", facts)


def import_cluster(folder: Path, world: World, *, actor: str | None) -> StateReport:
    """Write the first state of a cluster: of graphs that are there already, what they are."""
    session = Session(folder, world, Findings())
    with session.findings.stopping():
        cluster, desired = session.open_desired()
        with session.holding("import", is_locked=desired.config.is_locked, actor=actor):
            if find_ledger(cluster.objects) is not None:
                raise StoppedError(
                    error_finding(
                        "state_already_exists",
                        STATE_PATH,
                        "the cluster has a state already; `omnigraph cluster refresh` looks at "
                        "it anew",
                    )
                )
            swept = sweep(cluster, EMPTY, (), session.findings)
            ledger = _observe_graphs(
                cluster, desired, swept.ledger, swept.pending, session.findings
            )
            # A state that leaves out a graph which is there would have an apply make it anew.
            session.findings.require_no_errors()
            create_ledger(replace(ledger, revision=1), cluster.objects)
            retire(cluster, swept.retired, session.findings)
    facts = session.facts()
    return StateReport(session.heading(), "import", facts)


def _observe_graphs(
    cluster: Cluster,
    desired: Desired,
    ledger: Ledger,
    pending: frozenset[str],
    findings: Findings,
) -> Ledger:
    for id in sorted({*desired.config.graphs, *ledger.graph_ids()} - pending):
        ledger = _observe_graph(cluster, id, ledger, findings)
    return ledger


def _observe_graph(cluster: Cluster, id: str, ledger: Ledger, findings: Findings) -> Ledger:
    address = graph_address(id)
    with telling("graph_observation_error", address):
        found = cluster.graphs.observe(id)
    match found:
        case Absent():
            return _without_root(cluster, id, ledger, findings)
        case Remains(reason=reason) | Broken(reason=reason):
            findings.error(
                "graph_observation_error",
                address,
                f"{cluster.graphs.uri_of(id)} cannot be opened: {reason}",
            )
            failed = ResourceStatus(Status.ERROR, ("graph_unreadable",), reason)
            return ledger.telling(address, failed)
        case Live():
            return _with_live(id, ledger, found, findings)


def _without_root(cluster: Cluster, id: str, ledger: Ledger, findings: Findings) -> Ledger:
    """A graph that is not there: an apply creates it."""
    address = graph_address(id)
    uri = cluster.graphs.uri_of(id)
    findings.warn("graph_missing", address, f"there is no graph at {uri}; an apply creates it")
    missing = ResourceStatus(Status.DRIFTED, ("graph_missing",), f"there is no graph at {uri}")
    return (
        ledger.without(address)
        .without(schema_address(id))
        .telling(address, missing)
        .observing(address, {"kind": "graph", "exists": False})
    )


def _with_live(id: str, ledger: Ledger, live: Live, findings: Findings) -> Ledger:
    address, schema = graph_address(id), schema_address(id)
    known = ledger.find_digest(schema)
    meaning = ledger.observations.get(address, {}).get("schema_meaning")
    applied = ledger.resources.get(address)
    provider = None if applied is None else applied.embedding_provider
    if known is None or live.is_of(known, meaning):
        digest, status = known or live.digest, APPLIED
    else:
        digest = live.digest
        message = "somebody has changed the schema of the graph itself; an apply changes it back"
        findings.warn("schema_drifted", schema, message)
        status = ResourceStatus(Status.DRIFTED, ("schema_changed",), message)
    return (
        ledger.having(schema, AppliedResource(digest, None, None, None), status)
        .with_graph_digest(id, provider=provider)
        .telling(address, status)
        .observing(address, encode_live(live))
    )


def _check_blobs(cluster: Cluster, ledger: Ledger, findings: Findings) -> Ledger:
    for address, resource in ledger.resources.items():
        if not has_blob(address):
            continue
        found = check_blob(address, resource.digest, cluster.objects)
        if not isinstance(found, BadBlob):
            ledger = ledger.telling(address, APPLIED)
            continue
        if found.fault is BlobFault.UNREADABLE:
            # It may be whole: what was applied stays, and somebody has to look.
            findings.error("catalog_payload_read_error", address, found.message)
            failed = ResourceStatus(Status.ERROR, (str(found.fault),), found.message)
            ledger = ledger.telling(address, failed)
            continue
        findings.warn(
            f"catalog_{found.fault}", address, f"{found.message}; an apply publishes it again"
        )
        drifted = ResourceStatus(Status.DRIFTED, (str(found.fault),), found.message)
        ledger = ledger.without(address).telling(address, drifted)
    for id in ledger.graph_ids():
        applied = ledger.resources[graph_address(id)]
        ledger = ledger.with_graph_digest(id, provider=applied.embedding_provider)
    return ledger
