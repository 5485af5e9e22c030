"""Processes that race for what the rules of a schema let only some of them have.

In each round every racer tries the same as all others, once for each rule, until it lands or a rule
refuses it. Alone each of them keeps the rules; together they must. Run as a program this is one
racer, which writes its outcomes down.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.errors import IntegrityError, MovedError
from tests.support.graphs import Record, build_graph, edge, node
from tests.support.process_meetings import let_go, meet, require_all_ended, running
from tests.support.queries import query

SCHEMA = """
node Person { name: String @key  badge: String? @unique }
node Desk { name: String @key }
edge Sits: Person -> Desk @card(0..1)
edge Owns: Person -> Desk @card(1..)
edge Visits: Person -> Desk
"""
TURNS_MAX = 1_000


class Rule(StrEnum):
    """What is raced for."""

    ONE_SEAT = "at most one seat, and each wants one more"
    NEW_BADGE = "a unique badge, and each adds a person with it"
    OTHER_BADGE = "a unique badge, and each gives it to a person who is there"
    LAST_DESK = "at least one desk, and each takes one away"
    BOTH_ENDS = "no edge without its ends, and one removes a desk that the others join"


Outcomes = Mapping[tuple[Rule, int], Counter[str]]


def possible_outcomes(rule: Rule, racers: int) -> Sequence[Counter[str]]:
    """How many may land, and how many are refused then."""
    # Adding a counter to nothing leaves out what is there no times.
    return [
        Counter() + Counter(landed=count, refused=racers - count)
        for count in _possible_landings(rule, racers)
    ]


def _possible_landings(rule: Rule, racers: int) -> Sequence[int]:
    match rule:
        case Rule.ONE_SEAT | Rule.NEW_BADGE | Rule.OTHER_BADGE:
            return [1]
        case Rule.LAST_DESK:
            return [racers - 1]
        case Rule.BOTH_ENDS:
            return range(1, racers + 1)


def run_races(folder: Path, *, racers: int, rounds: int) -> Outcomes:
    """Let racers race on a new graph in `folder / "graph"`; how each race ended."""
    root, home = folder / "graph", folder / "outcomes"
    home.mkdir()
    build_graph(root, SCHEMA, *starting_rows(racers, rounds)).close()
    calls = [(root, home / f"{number}.log", number, rounds) for number in range(racers)]
    with running("tests.support.rule_racers", calls, home=home) as children:
        for round in range(rounds):
            let_go(home, str(round), children=children)
        require_all_ended(children, home=home)
    outcomes: dict[tuple[Rule, int], Counter[str]] = {}
    for path in home.glob("*.log"):
        for line in path.read_text().splitlines():
            rule, round, outcome = json.loads(line)
            outcomes.setdefault((Rule(rule), round), Counter())[outcome] += 1
    return outcomes


def starting_rows(racers: int, rounds: int) -> list[Record]:
    """For each racer a guest and a desk; for each round a spot, and a host who owns all desks."""
    desks = [f"desk{number}" for number in range(racers)]
    hosts = [f"host{round}" for round in range(rounds)]
    return [
        *(node("Desk", name=desk) for desk in desks),
        *(node("Desk", name=f"spot{round}") for round in range(rounds)),
        *(node("Person", name=name) for name in hosts),
        *(node("Person", name=f"guest{number}") for number in range(racers)),
        *(edge("Owns", host, desk) for host in hosts for desk in desks),
    ]


def make_attempt(rule: Rule, racer: int, round: int) -> str:
    """What a racer tries in a round."""
    match rule:
        case Rule.ONE_SEAT:
            return query(f'insert Sits {{ from: "host{round}", to: "desk{racer}" }}')
        case Rule.NEW_BADGE:
            return query(f'insert Person {{ name: "new{round}-{racer}", badge: "new{round}" }}')
        case Rule.OTHER_BADGE:
            badge = f'badge: "other{round}"'
            return query(f'update Person set {{ {badge} }} where name = "guest{racer}"')
        case Rule.LAST_DESK:
            ends = f'from = "host{round}" and to = "desk{racer}"'
            return query(f"delete Owns where {ends}")
        case Rule.BOTH_ENDS if racer == 0:
            return query(f'delete Desk where name = "spot{round}"')
        case Rule.BOTH_ENDS:
            return query(f'insert Visits {{ from: "guest{racer}", to: "spot{round}" }}')


def until_it_ends(graph: Graph, text: str) -> str:
    """Write as an application does that may be overtaken; whether it landed."""
    for _ in range(TURNS_MAX):
        try:
            graph.mutate(text)
        except MovedError:
            continue
        except IntegrityError:
            return "refused"
        return "landed"
    return "starved"


def main() -> None:
    """Be one racer."""
    root, log, racer, rounds = sys.argv[1:]
    rules = list(Rule)
    with omnigraph.open(root, durability="relaxed") as graph, Path(log).open("w") as written:
        for round in range(int(rounds)):
            meet(Path(log).parent, racer, str(round))
            # Each rule comes first once: there the racers are closest to each other.
            first = round % len(rules)
            for rule in [*rules[first:], *rules[:first]]:
                outcome = until_it_ends(graph, make_attempt(rule, int(racer), round))
                written.write(f"{json.dumps([rule, round, outcome])}\n")


if __name__ == "__main__":
    main()
