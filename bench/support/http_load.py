"""A load generator: the same request over several connections, as fast as the server responds.

Runs as a separate program, so that sending requests does not compete with the benchmark for the
interpreter. Its arguments are a URL, a body, the number of connections and the duration in
seconds. Prints the request rate and the latencies as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import perf_counter
from urllib.parse import urlsplit

import uvloop


def main() -> None:
    """Send requests for the given time and print the measurements."""
    url, body, connections, seconds = sys.argv[1:]
    print(json.dumps(uvloop.run(_send_all(url, body, int(connections), float(seconds)))))


async def _send_all(url: str, body: str, connections: int, seconds: float) -> dict[str, object]:
    parts = urlsplit(url)
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = (head + body).encode()
    until = perf_counter() + seconds
    taken = await asyncio.gather(
        *(_send(parts.hostname, parts.port, request, until) for _ in range(connections))
    )
    latencies = sorted(each for seconds in taken for each in seconds)
    return {
        "requests_a_second": len(latencies) / seconds,
        "median_s": latencies[len(latencies) // 2],
        "p99_s": latencies[len(latencies) * 99 // 100],
    }


async def _send(host: str | None, port: int | None, request: bytes, until: float) -> list[float]:
    reader, writer = await asyncio.open_connection(host, port)
    taken = []
    while (start := perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        _, _, length = head.lower().partition(b"content-length: ")
        await reader.readexactly(int(length.split(b"\r\n", 1)[0]))
        taken.append(perf_counter() - start)
    writer.close()
    return taken


if __name__ == "__main__":
    main()
