"""Control objects on a local disk and in memory: conditions, names, listings, failures."""

from pathlib import Path

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError
from obstore.store import LocalStore, MemoryStore

Store = LocalStore | MemoryStore


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Either kind, for what both promise."""
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    """A store over the test's own folder."""
    return LocalStore(tmp_path)


def read(store: Store, path: str) -> bytes:
    return bytes(store.get(path).bytes())


def paths(store: Store, prefix: str) -> list[str]:
    return [found["path"] for page in store.list(prefix) for found in page]


def test_a_put_replaces(store: Store) -> None:
    store.put("folder/a.json", b"1")

    store.put("folder/a.json", b"2")

    assert read(store, "folder/a.json") == b"2"


def test_a_put_if_absent_of_a_new_object_lands(store: Store) -> None:
    store.put("a.json", b"1", mode="create")

    assert read(store, "a.json") == b"1"


def test_a_put_if_absent_refuses_an_existing_object(store: Store) -> None:
    store.put("a.json", b"1")

    with pytest.raises(AlreadyExistsError):
        store.put("a.json", b"2", mode="create")

    assert read(store, "a.json") == b"1"


def test_a_put_if_match_is_not_there_on_a_local_disk(local: LocalStore) -> None:
    # Hence the file lock, the compare and the rename of our own.
    written = local.put("a.json", b"1")
    assert written["e_tag"]

    with pytest.raises(NotImplementedError, match=r"PutMode::Update"):
        local.put("a.json", b"2", mode={"e_tag": written["e_tag"]})


def test_a_put_if_match_in_memory_compares() -> None:
    store = MemoryStore()
    first = store.put("a.json", b"1")["e_tag"]
    assert first

    store.put("a.json", b"2", mode={"e_tag": first})

    assert read(store, "a.json") == b"2"
    with pytest.raises(PreconditionError):
        store.put("a.json", b"3", mode={"e_tag": first})


def test_a_put_if_match_of_a_missing_object_fails_its_condition() -> None:
    with pytest.raises(PreconditionError):
        MemoryStore().put("a.json", b"1", mode={"e_tag": '"0"'})


def test_an_e_tag_in_memory_counts_the_puts() -> None:
    store = MemoryStore()

    assert [store.put("a.json", b"1")["e_tag"] for _ in range(3)] == ['"0"', '"1"', '"2"']


def test_an_e_tag_on_a_local_disk_is_inode_time_and_size(local: LocalStore, tmp_path: Path) -> None:
    # Where the clock of the file system ticks in milliseconds, two puts can share it: what we
    # compare on a disk is the content.
    tag = local.put("a.json", b"12")["e_tag"]

    found = (tmp_path / "a.json").stat()
    assert tag == f'"{found.st_ino:x}-{found.st_mtime_ns // 1000:x}-2"'


@pytest.mark.parametrize("call", ["get", "head"])
def test_a_missing_object_is_pythons_own_error(store: Store, call: str) -> None:
    # Not obstore's NotFoundError, which is nothing's parent.
    with pytest.raises(FileNotFoundError):
        getattr(store, call)("nowhere.json")


def test_a_folder_is_no_object(local: LocalStore) -> None:
    local.put("folder/a.json", b"1")

    with pytest.raises(FileNotFoundError):
        local.get("folder")


def test_deleting_a_missing_object_fails_on_a_local_disk_only(local: LocalStore) -> None:
    MemoryStore().delete("nowhere.json")

    with pytest.raises(FileNotFoundError):
        local.delete("nowhere.json")


def test_deleting_several_fails_on_a_missing_one(local: LocalStore) -> None:
    # By then the others are gone or not: they are deleted side by side.
    local.put("folder/a.json", b"1")

    with pytest.raises(FileNotFoundError):
        local.delete(["folder/a.json", "folder/nowhere.json"])


def test_a_rename_that_must_not_replace_is_refused(store: Store) -> None:
    store.put("a.json", b"1")
    store.put("b.json", b"2")

    with pytest.raises(AlreadyExistsError):
        store.rename("a.json", "b.json", overwrite=False)

    assert read(store, "b.json") == b"2"


