"""The documents tell the truth: the modules they list exist, the tests they name exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import TypeGuard

from tests.support.source_tree import ROOT, product_modules, read_document, require_none, text_files

ARCHITECTURE_WORDS_MAX = 2_000

# In two halves, because this file is searched like any other.
REGISTRY_HOSTS = tuple(
    ".".join(halves)
    for halves in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("deb.debian", "org"),
        ("security.debian", "org"),
        ("registry.npmjs", "org"),
        ("repo1.maven", "org"),
        ("repo.maven.apache", "org"),
    )
)


def test_the_architecture_lists_the_packages_that_exist() -> None:
    listed = set(re.findall(r"^\| `(omnigraph[\w/]*)` \|", read_document("ARCHITECTURE.md"), re.M))
    existing = {module.name.replace(".", "/") for module in product_modules() if module.is_package}

    require_none(existing - listed, rule="ARCHITECTURE.md lists every package")
    require_none(listed - existing, rule="what ARCHITECTURE.md lists exists")


def test_the_architecture_is_read_in_ten_minutes() -> None:
    document = read_document("ARCHITECTURE.md")

    assert len(document.split()) < ARCHITECTURE_WORDS_MAX
    modules = re.findall(r"[\w/]+\.py\b", document.replace("src/pyspark_omnigraph.py", ""))
    require_none(
        modules, rule="ARCHITECTURE.md speaks of packages; modules are found by their names"
    )


def test_every_invariant_names_a_test_that_exists() -> None:
    invariants = list(_invariants(read_document("INVARIANTS.md")))

    unproven = [heading for heading, tests in invariants if not tests]
    missing = [test for _, tests in invariants for test in tests if not _exists(test)]

    assert invariants, "INVARIANTS.md has no `## 1. …` heading"
    require_none(unproven, rule="an invariant names the test that fails when it is broken")
    require_none(missing, rule="a test that INVARIANTS.md names exists")


def test_invariants_are_numbered_in_order() -> None:
    headings = [heading for heading, _ in _invariants(read_document("INVARIANTS.md"))]

    numbers = [int(heading.partition(".")[0]) for heading in headings]

    assert numbers == list(range(1, len(numbers) + 1))


def test_every_decision_names_tests_that_exist() -> None:
    missing = []
    for page in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        files = re.findall(r"`(tests/[^`\s]+\.py)`", text)
        defined = frozenset[str]().union(*map(_names_defined_in, files))
        missing += [f"{page.name}: {file}" for file in files if not (ROOT / file).is_file()]
        named = re.findall(r"`(test_\w+)`", text)
        missing += [f"{page.name}: {name}" for name in named if name not in defined]

    require_none(missing, rule="a test that a decision names exists in a file that it names")


def test_no_file_names_a_package_registry() -> None:
    naming = [
        f"{path}: {host}" for path, text in text_files() for host in REGISTRY_HOSTS if host in text
    ]

    require_none(naming, rule="registries are configured where the tools run, or mirrors break")


def test_what_is_left_to_do_names_its_issue() -> None:
    forgotten = [
        f"{path}:{number}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(r"\bTODO\b(?!\(#\d+\))|\bFIXME\b", line)
    ]

    require_none(forgotten, rule="what is left to do names its issue")


def _invariants(document: str) -> Iterator[tuple[str, list[str]]]:
    _, *parts = re.split(r"^## (\d+\. .+)$", document, flags=re.MULTILINE)
    for heading, section in zip(parts[::2], parts[1::2], strict=True):
        yield heading, re.findall(r"`(tests/[^`\s]+::[^`\s]+)`", section)


def _exists(test: str) -> bool:
    path, *names = test.split("::")
    return set(names) <= _names_defined_in(path)


@cache
def _names_defined_in(path: str) -> frozenset[str]:
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    # A state machine's test is the name that its test case is given.
    given = {name.id for node in tree.body for name in ast.walk(node) if _is_given(name)}
    return frozenset(given) | {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def _is_given(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
