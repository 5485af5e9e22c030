"""Bugs planted in recovery: judging what was left, finishing it, undoing it, writing it down."""

from tests.mutants.planting import Edit, Mutant

CLASSIFY = "engine/commit/recover.py"
RECOVER = "engine/commit/recover.py"

CLASSES = "tests/unit/engine/commit/test_recover.py"
PLANTED = "tests/behaviour/recovery/test_misleading_records.py"
RECOVERY = "tests/behaviour/recovery/test_recovery.py"

RECOVERY_MUTANTS = (
    # Judging
    Mutant(
        "trust the number of a version",
        (
            Edit(
                RECOVER,
                "is_complete=pin.transaction_uuid in uuids,",
                "is_complete=uuids[-1] is not None,",
            ),
        ),
        (RECOVERY,),
    ),
    Mutant(
        "take a version that is next for the planned one",
        (Edit(CLASSIFY, "if is_planned and facts.is_complete:", "if is_planned:"),),
        (CLASSES,),
    ),
    Mutant(
        "finish a write that moved some of its tables",
        (
            Edit(
                CLASSIFY,
                "found == {PinClass.ROLLED_PAST_EXPECTED}",
                "PinClass.ROLLED_PAST_EXPECTED in found",
            ),
        ),
        (RECOVERY,),
    ),
    Mutant(
        "recover a writer that lives",
        (Edit(RECOVER, "self.free_locks.hold(_lock_keys(sidecar))", "self.free_locks.hold([])"),),
        (PLANTED,),
    ),
    Mutant(
        "recover from a record that is gone by now",
        (Edit(RECOVER, "if self._find_sidecar(path) is not None:", "if path:"),),
        (PLANTED,),
    ),
    Mutant(
        "recover when a reader opens",
        (
            Edit(
                "engine/graph.py",
                "        graph._open.pin(MAIN)  # noqa: SLF001\n",
                "        graph._open.writes.recover()\n",
            ),
        ),
        (RECOVERY,),
    ),
    # Finishing
    Mutant(
        "finish a write as another commit",
        (
            Edit(
                RECOVER,
                "            commit_id=sidecar.commit_id,\n            created_at",
                "            commit_id=self.runtime.new_id(),\n            created_at",
            ),
        ),
        (RECOVERY,),
    ),
    Mutant(
        "finish a write in the name of recovery",
        (
            Edit(
                RECOVER,
                "            actor=sidecar.actor,\n            merged_parent_id",
                "            merged_parent_id",
            ),
        ),
        (RECOVERY,),
    ),
    Mutant(
        "finish a merge with one parent",
        (Edit(RECOVER, "            merged_parent_id=sidecar.merged_parent_id,\n", ""),),
        ("tests/behaviour/merge/test_merge.py",),
    ),
    Mutant(
        "finish a write whatever has changed since",
        (Edit(RECOVER, "            expected=sidecar.relied_on,\n", ""),),
        (RECOVERY,),
    ),
    # Undoing
    Mutant(
        "restore and publish nothing",
        (
            Edit(
                RECOVER,
                "        self._publish(intent, state, held)\n        for pin in moved:",
                "        for pin in moved:",
            ),
        ),
        (RECOVERY,),
    ),
    Mutant(
        "undo again what was undone",
        (
            Edit(
                RECOVER,
                "seen.newest if seen.is_undone else self._restore(pin, sidecar, seen)",
                "self._restore(pin, sidecar, seen)",
            ),
        ),
        (RECOVERY,),
    ),
    Mutant(
        "undo what others have done",
        (Edit(RECOVER, "return seen.has_landed and seen.newest", "return seen.newest"),),
        (RECOVERY,),
    ),
    Mutant(
        "take over the table branch that a killed writer left",
        (
            Edit(
                "engine/commit/staging.py",
                "        tables.delete_branch(table_branch)\n",
                "        return replace(entry, branch=branch)\n",
            ),
        ),
        (PLANTED,),
    ),
    # Writing it down
    Mutant(
        "disarm before the audit",
        (
            Edit(
                RECOVER,
                "        self.failpoints.maybe_fail(Failpoint.RECOVERY_RECORD_AUDIT)\n",
                "        disarm(sidecar.operation_id, objects=self.stores.objects)\n"
                "        self.failpoints.maybe_fail(Failpoint.RECOVERY_RECORD_AUDIT)\n",
            ),
        ),
        (RECOVERY,),
    ),
    Mutant(
        "write a recovery down twice",
        (
            Edit(
                "engine/commit/audit.py",
                "    if not tables.count(at, predicate=known):\n",
                "    if known:\n",
            ),
        ),
        (
            "tests/faults/test_cut_recovery.py::"
            "test_a_recovery_interrupted_anywhere_has_the_same_outcome",
        ),
    ),
)
