"""The bounds of a client's patience, each with its reason."""

from __future__ import annotations

TIMEOUT_S = 120.0
"""How long a call waits for its answer to begin unless its caller says otherwise: longer than the
queries and writes of a server may take, so that nobody gives up what is about to be answered."""

CONNECT_S_MAX = 10.0
"""How long a connection may take to be made: networks answer in less, or not at all."""

ATTEMPTS_MAX = 4
"""How often a request is sent: what fails so many times in a row fails for a reason."""

BACKOFF_S = 0.1
"""How long to wait before the second attempt; four times as long before each of the next."""

RETRY_AFTER_S_MAX = 10.0
"""Longest wait between two attempts, whatever a server asks for: somebody may be watching."""

CONNECTIONS_MAX = 16
"""Connections to a server that are kept for further calls: as many threads rarely ask at once."""

WHOLE_BYTES_MAX = 4 * 1024 * 1024
"""Answers of this length are read at once, longer ones piece by piece."""

PIECE_BYTES = 256 * 1024
"""How much of a long answer is read at a time."""

LOAD_BYTES_MAX = 32 * 1024 * 1024
"""Longest body of a load, which servers hold whole."""

POLL_S = 0.05
"""How long to wait before asking how far a load is; longer each time, up to the next bound."""

POLL_S_MAX = 1.0
"""Longest wait between two such questions: people watch the answers."""

FEED_COMMITS = 100
"""Commits of a change feed that are asked for at a time: as many as servers give."""
