"""A load generator that uses as little CPU time per request as Python allows.

Runs as a separate program. Its arguments are host, port, path, number of connections, seconds, a
file with one request body per line, and the index of the first body to send. Each connection sends
the next body once its response is complete. Prints the number of responses, the duration in
seconds and the CPU time of this program as JSON.
"""

from __future__ import annotations

import json
import sys
from itertools import cycle
from pathlib import Path
from select import EPOLLIN, epoll
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection
from time import perf_counter, process_time

RECEIVED_BYTES = 65_536


def main() -> None:
    """Send requests for the given time and print the measurements."""
    host, port, path, connections, seconds, bodies, first = sys.argv[1:]
    requests = cycle(
        [
            (
                f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            ).encode()
            for body in Path(bodies).read_text(encoding="utf-8").splitlines()[int(first) :]
        ]
    )
    waiting = epoll()
    sockets = {}
    for _ in range(int(connections)):
        opened = create_connection((host, int(port)))
        opened.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        waiting.register(opened.fileno(), EPOLLIN)
        sockets[opened.fileno()] = opened
    received = dict.fromkeys(sockets, b"")
    began, began_cpu, count = perf_counter(), process_time(), 0
    until = began + float(seconds)
    for each in sockets.values():
        each.send(next(requests))
    # The first response of a cold server may take longer than the measured time.
    while perf_counter() < until or not count:
        for number, _ in waiting.poll(1.0):
            text = received[number] + sockets[number].recv(RECEIVED_BYTES)
            if not _is_complete(text):
                received[number] = text
                continue
            assert text.startswith(b"HTTP/1.1 200"), text
            received[number] = b""
            count += 1
            sockets[number].send(next(requests))
    taken, cpu = perf_counter() - began, process_time() - began_cpu
    print(json.dumps({"requests": count, "seconds": taken, "cpu_seconds": cpu}))


def _is_complete(text: bytes) -> bool:
    head, end, body = text.partition(b"\r\n\r\n")
    if not end:
        return False
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return len(body) >= int(length)


if __name__ == "__main__":
    main()
