"""The bounds of all packages, each with the reason for its size.

A bound that a caller or an operator can reach is defined here. Thresholds that only tune one
algorithm stay in the module of that algorithm.
"""

from __future__ import annotations

from typing import Final

SOURCE_CHARACTERS_MAX = 2 * 1024 * 1024
"""Longest `.pg` or `.gq` source: a thousand queries take a third of a megabyte."""

NESTING_MAX = 100
"""Deepest bracket nesting: people rarely exceed five levels, and the compiler is recursive."""

BLOCK_NESTING_MAX = 16
"""Deepest nesting of `not` and `optional` blocks: each level is scanned by all enclosing levels."""

CONDITION_NESTING_MAX = 12
"""Deepest nesting of `or` inside `and` in a condition: Lance parses fourteen levels of brackets."""

NAME_CHARACTERS_MAX = 255
"""Longest name: names become columns and are hashed with each property."""

PROPERTIES_MAX = 200_000
"""Most properties of a schema; an inherited property counts in each type that inherits it."""

DIAGNOSTICS_MAX = 50
"""Most diagnostics of one compilation: users read no further, and each suggestion of a similar name
costs a search."""

NEAR_NAME_CANDIDATES_MAX = 2_000
"""Most candidates searched for a similar name: beyond that the search takes longer than the
compilation."""

VECTOR_DIMENSION_MAX = 2**31 - 1
"""Largest `Vector(n)`: Arrow counts the elements of a fixed-size list in 32 bits."""

CARDINALITY_MAX = 2**32 - 1
"""Largest bound in `@card`: it is stored as an unsigned 32-bit number."""

PATTERN_REPETITION_MAX = 1_000
"""Largest `{n}` in a `@check` pattern: linear-time engines expand repetitions and reject more."""

PATTERN_CHARACTERS_MAX = 1_000
"""Longest `@check` pattern: people stop at a hundred characters, and every write compiles it."""

VIOLATIONS_MAX = 100
"""Most violations that a rejected write reports: enough to see a pattern, not a whole file."""

VIOLATIONS_SHOWN_MAX = 5
"""Most violations or conflicts written out in a message; the error holds the others."""

CONFLICT_EDGES_SHOWN_MAX = 5
"""Most edges that a cardinality conflict names: a diff of the two branches lists all of them."""

VALUE_CHARACTERS_SHOWN_MAX = 120
"""Most characters of a text that a violation message quotes: fewer are enough to recognize it."""

MERGE_BASE_VERSIONS = (0, 64, 2048)
"""How many versions back a merge searches for the merge base before it reads all of history: first
only the two heads, which are known, then the commits of dozens of versions, then of many."""

MERGE_BASE_DEPTH = 2
"""How many levels of virtual merge bases are built from several merge bases: this handles two
branches that merged each other by two paths; branches that did so repeatedly end at one commit."""

BRANCH_NAME_CHARACTERS_MAX = 200
"""Longest branch name: it becomes a folder below every table that the branch writes."""

BRANCH_FILE_CHARACTERS_MAX = 211
"""Most characters of a branch name if each `/` counts as five, as in the name of Lance's reference
file of the branch: file names are limited to 255 characters, and Lance uses the rest."""

TAG_NAME_CHARACTERS_MAX = 80
"""Longest tag name: it becomes a file name."""

BRANCH_LISTINGS_MAX = 20
"""How often branches are listed or read again because one was deleted meanwhile."""

PUBLISHER_RETRY_BUDGET = 5
"""How often a publish is retried after another writer of the branch was first."""

PREPARE_ATTEMPTS_MAX = 8
"""How often a write is prepared again on a newer state, if that does not change its meaning."""

REQUEST_KEY_CHARACTERS_MAX = 255
"""Longest idempotency key: a UUID has 36 characters, and a commit stores the key forever."""

REQUEST_LOCKS = 16
"""How many locks the idempotency keys share: each lock is a file, and two keyed requests rarely
coincide."""

AUDIT_ATTEMPTS_MAX = 20
"""How often the audit record of a recovery is written again because of concurrent writers."""

