"""Bytes and characters before any parser sees them."""

import pytest

from omnigraph.compiler.text import decode_source, require_parseable
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Source

BOM = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    source = decode_source(BOM + b"node N {}", name="schema.pg")

    assert source.text == "node N {}"


@pytest.mark.parametrize("mark", [b"", BOM], ids=["without mark", "with mark"])
def test_the_byte_that_cannot_be_read_is_named_where_it_stands(mark: bytes) -> None:
    with pytest.raises(CompileError) as refusal:
        decode_source(mark + "// é\nnode ".encode() + b"\xff {}\n", name="schema.pg")

    assert str(refusal.value).splitlines() == [
        "parse error: the file is not UTF-8: byte 0xff cannot be read [P3]",
        "   --> schema.pg:2:6",
        "  2 | node \N{REPLACEMENT CHARACTER} {}",
        "    |      ^ save the file as UTF-8",
    ]


def test_a_character_cut_off_by_the_end_of_the_file_is_named() -> None:
    with pytest.raises(CompileError) as refusal:
        decode_source("// é".encode()[:-1], name="schema.pg")

    (fault,) = refusal.value.diagnostics
    assert fault.span is not None
    assert refusal.value.source.text[fault.span.start : fault.span.end] == "\ufffd"


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ud800"], ids=["NUL", "ESC", "surrogate"])
def test_a_character_that_no_text_may_hold_is_not_repeated_in_the_message(character: str) -> None:
    with pytest.raises(CompileError) as refusal:
        require_parseable(Source("schema.pg", f"node {character}N {{}}"))

    assert character not in str(refusal.value)
    assert "node \N{REPLACEMENT CHARACTER}N {}" in str(refusal.value)
