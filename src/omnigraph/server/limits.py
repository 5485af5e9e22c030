"""The bounds of what the server answers and remembers, each with its reason.

Those that callers of the engine meet as well are in `omnigraph.model.limits`.
"""

from __future__ import annotations

WHOLE_ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""Rows of this many bytes are answered in one piece; more than that as a stream."""

KEPT_ANSWER_BYTES_MAX = 64 * 1024
"""Longest answer that is kept for the next who asks the same: long ones are seldom asked twice."""

KEPT_ANSWERS_BYTES_MAX = 64 * 1024 * 1024
"""How many bytes of answers are kept: small beside what an open graph keeps of its rows."""

EXPORT_PIECE_CHARACTERS = 128 * 1024
"""About how much of an export is sent at a time: a thread changes hands for each."""

BLOB_PIECE_BYTES = 4 * 1024 * 1024
"""How much of a blob is read and sent at a time."""

FEED_COMMITS_MAX = 100
"""Commits of a change feed in one answer; each is compared with its parent."""

JOBS_RUNNING_MAX = 4
"""Loads that run by themselves at a time: each may take as much memory as its rows."""

JOBS_REMEMBERED_MAX = 1_000
"""Loads whose fate is remembered: a caller asks soon, or not at all."""

ACTOR_REQUESTS_MAX = 16
"""Writes that one actor may have under way at a server unless its operator says otherwise."""

ACTOR_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Bytes of requests that one actor may have under way unless the operator says otherwise."""

SERVER_READS_MAX = 8
"""Reads that a server runs at once: more of them take memory and turns, and answer no sooner."""

SERVER_WRITES_MAX = 32
"""Writes that a server runs at once: most of them wait for their turn on a branch."""

SERVER_WAITING_MAX = 512
"""Calls that wait for a thread of a server: the last of them is still answered in seconds."""

SHUTDOWN_S_MAX = 30.0
"""How long a server that was told to end waits for what it is doing."""

STALLED_CLIENT_S_MAX = 60.0
"""How long a client may send or take nothing before it is given up: rows are kept for it."""

GRAPHS_OPENED_AT_ONCE = 4
"""How many graphs a server opens at a time when it starts."""

REQUEST_HEAD_BYTES_MAX = 64 * 1024
"""Longest request line and headers: they are held before anybody knows who sends them."""

REQUEST_HEAD_S_MAX = 30.0
"""How long a client may take to send them, and a new connection to send anything at all."""

IDLE_CONNECTION_S_MAX = 75
"""How long a connection is kept for a next request: longer than proxies keep theirs."""

BODY_BYTES_MAX = 1024 * 1024
"""Longest body of a request, but for loads: a query or a schema is a few pages."""

BODY_DEPTH_MAX = 100
"""How deep a body may be nested: nothing that is asked for is, and Python follows no deep value."""

RECEIPT_BODY_BYTES_MAX = 8 * 1024 * 1024
"""Longest receipt to be replayed: it tells of each of up to some thousand passages."""

LOAD_BODY_BYTES_MAX = 32 * 1024 * 1024
"""Longest body of a load over HTTP: it is held whole, and more belongs into files."""