CLEANUP_ATTEMPTS_MAX = 3
"""How often the files of a table are deleted again because a branch of it was deleted meanwhile."""

MANIFEST_FRAGMENTS_MAX = 32
"""Fragments of `__manifest` before the publisher compacts them: opening a graph reads all."""

SCHEMA_READS_MAX = 8
"""How often the schema's files are read while others replace them: each schema apply is one commit,
so a reader that encounters this many in a row has another problem."""

REUSED_TABLE_VERSIONS_MAX = 10_000
"""Most versions that an earlier type of a name may have had if the name is to be reused: a new
table is advanced above all of them one by one."""

OPEN_TABLES_MAX = 64
"""Most open table handles of one graph: each holds the metadata of a version in memory."""

KNOWN_IDS_MAX = 250_000
"""Most ids of one type whose row addresses a graph caches, to find a row without a scan."""

PROBED_VALUES_MAX = 1_000
"""Most values in a pushed-down filter; for more, one scan of the column is cheaper."""

PROPERTY_BYTES_MAX = 256 * 1024 * 1024
"""Largest text or blob of one property: a row is held in memory as a whole, in several copies."""

WRITE_LOCK_TIMEOUT_S = 60.0
"""Longest wait for other writers of a type: a writer holds its lock for two seconds at most."""

OBJECT_LOCK_TIMEOUT_S = 10.0
"""Longest wait for another writer of control files: it holds the lock during a rename."""

STAGED_OBJECT_AGE_MAX_S = 3600.0
"""Age at which a control file under a reserved name belongs to a dead writer: a live writer renames
it at once."""

LOCK_PROBE_INTERVAL_S = 0.01
"""Longest pause between two checks of a lock held by another process: a commit takes as long."""

LEASE_S = 15.0
"""How long a lease is valid without renewal: long enough for a slow request, short enough to wait
for when its holder has died."""

LEASE_CLOCK_SKEW_S_MAX = 60.0
"""Largest clock difference between two machines at which a live writer is not mistaken for a dead
one."""

LEASE_SHARED_S_MAX = 5.0
"""Longest time for which writers of one process share a lease while other processes wait."""

LEASE_PROBE_INTERVAL_S_MIN = 0.02
"""First pause between two checks of a lease that another process holds: a commit takes longer."""

LEASE_PROBE_INTERVAL_S_MAX = 0.25
"""Longest such pause: a compromise between a late acquisition and requests that only poll."""

READER_GRACE_S = 300.0
"""How long a version is retained after it was replaced: longer than a query may run, by more than
the clocks of two machines may differ."""

READER_LEASE_S = 60.0
"""How long a reader's claim is valid without renewal; it is renewed after a third of this time."""

CLEANUP_IDLE_DAYS_MAX = 366
"""Largest age of the newest commit at a clean-up. If it is older, the clock of this machine is more
likely wrong than the graph idle, and a wrong clock would make every version appear old."""

CLEANUP_S_MAX = 3600.0
"""How long readers of the versions that a clean-up deletes are rejected if the clean-up dies."""

OBJECT_RETRIES_MAX = 5
"""How often a request to S3 is retried: with doubling pauses that takes three seconds."""

OBJECT_RETRY_TIMEOUT_S = 30
"""Longest time during which a request to S3 is retried: people mistake a longer wait for a hang."""

MEMORY_DISK_BYTES_MIN = 1024 * 1024 * 1024
"""Smallest /dev/shm that `memory://` graphs use: containers often have 64 MiB, which one load
fills."""

FOREIGN_REASON_CHARACTERS_MAX = 300
"""Most characters of the error of a library, of Spark or of a provider that a message repeats:
about three lines of a terminal; the cause of the error holds the full text."""

COMPILED_QUERIES_MAX = 256
"""Most compiled queries that an open graph caches: agents repeat dozens, not thousands."""

FRAGMENT_ROWS_MAX = 1024 * 1024
"""Most rows of one data file: few enough to rewrite in seconds, enough to scan at full speed."""

DELETED_SHARE_MAX = 0.1
"""Share of deleted rows above which a data file is rewritten."""

