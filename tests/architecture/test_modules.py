"""What every module looks like, whatever it does: a file is predictable before it is opened."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.support.source_tree import ROOT, Module, own_modules, product_modules, require_none

LINES_MAX = 800
LINES_MIN = 60
PACKAGE_MODULES_MAX = 16
CONFTEST_LINES_MAX = 60

BANNED_WORDS = frozenset({"util", "helper", "common", "misc", "manager", "processor", "service"})
# An argument of `load`, and where click keeps what commands are given.
PUBLISHED_NAMES = frozenset(
    {
        ("omnigraph.cli.command", "obj"),
        ("omnigraph.client.remote", "data"),
        ("omnigraph.engine.graph", "data"),
        ("omnigraph.engine.ops.transaction", "data"),
    }
)
BANNED_NAMES = frozenset({"data", "info", "obj", "item", "tmp", "process", "handle"})

# Entry points, names that users import, and leaves that keep a start without heavy libraries.
SHORT_MODULES = frozenset(
    {
        "omnigraph.__main__",
        "omnigraph.engine.executors",
        "omnigraph.notebook.pictures",
        "omnigraph.server.__main__",
        "omnigraph.storage.environment",
    }
)

FRONT_PAGES = frozenset(
    {"omnigraph", "omnigraph.langchain", "omnigraph.notebook", "omnigraph.spark"}
)


def test_every_module_says_what_it_promises() -> None:
    silent = [
        str(module.path)
        for module in product_modules()
        if module.text and not ast.get_docstring(module.tree)
    ]

    require_none(silent, rule="a module opens with what it promises and what it does not know")


def test_packages_hold_modules_and_no_code() -> None:
    inhabited = [
        str(module.path)
        for module in product_modules()
        if module.is_package and module.name not in FRONT_PAGES and module.text
    ]

    require_none(inhabited, rule="an __init__.py is empty, except those that users import from")


def test_no_module_outgrows_what_a_reader_can_hold() -> None:
    long = [
        f"{module.path}: {line_count} lines"
        for module in product_modules()
        if (line_count := len(module.text.splitlines())) > LINES_MAX
    ]

    require_none(long, rule=f"a module of more than {LINES_MAX} lines is split by noun")


def test_no_module_is_a_fragment_of_its_neighbour() -> None:
    short = [
        f"{module.path}: {line_count} lines"
        for module in product_modules()
        if not module.is_package and module.name not in SHORT_MODULES
        if (line_count := len(module.text.splitlines())) < LINES_MIN
    ]

    require_none(short, rule=f"a module of fewer than {LINES_MIN} lines belongs in its neighbour")


def test_no_package_is_a_heap_of_modules() -> None:
    modules = [module for module in product_modules() if not module.is_package]
    count_by_package = Counter(module.name.rpartition(".")[0] for module in modules)
    crowded = [
        f"{package}: {count} modules"
        for package, count in count_by_package.items()
        if count > PACKAGE_MODULES_MAX
    ]

    require_none(crowded, rule=f"a package of more than {PACKAGE_MODULES_MAX} modules is two")


def test_no_conftest_grows_into_a_framework() -> None:
    long = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("conftest.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > CONFTEST_LINES_MAX
    ]

    require_none(long, rule=f"a conftest.py has at most {CONFTEST_LINES_MAX} lines")


def test_imports_are_at_the_top() -> None:
    scattered = [
        module.place(node)
        for module in product_modules()
        for node in _imports_below_the_top(module.tree)
    ]

    require_none(scattered, rule="what a module needs is read off its first lines")


def test_module_and_class_names_say_what_they_hold() -> None:
    vague = [
        f"{where}: {name}"
        for module in own_modules()
        for where, name in _module_and_class_names(module)
        if _is_vague(name)
    ]

    require_none(vague, rule=f"none of {sorted(BANNED_WORDS)}, nor Base…, says what a thing is")


def test_no_name_would_fit_anything() -> None:
    empty = [
        f"{where}: {name}"
        for module in product_modules()
        for where, name in _bound_names(module)
        if name in BANNED_NAMES and (module.name, name) not in PUBLISHED_NAMES
    ]

    require_none(empty, rule="a name says which thing it is")


def _imports_below_the_top(tree: ast.Module) -> Iterator[ast.stmt]:
    top = set(tree.body)
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            top.update(statement.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in top:
            yield node


def _module_and_class_names(module: Module) -> Iterator[tuple[str, str]]:
    yield str(module.path), module.name.rpartition(".")[2]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            yield module.place(node), node.name


def _is_vague(name: str) -> bool:
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]
    is_base_of_something = words[:1] == ["base"] and len(words) > 1 and name[0].isupper()
    return is_base_of_something or any(word.removesuffix("s") in BANNED_WORDS for word in words)


def _bound_names(module: Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield module.place(node), name
            case ast.ClassDef(name=name):
                yield module.place(node), name
            case ast.arg(arg=name):
                yield module.place(node), name
            case ast.Name(id=name, ctx=ast.Store()):
                yield module.place(node), name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield module.place(node), name
            case _:
                pass
