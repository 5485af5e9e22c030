"""Bugs planted in the write path: preparing, checking, staging, arming, applying, publishing."""

from tests.mutants.planting import Edit, Mutant

PROTOCOL = "engine/commit/protocol.py"
PUBLISH = "engine/commit/publish.py"
RETRY = "engine/ops/retry.py"
MUTATE = "engine/ops/mutate.py"
REQUESTS = "engine/commit/idempotency.py"
PLACES = "storage/lance/id_lookup.py"
PLACES_TESTS = "tests/behaviour/tables/test_row_addresses.py"

CUT = "tests/faults/test_cut_writes.py::test_a_write_interrupted_anywhere_is_atomic"
OVERTAKEN = "tests/behaviour/concurrency/test_overtaken_writes.py"
PLANTED = "tests/behaviour/recovery/test_misleading_records.py"
PUBLISHER = "tests/behaviour/concurrency/test_publisher.py"
PUBLISHING = "tests/behaviour/concurrency/test_publishing.py"
REQUESTS_TESTS = "tests/behaviour/writes/test_idempotency.py"
EMBEDDING = "tests/behaviour/search/test_embedding_on_write.py"

WRITE_PATH_MUTANTS = (
    # The order of a write
    Mutant(
        "publish before apply",
        (
            Edit(
                PROTOCOL,
                "landed = self._apply_all(staged, sidecar, write)",
                "landed = {each.entry.table_key: (each, replace(each.entry.at, "
                "version=each.entry.version + 1)) for each in staged}",
            ),
            Edit(PROTOCOL, "tables.describe(at)", "tables.describe(each.entry.at)"),
            Edit(
                PROTOCOL,
                "        self._conclude(write, sidecar)\n",
                "        self._apply_all(staged, sidecar, write)\n"
                "        self._conclude(write, sidecar)\n",
            ),
        ),
        (CUT,),
    ),
    Mutant(
        "arm after the first table has moved",
        (
            Edit(
                PROTOCOL,
                "        self._arm(sidecar)\n        try:\n",
                "        try:\n",
            ),
            Edit(
                PROTOCOL,
                "                    at = self.stores.tables.apply(each.write)\n",
                "                    at = self.stores.tables.apply(each.write)\n"
                "                    arm(sidecar, objects=self.stores.objects)\n",
            ),
        ),
        (CUT,),
    ),
    Mutant(
        "disarm before the publish",
        (
            Edit(
                PROTOCOL,
                "            landed = self._apply_all(staged, sidecar, write)\n",
                "            landed = self._apply_all(staged, sidecar, write)\n"
                "            disarm(sidecar.operation_id, objects=self.stores.objects)\n",
            ),
        ),
        ("tests/behaviour/recovery/test_recovery.py",),
    ),
    Mutant(
        "never disarm",
        (Edit(PROTOCOL, "        self._conclude(write, sidecar)\n", ""),),
        ("tests/behaviour/writes/test_mutation_commits.py",),
    ),
    Mutant(
        "let the locks go before the durable part",
        (
            Edit(
                PROTOCOL,
                "            return self._make_true(",
                "        return self._make_true(",
            ),
        ),
        (PLANTED,),
    ),
    # What a write relied on
    Mutant(
        "do not look again under the locks",
        (Edit(PROTOCOL, "            self._require_unmoved(write, basis, authorship)\n", ""),),
        (OVERTAKEN,),
    ),
    Mutant(
        "rely only on the types that the write changes",
        (Edit(PROTOCOL, "write.read_set | write.changes.keys()", "frozenset(write.changes)"),),
        (OVERTAKEN,),
    ),
    Mutant(
        "take the read set before the checks have asked",
        (
            Edit(
                MUTATE,
                "        changes = run.changes()\n",
                "        changes, read_set = run.changes(), committed.read_set\n",
            ),
            Edit(MUTATE, "read_set=committed.read_set", "read_set=read_set"),
        ),
        (OVERTAKEN,),
    ),
    Mutant(
        "commit rows whose vectors are still to be asked for",
        (
            Edit(
                RETRY,
                "if _is_due(inputs, is_last=attempts_left <= 0):",
                "if _is_due(inputs, is_last=attempts_left <= 0) and not prepared:",
            ),
        ),
        (f"{EMBEDDING}::test_a_load_fills_empty_vectors_and_keeps_those_that_are_given",),
    ),
    Mutant(
        "keep the vector of a text that has changed",
        (
            Edit(
                MUTATE,
                "if not self._mutation.vectors.policy.follows_text:",
                "if before is not rows:",
            ),
        ),
        (f"{EMBEDDING}::test_a_vector_follows_the_text_that_an_update_changes",),
    ),
    Mutant(
        "repeat a strict write that was overtaken",
        (
            Edit(
                RETRY,
                "write.is_strict and path.has_moved(write, basis)",
                "not write",
            ),
        ),
        (OVERTAKEN,),
    ),
    Mutant(
        "ignore the commit that the caller insists on",
        (Edit(PUBLISH, "expected is not None and state.head.id != expected", "not state"),),
        (PUBLISHING,),
    ),
    Mutant(
        "publish without a look at what was expected",
        (Edit(PUBLISH, "        require_expected(intent.expected, state)\n", ""),),
        (PUBLISHER,),
    ),
    # The publish
    Mutant(
        "add to the manifest and leave the row of the head",
        (
            Edit(
                PUBLISH,
                "tables.stage_replacement(rows, replacing=replacing, onto=state.at)",
                "tables.stage_append(rows, onto=state.at)",
            ),
        ),
        (PUBLISHER,),
    ),
    Mutant(
        "publish only one of the tables",
        (
            Edit(
                PROTOCOL,
                "for each, at in landed.values()",
                "for each, at in [*landed.values()][:1]",
            ),
        ),
        ("tests/behaviour/writes/test_mutation_commits.py",),
    ),
    Mutant(
        "try a lost publish again onto the state that lost",
        (Edit(PUBLISH, "state = branch_states.state(onto.branch)", "state = onto"),),
        (PUBLISHER,),
    ),
    # Requests with a key
    Mutant(
        "look for a key only in the state that the write was prepared on",
        (
            Edit(
                PROTOCOL,
                "        if authorship.request is not None:\n            require_key_unused(",
                "        if not write:\n            require_key_unused(",
            ),
        ),
        (REQUESTS_TESTS,),
    ),
    Mutant(
        "publish what was recorded meanwhile",
        (Edit(PUBLISH, "        _require_first(intent, state, tables)\n", ""),),
        (REQUESTS_TESTS,),
    ),
    Mutant(
        "forget the request of a write that stopped",
        (Edit("engine/commit/recover.py", "            notes=sidecar.notes,\n", ""),),
        (REQUESTS_TESTS,),
    ),
    Mutant(
        "take a read of the base for a read of the branch",
        (
            Edit(
                REQUESTS,
                "(commit.branch, commit.actor) == (state.branch, actor)",
                "commit.actor == actor",
            ),
        ),
        (REQUESTS_TESTS,),
    ),
    Mutant(
        "return a recorded response for any request with its key",
        (Edit(REQUESTS, "recorded.digest != request.digest", "not recorded"),),
        (REQUESTS_TESTS,),
    ),
    Mutant(
        "look at the head before the key",
        (
            Edit(
                RETRY,
                "            if recorded is not None:\n"
                "                return _repeat(recorded, codec)\n"
                "            checked_version = basis.state.at.version\n"
                "            path.require_head(authorship.expected_head, basis.state)\n",
                "            path.require_head(authorship.expected_head, basis.state)\n"
                "            if recorded is not None:\n"
                "                return _repeat(recorded, codec)\n"
                "            checked_version = basis.state.at.version\n",
            ),
        ),
        (REQUESTS_TESTS,),
    ),
    # Meaning
    Mutant(
        "cascade to the edges that leave a node only",
        (
            Edit(
                MUTATE,
                "in edge.ends.items():",
                'in [("src", edge.source)]:',
            ),
        ),
        (PLANTED,),
    ),
    Mutant(
        "do not ask who loses edges for the minimum",
        (
            Edit(
                "engine/commit/integrity/edges.py",
                "[*gaining.chunks, *losing.chunks]",
                "gaining.chunks",
            ),
        ),
        ("tests/unit/engine/commit/integrity/test_edges.py",),
    ),
    Mutant(
        "forget the untouched edges of a node that goes",
        (
            Edit(
                "engine/commit/integrity/edges.py",
                "        if len(edges):\n",
                "        if not edges:\n",
            ),
        ),
        ("tests/unit/engine/commit/integrity/test_edges.py",),
    ),
    Mutant(
        "forget where an id was before it was replaced",
        (
            Edit(
                PLACES,
                "self.earlier_by_id.setdefault(id, []).append(self.place_by_id[id])",
                "pass",
            ),
        ),
        (PLACES_TESTS,),
    ),
    Mutant(
        "look for an id in the files of another fragment of that number",
        (
            Edit(
                "storage/lance/scan.py",
                'return identify(fragment).partition("]")[0]',
                "return str(fragment.fragment_id)",
            ),
        ),
        (PLACES_TESTS,),
    ),
    Mutant(
        "take a fragment of which one id was seen for one of which all are known",
        (
            Edit(
                PLACES,
                "each for name, each in fragments.items() if name not in known.rows_by_whole",
                "each for name, each in fragments.items() if name not in known.number_by_fragment",
            ),
        ),
        (PLACES_TESTS,),
    ),
)
