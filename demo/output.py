"""Prints the headings and lines of the demo, and reads its sources."""

from pathlib import Path

from omnigraph.model.source import Source

TEAM = Path(__file__).parent / "team"


def read(name: str) -> Source:
    """Return a source file of the demo."""
    return Source(name, (TEAM / name).read_text(encoding="utf-8"))


def title(text: str) -> None:
    """Print the heading of a section."""
    print(f"\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    """Print one line of a section."""
    print(f"  {text}")
