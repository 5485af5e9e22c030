"""Whether a history is isolated: what no reader and no writer may ever have seen.

The guarantee that is checked is strict serialisability: there is one order of all transactions, it
explains every read, and a transaction that started after another had ended comes after it. It does
not cover a caller that reads and then writes without a condition on what it read; so a read
belongs to the transaction of a write only if `if_commit` or the write's own condition protects it,
and is a transaction by itself otherwise. Knows histories only, not the graph they are of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, groupby

from tests.support.dependency_cycles import find_cycles
from tests.support.histories import (
    Append,
    History,
    Outcome,
    Read,
    ReadList,
    ReadSet,
    Transaction,
    require_distinct_values,
)
from tests.support.history_order import Account, dependencies_of, is_after, is_prefix, take_account

State = Mapping[str, tuple[int, ...]]


class Kind(StrEnum):
    """What went wrong."""

    LOST_UPDATE = "lost update"
    DIRTY_READ = "dirty read"
    ABORTED_READ = "aborted read"
    INTERMEDIATE_READ = "intermediate read"
    FRACTURED_READ = "fractured read"
    UNREPEATABLE_READ = "unrepeatable read"
    DUPLICATE = "duplicate"
    INCOMPATIBLE_ORDERS = "incompatible orders"
    CYCLE = "cycle"
    WRONG_SNAPSHOT = "wrong snapshot"
    WRONG_HISTORY = "wrong history"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that went wrong, in words."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def find_anomalies(history: History) -> Sequence[Anomaly]:
    """Everything in a history that no order of its transactions explains; none if all is well."""
    require_distinct_values(history)
    account = take_account(history)
    return [
        *_find_foreign_values(account, history),
        *_find_partial_reads(account),
        *_find_incompatible_orders(account),
        *_find_lost_updates(account),
        *(Anomaly(Kind.CYCLE, str(each)) for each in find_cycles(dependencies_of(account))),
    ]


def find_contradictions(
    history: History, label_by_commit: Mapping[str, str | None]
) -> Sequence[Anomaly]:
    """Where a history and the graph's own list of commits disagree; none if all is well.

    The commits are in order, each with the label of the transaction that it says it is.
    """
    by_label = {each.label: each for each in history}
    states: dict[str, State] = {}
    state: State = {}
    for commit_id, label in label_by_commit.items():
        added = by_label[label].appends if label in by_label else ()
        for each in added:
            state = {**state, each.key: (*state.get(each.key, ()), each.value)}
        states[commit_id] = state
    return [
        *_find_unlisted(history, label_by_commit),
        *_find_wrong_snapshots(history, states),
    ]


def _all_reads(account: Account) -> Iterator[tuple[Transaction, Read]]:
    return (each for reads in account.reads.values() for each in reads)


# What can be seen in single reads


def _find_foreign_values(account: Account, history: History) -> Iterator[Anomaly]:
    """Values twice in a read, and values that no write, or no write that took effect, appended."""
    failed = {
        append: each
        for each in history
        if each.outcome is Outcome.FAILED
        for append in each.appends
    }
    for reader, read in _all_reads(account):
        for value, count in Counter(read.values).items():
            append = Append(read.key, value)
            place = f"{reader.label} read {value} in {read.key}"
            if count > 1:
                yield Anomaly(Kind.DUPLICATE, f"{place} {count} times")
            if append in failed:
                text = f"{place}, which {failed[append].label} failed to append"
                yield Anomaly(Kind.ABORTED_READ, text)
            elif append not in account.writer:
                yield Anomaly(Kind.DIRTY_READ, f"{place}, which no write appended")


def _find_partial_reads(account: Account) -> Iterator[Anomaly]:
    """Transactions that saw some of what another did to what they read, and not the rest."""
    for reader in account.transactions:
        seen: dict[str, set[int]] = {}
        for read in reader.reads:
            values = set(read.values)
            if seen.setdefault(read.key, values) != values:
                text = f"{reader.label} read {read.key} twice and differently"
                yield Anomaly(Kind.UNREPEATABLE_READ, text)
        writers = {
            writer.label: writer
            for key, values in seen.items()
            for value in values
            if (writer := account.writer.get(Append(key, value))) is not None
        }
        for writer in writers.values():
            yield from _find_missing_parts(reader, seen, writer)


def _find_missing_parts(
    reader: Transaction, seen: Mapping[str, set[int]], writer: Transaction
) -> Iterator[Anomaly]:
    read = [each for each in writer.appends if each.key in seen]
    present = [each for each in read if each.value in seen[each.key]]
    keys = {each.key for each in present}
    for missing in read:
        if missing in present:
            continue
        kind = Kind.INTERMEDIATE_READ if missing.key in keys else Kind.FRACTURED_READ
        yield Anomaly(
            kind,
            f"{reader.label} saw {present[0].value} in {present[0].key} by {writer.label}, "
            f"but not its {missing.value} in {missing.key}",
        )


def _find_incompatible_orders(account: Account) -> Iterator[Anomaly]:
    """Reads of a list of which neither is how the other began."""
    for key, reads in account.reads.items():
        longest = account.order[key]
        for reader, read in reads:
            if isinstance(read, ReadList) and not is_prefix(read.values, longest):
                text = f"{reader.label} read {key} as {read.values}, another reader as {longest}"
                yield Anomaly(Kind.INCOMPATIBLE_ORDERS, text)


# What can be seen in two transactions


def _find_lost_updates(account: Account) -> Iterator[Anomaly]:
    """Appends that were decided on the same state of a list, or that no later read saw."""
    for key, reads in account.reads.items():
        rewrites = [
            (read.values, reader.label)
            for reader, read in reads
            if isinstance(read, ReadList) and any(each.key == key for each in reader.appends)
        ]
        for values, same in groupby(sorted(set(rewrites)), key=lambda rewrite: rewrite[0]):
            for (_, one), (_, other) in combinations(same, 2):
                text = f"{one} and {other} both read {key} as {values} and appended to it"
                yield Anomaly(Kind.LOST_UPDATE, text)
        seen = {value for _, read in reads for value in read.values}
        for append, writer in account.writer.items():
            if append.key != key or append.value in seen:
                continue
            late = [reader.label for reader, _ in reads if is_after(reader, writer)]
            if late:
                text = f"{writer.label} appended {append.value} to {key}; {late[0]} and all others"
                yield Anomaly(Kind.LOST_UPDATE, f"{text} did not see it")


# Against the commits


def _find_unlisted(
    history: History, label_by_commit: Mapping[str, str | None]
) -> Iterator[Anomaly]:
    listed = Counter(label_by_commit.values())
    for each in history:
        if not each.appends:
            continue
        count = listed[each.label]
        if not _is_listed_rightly(each, count, label_by_commit):
            text = f"{each.label} ended {each.outcome} with {each.commit_id}, {count} commits"
            yield Anomaly(Kind.WRONG_HISTORY, f"{text} are its")


def _is_listed_rightly(
    transaction: Transaction, count: int, label_by_commit: Mapping[str, str | None]
) -> bool:
    match transaction.outcome:
        case Outcome.OK:
            named = label_by_commit.get(transaction.commit_id or "")
            return count == 1 and named == transaction.label
        case Outcome.FAILED:
            return count == 0
        case Outcome.UNKNOWN:
            return count <= 1


def _find_wrong_snapshots(history: History, states: Mapping[str, State]) -> Iterator[Anomaly]:
    """Reads at a commit that differ from what the commits up to it add up to."""
    for each in history:
        if each.appends or each.commit_id is None:
            continue
        state = states.get(each.commit_id)
        if state is None:
            text = f"{each.label} read at {each.commit_id}, which is not a commit"
            yield Anomaly(Kind.WRONG_SNAPSHOT, text)
            continue
        for read in each.reads:
            expected = state.get(read.key, ())
            if not _is_same(read, expected):
                text = f"{each.label} read {read.key} at {each.commit_id} as {read.values}"
                yield Anomaly(Kind.WRONG_SNAPSHOT, f"{text}, not {expected}")


def _is_same(read: Read, expected: tuple[int, ...]) -> bool:
    match read:
        case ReadList(values=values):
            return values == expected
        case ReadSet(values=values):
            return sorted(values) == sorted(expected)
