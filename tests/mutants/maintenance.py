"""Bugs in schema changes and in maintenance: partial acceptance, or deletion of what is needed."""

from tests.mutants.planting import Edit, Mutant

CLEANUP = "tests/behaviour/maintenance/test_cleanup.py"

MAINTENANCE_MUTANTS = (
    Mutant(
        "publish under a schema that was replaced meanwhile",
        (
            Edit(
                "engine/commit/publish.py",
                "        require_schema(intent.replaced_hash or intent.schema_hash, state)\n",
                "",
            ),
            Edit(
                "engine/commit/protocol.py",
                "require_schema(basis.accepted_schema.schema_hash, self.branch_states.state(MAIN))",
                "pass",
            ),
        ),
        ("tests/behaviour/concurrency/test_overtaken_writes.py",),
    ),
    Mutant(
        "accept a schema whose text was never staged",
        (
            Edit(
                "engine/commit/recover.py",
                "case Decision.ROLL_FORWARD if not is_staged:",
                "case Decision.ROLL_FORWARD if False:",
            ),
        ),
        ("tests/behaviour/schema/test_apply.py",),
    ),
    Mutant(
        "clean up what a tag names",
        (
            Edit(
                "engine/maintenance/cleanup.py",
                "        self.versions.update(self._find_tagged(tags))\n",
                "",
            ),
        ),
        (CLEANUP,),
    ),
    Mutant(
        "clean up what is being read",
        (Edit("engine/maintenance/cleanup.py", "self.readers.find_read() | ", ""),),
        (CLEANUP,),
    ),
    Mutant(
        "join files and leave indexes as if they knew the joined ones",
        (
            Edit(
                "storage/lance/compaction.py",
                "        or (index.kind is not IndexKind.BTREE and",
                "        or (index.kind is IndexKind.BTREE and",
            ),
        ),
        ("tests/behaviour/tables/test_layout.py",),
    ),
    Mutant(
        "convert timestamps and leave indexes with values of the old type",
        (
            Edit(
                "storage/lance/compaction.py",
                "        if converted.intersection(index.columns)\n        or (",
                "        if (",
            ),
        ),
        ("tests/behaviour/tables/test_values.py",),
    ),
)
