"""What reads keep for the next one: by use, up to a number of bytes, safe between threads."""

import threading
from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.read.budget import CacheMemory, LruCache, UseCounter
from omnigraph.engine.read.entities import UNBOUND, HashedIds
from omnigraph.engine.read.ordering import hash_text, hash_texts
from tests.support.processes import race


def make_cache(bytes_max: int) -> LruCache[str, str]:
    """Texts by key, a byte a character."""
    return LruCache(CacheMemory(bytes_max, None), name="texts", size_of=len)


def keep(cache: LruCache[str, str], *pairs: tuple[str, str]) -> None:
    """Make an entry of each pair that is not there."""
    for key, text in pairs:
        cache.get(key, partial(str, text))


def test_an_entry_is_built_once_and_cached() -> None:
    cache = make_cache(10)
    made: list[str] = []

    def make() -> str:
        made.append("one")
        return "one"

    results = [cache.get("a", make) for _ in range(3)]

    assert results == ["one"] * 3
    assert made == ["one"]
    assert cache.find("a") == "one"


def test_what_was_never_made_is_not_found() -> None:
    cache = make_cache(10)

    assert cache.find("a") is None
    assert "a" not in cache


def test_the_least_used_entries_go_first() -> None:
    cache = make_cache(9)
    keep(cache, ("a", "aaa"), ("b", "bbb"), ("c", "ccc"))

    cache.find("a")
    keep(cache, ("d", "ddd"))

    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]


def test_looking_whether_an_entry_is_there_is_no_use_of_it() -> None:
    cache = make_cache(6)
    keep(cache, ("a", "aaa"), ("b", "bbb"))

    assert "a" in cache
    keep(cache, ("c", "ccc"))

    assert [key for key in "abc" if key in cache] == ["b", "c"]


def test_a_large_entry_takes_the_place_of_several() -> None:
    cache = make_cache(9)
    keep(cache, ("a", "aaa"), ("b", "bbb"), ("c", "ccc"))

    keep(cache, ("d", "d" * 6))

    assert [key for key in "abcd" if key in cache] == ["c", "d"]


def test_an_entry_that_is_too_large_is_returned_and_evicts_nothing() -> None:
    cache = make_cache(5)
    keep(cache, ("a", "aaa"))

    found = cache.get("b", lambda: "b" * 6)

    assert found == "b" * 6
    assert [key for key in "ab" if key in cache] == ["a"]


def test_caches_of_one_memory_evict_each_other() -> None:
    memory = CacheMemory(9, None)
    first = LruCache[str, str](memory, name="first", size_of=len)
    second = LruCache[str, str](memory, name="second", size_of=len)
    keep(first, ("a", "aaa"), ("b", "bbb"))
    keep(second, ("a", "aaa"))

    first.find("a")
    keep(second, ("c", "cccc"))

    assert (list(first), list(second)) == (["a"], ["c"])
    stats = memory.stats()
    assert (dict(stats.bytes_by_kind), stats.bytes) == ({"first": 3, "second": 4}, 7)
    assert (stats.hits, stats.misses, stats.evictions) == (1, 4, 2)


def test_bytes_are_counted_once_for_an_entry_that_several_threads_made() -> None:
    cache = make_cache(6)
    have_missed = threading.Barrier(2)

    def make() -> str:
        have_missed.wait()
        return "aaa"

    results = race(lambda _number: cache.get("a", make), count=2)
    keep(cache, ("b", "bbb"))

    assert results == ["aaa", "aaa"]
    assert [key for key in "ab" if key in cache] == ["a", "b"]


def test_threads_that_share_a_cache_get_their_own_results() -> None:
    cache = make_cache(40)

    def look(number: int) -> list[str]:
        keys = [str((number * step) % 17) for step in range(400)]
        return [key for key in keys if cache.get(key, partial(_triple, key)) != _triple(key)]

    wrong = race(look, count=6)

    assert wrong == [[]] * 6


def test_requests_are_counted_by_key() -> None:
    counter: UseCounter[str] = UseCounter(keys_max=4)

    counts = [counter.note(key) for key in "aabaa"]

    assert counts == [1, 2, 1, 3, 4]
    assert (counter.count("a"), counter.count("b"), counter.count("c")) == (4, 1, 0)


def test_an_entry_unused_for_long_is_evicted() -> None:
    counter: UseCounter[str] = UseCounter(keys_max=2)

    for key in "abac":
        counter.note(key)

    assert (counter.count("a"), counter.count("b"), counter.count("c")) == (2, 0, 1)


def test_no_request_is_lost_between_threads() -> None:
    counter: UseCounter[str] = UseCounter(keys_max=2)

    race(lambda _number: [counter.note("a") for _ in range(200)], count=5)

    assert counter.count("a") == 1_000


def _triple(text: str) -> str:
    return text * 3


@given(
    ids=st.lists(st.text(alphabet="ab/é\0", max_size=40), unique=True, max_size=30),
    others=st.lists(st.text(alphabet="ab/é\0", max_size=40) | st.none(), max_size=10),
)
def test_hashed_ids_are_found_as_by_a_dictionary(ids: list[str], others: list[str | None]) -> None:
    wanted = [*ids[::-1], *others]

    found = HashedIds(pa.array(ids, pa.string())).find(pa.array(wanted, pa.string()))

    ordinal_by_id: dict[str | None, int] = {id: ordinal for ordinal, id in enumerate(ids)}
    assert found.tolist() == [ordinal_by_id.get(each, UNBOUND) for each in wanted]


def test_different_ids_with_the_same_hash_are_distinguished() -> None:
    # The hash mixes the length with up to seven bytes, and 3 ^ 4 is 7.
    ids = pa.array(["abc", "abc\0\0\0\4", "d"])
    assert len(set(hash_texts(ids).tolist())) == 2

    few = HashedIds(ids).find(pa.array(["d", "abc\0\0\0\4", "abc", "ab"]))
    many = HashedIds(ids).find(pa.array(5 * ["d", "abc\0\0\0\4", "abc", "ab"]))

    assert few.tolist() == [2, 1, 0, UNBOUND]
    assert many.tolist() == 5 * [2, 1, 0, UNBOUND]


@given(st.text())
def test_one_text_has_the_hash_that_it_has_among_others(text: str) -> None:
    assert hash_text(text) == hash_texts(pa.array([text, "other"]))[0]