LAYOUT_GROWTH = 8
"""Size ratio above which a data file is not merged with its smaller neighbours, and an index
segment is not rebuilt with the rows that it does not cover: a row is thus rewritten a few times in
its life and not by every compaction."""

LAYOUT_ROWS_FREE = 64 * 1024
"""Rows that may be rewritten or indexed without regard to cost: it takes hundredths of a second."""

TABLE_METADATA_BYTES_MAX = 256 * 1024 * 1024
"""Most memory of an open graph for the metadata of its tables' versions and files."""

TABLE_INDEX_BYTES_MAX = 1024 * 1024 * 1024
"""Most memory of an open graph for pages of its indexes."""

STREAMED_ROWS = 262_144
"""Rows of a batch of a scan whose rows are aggregated: with fewer, the calls for each batch cost
more than their rows."""

SCAN_BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of a type, and of its blobs, that are read at a time to be written elsewhere."""

SCAN_BUFFER_BYTES = 16 * 1024 * 1024
"""Most bytes read ahead meanwhile: Lance would read gigabytes ahead of a slow disk."""

REFERENCE_CHARACTERS_MAX = 64 * 1024
"""Longest reference to an external blob: a longer text is not a path."""

ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Approximate bytes of one Parquet row group, which is assembled in memory."""

RESULT_ROWS_WRITTEN = 16 * 1024
"""Rows of a result that are encoded as JSON at a time when it is written to a file."""

SORTED_BYTES_MAX = 32 * 1024 * 1024
"""Most bytes of rows that are sorted in memory; more are sorted through files, which takes 50%
longer."""

BLOB_BATCH_ROWS_MAX = 64
"""Most rows of a batch with blobs: a blob may have megabytes, and a batch is held in memory as a
whole."""

OPENED_TABLE_BRANCHES_MAX = 10_000
"""Most table branches remembered as opened; with more, the cached state of the graph is dropped.
Three thousand transactions create this many."""

DURABLE_FOLDERS_MAX = 10_000
"""Most folders remembered as durable: there are three per table and three per table branch."""

LOAD_BLOCK_BYTES = 2 * 1024 * 1024
"""Bytes of NDJSON that are converted to columns at a time: enough for columns to be efficient, and
little in the form of objects."""

LOAD_BLOCK_BYTES_MIN = 32 * 1024
"""Fewest bytes of NDJSON that Arrow reads at once: its startup takes as long as reading these."""

LINE_END_BYTES = 64 * 1024
"""Bytes read at a time to find the end of a line: most lines are shorter."""

RECORD_BYTES_MAX = 1024 * 1024 * 1024
"""Longest NDJSON record: Arrow counts the bytes of a text column in 31 bits."""

REMOTE_BUFFER_BYTES = 8 * 1024 * 1024
"""Bytes of a file in S3 that one request reads: few requests, and each still small in memory."""

CSV_BLOCK_BYTES = 16 * 1024 * 1024
"""Bytes of a CSV file that are read at a time, and the longest row of one."""

ARROW_BATCH_BYTES = 32 * 1024 * 1024
"""Approximate bytes of a row file that are converted at a time, of which several copies exist."""

ARROW_BATCH_ROWS_MAX = 64 * 1024
"""Most rows that are converted at a time: more are not faster."""

ARROW_PIECE_BYTES_MAX = 1024 * 1024 * 1024
"""Most bytes of Arrow rows of a caller that are converted at a time: Arrow counts the bytes of a
text column in 31 bits."""

CACHE_BYTES_MAX = 1024 * 1024 * 1024
"""Memory of an open graph for cached columns, edges, words and vectors, unless configured: half of
what a small server has."""

CACHE_BYTES_LEAST = 1024 * 1024
"""Least memory for cached values that can be configured: with less, nothing is worth caching."""

CACHE_BYTES_MOST = 2**48
"""Most memory for cached values that can be configured: more than any machine has."""

CACHED_TYPE_ROWS_MAX = 4_000_000
"""Largest type of which a whole column is read and cached at its second use."""

