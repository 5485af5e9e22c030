"""The repository as the architecture tests see it: parsed modules, text files, places in them.

Guarantees that what it returns is what is on disk. Does not know any rule: those are the tests.
"""

import ast
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Hidden directories hold caches and .venv; only .ci is written by hand.
GENERATED_DIRECTORIES = frozenset({"__pycache__", "build", "dist"})
HAND_WRITTEN_HIDDEN_DIRECTORY = ".ci"


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file: its dotted name, its path from the repository's root, its parsed text."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether the file is an `__init__.py`."""
        return self.path.name == "__init__.py"

    def place(self, node: ast.stmt | ast.expr | ast.arg | ast.excepthandler) -> str:
        """Where a node stands, as editors understand it."""
        return f"{self.path}:{node.lineno}"


@cache
def product_modules() -> tuple[Module, ...]:
    """Every module of the product, packages included."""
    return tuple(_read_modules(ROOT / "src" / "omnigraph", base=ROOT / "src"))


@cache
def own_modules() -> tuple[Module, ...]:
    """Every module that we write: the product, its tests, its benchmarks and its demo."""
    around = (_read_modules(ROOT / name, base=ROOT) for name in ("tests", "bench", "demo"))
    return product_modules() + tuple(module for modules in around for module in modules)


@cache
def text_files() -> tuple[tuple[Path, str], ...]:
    """Every text file that we keep: its path from the repository's root, and its text."""
    return tuple(_read_text_files(ROOT))


def require_none(offences: Iterable[str], *, rule: str) -> None:
    """Fail with the rule and every place that breaks it; pytest alone would show the first."""
    found = sorted(offences)
    assert not found, "\n  ".join([f"{rule}:", *found])


def read_document(name: str) -> str:
    """Return a document's text; fail the test that needs it when there is none."""
    path = ROOT / name
    assert path.is_file(), f"{name} is missing"
    return path.read_text(encoding="utf-8")


def script_modules() -> frozenset[str]:
    """The modules that pyproject.toml installs as commands."""
    project = tomllib.loads(read_document("pyproject.toml"))["project"]
    return frozenset(target.partition(":")[0] for target in project["scripts"].values())


def imported_names(module: Module) -> frozenset[str]:
    """Every dotted name that an import statement of the module can mean.

    `from a import b` means `a`, and `a.b` in case that b is a module.
    """
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=aliases):
                names.update(alias.name for alias in aliases)
            case ast.ImportFrom(module=origin, names=aliases, level=level):
                source = resolve_name("." * level + (origin or ""), package)
                names.add(source)
                names.update(f"{source}.{alias.name}" for alias in aliases)
            case _:
                pass
    return frozenset(names)


def _read_modules(directory: Path, *, base: Path) -> Iterator[Module]:
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        yield Module(
            name=".".join(parts[:-1] if parts[-1] == "__init__" else parts),
            path=path.relative_to(ROOT),
            text=text,
            tree=ast.parse(text, filename=str(path)),
        )


def _read_text_files(directory: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(directory.iterdir()):
        if path.is_dir():
            if _is_hand_written(path):
                yield from _read_text_files(path)
            continue
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def _is_hand_written(directory: Path) -> bool:
    if directory.name.startswith("."):
        return directory.name == HAND_WRITTEN_HIDDEN_DIRECTORY
    return directory.name not in GENERATED_DIRECTORIES
