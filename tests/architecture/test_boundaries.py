"""Who may touch what: foreign libraries, the environment, the terminal, and each other.

The layers themselves are the import-linter contract in pyproject.toml.
"""

import ast
from collections.abc import Iterator

from tests.support.source_tree import (
    Module,
    imported_names,
    product_modules,
    require_none,
    script_modules,
)

MAY_IMPORT_LARK = frozenset({"omnigraph.compiler.parser_tables"})

# `omnigraph --help` and `omnigraph lint` answer at once because nothing of this is imported.
WITHOUT_STORAGE = ("omnigraph.model.", "omnigraph.compiler.", "omnigraph.cli.")
STORAGE_LIBRARIES = frozenset({"lance", "pyarrow", "pyspark"})

# The tables are read where they are run and written where they are made; nothing else is a file.
MAY_TOUCH_FILES = frozenset({"omnigraph.compiler.machine", "omnigraph.compiler.parser_tables"})
FILE_LIBRARIES = frozenset({"io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile"})

MAY_READ_THE_ENVIRONMENT = frozenset({"omnigraph.cli.main", "omnigraph.server.app"})
ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})

# What users, the build hook or the engine to come import, and nothing of ours does yet.
PUBLIC_MODULES = frozenset(
    {
        "omnigraph.errors",
        "omnigraph.compiler.ir_text",
        "omnigraph.compiler.parameters",
        "omnigraph.compiler.parser_tables",
    }
)


def test_lark_is_needed_only_to_build_the_package() -> None:
    knowing = {module.name for module in product_modules() if "lark" in _imported_libraries(module)}

    require_none(knowing - MAY_IMPORT_LARK, rule="lark is no dependency of the installed package")


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

    require_none(reading, rule="settings are arguments below cli/main.py and server/app.py")


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
        for name in imported_names(user) | _names_in_strings(user)
        if name != user.name
    }

    unused = [
        module.name
        for module in modules
        if module.name not in used | script_modules() | PUBLIC_MODULES
        if not module.name.endswith(".__main__")
    ]

    require_none(unused, rule="a module that nothing imports is dead or belongs to the tests")


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


def _names_in_strings(module: Module) -> frozenset[str]:
    # A table of lazily imported commands names them as "package.module" or "package.module:name".
    return frozenset(
        node.value.partition(":")[0]
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
