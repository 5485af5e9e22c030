"""The words that names and prose of this project do not use, and the terms that replace them.

`python -m tests.architecture.vocabulary PATH…` lists every use below the paths. `IN_NAMES` holds
words of identifiers, compared with each part of a `snake_case` or `CamelCase` name that the code
defines; `IN_PROSE` holds words of docstrings, comments, messages and documents. A word is absent
from a list where it has a standard meaning of its own.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

IN_NAMES: Mapping[str, str] = {
    "anew": "again",
    "answer": "result; response",
    "answered": "result; response",
    "answering": "responding; with_request",
    "answers": "results; responses",
    "ask": "request",
    "asked": "request; requested",
    "asking": "request",
    "asks": "requests",
    "authority": "branch state",
    "contract": "accepted schema",
    "contracts": "accepted schemas",
    "crew": "workers",
    "deed": "action",
    "deeds": "actions",
    "everybody": "any caller",
    "fitting": "coercion",
    "forsake": "discard",
    "gone": "deleted; branch guard",
    "halving": "bisect",
    "hands": "workers",
    "heal": "recover",
    "healed": "recovered",
    "healing": "recovery",
    "heals": "recovers",
    "image": "row version; rows",
    "images": "row versions",
    "judge": "check",
    "judged": "checked",
    "judges": "checks",
    "judging": "checking",
    "junction": "fork point",
    "junctions": "fork points",
    "kept": "cached; retained",
    "lift": "no-op version bump",
    "lifted": "no-op version bump",
    "limited": "restricted",
    "looks": "column pruning",
    "manned": "workers",
    "means": "context",
    "mend": "repair; recover",
    "mended": "repaired",
    "mending": "repair; fix",
    "mentions": "references",
    "moment": "timestamp",
    "moments": "timestamps",
    "nobody": "no caller; no process",
    "parting": "merge base; fork point",
    "partings": "merge bases; fork points",
    "permitted": "visible; row-level security",
    "placing": "write placement",
    "portion": "split; partition",
    "portions": "splits; partitions",
    "probing": "storage check",
    "sealing": "redacted receipts",
    "settle": "recover; repair; resolve",
    "settled": "recovered; resolved",
    "sift": "validate",
    "sifted": "validated",
    "sifting": "validation",
    "somebody": "another process; a caller",
    "speaks": "supports",
    "spell": "encode; render",
    "spelled": "encoded",
    "spells": "encodes",
    "standing": "branch guard; existing",
    "stands": "exists",
    "strike": "delete",
    "struck": "deleted",
    "tell": "report; result",
    "telling": "report; result",
    "tells": "reports",
    "tenure": "held lease",
    "tenures": "held leases",
    "terms": "options",
    "told": "result; recorded response",
    "unheard": "unknown; missing",
    "unsaid": "default; unset",
    "upkeep": "maintenance",
    "verdict": "outcome",
    "verdicts": "outcomes",
    "warm": "cached",
    "wear": "compaction policy",
    "whoever": "the caller; the writer",
    "world": "context",
}

IN_PROSE: Mapping[str, str] = {
    "anew": "again",
    "crew": "workers",
    "deed": "action",
    "deeds": "actions",
    "everybody": "any caller",
    "forsake": "discard",
    "forsaken": "discarded",
    "heal": "recover",
    "healed": "recovered",
    "heals": "recovers",
    "judge": "check",
    "judged": "checked",
    "junctions": "fork points",
    "mend": "repair",
    "mended": "repaired",
    "mending": "repair",
    "mends": "repairs",
    "nobody": "no process; no caller",
    "somebody": "another process; a caller",
    "struck": "deleted",
    "telling": "reporting",
    "tells": "reports; shows",
    "tenure": "held lease",
    "tenures": "held leases",
    "told": "reported; given",
    "unheard": "unknown",
    "upkeep": "maintenance",
    "verdict": "outcome",
    "whoever": "the caller; the writer",
}

_PHRASES: Mapping[str, str] = {
    r"(?<![Tt]here )\bis no (?!longer|more|such|different|other|need|worse)[a-z`]": "is not a …",
    r"\bwho(?:m)? (?:asks|is asking|writes|reads)\b": "the caller; the writer",
    r"\bwhat (?:it was given|was asked|stands)\b": "name the thing",
    r"\bby halves\b": "partially",
    r"\bmade anew\b": "recreated",
}

# Values of formats and of metrics, names of other libraries, and warm runs of benchmarks.
_EXEMPT: Mapping[str, frozenset[str]] = {
    "bench/hybrid_search.py": frozenset({"warm"}),
    "bench/large_graph.py": frozenset({"warm"}),
    "bench/read_queries.py": frozenset({"warm"}),
    "bench/reads_after_commit.py": frozenset({"warm"}),
    "bench/vector_search.py": frozenset({"warm"}),
    "docs/reference/server.md": frozenset({"heal"}),
    "src/omnigraph/cli/commands/maintenance.py": frozenset({"healed"}),
    "src/omnigraph/engine/maintenance/repair.py": frozenset({"healed"}),
    "src/omnigraph/model/ports.py": frozenset({"heal"}),
    "src/omnigraph/storage/external_files.py": frozenset({"tell"}),
    "tests/behaviour/maintenance/test_repair.py": frozenset({"healed"}),
}

# Scripts, the Makefile and the Dockerfile have no suffix.
_PROSE_SUFFIXES = frozenset({"", ".md", ".service", ".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a listed word: where it is and what replaces it."""

    path: Path
    line: int
    word: str
    found: str
    instead: str

    def __str__(self) -> str:
        where = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{where}:{self.line}: {self.word} in {self.found!r}: {self.instead}"


def find_uses(paths: Iterable[Path]) -> Iterator[Use]:
    """Every use of a listed word below the paths, in Python files and in text files."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file == Path(__file__).resolve():
                continue
            exempt = _EXEMPT.get(str(file.relative_to(ROOT)), frozenset())
            for use in _uses_in(file):
                if use.word not in exempt:
                    yield use


def _uses_in(file: Path) -> Iterator[Use]:
    if file.is_file() and file.suffix in _PROSE_SUFFIXES:
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            yield from _in_prose(file, number, line)
    elif file.suffix == ".py":
        source = file.read_text()
        yield from _in_names(file, source)
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                yield from _in_prose(file, token.start[0], token.string)


def _in_names(file: Path, source: str) -> Iterator[Use]:
    seen: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(source)):
        for name, line in _defined(node):
            for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name):
                word = part.lower()
                if word in IN_NAMES and (name, word) not in seen:
                    seen.add((name, word))
                    yield Use(file, line, word, name, IN_NAMES[word])


def _defined(node: ast.AST) -> Iterator[tuple[str, int]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, node.lineno
        case ast.arg():
            yield node.arg, node.lineno
        case ast.Name(ctx=ast.Store()):
            yield node.id, node.lineno
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr, node.lineno
        case ast.alias(asname=str(name)):
            yield name, node.lineno
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, node.lineno
        case _:
            return


def _in_prose(file: Path, number: int, text: str) -> Iterator[Use]:
    for offset, line in enumerate(text.splitlines() or [""]):
        for word in re.findall(r"[A-Za-z]+", line):
            if word.lower() in IN_PROSE:
                yield Use(file, number + offset, word.lower(), line.strip(), IN_PROSE[word.lower()])
        for pattern, instead in _PHRASES.items():
            for found in re.finditer(pattern, line):
                yield Use(file, number + offset, found.group(), line.strip(), instead)


if __name__ == "__main__":
    for use in find_uses(Path(each).resolve() for each in sys.argv[1:]):
        sys.stdout.write(f"{use}\n")
