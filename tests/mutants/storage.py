"""Bugs planted in the storage: locks, versions of tables, flushing, control files."""

from tests.mutants.planting import Edit, Mutant

COMMITS = "storage/lance/commit.py"
LOCAL_FILES = "storage/local_files.py"
LOCKS = "storage/locks.py"

FLUSHES = "tests/behaviour/tables/test_durability.py"
TABLE_COMMITS = "tests/behaviour/tables/test_commits.py"
WRITE_LOCKS = "tests/behaviour/concurrency/test_write_locks.py"

STORAGE_MUTANTS = (
    # Locks
    Mutant(
        "take locks in the order in which they are named",
        (
            Edit(
                LOCKS,
                "return sorted(set(keys), key=lambda key:",
                "return sorted(dict.fromkeys(keys), key=lambda key: 0 and",
            ),
        ),
        (f"{WRITE_LOCKS}::test_writers_of_the_same_types_in_any_order_all_finish",),
    ),
    Mutant(
        "exclude no other process",
        (Edit(LOCKS, "stack.enter_context(self._held_on_disk(key, end))", "pass"),),
        (WRITE_LOCKS,),
    ),
    Mutant(
        "let one lock stand for all branches",
        (
            Edit(
                LOCKS,
                "self._lock_by_name.setdefault((root, key), Lock())",
                "self._lock_by_name.setdefault((root, LockKey(key.table_key, None)), Lock())",
            ),
        ),
        (WRITE_LOCKS,),
    ),
    # Versions
    Mutant(
        "take any version for the one that was meant",
        (
            Edit(
                COMMITS,
                "if landed.version != expected.version:",
                "if landed.version < base.version:",
            ),
        ),
        (TABLE_COMMITS,),
    ),
    Mutant(
        "take the version of another for one's own",
        (
            Edit(
                COMMITS,
                "made_by is None or made_by.uuid != transaction.uuid",
                "made_by is None",
            ),
        ),
        (TABLE_COMMITS,),
    ),
    Mutant(
        "lose rows when files are joined",
        (Edit(COMMITS, "task.execute(table).new_fragments)", "[])"),),
        (TABLE_COMMITS,),
    ),
    # Flushing
    Mutant(
        "flush nothing",
        (Edit("storage/fsync.py", "        os.fsync(descriptor)\n", "        pass\n"),),
        (FLUSHES,),
    ),
    Mutant(
        "flush rows after a version names them",
        (
            Edit(
                COMMITS,
                'self._secure(base, (f"{base.ref.path}/{file}" for file in staged.files))\n',
                "pass\n",
            ),
            Edit(
                COMMITS,
                "        return self._advance(base, staged.transaction)\n",
                "        landed = self._advance(base, staged.transaction)\n"
                '        self._secure(base, (f"{base.ref.path}/{file}" for file in staged.files))\n'
                "        return landed\n",
            ),
        ),
        (FLUSHES,),
    ),
    Mutant(
        "acknowledge a version that is not flushed",
        (Edit(COMMITS, "        self._secure_version(expected, transaction)\n", ""),),
        (FLUSHES,),
    ),
    Mutant(
        "flush files and not the folders that name them",
        (
            Edit(
                "storage/fsync.py",
                "[*folders, *(folder.parent for folder, _ in unsettled)]",
                "[]",
            ),
        ),
        (FLUSHES,),
    ),
    Mutant(
        "name a control file before it is flushed",
        (
            Edit(
                LOCAL_FILES,
                "                    os.fsync(file.fileno())\n",
                "                    pass\n",
            ),
        ),
        ("tests/behaviour/storage/test_control_files.py",),
    ),
)
