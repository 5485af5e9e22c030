"""Who may touch what: foreign libraries, the environment, the terminal, and each other.

The layers themselves are the import-linter contract in pyproject.toml.
"""

import ast
from collections.abc import Iterator, Mapping

from lance import LanceDataset, LanceFragment, MergeInsertBuilder
from lance.dataset import Branches, DatasetOptimizer, Tags
from lance.optimize import Compaction

from omnigraph.cli.registry import ENTRIES
from tests.support.source_tree import (
    Module,
    imported_names,
    product_modules,
    require_none,
    script_modules,
)

MAY_IMPORT_LARK = frozenset({"omnigraph.compiler.parser_tables"})

# `omnigraph --help` and `omnigraph lint` start quickly because none of this is imported.
WITHOUT_STORAGE = ("omnigraph.model.", "omnigraph.compiler.", "omnigraph.cli.")
STORAGE_LIBRARIES = frozenset({"lance", "pyarrow", "pyspark"})

# The tables are read where they are run and written where they are made; nothing else is a file.
MAY_TOUCH_FILES = frozenset({"omnigraph.compiler.parser", "omnigraph.compiler.parser_tables"})
FILE_LIBRARIES = frozenset({"io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile"})

# Java gets the address it listens at from the environment and from nowhere else.
MAY_READ_THE_ENVIRONMENT = frozenset(
    {
        "omnigraph.api",
        "omnigraph.cli.main",
        "omnigraph.server.main",
        "omnigraph.spark.sessions",
        # It says to the process of Spark that it runs in how to show an error.
        "omnigraph.spark.connector.source",
    }
)
ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})

# What users, the build hook or the engine to come import, and nothing of ours does yet.
PUBLIC_MODULES = frozenset(
    {
        "omnigraph.api",
        "omnigraph.errors",
        "omnigraph.compiler.ir_text",
        "omnigraph.compiler.parser_tables",
        "omnigraph.policy.checking",
        "omnigraph.drawing.progress_bar",
        "omnigraph.spark.connector.source",
    }
)

# These modules hold open tables; any other may name the types of a port, and opens nothing.
HOLDS_TABLES = "omnigraph.storage.lance."
NAMED_IN_PORTS = frozenset({"Transaction"})

# Of everything that can be done with a table, what we do. Whatever else there is in pylance, or
# comes with its next version, may commit on its own, and is refused until it is looked at.
TABLE_MEMBERS = frozenset(
    name
    for holder in (
        LanceDataset,
        LanceFragment,
        MergeInsertBuilder,
        DatasetOptimizer,
        Branches,
        Tags,
        Compaction,
    )
    for name in dir(holder)
    if not name.startswith("_")
)
MAKES_NO_VERSION = frozenset(
    {
        "base_paths",
        "branches",
        "centroids",
        "checkout_latest",
        "count_rows",
        "create_index_uncommitted",
        "data_files",
        "delete_rows",
        "deletion_file",
        "describe_indices",
        "explain_cleanup_old_versions",
        "filter",
        "fragment_id",
        "fragment_ids",
        "get_fragment",
        "get_fragments",
        "get_version",
        "io_stats_snapshot",
        "join",
        "lance_schema",
        "list",
        "max_field_id",
        "merge_existing_index_segments",
        "metadata",
        "num_deletions",
        "physical_rows",
        "read_blobs",
        "read_transaction",
        "scanner",
        "schema",
        "session",
        "slice",
        "stats",
        "take",
        "take_blobs",
        "to_batches",
        "to_table",
        "tracked_files",
        "uri",
        "version",
        "version_refs",
    }
)
MAKES_A_VERSION: Mapping[str, frozenset[str]] = {
    "omnigraph.storage.lance.commit": frozenset(
        {
            "commit",
            "execute",
            "plan",
        }
    ),
    "omnigraph.storage.lance.branches": frozenset({"create_branch", "delete", "drop"}),
    # Of a compaction only the files are written; they become a version as any staged write does.
    "omnigraph.storage.lance.compaction": frozenset({"execute", "plan"}),
    "omnigraph.storage.lance.cleanup": frozenset({"cleanup_old_versions"}),
}
LANCE_FUNCTIONS = frozenset({"blob_field", "dataset", "indices", "write_fragments"})
WAYS_AROUND = frozenset({"eval", "exec", "getattr", "vars", "__import__", "import_module"})


def test_lark_is_needed_only_to_build_the_package() -> None:
    knowing = {module.name for module in product_modules() if "lark" in _imported_libraries(module)}

    require_none(
        knowing - MAY_IMPORT_LARK, rule="lark is not a dependency of the installed package"
    )


def test_compiling_needs_no_storage_library() -> None:
    heavy = [
        f"{module.path}: {library}"
        for module in product_modules()
        if module.name.startswith(WITHOUT_STORAGE)
        for library in sorted(_imported_libraries(module) & STORAGE_LIBRARIES)
    ]

    require_none(heavy, rule="compiling starts at once, without Lance, Arrow or Spark")