CHANGED_ROWS_MAX = 4_096
"""Most rows by which a read differs from what is cached of an earlier version of the table."""

CHANGED_BYTES_MAX = 8 * 1024 * 1024
"""Most memory for the rows of one version that differ from a cached one: they are copied."""

DELTAS_BYTES_MAX = 128 * 1024 * 1024
"""Most memory of an open graph for all these rows; those of many types have to fit."""

KNOWN_DELTAS_MAX = 1_024
"""Most table versions whose difference from a cached version an open graph holds."""

USE_COUNTERS_MAX = 1_024
"""Most columns and edge types whose use an open graph counts."""

QUERY_BYTES_MAX = 1024 * 1024 * 1024
"""Most memory for the rows of one query: several queries run at once on a small machine."""

QUERY_SECONDS_MAX = 120.0
"""Longest run of one query: longer queries belong on a cluster."""

EXPAND_INDEXED_FRONTIER_MAX = 1_024
"""Most entities from which a traversal that looks up edges by index starts; from more, edges are
read into memory."""

EXPAND_INDEXED_HOPS_MAX = 6
"""Most hops of a traversal that looks up edges by index: each is a round trip to the storage."""

EXPAND_CSR_FACTOR = 1.5
"""Cost of an edge that is looked up by index, relative to an edge read in a scan of all edges."""

EXPAND_PROBES_MAX = 4
"""Lookups in one version of an edge type after which reading it into memory is cheaper."""

EXPAND_READ_EDGES_MAX = 1_000_000
"""Edges of a type that a query reads into memory because they are used repeatedly: about half a
second. More are read in the background, while queries look them up."""

SEARCH_WORD_CHARACTERS_MAX = 40
"""Longest word that can be searched: longer ones are checksums or encoded files."""

SEARCH_BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes of text that are split into words at a time: this fits into a processor's cache."""

VECTOR_BLOCK_NUMBERS = 256 * 1024
"""Numbers of vectors that are widened at a time: this fits into a processor's cache."""

NEAREST_EXACT_ROWS_MAX = 50_000
"""Largest type whose vectors are all compared with a query vector although they have an index: a
few milliseconds."""

NEAREST_WANTED_MAX = 1_000
"""Most entities that a vector index finds; for more, all vectors are compared."""

NEAREST_SPARE = 4
"""How many times the requested number of vectors is compared exactly with the query vector, because
an index knows distances only approximately."""

NEAREST_SPARE_MIN = 32
"""Vectors that are compared in addition, so that small limits have a margin too."""

NEAREST_FILTERED_MIN = 1_024
"""Entities that an index finds at least if some of the nearest do not match the pattern: enough for
ten results if one entity in ten matches."""

NEAREST_PROBES = 256
"""Partitions of a vector index that a query reads by default: all of them for up to about a million
vectors, so that they are found however the vectors are distributed."""

VECTOR_PARTITION_ROWS = 4_096
"""Average number of vectors of one partition of an index: a partition is read as a whole."""

ANALYSIS_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Most memory of a graph algorithm in process: larger graphs belong on Spark."""

ANALYSIS_EDGE_BYTES = 100
"""Approximate memory per edge: its endpoints as numbers, in both directions, and in transit."""

ANALYSIS_NODE_BYTES = 150
"""Approximate memory per node: its id, its positions in several orders, and its values."""

ANALYSIS_WEDGES_MAX = 8 * 1024 * 1024
"""Pairs of neighbours that are checked together for triangles: some hundred MiB of numbers."""

ANALYSIS_PATH_BYTES_MAX = 1024 * 1024 * 1024
"""Most memory for the ids on all paths of a result: Arrow counts their bytes in 31 bits."""

NOTEBOOK_ROWS_MAX = 20
"""Most rows, changes or conflicts that a notebook shows: about a screenful."""

COMMITS_SHOWN_MAX = 20
"""Commits of a branch that a notebook lists and the shell draws: a screenful of the newest."""

CHANGES_PER_PAGE = 1_000
"""Default number of changes in a page of a diff: enough to show, quick to send."""

CHANGES_PER_PAGE_MAX = 8_192
"""Most changes in one page: a page is encoded as JSON and held in memory as a whole."""

EXAMINATIONS_MAX = 3
"""How often a branch is checked again because of concurrent writes while something was found."""

EXAMINED_IDS_BYTES_MAX = 128 * 1024 * 1024
"""Most bytes of ids of a node type held at a time to check the endpoints of edges: four million
ids."""

EXAMINED_BLOCK_BYTES = 32 * 1024 * 1024
"""Bytes of edges whose endpoints are checked at a time: building the set of ids costs as much as
checking a million."""

RECONCILER_INTERVAL_S = 60.0
"""Default time between two rounds of maintenance: files accumulate within minutes."""

SMALL_FILES_MIN = 16
"""Number of small files of a type at which maintenance compacts them: from here on scans become
slower."""

UNINDEXED_SHARE_MIN = 0.1
"""Share of a type's rows not covered by an index at which maintenance completes the index."""

