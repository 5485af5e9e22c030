"""What a history says about the order of its transactions: who came before whom, and why.

Lists give an order of writes; a read comes after what it saw and before what it did not see; and
the clock orders what did not overlap. Only transactions that took effect count. Checks nothing:
contradictions are found by others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.support.dependency_cycles import Dependency, Link
from tests.support.histories import (
    Append,
    History,
    Outcome,
    Read,
    ReadList,
    ReadSet,
    Transaction,
)


@dataclass(frozen=True, slots=True)
class Account:
    """A history by whose operation is whose; only of transactions that took effect.

    `order` is the longest that anybody saw of each key.
    """

    transactions: Sequence[Transaction]
    reads: Mapping[str, Sequence[tuple[Transaction, Read]]]
    writer: Mapping[Append, Transaction]
    order: Mapping[str, tuple[int, ...]]


def take_account(history: History) -> Account:
    """The transactions that took effect: an unknown one did if anybody saw anything of it."""
    seen = {
        Append(read.key, value) for each in history for read in each.reads for value in read.values
    }

    def took_effect(each: Transaction) -> bool:
        match each.outcome:
            case Outcome.OK:
                return True
            case Outcome.UNKNOWN:
                return not seen.isdisjoint(each.appends)
            case Outcome.FAILED:
                return False

    transactions = [each for each in history if took_effect(each)]
    reads: dict[str, list[tuple[Transaction, Read]]] = defaultdict(list)
    for each in transactions:
        for read in each.reads:
            reads[read.key].append((each, read))
    writer = {append: each for each in transactions for append in each.appends}
    order = {key: max((read.values for _, read in found), key=len) for key, found in reads.items()}
    return Account(transactions, reads, writer, order)


def dependencies_of(account: Account) -> Iterator[Dependency]:
    """Everything that a history says about its order, save what follows from the rest."""
    unseen = _unseen_appends(account)
    for key in account.reads.keys() | {append.key for append in account.writer}:
        yield from _write_dependencies(key, account, unseen.get(key, ()))
        for reader, read in account.reads.get(key, ()):
            match read:
                case ReadList():
                    yield from _list_dependencies(reader, read, account, unseen.get(key, ()))
                case ReadSet():
                    yield from _set_dependencies(reader, read, account)
    yield from _real_time_dependencies(account.transactions)


def _unseen_appends(account: Account) -> Mapping[str, Sequence[Append]]:
    """By key, what was appended and is in no read; it comes after all that was read."""
    unseen: dict[str, list[Append]] = defaultdict(list)
    orders = {key: set(values) for key, values in account.order.items()}
    for append in account.writer:
        if append.value not in orders.get(append.key, ()):
            unseen[append.key].append(append)
    return unseen


def _write_dependencies(
    key: str, account: Account, unseen: Sequence[Append]
) -> Iterator[Dependency]:
    if any(isinstance(read, ReadSet) for _, read in account.reads.get(key, ())):
        return
    order = [Append(key, value) for value in account.order.get(key, ())]
    for earlier, later in [*pairwise(order), *((order[-1], each) for each in unseen if order)]:
        if earlier in account.writer and later in account.writer:
            yield Dependency(
                account.writer[earlier].label,
                account.writer[later].label,
                Link.WW,
                f"appended {earlier.value} to {key}, then the other {later.value}",
            )


def _list_dependencies(
    reader: Transaction, read: ReadList, account: Account, unseen: Sequence[Append]
) -> Iterator[Dependency]:
    order = account.order[read.key]
    if not is_prefix(read.values, order):
        return
    for value in read.values[-1:]:
        yield from _saw(reader, Append(read.key, value), account)
    following = order[len(read.values) : len(read.values) + 1]
    for missed in [Append(read.key, value) for value in following] or unseen:
        yield from _missed(reader, missed, account)


def _set_dependencies(reader: Transaction, read: ReadSet, account: Account) -> Iterator[Dependency]:
    seen = set(read.values)
    for append in account.writer:
        if append.key == read.key:
            see = _saw if append.value in seen else _missed
            yield from see(reader, append, account)


def _saw(reader: Transaction, append: Append, account: Account) -> Iterator[Dependency]:
    writer = account.writer.get(append)
    if writer is not None:
        reason = f"appended {append.value} to {append.key}, and the other saw it"
        yield Dependency(writer.label, reader.label, Link.WR, reason)


def _missed(reader: Transaction, append: Append, account: Account) -> Iterator[Dependency]:
    writer = account.writer.get(append)
    if writer is not None:
        reason = f"did not see {append.value} in {append.key}, which the other appended"
        yield Dependency(reader.label, writer.label, Link.RW, reason)


def _real_time_dependencies(transactions: Sequence[Transaction]) -> Iterator[Dependency]:
    """From each transaction to those that started next; the others follow from these."""
    events = [(each.started, 0, each) for each in transactions]
    events += [(end, 1, each) for each in transactions if (end := _end(each)) is not None]
    newest: list[Transaction] = []
    before: dict[str, Sequence[Transaction]] = {}
    for _, is_end, each in sorted(events, key=lambda event: event[:2]):
        if is_end:
            passed = {earlier.label for earlier in before[each.label]}
            newest = [*(other for other in newest if other.label not in passed), each]
        else:
            before[each.label] = newest
    for label, earlier in before.items():
        for each in earlier:
            yield Dependency(each.label, label, Link.RT, "had ended before the other started")


def is_prefix(values: Sequence[int], longer: Sequence[int]) -> bool:
    """Whether a list began like that."""
    return tuple(longer[: len(values)]) == tuple(values)


def is_after(later: Transaction, earlier: Transaction) -> bool:
    """Whether one started when the other was known to be over."""
    end = _end(earlier)
    return end is not None and end < later.started


def _end(transaction: Transaction) -> int | None:
    # What is not known to be over may take effect at any later time.
    return transaction.ended if transaction.outcome is Outcome.OK else None
