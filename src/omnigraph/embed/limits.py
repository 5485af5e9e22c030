"""How much is embedded at a time and how long one waits for it, each with the reason."""

from __future__ import annotations

LINES_PER_BATCH = 1_024
"""Lines of a file of rows that get their vectors at a time: a few MB, and progress is seen."""

REQUEST_TEXTS_MAX = 64
"""Most texts in one request: every provider takes a hundred, and little is asked for again when a
request fails."""

REQUEST_BYTES_MAX = 256 * 1024
"""About how long they may be together: a token is a byte at least, and providers refuse requests of
more than 300,000 tokens."""

REQUESTS_AT_ONCE_MAX = 4
"""Requests for the vectors of rows that are under way at a time: the provider's answer is what
takes long, and more of them are soon refused for their rate."""

CONNECTIONS_MAX = 16
"""Connections to a provider that are kept: as many threads rarely ask at once."""

CONNECT_S_MAX = 10.0
"""How long a connection may take to be made: networks answer in less, or not at all."""

PIECE_BYTES = 256 * 1024
"""How much of an answer is read at a time, between two looks at the clock."""

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Longest answer that is read: ten times what the longest vectors of a request take."""

TIMEOUT_MS = 30_000
"""How long one attempt may take unless the environment says otherwise."""

ATTEMPTS = 4
"""How often a request is sent unless the environment says otherwise."""

BACKOFF_MS = 200
"""The wait before the second attempt unless the environment says otherwise; each further one is
twice as long."""

DEADLINE_MS = 60_000
"""How long a request and its attempts may take in all unless the environment says otherwise."""

ATTEMPTS_MAX = 100
"""Most attempts that may be asked for: after so many the provider is gone."""

PATIENCE_MS_MAX = 24 * 60 * 60 * 1_000
"""Longest time that any of these may be set to: a day."""

WAIT_S_MAX = 60.0
"""Longest wait between two attempts, whatever the provider asks for: somebody may be watching."""

REASON_CHARACTERS_MAX = 300
"""Longest text of a provider that an error repeats: about three lines of a terminal."""

KEPT_BYTES_MAX = 16 * 1024 * 1024
"""Vectors of query texts that a graph remembers: a thousand of the longest that are usual."""
