"""What a planted bug is, and how one is planted in a copy of the product.

Guarantees that a bug is planted whole or not at all: each text that it replaces must occur exactly
once. Does not know which bugs there are, nor which tests notice them.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in one module; the module's path starts below `src/omnigraph`."""

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A plausible defect, and the tests of which at least one must detect it."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


class MisplantedError(ValueError):
    """The source of a planted bug has changed, so the bug has to be rewritten."""


def plant(mutant: Mutant, *, root: Path) -> None:
    """Put a defect into the product below a root."""
    for module, text in planted_texts(mutant, root=root).items():
        (root / "src" / "omnigraph" / module).write_text(text, encoding="utf-8")


def planted_texts(mutant: Mutant, *, root: Path) -> dict[str, str]:
    """What the modules that a defect touches would say; `MisplantedError` if it fits no more."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        path = root / "src" / "omnigraph" / edit.module
        if not path.is_file():
            raise MisplantedError(f"'{mutant.name}': {edit.module} does not exist")
        text = texts.get(edit.module) or path.read_text(encoding="utf-8")
        count = text.count(edit.old)
        if count != 1:
            raise MisplantedError(
                f"'{mutant.name}': {edit.module} says this {count} times instead of once:\n"
                f"{edit.old}"
            )
        texts[edit.module] = text.replace(edit.old, edit.new)
    return texts
