"""The references are what the code says; by hand nothing is left out, and links lead somewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

import omnigraph
from omnigraph.cli.main import replace_deprecated
from tests.support.references import (
    calls_part,
    commands_part,
    entry_points_part,
    global_flags_part,
    other_names_part,
    remote_calls_part,
    replace_part,
    results_part,
)
from tests.support.source_tree import ROOT, product_modules, read_document, require_none

CLI = "docs/reference/cli.md"
PYTHON = "docs/reference/python.md"

PARTS: MappingProxyType[str, MappingProxyType[str, Callable[[], str]]] = MappingProxyType(
    {
        CLI: MappingProxyType({"global flags": global_flags_part, "commands": commands_part}),
        PYTHON: MappingProxyType(
            {
                "entry points": entry_points_part,
                "calls": calls_part,
                "remote calls": remote_calls_part,
                "other names": other_names_part,
                "results": results_part,
            }
        ),
    }
)


@pytest.mark.parametrize("name", PARTS)
def test_a_reference_is_what_the_code_says(name: str) -> None:
    written = read_document(name)
    current = written
    for part, write in PARTS[name].items():
        current = replace_part(current, part, write())
    if os.environ.get("OMNIGRAPH_BLESS"):
        (ROOT / name).write_text(current, encoding="utf-8")

    assert read_document(name) == current, "`make bless` rewrites it"


def test_every_public_name_is_in_the_reference() -> None:
    reference = read_document(PYTHON)

    # Named by the chapters of their calls, by a page of its own, and by its function.
    named_otherwise = {"__version__", "Graph", "RemoteGraph", "errors", "spark"}
    missing = [
        name
        for name in set(omnigraph.__all__) - named_otherwise
        if f"### `{name}`" not in reference and f"### `omnigraph.{name}`" not in reference
    ]

    require_none(missing, rule=f"{PYTHON} lists every public name")


def test_every_key_of_the_configuration_is_in_the_reference() -> None:
    config = next(each for each in product_modules() if each.name == "omnigraph.cli.config")
    reference = read_document(CLI)
    table = reference.partition("## Configuration")[2].partition("## Environment")[0]

    keys = set(re.findall(r'"([a-z_]+)"', config.text.partition("def parse_config")[2]))
    missing = [key for key in keys if not re.search(rf"\b{key}\b", table)]

    assert {"operator", "table_cell_layout", "aliases"} <= keys
    require_none(missing, rule=f"{CLI} lists every key of the configuration")


def test_every_variable_is_in_a_reference() -> None:
    references = read_document(CLI) + read_document("docs/reference/server.md")

    read = {
        variable
        for module in product_modules()
        for variable in re.findall(r'"(OMNIGRAPH_[A-Z_]+)"?', module.text)
    }
    missing = [variable for variable in read if variable not in references]

    assert "OMNIGRAPH_HOME" in read
    require_none(missing, rule="the references list every variable that is read")


def test_every_old_spelling_is_in_the_reference() -> None:
    table = read_document(CLI).partition("## Old spellings")[2].partition("<!--")[0]

    rows = re.findall(r"^\| (`omnigraph .+?`) \| `omnigraph (\w+).*` \|$", table, re.MULTILINE)
    replaced = {old: new for olds, new in rows for old in re.findall(r"`omnigraph ([^`]+)`", olds)}

    assert len(replaced) == 6
    for old, new in replaced.items():
        modern, warning = replace_deprecated(old.split())
        assert old == "ingest" or (modern == [new] and warning is not None)


def test_every_link_between_documents_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not _leads_somewhere(page, link)
    ]

    require_none(broken, rule="a link names a page that exists, and a heading on it")


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return False
    return not anchor or anchor in _anchors(target.read_text(encoding="utf-8"))


def _anchors(page: str) -> set[str]:
    """The names under which GitHub shows the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
