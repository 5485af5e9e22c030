"""Bugs planted in leases: who holds one on an object store, and what a paused writer may do."""

from tests.mutants.planting import Edit, Mutant

LEASES = "storage/leases.py"

FENCED = "tests/faults/test_fenced_writers.py"
LEASE_TESTS = "tests/behaviour/concurrency/test_leases.py"
CLASSES = "tests/unit/engine/commit/test_recover.py"

LEASE_MUTANTS = (
    Mutant(
        "follow a holder that lives",
        (
            Edit(
                LEASES,
                "return is_silent or options.clock.now() >",
                "return True or options.clock.now() >",
            ),
        ),
        (f"{LEASE_TESTS}::test_a_lease_excludes_other_processes_on_the_same_branch",),
    ),
    Mutant(
        "show no sign of life",
        (Edit(LEASES, "    held.keep_alive()\n", ""),),
        (f"{LEASE_TESTS}::test_a_lease_that_is_renewed_is_not_taken_over",),
    ),
    Mutant(
        "seize a lease and build no fence",
        (Edit(LEASES, "            options.fence(options.place.branch)\n", ""),),
        (f"{LEASE_TESTS}::test_a_seized_lease_is_fenced_and_a_released_one_is_not",),
    ),
    Mutant(
        "give two holders the same epoch",
        (Edit(LEASES, "seen.lease.epoch + 1 if seen", "seen.lease.epoch if seen"),),
        (f"{LEASE_TESTS}::test_epochs_only_grow",),
    ),
    Mutant(
        "forget what a paused writer could still do",
        (
            Edit(
                "engine/commit/recover.py",
                "(found == {PinClass.NO_MOVEMENT} and is_writer_dead)",
                "found == {PinClass.NO_MOVEMENT}",
            ),
        ),
        (CLASSES,),
    ),
    Mutant(
        "publish without checking the lease",
        (
            Edit(
                "engine/commit/publish.py",
                "            require_locks_held(held)\n            held.trust(state.at.version)\n",
                "            held.trust(state.at.version)\n",
            ),
        ),
        (f"{FENCED}::test_g41_a_publish_is_refused_once_another_process_held_the_lease",),
    ),
)
