"""Bugs planted in bulk loads: staging, judging, replacing rows, and what is left behind."""

from tests.mutants.planting import Edit, Mutant

FORKS = "engine/commit/staging.py"
STAGED = "spark/load/staged.py"
LOAD = "spark/load/load.py"
PARTS = "storage/lance/fragments.py"
VALIDATE = "spark/load/validate.py"

FAULTS = "tests/faults/test_spark_faults.py"
FILES = "tests/faults/test_staged_files.py"
LOADS = "tests/behaviour/spark/test_loads.py"
MERGED = (
    f"{FILES}::test_rows_that_a_merge_replaces_are_deleted_even_after_other_deletions_in_their_file"
)
OVERTAKEN = f"{FILES}::test_a_merge_by_files_with_a_concurrent_write_loses_nothing"

SPARK_MUTANTS = (
    # Files that wait
    Mutant(
        "name files without a check that they exist",
        (Edit("storage/lance/tables.py", "        self._require_files(staged)\n", ""),),
        (f"{FILES}::test_a_load_whose_file_was_deleted_is_refused",),
    ),
    Mutant(
        "believe the numbers that a file has for its columns",
        (Edit(PARTS, "[number_by_own[number] for number in", "[number for number in"),),
        (f"{FILES}::test_files_of_rows_land_whatever_numbers_the_columns_of_their_table_have",),
    ),
    Mutant(
        "take over an existing table branch, whatever was added to it",
        (Edit(FORKS, "if tables.is_fresh_fork(table_branch, of=entry.at):", "if table_branch:"),),
        (f"{FILES}::test_files_of_a_table_branch_moved_by_a_killed_writer_are_not_silently_lost",),
    ),
    Mutant(
        "remove a new table branch, with the files staged there",
        (
            Edit(
                FORKS, "if tables.is_fresh_fork(table_branch, of=entry.at):", "if not table_branch:"
            ),
        ),
        (OVERTAKEN,),
    ),
    # Rows that are replaced
    Mutant(
        "add rows and leave those that they replace",
        (Edit(PARTS, "    if deletions:\n", "    if deletions and is_overwrite:\n"),),
        (MERGED,),
    ),
    Mutant(
        "keep a file of which every row is replaced",
        (
            Edit(
                PARTS,
                "[each.number for each in deletions if each.fragment is None]",
                "[]",
            ),
        ),
        (
            f"{FILES}::test_a_load_of_files_interrupted_anywhere_is_atomic"
            "[a merge that replaces all rows]",
        ),
    ),
    Mutant(
        "let the first edit of a row count",
        (Edit(VALIDATE, "is_last_valid=True", "is_last_valid=False"),),
        (f"{LOADS}::test_rows_without_keys_are_edited_by_a_merge_and_the_last_edit_counts",),
    ),
    Mutant(
        "append rows that are there already",
        (Edit(VALIDATE, "            if not self._is_tolerant:\n", "            if not name:\n"),),
        (f"{LOADS}::test_of_two_loads_of_one_key_one_is_refused",),
    ),
    # What changes meanwhile
    Mutant(
        "commit rows that were read by another schema",
        (
            Edit(
                LOAD,
                "if basis.accepted_schema.schema_hash != self._staged.schema_hash:",
                "if not self._staged.schema_hash:",
            ),
        ),
        (
            f"{LOADS}::test_a_schema_that_changes_meanwhile_is_the_one_that_rows_are_read_by",
            f"{LOADS}::test_rows_that_a_changed_schema_does_not_know_are_refused",
        ),
    ),
    Mutant(
        "take other rows for those that were checked",
        (
            Edit(
                STAGED,
                "rows.table_key, row_count, rows.checksum",
                "rows.table_key, row_count, 0",
            ),
        ),
        (f"{FAULTS}::test_input_that_changes_while_rows_are_left_out_is_refused",),
    ),
    Mutant(
        "forget which types a bulk load was checked against",
        (Edit(LOAD, "read_set=job.related,", "read_set=frozenset(),"),),
        (f"{FAULTS}::test_edges_whose_node_goes_while_a_bulk_load_is_checked_are_refused",),
    ),
    # What is left behind
    Mutant(
        "delete the files of a load that may have been committed",
        (
            Edit(
                LOAD,
                "if not self._is_done and not self._is_in_doubt:",
                "if not self._is_done:",
            ),
        ),
        (
            f"{FAULTS}::test_a_bulk_load_that_stopped_after_it_was_armed"
            "_is_finished_with_all_its_rows",
        ),
    ),
    Mutant(
        "leave the files of a load that was refused",
        (Edit(LOAD, "self._is_in_doubt &= not is_refused(error)", "pass"),),
        (f"{FAULTS}::test_a_bulk_load_that_stopped_before_it_was_armed_leaves_no_file",),
    ),
)