def test_compiling_touches_no_file_but_the_tables() -> None:
    touching = [
        f"{module.path}: {library}"
        for module in product_modules()
        if module.name.startswith(("omnigraph.model.", "omnigraph.compiler."))
        if module.name not in MAY_TOUCH_FILES
        for library in sorted(_imported_libraries(module) & FILE_LIBRARIES)
    ]

    require_none(touching, rule="the compiler does no I/O; its callers read files")


def test_the_environment_is_read_where_the_program_starts() -> None:
    reading = [
        module.place(node)
        for module in product_modules()
        if module.name not in MAY_READ_THE_ENVIRONMENT
        for node in _environment_reads(module.tree)
    ]

    require_none(reading, rule="settings are arguments below api.py and the two main.py")


def test_only_the_command_line_prints() -> None:
    printing = [
        module.place(node)
        for module in product_modules()
        if not module.name.startswith("omnigraph.cli.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and node.id == "print"
    ]

    require_none(printing, rule="a library does not write to the terminal")


def test_every_module_is_used_by_another() -> None:
    modules = [module for module in product_modules() if not module.is_package]
    used = {
        name
        for user in product_modules()
        for name in imported_names(user) | _names_in_strings(user) | _parts_on_spark(user)
        if name != user.name
    }

    # The registry names the modules of commands.
    used |= {f"omnigraph.cli.commands.{each.location.partition(':')[0]}" for each in ENTRIES}

    unused = [
        module.name
        for module in modules
        if module.name not in used | script_modules() | PUBLIC_MODULES
        if not module.name.endswith(".__main__")
    ]

    require_none(unused, rule="a module that nothing imports is dead or belongs to the tests")


def test_only_the_table_store_knows_lance() -> None:
    knowing = [
        f"{module.path}: {name}"
        for module in product_modules()
        if not module.name.startswith(HOLDS_TABLES)
        for name in _names_of_lance(module)
        if not (module.name == "omnigraph.storage.ports" and name in NAMED_IN_PORTS)
    ]

    require_none(knowing, rule="Lance is behind the ports; nothing above opens a table")


def test_a_version_is_made_in_one_place_only() -> None:
    making = [
        f"{module.place(node)}: {node.attr}"
        for module in _modules_with_tables()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in TABLE_MEMBERS
        if node.attr not in MAKES_NO_VERSION | MAKES_A_VERSION.get(module.name, frozenset())
    ]

    require_none(making, rule="nothing is committed inline: writes are staged and applied")


def test_every_listed_creator_of_versions_is_used() -> None:
    used = {
        (module.name, node.attr)
        for module in _modules_with_tables()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
    }
    listed = {(module, name) for module, names in MAKES_A_VERSION.items() for name in names}

    require_none(map(str, listed - used), rule="an exception that nothing needs is taken back")


def test_no_function_of_lance_writes_a_table_whole() -> None:
    whole = [
        f"{module.path}: {name}"
        for module in _modules_with_tables()
        for name in _names_of_lance(module)
        if name[0].islower() and name not in LANCE_FUNCTIONS
    ]

    require_none(whole, rule="of Lance's functions only those are used that commit nothing")


def test_lance_is_not_reached_by_a_name_made_at_run_time() -> None:
    around = [
        module.place(node)
        for module in _modules_with_tables()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute)
        if (node.id if isinstance(node, ast.Name) else node.attr) in WAYS_AROUND
    ]
    written = [
        f"{module.path}: {name}"
        for module in product_modules()
        for name in _names_in_strings(module)
        if name == "lance" or name.startswith("lance.")
    ]

    require_none([*around, *written], rule="what is done with tables can be read off the source")


def _modules_with_tables() -> tuple[Module, ...]:
    found = tuple(module for module in product_modules() if module.name.startswith(HOLDS_TABLES))
    assert found, "the table store is somewhere else now"
    return found


def _names_of_lance(module: Module) -> Iterator[str]:
    """What a module takes from Lance, by import or by `lance.name`."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    if alias.name.partition(".")[0] == "lance":
                        # As `lance` only: under another name its functions would not be seen.
                        yield "Lance" if alias.name == "lance" and not alias.asname else "renamed"
            case ast.ImportFrom(module=origin, names=aliases, level=0) if (
                origin and origin.partition(".")[0] == "lance"
            ):
                yield from (alias.name for alias in aliases)
            case ast.Attribute(value=ast.Name(id="lance"), attr=name):
                yield name
            case _:
                pass


def _imported_libraries(module: Module) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in imported_names(module))


def _environment_reads(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in ENVIRONMENT:
                yield node
            case ast.ImportFrom(module="os", names=aliases):
                if any(alias.name in ENVIRONMENT for alias in aliases):
                    yield node
            case _:
                pass


def _parts_on_spark(module: Module) -> set[str]:
    """The modules of the Spark package that the engine finds by name."""
    return {
        f"omnigraph.spark.{ast.literal_eval(node.args[0])}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "get_spark_module"
    }


def _names_in_strings(module: Module) -> frozenset[str]:
    # A table of lazily imported commands names them as "package.module" or "package.module:name".
    return frozenset(
        node.value.partition(":")[0]
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
