"""Many writers of one type: a write that only adds rows succeeds without retries by its caller."""

import threading
from pathlib import Path

import omnigraph
from omnigraph.errors import GraphError
from tests.support.graphs import rows
from tests.support.queries import query

WRITERS, WRITES = 6, 6


def test_concurrent_writers_that_only_add_rows_all_succeed(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path, "node Note { text: String? }", durability="relaxed")
    failures: list[BaseException] = []

    def write() -> None:
        own = omnigraph.open(tmp_path, durability="relaxed")
        try:
            for _ in range(WRITES):
                own.mutate(query('insert Note { text: "x" }'))
        except GraphError as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(rows(graph, "Note")) == WRITERS * WRITES
