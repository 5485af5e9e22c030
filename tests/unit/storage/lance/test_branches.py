"""Version files of Lance, rewritten field by field."""

import struct

import pytest

from omnigraph.errors import CorruptError
from omnigraph.storage.lance.branches import is_own, rewrite_base_paths

SECTIONS = b"an index section and a transaction"
UNKNOWN = b"\x18\x07" + b"\x39" + bytes(8) + b"\x3d" + bytes(4) + b"\xa2\x06\x03abc"
"""Fields 3, 7, 7 and 100, of every wire type."""


def version_file(message: bytes) -> bytes:
    """A version file as Lance writes it: sections, description, footer."""
    described = struct.pack("<I", len(message)) + message
    return SECTIONS + described + struct.pack("<QHH4s", len(SECTIONS), 0, 2, b"LANC")


def base_path(path: bytes) -> bytes:
    """Base path 1 of a description, named `b`; shorter than 120 bytes."""
    base = b"\x08\x01\x12\x01b\x18\x01\x22" + bytes([len(path)]) + path
    return b"\x92\x01" + bytes([len(base)]) + base


def test_only_the_paths_change_and_every_other_byte_stays() -> None:
    content = version_file(UNKNOWN + base_path(b"/old/t") + UNKNOWN + base_path(b"/own/t"))

    rewritten = rewrite_base_paths(
        content, lambda path: path.replace("/old/", "/newer/"), file="file"
    )

    expected = UNKNOWN + base_path(b"/newer/t") + UNKNOWN + base_path(b"/own/t")
    assert rewritten == version_file(expected)


def test_a_path_may_become_longer_than_one_byte_can_say() -> None:
    content = version_file(base_path(b"/old/t") + UNKNOWN)

    longer = rewrite_base_paths(content, lambda _: "/" + "x" * 300, file="file")

    assert longer is not None
    assert rewrite_base_paths(longer, lambda _: "/old/t", file="file") == content


@pytest.mark.parametrize("content", [b"", bytes(200), version_file(UNKNOWN)[:-1]])
def test_a_file_that_was_cut_off_is_not_rewritten(content: bytes) -> None:
    assert rewrite_base_paths(content, lambda _: "/new", file="file") is None


@pytest.mark.parametrize(
    "message",
    [b"\x92\x01\x7f", b"\x92", b"\x1b", b"\x18" + b"\xff" * 11, base_path(b"\xff\xff")],
    ids=["a field is cut off", "a key is cut off", "a group", "a long number", "not UTF-8"],
)
def test_a_description_that_cannot_be_read_is_refused(message: bytes) -> None:
    with pytest.raises(CorruptError, match="'file'"):
        rewrite_base_paths(version_file(message), lambda _: "/new", file="file")


def test_a_description_that_ends_before_the_footer_is_refused() -> None:
    content = version_file(UNKNOWN)

    with pytest.raises(CorruptError, match="does not end at the footer"):
        rewrite_base_paths(content[:-16] + b"more" + content[-16:], lambda _: "/new", file="file")


def test_a_place_is_the_tables_own_if_it_is_the_table_or_a_branch_of_it() -> None:
    assert is_own("/g/nodes/a", table="/g/nodes/a")
    assert is_own("/g/nodes/a/tree/b/c", table="/g/nodes/a")
    assert not is_own("/g/old/nodes/a", table="/g/nodes/a")
    assert not is_own("/g/nodes/ab", table="/g/nodes/a")
