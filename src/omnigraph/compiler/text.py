"""What a text must be before a parser may see it: decodable, of bounded size, depth and characters.

These checks run in one linear pass and make every later stage safe to recurse. They know the
lexical rules that both languages share and nothing else.
"""

import math
import re

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.model.errors import CompileError
from omnigraph.model.limits import NAME_CHARACTERS_MAX, NESTING_MAX, SOURCE_CHARACTERS_MAX
from omnigraph.model.source import Diagnostic, Severity, Source, Span

_SHAPE = re.compile(
    rf"""
      "(?:[^"\\]|\\.)*+" | //[^\n]*+ | /\*.*?\*/    # a string or a comment, whole
    | (?P<open_string>") | (?P<open_comment>/\*)    # one that does not end
    | (?P<long_name>\b[A-Za-z_][A-Za-z0-9_]{{{NAME_CHARACTERS_MAX},}}+)
    | (?P<opening>[{{(\[]) | (?P<closing>[}})\]])
    """,
    re.DOTALL | re.VERBOSE,
)
_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INTEGER_DIGITS_MAX = 20
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def decode_source(encoded: bytes, *, name: str) -> Source:
    """Read a file's bytes as UTF-8 text; a byte order mark is dropped."""
    try:
        return Source(name, encoded.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        # The codec cuts the byte order mark off first and counts from behind it.
        read, start = error.object, len(error.object[: error.start].decode())
        raise refusal(
            Source(name, read.decode(errors="replace")),
            "P3",
            f"the file is not UTF-8: byte 0x{read[error.start]:02x} cannot be read",
            Span(start, start + 1),
            "save the file as UTF-8",
        ) from error


def require_parseable(source: Source) -> None:
    """Raise `CompileError` unless the text is safe to hand to a parser."""
    text = source.text
    if len(text) > SOURCE_CHARACTERS_MAX:
        message = f"the text has {len(text)} characters; at most {SOURCE_CHARACTERS_MAX} are read"
        raise refusal(Source(source.name, ""), "P4", message, None, "split it into several files")
    if unreadable := _UNREADABLE.search(text):
        character = ord(unreadable[0])
        message = f"the character U+{character:04X} cannot be part of a text"
        # A terminal would obey it or fail to encode it, so the message must not repeat it.
        shown = Source(source.name, _UNREADABLE.sub(_REPLACEMENT, text))
        raise refusal(shown, "P3", message, Span(*unreadable.span()), "remove it")
    _require_shape(source)


def decode_string(token: str, *, start: int, diagnostics: Diagnostics) -> str:
    """The value of a string literal, quotes and escapes resolved."""
    body = token[1:-1]
    if "\\" not in body:
        return body

    def unescape(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPED:
            place = Span(start + 1 + escape.start(), start + 1 + escape.end())
            advice = r"the escapes are \" \\ \n \r \t; write \\ for a backslash"
            diagnostics.error("P5", f"unsupported escape sequence {escape[0]}", place, advice)
        return _ESCAPED.get(escape[1], "")

    return _ESCAPE.sub(unescape, body)


def decode_number(token: str, *, start: int, diagnostics: Diagnostics) -> int | float:
    """The value of a number literal; one that 64 bits cannot hold is reported."""
    is_float = not token.lstrip("-").isdigit()
    if not is_float and fits_integer(token):
        return int(token)
    if is_float and math.isfinite(number := float(token)):
        return number
    what = "float" if is_float else "integer"
    span = Span(start, start + len(token))
    diagnostics.error("P6", f"invalid {what}: the number does not fit 64 bits", span)
    return 0


def fits_integer(token: str) -> bool:
    """Whether 64 bits hold an integer literal."""
    # Python refuses to read thousands of digits, so length is looked at before value.
    return len(token) <= _INTEGER_DIGITS_MAX and -(2**63) <= int(token) < 2**63


def refusal(
    source: Source, code: str, message: str, span: Span | None, advice: str | None
) -> CompileError:
    """The error for a text that goes no further than this fault."""
    fault = Diagnostic(code, message, Severity.ERROR, span, advice)
    return CompileError(diagnostics=(fault,), source=source)


def _require_shape(source: Source) -> None:
    depth = 0
    for part in _SHAPE.finditer(source.text):
        match part.lastgroup:
            case "opening":
                depth += 1
                if depth > NESTING_MAX:
                    message = f"brackets are nested more than {NESTING_MAX} deep"
                    raise refusal(source, "P4", message, Span(*part.span()), None)
            case "closing":
                depth -= 1
            case "long_name":
                message = f"a name has at most {NAME_CHARACTERS_MAX} characters"
                raise refusal(source, "P4", message, Span(*part.span()), "choose a shorter one")
            case "open_string":
                advice = 'it starts here; end it with "'
                raise refusal(source, "P2", "the string does not end", Span(*part.span()), advice)
            case "open_comment":
                advice = "it starts here; end it with */"
                raise refusal(source, "P2", "the comment does not end", Span(*part.span()), advice)
            case _:
                pass  # a whole string or comment: what stands in it is not counted
