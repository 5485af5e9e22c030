"""Clients of one graph in processes of their own are isolated, whatever happens to one of them.

Strictly serialisable: one order of all calls explains every result, and no call comes before
one that had ended when it began. See `tests/support/isolation_checker.py` for what is looked for.
"""

import random
from collections import Counter
from pathlib import Path

import omnigraph
from tests.support.graphs import contents, require_linear
from tests.support.histories import Append, HistoryLog, Outcome, ReadList, ReadSet, read_log
from tests.support.isolation_runs import run_clients
from tests.support.rule_racers import Rule, possible_outcomes, run_races
from tests.support.run_report import report_story

CLIENTS = 4
TURNS = 20
RACERS = 3
ROUNDS = len(Rule)


def test_what_many_clients_see_and_write_has_one_order(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)

    report = run_clients(tmp_path, seed=seed, clients=CLIENTS, turns=TURNS, kills=0)

    report_story(f"many clients, {report}")
    assert not report.anomalies, str(report)
    assert report.count(Outcome.OK) >= CLIENTS, str(report)
    assert report.count(Outcome.FAILED) >= 1, f"no calls conflicted: {report}"
    assert report.snapshots >= CLIENTS, str(report)


def test_a_client_killed_in_a_write_leaves_the_others_one_order(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)

    report = run_clients(tmp_path, seed=seed, clients=CLIENTS, turns=TURNS, kills=1)

    report_story(f"many clients, {report}")
    assert not report.anomalies, str(report)
    assert report.count(Outcome.OK) >= CLIENTS, str(report)
    assert any(each.ended is None for each in report.history), (
        f"no client was killed in a call: {report}"
    )


def test_writers_who_each_keep_a_rule_cannot_break_it_together(tmp_path: Path) -> None:
    outcomes = run_races(tmp_path, racers=RACERS, rounds=ROUNDS)

    assert len(outcomes) == len(Rule) * ROUNDS
    for (rule, round), outcome in outcomes.items():
        assert outcome in possible_outcomes(rule, RACERS), f"{rule}, round {round}: {outcome}"
    with omnigraph.open(str(tmp_path / "graph")) as graph:
        found = contents(graph)
        require_linear(graph.commits())
    hosts = {f"host{round}": 1 for round in range(ROUNDS)}
    badges = Counter(row["badge"] for row in found["Person"].values() if row["badge"] is not None)
    assert Counter(row["from"] for row in found["Sits"].values()) == hosts
    assert Counter(row["from"] for row in found["Owns"].values()) == hosts
    assert set(badges.values()) == {1}
    assert "Visits" not in found, "the desks that were visited are gone"


def test_a_call_whose_end_was_not_written_down_has_an_unknown_outcome(tmp_path: Path) -> None:
    log = HistoryLog(tmp_path / "a.log")
    log.begin(1, 10, [ReadList("x", (1, 2)), ReadSet("bag", (3,)), Append("x", 4)])
    log.end(1, 11, Outcome.OK, "commit")
    log.begin(2, 12, [Append("x", 5)])
    whole = (tmp_path / "a.log").read_text()
    log.begin(3, 13, [Append("x", 6)])
    torn = (tmp_path / "a.log").read_text()[:-1]

    (tmp_path / "a.log").write_text(torn)
    ended, unknown = read_log(tmp_path / "a.log")

    assert len(torn) > len(whole)
    assert ended.operations == (ReadList("x", (1, 2)), ReadSet("bag", (3,)), Append("x", 4))
    assert (ended.label, ended.started, ended.ended) == ("a#1", 10, 11)
    assert (ended.outcome, ended.commit_id) == (Outcome.OK, "commit")
    assert (unknown.outcome, unknown.ended, unknown.commit_id) == (Outcome.UNKNOWN, None, None)