STAGED_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of rows of a type that a task of a Spark load holds before it writes a file."""

SPARK_PART_ROWS_MAX = 1_000_000
"""Most rows that one task of a Spark read processes: some seconds of work."""

SPARK_PART_BYTES_MAX = 128 * 1024 * 1024
"""Approximate bytes that such a task reads: Spark splits files at the same size."""

SPARK_BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Approximate bytes of rows passed to Spark at a time: both sides hold all of them in memory."""

SPARK_LOCAL_ROWS_MAX = 10_000
"""Largest type that a query on Spark reads in this process: a job for it would take longer."""

SPARK_LOCAL_BYTES_MAX = 4 * 1024 * 1024
"""Approximate bytes of such a type: they are sent with the plan."""

SPARK_FUSED_MAX = 20_000
"""Most entities for which a query on Spark fuses two rankings in this process."""

CLAIMED_ROWS_MAX = 1024 * 1024
"""Rows whose keys one task of a Spark load reads at a time: it holds only a few columns."""

CLAIMING_ROWS_MAX = 64 * 1024 * 1024
"""Rows whose keys one task reads in total: one or two minutes of work are lost with an executor."""

PARTITION_BYTES_MIN = 4 * 1024 * 1024
"""Smallest input of one task of a Spark load: reading it takes longer than starting the task."""

PARTITION_BYTES_MAX = 128 * 1024 * 1024
"""Largest input of one task: an executor loses few minutes of work, and memory is bounded."""

PARTITIONS_MAX = 32_768
"""Most tasks that read one input of a Spark load; row positions have room for twice as many."""

QUARANTINED_ROWS_MAX = 100_000
"""Most rows that a load quarantines: with more, the input as a whole is wrong."""

PLACES_SHOWN_MAX = 10
"""Rows per violated rule that the report of a bulk load shows with their positions."""

SPARK_HEAP_BYTES_MIN = 1024 * 1024 * 1024
"""Smallest heap of Spark's Java process on this machine: the default of Spark itself."""

SPARK_HEAP_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Largest default heap: only keys pass through it, and the excess is spilled."""

SPARK_POLL_INTERVAL_S = 0.25
"""Interval between two checks of a running Spark job: about the update rate of a progress bar."""

SPARK_CANCEL_WAIT_S = 30.0
"""How long a cancelled Spark job may take to end: its Python workers are killed within seconds."""

SPARK_CONNECT_RETRIES_MAX = 4
"""How often a connection to a Spark Connect server is retried before it fails: five seconds in
total."""

SPARK_PYTHON_START_S_MAX = 60.0
"""How long the Python of Spark's workers may take to list its modules: it starts within seconds."""

INLINE_BYTES_MAX = 256 * 1024 * 1024
"""Largest input that a load reads in process by default: twenty seconds and a few GiB of memory."""

WRITE_VECTOR_BYTES_MAX = 1024 * 1024 * 1024
"""Bytes of vectors that one process makes for a write: it holds several copies; Spark has more
room."""

RANGE_BYTES_MAX = 32 * 1024 * 1024
"""Approximate bytes of rows that one task joins by id: comparing them makes copies."""

