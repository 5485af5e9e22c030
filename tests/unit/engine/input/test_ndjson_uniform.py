"""Lines read by Arrow all at once are what they are one by one, or are left to be read so."""

import pytest

from omnigraph.engine.input import ndjson
from omnigraph.engine.input.batches import NOTHING_YET, RowCounter
from omnigraph.engine.input.ndjson import read_records, read_uniform
from omnigraph.errors import InvalidValueError
from tests.support.received import Row, make_read_context, plain_rows
from tests.support.schemas import compile_text

CONTEXT = make_read_context(
    compile_text("""
node Thing { f: F64?  g: F32?  i: I32?  l: I64?  w: U64?  on: Bool?  text: String?  day: Date?
             at: DateTime?  tags: [String]?  nums: [I32]?  v: Vector(2)?  blob: Blob? }
node Person { name: String @key  data: String? }
edge Knows: Person -> Person { since: Date? }
""")
)


def thing(properties: str) -> str:
    return f'{{"type":"Thing","data":{{{properties}}}}}'


def read_one_by_one(text: bytes, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The rows of lines of one type, without help."""
    monkeypatch.setattr(ndjson, "read_uniform", lambda *_: None)
    pieces = read_records(
        [text],
        file="",
        is_start=True,
        context=CONTEXT,
        counter=RowCounter(NOTHING_YET),
        report=None,
    )
    return [row for piece in pieces for row in plain_rows(piece.rows)]


READ = {
    "numbers": [thing('"f":1.5,"g":0.1,"i":-1,"l":9223372036854775807'), thing('"f":1e-7,"g":7')],
    "the largest numbers": [thing('"w":18446744073709551615,"f":12345678901234567890123')],
    "numbers halfway between two": [
        thing('"g":1.00000005960464485'),
        thing('"f":9007199254740993'),
    ],
    "words": [
        thing('"on":true,"text":"a"'),
        thing('"on":false,"text":"é\\u00e9\\ud83d\\ude00\\n"'),
    ],
    "texts like members": [thing('"text":"\\":null, \\"id\\" : {}[]"'), thing('"text":"a : b"')],
    "dates as text": [thing('"day":"2024-06-01","at":"2024-06-01T12:00:00Z"'), thing("")],
    "timestamps as numbers": [thing('"at":1717200000000'), thing('"at":0')],
    "arrays": [thing('"tags":["a","b"],"nums":[1],"v":[1,2.5]'), thing('"tags":[],"nums":[]')],
    "blobs": [thing('"blob":"base64:QUI="'), thing('"blob":"base64:"')],
    "nulls": [thing('"f":null,"tags":null,"id":"a"'), thing('"text":"null","id":"b"')],
    "blanks": ['{ "type" : "Thing", "data" : { "i" : 1 } }', thing('"i":\t2')],
    "no properties": ['{"type":"Thing"}', '{"type":"Thing","data":{}}'],
    "keys": ['{"type":"Person","data":{"name":"a"}}', '{"type":"Person","data":{"name":""}}'],
    "edges": [
        '{"edge":"Knows","from":"a","to":"b","data":{"since":"2024-06-01"}}',
        '{"to":"b","data":{"id":"k"},"edge":"KNOWS","from":"c"}',
    ],
}


@pytest.mark.parametrize("lines", READ.values(), ids=READ)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_lines_of_one_type_are_read_at_once_as_they_are_one_by_one(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], end: str, last: str
) -> None:
    text = f"{end.join(lines)}{last}".encode()

    found = read_uniform(text, CONTEXT)

    assert found is not None
    assert plain_rows(found[1]) == read_one_by_one(text, monkeypatch)


LEFT = {
    "several types": [thing(""), '{"type":"Person","data":{"name":"a"}}'],
    "a blank line": [thing(""), "", thing("")],
    "both spellings of timestamps": [thing('"at":1'), thing('"at":"2024-06-01"')],
    "an integer that is minus zero": [thing('"f":-0')],
    "a property named like a member": ['{"type":"Person","data":{"name":"a","data":null}}'],
}


@pytest.mark.parametrize("lines", LEFT.values(), ids=LEFT)
def test_lines_that_arrow_would_read_otherwise_are_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    text = "\n".join(lines).encode()

    assert read_uniform(text, CONTEXT) is None
    assert len(read_one_by_one(text, monkeypatch)) == len([line for line in lines if line])


REFUSED = {
    "a member twice": thing('"i":1,"i":1'),
    "a member twice, once null": thing('"i":null,"i":1'),
    "a type twice": '{"type":"Thing","type":"Thing"}',
    "no object": '{"type":"Thing","data":[]}',
    "null for an object": '{"type":"Thing","data":null}',
    "null for an object, spelled oddly": '{"type":"Thing","d\\u0061ta":null}',
    "null for an id": thing('"id":null'),
    "null in an array": thing('"nums":[1,null]'),
    "null for an end": '{"edge":"Knows","from":"a","to":null}',
    "an unknown member": '{"type":"Thing","other":null}',
    "an unknown property": thing('"other":null'),
    "an edge that is null beside": '{"type":"Thing","edge":null}',
    "no type": "{}",
    "two objects in a line": thing("") + thing(""),
    "an object over two lines": '{"type":"Thing",\n"data":{}}',
    "a brace at the end of half an object": '{"type":"Thing","data":{}\n}',
    "a fraction": thing('"i":1.0'),
    "an exponent": thing('"i":1e2'),
    "not a number": thing('"f":NaN'),
    "infinity": thing('"f":1e999'),
    "too large for 32 bits": thing('"i":2147483648'),
    "too large for a float": thing('"g":1e39'),
    "a text for a number": thing('"i":"1"'),
    "a number for a text": thing('"text":1'),
    "half of a pair": thing('"text":"\\ud800"'),
    "a vector of another length": thing('"v":[1]'),
    "no date": thing('"day":"soon"'),
    "no key": '{"type":"Person","data":{}}',
    "another id than the key": '{"type":"Person","data":{"name":"a","id":"b"}}',
    "behind the object": thing("") + "x",
    "a comma behind the object": thing("") + ",",
    "a comment": thing("") + "//",
    "a byte order mark": "\ufeff" + thing(""),
    "no text": thing('"text":"\udcff"'),
}


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("before", [[], [thing('"i":1')]], ids=["first", "second"])
def test_a_line_that_is_refused_alone_is_not_read_among_others(
    monkeypatch: pytest.MonkeyPatch, line: str, before: list[str]
) -> None:
    text = "\n".join([*before, line]).encode(errors="surrogateescape")
    text = text if before or not line.startswith("\ufeff") else b"\n" + text

    assert read_uniform(text, CONTEXT) is None
    with pytest.raises(InvalidValueError):
        read_one_by_one(text, monkeypatch)
