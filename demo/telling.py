"""How the demo speaks."""

from pathlib import Path

from omnigraph.model.source import Source

TEAM = Path(__file__).parent / "team"


def read(name: str) -> Source:
    """One of the demo's own sources."""
    return Source(name, (TEAM / name).read_text(encoding="utf-8"))


def title(text: str) -> None:
    """Begin a scene."""
    print(f"\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    """One line of a scene."""
    print(f"  {text}")