RANGES_MAX = 4_096
"""Most id ranges into which the rows of a type are split: with more, the pieces of a task's input
become too small."""

RANGE_SAMPLES_MAX = 64
"""Ids sampled per task to estimate the distribution: the ranges are even enough, and few ids are
sent."""

UNSAMPLED_ROWS_MAX = 64 * 1024
"""Rows of a type that one task processes without measuring their size: hundredths of a second."""

EXPORT_INLINE_ROWS_MAX = 20_000_000
"""Most rows that are exported in process by default: one or two minutes of one core."""

MERGE_CONFLICTS_MAX = 10_000
"""Most conflicts that a merge on Spark reports: each contains a row three times, for people to
read."""

DIFF_INLINE_ROWS_MAX = 2_000_000
"""Most rows that a diff or a merge compares in process by default: some seconds, and one or two GiB
of memory."""

PROGRESS_DRAWS_PER_S_MAX = 10
"""How often a progress bar is redrawn per second: more is not visible, and remote terminals are
slow."""

MAINTENANCE_ROWS_MAX = 10_000_000
"""Rows that are compacted or indexed in process by default: with a text property that takes some
minutes, which executors share."""

REWRITTEN_BYTES_MAX = 1024 * 1024 * 1024
"""Largest type that a schema change rewrites in process by default: it is held in memory as a
whole."""

EMBEDDED_ROWS_MAX = 100_000
"""Rows that are embedded in process by default: a model behind a network takes some minutes for
this many, and hours for a hundred times as many."""

POLICY_BYTES_MAX = 4 * 1024 * 1024
"""Longest policy file: fifty thousand actors by name, and rules for them."""

CACHED_DECISIONS_MAX = 16_384
"""Decisions that a gate caches: a thousand actors on a handful of branches, in a few MB."""

FOREIGN_NAMES_SHOWN_MAX = 3
"""Names of foreign files shown when a graph cannot be created among them: enough to recognize the
folder."""

LOAD_CONCURRENCY_USUAL_MAX = 8
"""Default maximum of types that a load writes concurrently, for any number of processors: beyond
that, the disk is the bottleneck."""

LOAD_CONCURRENCY_MAX = 64
"""Most types that a load may be configured to write concurrently: each takes a thread and the
buffers of a writer."""

STAGED_TOGETHER_BYTES_MIN = 1024 * 1024
"""Bytes of rows of a load from which several threads write them: for fewer, the handover takes
longer than the write."""


HOPS = 1
"""Default distance of neighbours from the found nodes."""

FOUND = 10
"""Default number of nodes that a search returns."""

BUDGET_TOKENS = 2_000
"""Default length of a text in tokens: a few pages of a prompt."""

HOPS_MAX = 2
"""Largest distance of neighbours from the found nodes: three hops from ten nodes cover half of a
graph."""

FOUND_MAX = 1_000
"""Most nodes that a search may return: ids are looked up in batches of this size."""

RANKS_COUNTED = 100
"""Ranks of each ranking that count, or the number of requested nodes if larger: a rank beyond that
adds less than the difference between two nodes further up."""

NEIGHBOURS_MAX = 32
"""Most neighbours per edge type and direction of a node, in addition to those that the search found
too: readers ignore the thousands of neighbours of a hub."""

REACHED_MAX = 256
"""Most neighbours at one distance: more do not fit into the context of a model."""

BUDGET_TOKENS_MAX = 1_000_000
"""Largest budget: no model reads more, and each passage is counted with all passages before it."""

VECTOR_NUMBERS_MAX = 65_536
"""Longest vector that a receipt may hold."""


PLAIN_ROWS_MAX = 64
"""Rows of a response that are encoded one by one: combining columns has a fixed cost."""

JSON_PIECE_ROWS = 8_192
"""Rows of a long response that are encoded as JSON at a time, so that its text is never held in
memory as a whole."""

ARROW_PIECE_ROWS = 65_536
"""The same for Arrow, which takes less memory; a client may begin while further rows are in
transit."""

ERROR_VALUE_BYTES_MAX = 16 * 1024
"""Longest value that an error returns to the caller, which has it anyway."""


