"""Requests over one connection after another, as many a second as a server answers.

Run as a program of its own, so that making requests takes no turns of whoever measures: a url, a
body, how many connections and how many seconds. Says what it counted as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import perf_counter
from urllib.parse import urlsplit

import uvloop


def main() -> None:
    """Ask for some seconds and print what came back."""
    url, body, connections, seconds = sys.argv[1:]
    print(json.dumps(uvloop.run(_ask_all(url, body, int(connections), float(seconds)))))


async def _ask_all(url: str, body: str, connections: int, seconds: float) -> dict[str, object]:
    parts = urlsplit(url)
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = (head + body).encode()
    until = perf_counter() + seconds
    taken = await asyncio.gather(
        *(_ask(parts.hostname, parts.port, request, until) for _ in range(connections))
    )
    latencies = sorted(each for own in taken for each in own)
    return {
        "requests_a_second": len(latencies) / seconds,
        "median_s": latencies[len(latencies) // 2],
        "p99_s": latencies[len(latencies) * 99 // 100],
    }


async def _ask(host: str | None, port: int | None, request: bytes, until: float) -> list[float]:
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
