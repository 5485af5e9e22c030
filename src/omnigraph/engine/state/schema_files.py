"""The accepted schema: three files at the root that must agree with each other.

`_schema.pg` is the accepted text, `_schema.ir.json` its canonical form, `__schema_state.json` the
hash of both. A text whose meaning differs from the other two was edited by hand: it is unknown
which of them the rows obey, so reads and writes are refused. History records the hash of the schema
under which each commit was made; every schema that was ever accepted is archived by its hash, so
that past states are read as they were. While a schema is being accepted, its text is staged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.schema.canonical import (
    FORMAT_VERSION,
    document_of,
    hash_schema,
    without_hints,
)
from omnigraph.engine.state.renames import PresentName, also_known_as
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import CompileError, CorruptError, NotFoundError, SchemaChangedError
from omnigraph.model.source import Source
from omnigraph.storage.locks import LockKey
from omnigraph.storage.ports import Listing, ObjectStore, StoredObject

SOURCE_FILE = "_schema.pg"
CATALOG_FILE = "_schema.ir.json"
STATE_FILE = "__schema_state.json"
FILES = (SOURCE_FILE, CATALOG_FILE, STATE_FILE)
STAGED_FILE = "_schema.pg.staging"
ARCHIVE_PREFIX = "__schemas"

SCHEMA_LOCK = LockKey("__schema", "__schema")
"""Only the holder of this lock may change the schema or create a branch."""

_STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class AcceptedSchema:
    """An accepted schema, and the tokens of the files that it was read from, if any.

    `names` are the current names by which an earlier schema can also be read.
    """

    source: str
    catalog: Catalog
    schema_hash: str
    token_by_file: Mapping[str, str]
    names: frozenset[PresentName] = frozenset()

    def with_names(self, names: frozenset[PresentName]) -> AcceptedSchema:
        """The same schema, whose types and properties can also be found by current names."""
        if not names:
            return self
        return replace(self, catalog=also_known_as(self.catalog, names), names=names)

    def is_as_listed(self, root: Mapping[str, str]) -> bool:
        """Whether a listing of the root shows the same files that were read."""
        tokens = self.token_by_file
        return bool(tokens) and all(root.get(name) == token for name, token in tokens.items())


def encode_schema_files(source: str, catalog: Catalog) -> dict[str, bytes]:
    """The files of a schema, by name, in the order in which they are written."""
    state = {
        "format_version": _STATE_FORMAT,
        "schema_ir_hash": hash_schema(catalog),
        "schema_identity_version": FORMAT_VERSION,
    }
    return {
        SOURCE_FILE: source.encode(),
        CATALOG_FILE: orjson.dumps(document_of(catalog), option=orjson.OPT_INDENT_2),
        STATE_FILE: orjson.dumps(state),
    }


def read_accepted_schema(objects: ObjectStore, *, uri: str) -> AcceptedSchema:
    """The accepted schema of a graph, proven to be consistent.

    Raises `NotFoundError` if there is no graph, `SchemaChangedError` if a file is missing or the
    files disagree, and `CorruptError` if a generated file cannot be decoded.
    """
    stored = {name: objects.find(name) for name in FILES}
    source = stored[SOURCE_FILE]
    if source is None:
        raise NotFoundError(kind="graph", name=uri, advice="`init` creates one")
    catalog_file, state_file = stored[CATALOG_FILE], stored[STATE_FILE]
    if catalog_file is None or state_file is None:
        missing = CATALOG_FILE if catalog_file is None else STATE_FILE
        raise SchemaChangedError(
            reason=f"the schema's files are incomplete: {missing} is missing; restore it from a "
            "copy, or delete the other generated one too and open the graph for writing"
        )
    text = _decode_text(source.content)
    accepted_hash = _decode_state(state_file.content)
    catalog = without_hints(_compile_accepted(text))
    try:
        is_stored = is_form_of(catalog, catalog_file.content)
    except ValueError as error:
        raise CorruptError(
            subject=CATALOG_FILE, problem=f"it is not a valid stored schema: {error}"
        ) from error
    schema_hash = hash_schema(catalog)
    if is_stored != (accepted_hash == schema_hash):
        raise SchemaChangedError(
            reason=f"{CATALOG_FILE} no longer matches the accepted compiled schema; restore the "
            f"copy that {STATE_FILE} was written with"
        )
    if not is_stored:
        raise _edited(_OTHER_SCHEMA)
    tokens = {name: each.token for name, each in stored.items() if each is not None}
    return AcceptedSchema(text, catalog, schema_hash, tokens)


def is_form_of(catalog: Catalog, stored: bytes) -> bool:
    """Whether a text is the canonical form of a schema, in any layout of JSON.

    Raises `ValueError` if it is not JSON of this version.
    """
    document: object = orjson.loads(stored)
    if not isinstance(document, dict) or document.get("ir_version") != FORMAT_VERSION:
        raise ValueError("it has no format that this version reads")
    # As texts, because Python considers `1`, `1.0` and `true` equal.
    found, expected = (
        orjson.dumps(each, option=orjson.OPT_SORT_KEYS) for each in (document, document_of(catalog))
    )
    return found == expected


def archive_schema(source: str, schema_hash: str, *, objects: ObjectStore) -> None:
    """Archive a schema for reads of the commits that were made under it."""
    objects.put_if_absent(_archive_path(schema_hash), source.encode())


def find_archived(schema_hash: str, *, objects: ObjectStore) -> AcceptedSchema | None:
    """A schema that was accepted at some time, or None if it was not archived."""
    path = _archive_path(schema_hash)
    stored = objects.find(path)
    if stored is None:
        return None
    text = _decode_text(stored.content)
    catalog = _compile(text)
    if hash_schema(catalog) != schema_hash:
        raise CorruptError(subject=path, problem="it is not the schema that its name says")
    return AcceptedSchema(text, catalog, schema_hash, {})


def stage_schema(source: str, *, objects: ObjectStore) -> None:
    """Stage a schema that is about to be accepted: from here on, a crash ends with this schema."""
    objects.put(STAGED_FILE, source.encode())


def find_staged(objects: ObjectStore) -> str | None:
    """The hash of the schema that is about to be accepted, if there is one."""
    staged = _find_staged_text(objects)
    return None if staged is None else hash_schema(_compile(staged))


def find_accepted(schema_hash: str, *, objects: ObjectStore) -> AcceptedSchema | None:
    """A schema that history names and whose files may not have reached the root yet."""
    staged = _find_staged_text(objects)
    if staged is not None and _has_hash(staged, schema_hash):
        # The archived text may be an earlier one with the same meaning.
        return AcceptedSchema(staged, _compile(staged), schema_hash, {})
    return find_archived(schema_hash, objects=objects)


def discard_staged(objects: ObjectStore) -> None:
    """Delete the staged text of a schema."""
    objects.delete(STAGED_FILE)


def find_files(objects: ObjectStore) -> dict[str, StoredObject | None]:
    """The current files at the root, for a caller that is about to replace them."""
    return {name: objects.find(name) for name in (*FILES, STAGED_FILE)}


def promote_schema(
    schema_hash: str, *, over: Mapping[str, StoredObject | None], objects: ObjectStore
) -> None:
    """Write the files of an accepted schema to the root; safe to repeat and to interrupt.

    `over` holds the files from before it was certain that history names the schema. If another
    process has replaced one since, it may be promoting a later schema, so the remaining files are
    left to it.
    """
    staged, source = over[STAGED_FILE], over[SOURCE_FILE]
    texts = [_decode_text(each.content) for each in (staged, source) if each is not None]
    text = next((each for each in texts if _has_hash(each, schema_hash)), None)
    if text is None:
        accepted = find_archived(schema_hash, objects=objects)
        assert accepted is not None, "a schema is kept before history names it"
        text = accepted.source
    for name, content in encode_schema_files(text, _compile(text)).items():
        if not _replace(name, content, over[name], objects):
            return
    if staged is not None and objects.find(STAGED_FILE) == staged:
        discard_staged(objects)


def _replace(name: str, content: bytes, known: StoredObject | None, objects: ObjectStore) -> bool:
    """Write an object unless another process has changed it; return whether it has the content."""
    if known is None:
        return objects.put_if_absent(name, content)
    if known.content == content:
        return True
    return objects.put_if_match(name, content, token=known.token) is not None


def _has_hash(text: str, schema_hash: str) -> bool:
    try:
        return hash_schema(_compile(text)) == schema_hash
    except CompileError:
        return False


def _find_staged_text(objects: ObjectStore) -> str | None:
    stored = objects.find(STAGED_FILE)
    return None if stored is None else _decode_text(stored.content)


def is_staged(root: Listing) -> bool:
    """Whether a listing of the root shows a schema that is about to be accepted."""
    return STAGED_FILE in root.token_by_name


def _archive_path(schema_hash: str) -> str:
    return f"{ARCHIVE_PREFIX}/{schema_hash.removeprefix('sha256:')}.pg"


def is_bare(objects: ObjectStore) -> bool:
    """Whether only the text exists, without the two files generated from it."""
    return (
        objects.find(SOURCE_FILE) is not None
        and objects.find(CATALOG_FILE) is None
        and objects.find(STATE_FILE) is None
    )


def write_derived_files(objects: ObjectStore, *, accepted: str | None) -> None:
    """Generate the two derived files from the text, for a graph that has lost both.

    `accepted` is the hash of the schema that history names; a text with another meaning raises
    `SchemaChangedError`.
    """
    source = objects.find(SOURCE_FILE)
    assert source is not None
    text = _decode_text(source.content)
    catalog = _compile(text) if accepted is None else _compile_accepted(text)
    if accepted is not None and hash_schema(catalog) != accepted:
        raise _edited(_OTHER_SCHEMA)
    files = encode_schema_files(text, catalog)
    for name in (CATALOG_FILE, STATE_FILE):
        objects.put(name, files[name])


def _compile_accepted(text: str) -> Catalog:
    try:
        return _compile(text)
    except CompileError as error:
        raise _edited("was edited and does not compile") from error


def _edited(problem: str) -> SchemaChangedError:
    return SchemaChangedError(
        reason=f"{SOURCE_FILE} {problem}; undo the edit, and change a schema with `apply_schema`"
    )


_OTHER_SCHEMA = "no longer matches the accepted compiled schema"


def _compile(text: str) -> Catalog:
    return compile_schema(Source(SOURCE_FILE, text))


def _decode_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _edited("is not valid UTF-8") from error


def _decode_state(content: bytes) -> object:
    try:
        state: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise CorruptError(subject=STATE_FILE, problem="it is not valid JSON") from error
    if not isinstance(state, dict) or state.get("format_version") != _STATE_FORMAT:
        raise CorruptError(subject=STATE_FILE, problem="it has no format that this version reads")
    return state.get("schema_ir_hash")
