"""Moving graphs: creating, migrating and deleting them, one at a time, each behind a sidecar.

*Arm* the sidecar, *move* the graph, put what it became into the ledger that will be written. The
first that fails ends it: later graphs are left as they are. Writes no ledger and disarms nothing
that the ledger must know of first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.cluster.addresses import graph_address, schema_address
from omnigraph.cluster.approvals import Approval, require_standing
from omnigraph.cluster.desired import Desired
from omnigraph.cluster.findings import Findings, StoppedError
from omnigraph.cluster.graphs import Absent, Live
from omnigraph.cluster.ledger import Ledger, ResourceStatus, Status
from omnigraph.cluster.plan import Gate
from omnigraph.cluster.recoveries import MoveKind, Sidecar, arm
from omnigraph.cluster.sweep import bury, retire, roll_forward
from omnigraph.cluster.world import Cluster
from omnigraph.model.errors import AlreadyExistsError, GraphError, MovedError, RequestError

_FAILED = {
    MoveKind.GRAPH_CREATE: "graph_create_failed",
    MoveKind.SCHEMA_APPLY: "schema_apply_failed",
    MoveKind.GRAPH_DELETE: "graph_delete_failed",
}
_SKIPPED = {
    MoveKind.GRAPH_CREATE: "graph_create_skipped",
    MoveKind.SCHEMA_APPLY: "schema_apply_skipped",
    MoveKind.GRAPH_DELETE: "graph_delete_skipped",
}


@dataclass(slots=True)
class Moves:
    """The moves of one apply, and what came of them so far."""

    cluster: Cluster
    desired: Desired
    ledger: Ledger
    cas: str
    actor: str | None
    approvals: tuple[Approval, ...]
    findings: Findings
    moved: list[Sidecar] = field(default_factory=list)
    reason_by_stuck: dict[str, str] = field(default_factory=dict)
    has_failed: bool = False

    def create(self, id: str) -> None:
        """Create a graph."""
        schema = self.desired.schemas[id]
        sidecar = self._sidecar(MoveKind.GRAPH_CREATE, id, observed=None, approval_id=None)
        if not self._may_go(sidecar):
            return
        try:
            self._require_room(id)
            arm(sidecar, self.cluster.objects)
            # A crash from here on is settled by the next sweep.
            live = self.cluster.graphs.create(id, schema.source)
        except (GraphError, StoppedError) as error:
            self._fail(sidecar, error)
            return
        self._keep(sidecar, live)

    def apply_schema(self, id: str) -> None:
        """Give a graph the desired schema; one that means the same is only written down."""
        schema = self.desired.schemas[id]
        sidecar = self._sidecar(MoveKind.SCHEMA_APPLY, id, observed=None, approval_id=None)
        if not self._may_go(sidecar):
            return
        try:
            before = self.cluster.graphs.observe(id)
            if isinstance(before, Live) and before.meaning == schema.meaning:
                self.ledger = roll_forward(self.ledger, id, before, digest=schema.digest)
                return
            observed = before.manifest_version if isinstance(before, Live) else None
            sidecar = self._sidecar(MoveKind.SCHEMA_APPLY, id, observed=observed, approval_id=None)
            arm(sidecar, self.cluster.objects)
            live = self.cluster.graphs.apply_schema(id, schema.source, actor=self.actor)
        except (GraphError, StoppedError) as error:
            self._fail(sidecar, error)
            return
        self._keep(sidecar, live)

    def delete(self, gate: Gate, id: str) -> None:
        """Delete a graph that somebody agreed to delete."""
        assert gate.approval is not None, "only approved deletions get here"
        sidecar = self._sidecar(
            MoveKind.GRAPH_DELETE, id, observed=None, approval_id=gate.approval.id
        )
        if not self._may_go(sidecar):
            return
        try:
            require_standing(gate.approval, self.cluster.objects)
            arm(sidecar, self.cluster.objects)
            self.cluster.graphs.delete(id)
        except (GraphError, StoppedError) as error:
            self._fail(sidecar, error)
            return
        self.moved.append(sidecar)
        self.ledger = bury(
            self.cluster,
            self.ledger,
            id,
            approval_id=gate.approval.id,
            approvals=self.approvals,
            actor=self.actor,
        )

    def _keep(self, sidecar: Sidecar, live: Live) -> None:
        self.moved.append(sidecar)
        digest = self.desired.schemas[sidecar.graph_id].digest
        self.ledger = roll_forward(self.ledger, sidecar.graph_id, live, digest=digest)

    def _require_room(self, id: str) -> None:
        """Raise if something is where a graph is to be created: nobody here knows whose it is."""
        if isinstance(self.cluster.graphs.observe(id), Absent):
            return
        raise AlreadyExistsError(
            kind="graph",
            name=id,
            advice="`omnigraph cluster refresh` takes a graph that is there into the state",
        )

    def _may_go(self, sidecar: Sidecar) -> bool:
        if not self.has_failed:
            return True
        code = _SKIPPED[sidecar.kind]
        self.findings.warn(
            code,
            graph_address(sidecar.graph_id),
            "it was left as it is, because a change of another graph failed",
        )
        self.reason_by_stuck[sidecar.graph_id] = code
        return False

    def _fail(self, sidecar: Sidecar, error: GraphError | StoppedError) -> None:
        id, code = sidecar.graph_id, _FAILED[sidecar.kind]
        self.has_failed = True
        self.reason_by_stuck[id] = code
        reason = str(error)
        if isinstance(error, StoppedError):
            # What kept it from moving has a code of its own.
            self.findings.add(error.findings)
        self.findings.error(code, graph_address(id), f"{sidecar.graph_uri}: {reason}")
        is_create = sidecar.kind is MoveKind.GRAPH_CREATE
        address = graph_address(id) if is_create else schema_address(id)
        if sidecar.kind is not MoveKind.GRAPH_DELETE:
            self.ledger = self.ledger.telling(
                address, ResourceStatus(Status.ERROR, (code,), reason)
            )
        # A refusal is the only failure after which it is known that nothing happened.
        is_refusal = isinstance(error, RequestError | MovedError)
        if is_refusal and sidecar.kind is MoveKind.SCHEMA_APPLY:
            retire(self.cluster, (sidecar,), self.findings)

    def _sidecar(
        self, kind: MoveKind, id: str, *, observed: int | None, approval_id: str | None
    ) -> Sidecar:
        schema = self.desired.schemas.get(id)
        expected = 1 if kind is MoveKind.GRAPH_CREATE else None
        if observed is not None:
            expected = observed + 1
        return Sidecar(
            id=self.cluster.world.runtime.new_id(),
            started_at=self.cluster.now(),
            actor=self.actor,
            kind=kind,
            graph_id=id,
            graph_uri=self.cluster.graphs.uri_of(id),
            observed_version=observed,
            expected_version=expected,
            desired_digest=None if schema is None else schema.digest,
            desired_meaning=None if schema is None else schema.meaning,
            cas_base=self.cas,
            approval_id=approval_id,
        )