TIMEOUT_S = 120.0
"""Default time that a call waits for the start of its response: longer than queries and writes of a
server may take, so that no client gives up on a response that is about to arrive."""

CLIENT_CONNECT_S_MAX = 10.0
"""How long a connection may take to be established: networks respond sooner or not at all."""

CLIENT_ATTEMPTS_MAX = 4
"""How often a request is sent: a request that fails this often in a row fails for a reason."""

BACKOFF_S = 0.1
"""Wait before the second attempt; each further wait is four times as long."""

RETRY_AFTER_S_MAX = 10.0
"""Longest wait between two attempts, even if a server requests more: a person may be waiting."""

CLIENT_CONNECTIONS_MAX = 16
"""Connections to a server that are reused: rarely do more threads send requests at once."""

WHOLE_BYTES_MAX = 4 * 1024 * 1024
"""Responses up to this length are read at once, longer ones in pieces."""

CLIENT_PIECE_BYTES = 256 * 1024
"""Bytes of a long response that are read at a time."""

POLL_S = 0.05
"""First wait between two requests for the progress of a load; it grows up to the next bound."""

POLL_S_MAX = 1.0
"""Longest wait between two such requests: people watch the progress."""


UNSTREAMED_BYTES_MAX = 4 * 1024 * 1024
"""Rows up to this many bytes are returned in one piece, more as a stream."""

CACHED_RESPONSE_BYTES_MAX = 64 * 1024
"""Longest response that is cached for identical requests: long ones are rarely requested twice."""

RESPONSE_CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of cached responses: little compared to the rows that an open graph caches."""

EXPORT_PIECE_CHARACTERS = 128 * 1024
"""Approximate characters of an export that are sent at a time: each piece costs a thread switch."""

BLOB_PIECE_BYTES = 4 * 1024 * 1024
"""Bytes of a blob that are read and sent at a time."""

FEED_COMMITS_MAX = 100
"""Commits of a change feed in one response, and of one request; each is compared with its
parent."""

JOBS_RUNNING_MAX = 4
"""Background loads that run at a time: each may take as much memory as its rows."""

JOBS_REMEMBERED_MAX = 1_000
"""Background loads whose result is retained: a caller requests it soon or never."""

ACTOR_REQUESTS_MAX = 16
"""Default number of concurrent writes of one actor at a server."""

ACTOR_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Default number of bytes of concurrent requests of one actor."""

SERVER_READS_MAX = 8
"""Reads that a server runs at once: more take memory and processor time, and finish no sooner."""

SERVER_WRITES_MAX = 32
"""Writes that a server runs at once: most of them wait for the lock of a branch."""

SERVER_WAITING_MAX = 512
"""Calls that wait for a thread of a server: the last of them still gets its response within
seconds."""

SHUTDOWN_S_MAX = 30.0
"""How long a server that shuts down waits for responses, and then again for running work."""

SERVER_PROCESSES_MAX = 128
"""Worker processes of one server: as many as the cores of a large machine."""

PROCESS_RESTARTS_MAX = 5
"""Worker processes that a server replaces within `PROCESS_RESTARTS_S`: more of them end for a
reason that another start does not remove."""

PROCESS_RESTARTS_S = 60.0
"""The time over which replaced worker processes are counted."""

PROCESS_STOP_S_MAX = 2 * SHUTDOWN_S_MAX + 5.0
"""How long a worker process may take to stop before it is killed: longer than it waits itself."""

PROCESS_RELOAD_S_MAX = 120.0
"""How long a worker process may take to prepare a reload, in which it opens graphs."""

PROCESS_METRICS_S_MAX = 2.0
"""How long a worker process may take to return its metrics: a scraper waits for all of them."""

STALLED_CLIENT_S_MAX = 60.0
"""How long a client may neither send nor receive before it is disconnected: rows wait for it."""

GRAPHS_OPENED_AT_ONCE = 4
"""How many graphs a server opens at a time when it starts."""

REQUEST_HEAD_BYTES_MAX = 64 * 1024
"""Longest request line and headers: they are held in memory before the sender is authenticated."""