def test_a_listing_goes_all_the_way_down_below_whole_segments(store: Store) -> None:
    for path in ("log/b", "log/a", "log/sub/c", "logs/d"):
        store.put(path, b"1")

    assert sorted(paths(store, "log")) == ["log/a", "log/b", "log/sub/c"]


def test_a_listing_on_a_local_disk_is_in_no_order(tmp_path: Path) -> None:
    # In memory it is sorted, so a test that relies on order passes there and fails on a disk.
    names = [f"{number:04}" for number in range(200)]
    local, memory = LocalStore(tmp_path), MemoryStore()
    for name in names:
        local.put(name, b"1")
        memory.put(name, b"1")

    assert [found["path"] for page in memory.list() for found in page] == names
    assert sorted(found["path"] for page in local.list() for found in page) == names
    assert [found["path"] for page in local.list() for found in page] == [
        path.name for path in _in_folder_order(tmp_path)
    ]


def test_a_listing_of_nothing_is_empty(store: Store) -> None:
    assert paths(store, "nowhere") == []


def test_one_level_is_listed_with_a_delimiter(store: Store) -> None:
    for path in ("log/b", "log/a", "log/sub/c"):
        store.put(path, b"1")

    found = store.list_with_delimiter("log")

    assert sorted(entry["path"] for entry in found["objects"]) == ["log/a", "log/b"]
    assert list(found["common_prefixes"]) == ["log/sub"]


def test_a_file_being_written_is_in_no_listing(local: LocalStore, tmp_path: Path) -> None:
    # obstore writes `name#1`, `name#2`, … and renames; what a crash leaves is not an object.
    (tmp_path / "a.json#1").write_bytes(b"half")

    local.put("a.json", b"whole")

    assert paths(local, "") == ["a.json"]
    assert (tmp_path / "a.json#1").read_bytes() == b"half"


@pytest.mark.parametrize("call", ["get", "head", "delete"])
def test_what_a_crash_left_cannot_be_reached_by_name(
    local: LocalStore, tmp_path: Path, call: str
) -> None:
    # So only the file system removes it.
    (tmp_path / "a.json#1").write_bytes(b"half")

    with pytest.raises(GenericError, match="not supported"):
        getattr(local, call)("a.json#1")


@pytest.mark.parametrize(
    "name",
    ["with space", "ha#sh", "per%cent", "per%20cent", "größe", "a+b", "what?", "x:y", "*", "a\\b"],
)
def test_a_name_is_taken_as_it_is(store: Store, name: str) -> None:
    store.put(f"folder/{name}", b"1")

    assert read(store, f"folder/{name}") == b"1"
    assert paths(store, "folder") == [f"folder/{name}"]


@pytest.mark.parametrize("name", ["..", "a/../b", "a//b", "/a", "a\nb", "a\0b"])
def test_a_name_that_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="Could not parse path"):
        store.put(f"folder/{name}", b"1")


def test_a_name_in_the_form_of_a_temporary_file_is_refused_on_a_disk(
    local: LocalStore,
) -> None:
    with pytest.raises(GenericError, match="not supported"):
        local.put("a#1", b"1")


def test_a_store_over_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GenericError, match="Unable to canonicalize"):
        LocalStore(tmp_path / "nowhere")


def test_a_store_creates_its_folder_on_request(tmp_path: Path) -> None:
    LocalStore(tmp_path / "new", mkdir=True).put("a.json", b"1")

    assert (tmp_path / "new" / "a.json").read_bytes() == b"1"


@pytest.mark.parametrize("is_cleaned", [True, False])
def test_deleting_the_last_object_leaves_its_folder_by_default(
    tmp_path: Path, *, is_cleaned: bool
) -> None:
    store = LocalStore(tmp_path, automatic_cleanup=is_cleaned)
    store.put("folder/a.json", b"1")

    store.delete("folder/a.json")

    assert (tmp_path / "folder").exists() is not is_cleaned


def test_two_stores_in_memory_share_nothing() -> None:
    first, second = MemoryStore(), MemoryStore()

    first.put("a.json", b"1")

    assert paths(second, "") == []


def _in_folder_order(folder: Path) -> list[Path]:
    return list(folder.iterdir())
