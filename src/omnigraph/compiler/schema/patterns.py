"""Patterns of `@check`: the part of regular expressions that every engine we run reads alike.

A pattern is checked where the schema is compiled, so that no write ever meets one it cannot run.
Left out is what linear-time engines do not have (look-around, back-references, possessive
repeats) and what two engines read differently (`{,n}`, a plain `{`, nested sets, `\\Z`).
"""

import re

from omnigraph.model.limits import PATTERN_CHARACTERS_MAX, PATTERN_REPETITION_MAX

_SET_ESCAPES = frozenset("dDwWsSntrfvx")
_ESCAPES = _SET_ESCAPES | frozenset("bBA")
_PART = re.compile(
    r"""
      \\(?P<escape>.)
    | \((?P<group>\?(?:P<[A-Za-z_]\w*>|[a-zA-Z-]*[:)]|.?.?))
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*+\]) | (?P<open_set>\[)
    | (?P<possessive>(?:[*+?]|\{\d+(?:,\d*)?\})\+)
    | \{(?P<repeat>\d*,?\d*)\}
    | (?P<brace>\{)
    | .
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_GROUPS = re.compile(r"\?(?:P<[A-Za-z_]\w*>|[ims]*[:)])", re.ASCII)


def find_pattern_problem(pattern: str) -> str | None:
    """Why a pattern cannot be used, or `None` when it can."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        return f"it has more than {PATTERN_CHARACTERS_MAX} characters"
    for part in _PART.finditer(pattern):
        if problem := _problem_of(part):
            return problem
    if _repeats_too_often(pattern):
        return f"repetitions inside each other multiply to at most {PATTERN_REPETITION_MAX}"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is not a regular expression: {error}"
    return None


def _problem_of(part: re.Match[str]) -> str | None:
    match part.lastgroup:
        case "escape":
            return _escape_problem(part["escape"], known=_ESCAPES)
        case "group":
            if not _GROUPS.fullmatch(part["group"]):
                return f"`({part['group']}` is not supported; there is no look-around"
        case "set":
            return _set_problem(part["set"])
        case "open_set":
            return "a set that starts with `[` does not end with `]`"
        case "possessive":
            return f"`{part[0]}` is not supported"
        case "repeat":
            return _repeat_problem(part["repeat"])
        case "brace":
            return "a `{` that starts no repetition is written `\\{`"
        case _:
            pass  # a character, an anchor, a plain group: read alike everywhere
    return None


def _escape_problem(escape: str, *, known: frozenset[str]) -> str | None:
    if escape.isdigit():
        return f"back-references (`\\{escape}`) are not supported"
    # Some engines take \< and \> for the ends of a word, others for themselves.
    if (escape.isalnum() and escape not in known) or escape in "<>":
        return f"`\\{escape}` is not supported"
    return None


def _set_problem(characters: str) -> str | None:
    body = characters[1:-1]
    for escape in re.finditer(r"\\(.)", body, re.DOTALL):
        if problem := _escape_problem(escape[1], known=_SET_ESCAPES):
            return problem
    plain = re.sub(r"\\.", "", body, flags=re.DOTALL)
    if "[" in plain or re.search(r"&&|--|~~|\|\|", plain):
        return "write `[`, `&&`, `--`, `~~` and `||` with a backslash inside a set"
    return None


def _repeat_problem(repeat: str) -> str | None:
    if not repeat or repeat.startswith(","):
        return f"`{{{repeat}}}` is read differently by different engines; write `{{0,n}}`"
    if any(len(n) > 4 or int(n) > PATTERN_REPETITION_MAX for n in repeat.split(",") if n):
        return f"a repetition is at most {PATTERN_REPETITION_MAX}"
    return None


def _repeats_too_often(pattern: str) -> bool:
    """Whether repetitions of repetitions multiply to more than a linear-time engine expands."""
    most_by_depth = [1]
    last = 1
    for part in _PART.finditer(pattern):
        if part["repeat"]:
            last *= max(int(bound) for bound in part["repeat"].split(",") if bound)
            most_by_depth[-1] = max(most_by_depth[-1], last)
        elif part[0] == "(" or (part["group"] and not part["group"].endswith(")")):
            most_by_depth.append(1)
        elif part[0] == ")" and len(most_by_depth) > 1:
            last = most_by_depth.pop()
            most_by_depth[-1] = max(most_by_depth[-1], last)
        elif part[0] not in {"*", "+", "?"}:
            last = 1
    return max(most_by_depth) > PATTERN_REPETITION_MAX