REQUEST_HEAD_S_MAX = 30.0
"""How long a client may take to send them, and a new connection to send its first byte."""

IDLE_CONNECTION_S_MAX = 75
"""How long an idle connection stays open for another request: longer than proxies hold theirs."""

BODY_BYTES_MAX = 1024 * 1024
"""Longest body of a request, except loads: a query or a schema is a few pages."""

BODY_S_MIN = 10.0
"""How long any body may take to arrive: its received part takes memory and a connection."""

BODY_BYTES_PER_S_MIN = 16 * 1024
"""Slowest average rate of a body beyond that: slower than any link over which rows are loaded, and
fast enough that the longest body does not take an hour."""

BODY_DEPTH_MAX = 100
"""Deepest nesting of a body: no valid request is deeper, and Python cannot process deeply nested
values."""

RECEIPT_BODY_BYTES_MAX = 8 * 1024 * 1024
"""Longest receipt to replay: it describes up to some thousand passages."""

LOAD_BODY_BYTES_MAX = 32 * 1024 * 1024
"""Longest body of a load over HTTP: all of it is held in memory, and more belongs into files."""


SOURCE_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest file that declares a cluster: people write these files, so real ones are much
smaller."""

CONFIG_BYTES_MAX: Final = 1024 * 1024
"""The largest `cluster.yaml`: thousands of graphs, and a few seconds of YAML parsing."""

NODES_MAX: Final = 100_000
"""The most values in a `cluster.yaml`, with aliases counted each time: the most a reader could
check."""


ROWS_MAX = 500
"""Rows that a tool returns: more than a model can use; it can request the rows that it needs."""

ROWS_BYTES_MAX = 256 * 1024
"""Their total length as JSON: about what fits into a context beside everything else."""

COMMITS_MAX = 100
"""Commits in a history resource: the newest ones."""

ACTOR_CHARACTERS_MAX = 80
"""Characters of an actor's name that become part of a branch name, whose length is limited."""


PICTURE_NAME_CHARACTERS_MAX = 48
"""Characters of a name that a history graph shows: longer ones would displace the others."""

PICTURE_COMMITS_MAX = 200
"""Default number of commits in a history graph: some screenfuls."""


LINES_PER_BATCH = 1_024
"""Lines of a row file that are embedded at a time: a few MB, and progress is visible."""

REQUEST_TEXTS_MAX = 64
"""Most texts in one request: every provider accepts a hundred, and little is repeated when a
request fails."""

REQUEST_BYTES_MAX = 256 * 1024
"""Approximate total length of these texts: a token is at least one byte, and providers reject
requests of more than 300,000 tokens."""

REQUESTS_AT_ONCE_MAX = 4
"""Concurrent requests for the vectors of rows: most of the time is spent waiting for the provider,
which soon rejects more of them for their rate."""

EMBED_PIECE_BYTES = 256 * 1024
"""Bytes of a response that are read at a time, between two checks of the deadline."""

EMBED_RESPONSE_BYTES_MAX = 64 * 1024 * 1024
"""Longest response that is read: ten times the size of the longest vectors of a request."""

TIMEOUT_MS = 30_000
"""Default time limit of one attempt."""

ATTEMPTS = 4
"""Default number of attempts of a request."""

BACKOFF_MS = 200
"""Default wait before the second attempt; each further wait is twice as long."""

DEADLINE_MS = 60_000
"""Default time limit of a request with all its attempts."""

EMBED_ATTEMPTS_MAX = 100
"""Most attempts that may be configured: after this many the provider is considered dead."""

CONFIGURED_MS_MAX = 24 * 60 * 60 * 1_000
"""Largest configurable value of these times: a day."""

WAIT_S_MAX = 60.0
"""Longest wait between two attempts, even if a provider requests more: a person may be waiting."""

VECTOR_CACHE_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of query vectors that a graph caches: a thousand of the longest common ones."""


SHELL_CHANGES_SHOWN_MAX = 100
"""Most changes that the shell shows of a diff: `omnigraph diff` writes all of them."""
