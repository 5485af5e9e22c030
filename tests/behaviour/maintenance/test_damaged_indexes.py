"""A damaged index file: reads and writes find rows without it, and `doctor` names it."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from tests.support.graphs import SOCIAL, ndjson, node, rows
from tests.support.queries import query

Damage = Callable[[bytes], bytes]


def flip_quarter(content: bytes) -> bytes:
    quarter = len(content) // 4
    flipped = bytes(byte ^ 0xFF for byte in content[quarter : 2 * quarter])
    return content[:quarter] + flipped + content[2 * quarter :]


def overwrite_footer(start: int, end: int) -> Damage:
    """Damage a part of the footer, which holds positions, counts and the format version."""
    return lambda content: content[:start] + b"\x7f" * (end - start) + content[end:]


DAMAGES: dict[str, Damage | None] = {
    "cut off": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "flipped": lambda content: bytes(byte ^ 0xFF for byte in content),
    "flipped in part": flip_quarter,
    "buffer position": overwrite_footer(-24, -16),
    "column count": overwrite_footer(-12, -8),
    "format version": overwrite_footer(-8, -4),
    "empty": lambda _: b"",
    "deleted": None,
}


def damage_index(root: Path, name: str, damage: Damage | None) -> None:
    """Damage the files of one name in every index of the graph."""
    files = sorted(root.glob(f"nodes/*/_indices/*/{name}"))
    assert files, "the graph has such an index"
    for file in files:
        content = file.read_bytes()
        file.unlink()
        if damage is not None:
            file.write_bytes(damage(content))


@pytest.mark.parametrize("name", ["page_lookup.lance", "page_data.lance"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_index_changes_no_result_and_no_write(
    tmp_path: Path, name: str, damage: Damage | None
) -> None:
    with omnigraph.init(tmp_path, SOCIAL, durability="relaxed") as graph:
        graph.load(ndjson(*(node("Person", name=f"P{n}") for n in range(500))), mode="merge")
        graph.optimize()
    damage_index(tmp_path, name, damage)

    with omnigraph.open(tmp_path, read_only=True) as reader:
        assert reader.entity("Person", "P7") is not None
    with omnigraph.open(tmp_path, durability="relaxed") as graph:
        found = graph.query(query('match { $p: Person { name: "P9" } } return { $p.name }'))
        assert len(found) == 1
        graph.load(ndjson(node("Person", name="P9", age=3)), mode="merge")
        graph.mutate(query('delete Person where name = "P10"'))
        people = rows(graph, "Person")
    assert len(people) == 499
    assert people["P9"]["age"] == 3


@pytest.mark.parametrize("name", ["page_lookup.lance", "page_data.lance"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_doctor_names_a_damaged_index(tmp_path: Path, name: str, damage: Damage | None) -> None:
    with omnigraph.init(tmp_path, SOCIAL, durability="relaxed") as graph:
        graph.load(ndjson(*(node("Person", name=f"P{n}") for n in range(500))), mode="merge")
        graph.optimize()
    damage_index(tmp_path, name, damage)

    with omnigraph.open(tmp_path, read_only=True) as graph:
        found = graph.doctor().findings

    assert "index_damaged" in {finding.code for finding in found}
