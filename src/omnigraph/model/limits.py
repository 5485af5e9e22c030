"""Every bound of the system, each with the reason for its size.

A bound that is not here does not exist: no other module compares with a literal maximum.
"""

SOURCE_CHARACTERS_MAX = 2 * 1024 * 1024
"""Longest `.pg` or `.gq` text: a thousand queries are a third of a megabyte."""

NESTING_MAX = 100
"""Deepest bracket nesting: people stop at five, and the compiler recurses."""

BLOCK_NESTING_MAX = 16
"""Deepest nesting of `not` and `optional` blocks: each level is looked through by those around."""

CONDITION_NESTING_MAX = 12
"""Deepest nesting of `or` inside `and` of a condition: Lance reads fourteen levels of brackets."""

NAME_CHARACTERS_MAX = 255
"""Longest name of anything: names become columns and are hashed with each property."""

PROPERTIES_MAX = 200_000
"""Most properties of a schema, inherited ones counted wherever they are inherited."""

DIAGNOSTICS_MAX = 50
"""Most diagnostics of one compilation. Nobody reads further, and near names cost a search each."""

NEAR_NAME_CANDIDATES_MAX = 2_000
"""Most names searched for a near one: above it the search outlasts the compilation."""

VECTOR_DIMENSION_MAX = 2**31 - 1
"""Largest `Vector(n)`: Arrow counts the elements of a fixed-size list in 32 bits."""

CARDINALITY_MAX = 2**32 - 1
"""Largest bound in `@card`: the stored form is an unsigned 32-bit number."""

PATTERN_REPETITION_MAX = 1_000
"""Largest `{n}` in a `@check` pattern: linear-time engines expand repetitions and refuse more."""

PATTERN_CHARACTERS_MAX = 1_000
"""Longest `@check` pattern: people stop at a hundred, and every write compiles it."""

VIOLATIONS_MAX = 100
"""Most violations that one refused write carries: a pattern, not a whole file."""

VIOLATIONS_SHOWN_MAX = 5
"""Most violations or conflicts spelled out in a message; the error holds the others."""

CONFLICT_EDGES_SHOWN_MAX = 5
"""Most edges that a conflict of cardinality names: a diff of the two branches tells all."""

VALUE_CHARACTERS_SHOWN_MAX = 120
"""Most of a text that the message of a violation quotes: one recognises it by less."""

MERGE_BASE_VERSIONS = (0, 64, 2048)
"""How far back a merge looks for where its branches parted before it reads all of history: first
at both heads, which are known; then at the commits of some dozens of versions, then of many."""

MERGE_BASE_DEPTH = 2
"""How often a base is itself measured from a base of several commits: two branches that took from
each other by two ways are met; those that did so over and over end at one commit."""

BRANCH_NAME_CHARACTERS_MAX = 200
"""Longest branch name: it becomes a directory below every table that the branch writes."""

BRANCH_FILE_CHARACTERS_MAX = 211
"""Most characters of a branch name if each `/` counts five, as in the name under which Lance writes
the file that lists the branch: names of files end at 255, and the rest is of its own making."""

TAG_NAME_CHARACTERS_MAX = 80
"""Longest tag name: it becomes the name of one file."""

BRANCH_LISTINGS_MAX = 20
"""How often branches are listed anew because one of them went away while they were."""

PUBLISHER_RETRY_BUDGET = 5
"""How often a publish is tried again after another writer of the branch was first."""

PREPARE_ATTEMPTS_MAX = 8
"""How often a write that loses no meaning by it is prepared again on a newer state."""

REQUEST_KEY_CHARACTERS_MAX = 255
"""Longest key of a request: a UUID has 36, and the key is kept in its commit for good."""

REQUEST_LOCKS = 16
"""How many locks the keys of requests share: each is a file, and two keys seldom come at once."""

AUDIT_ATTEMPTS_MAX = 20
"""How often a recovery is written down anew because others wrote theirs at that moment."""

MANIFEST_FRAGMENTS_MAX = 32
"""Fragments of `__manifest` before the publisher joins them: opening a graph reads all of them."""

CONTRACT_READS_MAX = 8
"""Times that the schema's files are read while others replace them: each apply is one commit, so a
reader who meets that many in a row has other troubles."""

REUSED_TABLE_VERSIONS_MAX = 10_000
"""Most versions that an earlier type of a name may have had for the name to be given again: a new
table is brought above all of them one by one."""

OPEN_TABLES_MAX = 64
"""Most open table handles of one graph: each holds a version's description in memory."""

KNOWN_IDS_MAX = 250_000
"""Most ids of one type whose places a graph keeps in memory, to find a row without a scan."""

PROBED_VALUES_MAX = 1_000
"""Most values looked up by a pushed-down filter; for more, one scan of the column is cheaper."""

PROPERTY_BYTES_MAX = 256 * 1024 * 1024
"""Largest text or blob of one property: a row is held in memory whole, several times over."""

WRITE_LOCK_TIMEOUT_S = 60.0
"""Longest wait for other writers of a type: one holds its lock for a second or two at most."""

OBJECT_LOCK_TIMEOUT_S = 10.0
"""Longest wait for another writer of control files: one holds the lock for a rename."""

STAGED_OBJECT_AGE_MAX_S = 3600.0
"""Age at which a control file that never got its name is a dead writer's: one is named at once."""

LOCK_PROBE_INTERVAL_S = 0.01
"""Longest pause between two looks at a lock that another process holds: a commit takes as long."""

LEASE_S = 15.0
"""How long a lease is good without a sign of life: long enough for a slow request, short enough to
wait for when its holder has died."""

LEASE_CLOCK_SKEW_S_MAX = 60.0
"""Most by which clocks of two machines may differ before a living writer is taken for dead."""

LEASE_SHARED_S_MAX = 5.0
"""Longest time for which writers of one process join each other's lease while others wait."""

LEASE_PROBE_INTERVAL_S_MIN = 0.02
"""First pause between two looks at a lease that another process holds: a commit takes longer."""

LEASE_PROBE_INTERVAL_S_MAX = 0.25
"""Longest such pause: what a turn may be late by, against requests that only ask."""

READER_GRACE_S = 300.0
"""How long a version stays after another took its place: longer than a query may run, by more than
clocks of two machines may differ."""

READER_LEASE_S = 60.0
"""How long the claim of a reader is good without a sign of life; it is renewed in a third of it."""

CLEANUP_S_MAX = 3600.0
"""How long readers of what a clean-up is about to delete are refused, should it have died."""

RETENTION_LOOKS_MAX = 20
"""How often the branches are read anew because one of them was deleted while they were."""

OBJECT_RETRIES_MAX = 5
"""How often a request to S3 is sent again: with doubling pauses that is three seconds."""

OBJECT_RETRY_TIMEOUT_S = 30
"""Longest time over which a request to S3 is repeated: people take a longer one for a hang."""

MEMORY_DISK_BYTES_MIN = 1024 * 1024 * 1024
"""Smallest /dev/shm that `memory://` graphs use: containers often have 64 MiB, a load's worth."""

FOREIGN_REASON_CHARACTERS_MAX = 300
"""Most of a foreign error's text that a message shows; the error's cause holds all of it."""

COMPILED_QUERIES_MAX = 256
"""Most compiled queries that an open graph keeps: agents repeat dozens, not thousands."""

FRAGMENT_ROWS_MAX = 1024 * 1024
"""Most rows of one data file: few enough to rewrite in seconds, enough to scan at full speed."""

DELETED_SHARE_MAX = 0.1
"""Share of a data file's rows that may be deleted before the file is worth writing again."""

LAYOUT_GROWTH = 8
"""How many times its neighbours a data file outweighs before it is left alone, and a part of an
index what it does not know: so a row is written again a few times in its life, not with each."""

LAYOUT_ROWS_FREE = 64 * 1024
"""Rows that are written or indexed again without counting: it takes hundredths of a second."""

TABLE_METADATA_BYTES_MAX = 256 * 1024 * 1024
"""Most memory of an open graph for descriptions of its tables' versions and files."""

TABLE_INDEX_BYTES_MAX = 1024 * 1024 * 1024
"""Most memory of an open graph for pages of its indexes."""

SCAN_BATCH_BYTES = 4 * 1024 * 1024
"""How much of a type is read at a time to be written elsewhere, and how much of its blobs."""

SCAN_BUFFER_BYTES = 16 * 1024 * 1024
"""Most that is read ahead meanwhile: Lance would read gigabytes ahead of a slow disk."""

REFERENCE_CHARACTERS_MAX = 64 * 1024
"""Longest reference to a blob outside of a graph: a longer text is no name of anything."""

ROW_GROUP_BYTES = 32 * 1024 * 1024
"""About how many bytes of rows become one group of a Parquet file, which is gathered in memory."""

RESULT_ROWS_WRITTEN = 16 * 1024
"""How many rows of a result are made JSON at a time when it is written to a file."""

SORTED_BYTES_MAX = 32 * 1024 * 1024
"""Most rows that are sorted in memory; more go through files, which takes half as long again."""

BLOB_BATCH_ROWS_MAX = 64
"""Most rows of a batch that holds blobs: a blob may have megabytes, and a batch is held whole."""

MET_LINES_MAX = 10_000
"""Most lines of tables remembered as met: what is known of a graph is dropped when there are more.

As many as three thousand transactions make."""

SETTLED_FOLDERS_MAX = 10_000
"""Most folders remembered as durable: three a table and three a branch of one."""

LOAD_BLOCK_BYTES = 2 * 1024 * 1024
"""How much NDJSON becomes columns at a time: enough for columns to pay, little as objects."""

LOAD_BLOCK_BYTES_MIN = 32 * 1024
"""Least NDJSON that Arrow is asked to read at once: to begin takes it as long as these alone."""

LINE_END_BYTES = 64 * 1024
"""How much is read at a time to find the end of a line: lines are shorter, mostly."""

RECORD_BYTES_MAX = 1024 * 1024 * 1024
"""Longest NDJSON record: Arrow counts the bytes of a column of texts in 31 bits."""

REMOTE_BUFFER_BYTES = 8 * 1024 * 1024
"""How much of a file in S3 is read by one request: fewer of them, and each still little to hold."""

CSV_BLOCK_BYTES = 16 * 1024 * 1024
"""How much of a CSV file is read at a time, and the longest row of one."""

ARROW_BATCH_BYTES = 32 * 1024 * 1024
"""About how many bytes of a file of rows are converted at a time, of which several copies exist."""

ARROW_BATCH_ROWS_MAX = 64 * 1024
"""Most rows that are converted at a time: more make nothing faster."""

ARROW_PIECE_BYTES_MAX = 1024 * 1024 * 1024
"""Most bytes of given Arrow rows that are converted at a time, for the same reason."""

WARM_COLUMN_BYTES_MAX = 512 * 1024 * 1024
"""Most memory of an open graph for columns that reads have used, dropped by least use."""

WARM_TOPOLOGY_BYTES_MAX = 512 * 1024 * 1024
"""Most memory of an open graph for the edges of types that reads have walked."""

WARM_SEARCH_BYTES_MAX = 512 * 1024 * 1024
"""Most memory of an open graph for the words and vectors that reads have searched."""

WARM_TYPE_ROWS_MAX = 4_000_000
"""Largest type of which a column is read whole because it was asked for twice."""

WARM_KEYS_MAX = 1_024
"""Most columns and edge types of which an open graph remembers how often they were asked for."""

QUERY_BYTES_MAX = 1024 * 1024 * 1024
"""Most memory that the rows of one query may take: several run at once on a small machine."""

QUERY_SECONDS_MAX = 120.0
"""Longest run of one query: what takes longer belongs on a cluster."""

EXPAND_INDEXED_FRONTIER_MAX = 1_024
"""Most entities that a traversal starts from when edges are looked up instead of held in memory."""

EXPAND_INDEXED_HOPS_MAX = 6
"""Most hops of a traversal that looks edges up: each is a round trip to the storage."""

EXPAND_CSR_FACTOR = 1.5
"""How much dearer an edge is when it is looked up than when all of them are read in one scan."""

EXPAND_PROBES_MAX = 4
"""Look-ups in one version of an edge type after which holding it in memory has paid."""

SEARCH_WORD_CHARACTERS_MAX = 40
"""Longest word that can be searched for: what is longer is a checksum or an encoded file."""

SEARCH_BLOCK_BYTES = 4 * 1024 * 1024
"""How much text is taken apart into words at a time: what fits into a processor's cache."""

VECTOR_BLOCK_NUMBERS = 256 * 1024
"""How many numbers of vectors are widened at a time: what fits into a processor's cache."""

ANALYSIS_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Most memory that an algorithm over a graph takes in process: what is larger belongs on Spark."""

ANALYSIS_EDGE_BYTES = 100
"""About how much of that an edge takes: its ends as numbers, either way, and on their way there."""

ANALYSIS_NODE_BYTES = 150
"""About how much of it a node takes: its id, its places in several orders, and its values."""

ANALYSIS_WEDGES_MAX = 8 * 1024 * 1024
"""Pairs of neighbours that are looked at together for triangles: some hundred MiB of numbers."""

ANALYSIS_PATH_BYTES_MAX = 1024 * 1024 * 1024
"""Most memory that the ids on all paths of a result take: Arrow counts their bytes in 31 bits."""

RESULT_ROWS_SHOWN_MAX = 20
"""Most rows of a result that a notebook shows: about a screenful."""

COMMITS_SHOWN_MAX = 20
"""Most commits of a branch that a notebook lists: about a screenful, the newest of them."""

CHANGES_SHOWN_MAX = 20
"""Most changes of a diff that a notebook shows: about a screenful, and a page of it gives more."""

CONFLICTS_SHOWN_MAX = 20
"""Most conflicts of a merge that a notebook shows: each has a row three times."""

CHANGES_PER_PAGE = 1_000
"""Changes in a page of a diff unless the caller says otherwise: enough to show, quick to send."""

CHANGES_PER_PAGE_MAX = 8_192
"""Most changes in one page: a page is written as JSON and held whole."""

EXAMINATIONS_MAX = 3
"""How often a branch is looked at again because others wrote to it while something was found."""

EXAMINED_IDS_BYTES_MAX = 128 * 1024 * 1024
"""Most ids of a node type that are held at a time to look for the ends of edges: four million."""

EXAMINED_BLOCK_BYTES = 32 * 1024 * 1024
"""How many edges are looked up at a time: building the set of ids costs as much as a million."""

RECONCILER_INTERVAL_S = 60.0
"""Time between two rounds of upkeep unless the caller says otherwise: files come in minutes."""

WORN_FILES_MIN = 16
"""Small files of a type that make a round of upkeep join them: scans begin to tell them apart."""

WORN_SHARE_MIN = 0.1
"""Share of a type's rows that an index may not know before a round of upkeep completes it."""

STAGED_BYTES_MAX = 64 * 1024 * 1024
"""Rows of a type that a task of a Spark load holds before it writes a file of them."""

SPARK_PART_ROWS_MAX = 1_000_000
"""Most rows that one task of a read through Spark takes: some seconds of work."""

SPARK_PART_BYTES_MAX = 128 * 1024 * 1024
"""About how much of them a task reads: what Spark makes of files, too."""

SPARK_BATCH_BYTES_MAX = 16 * 1024 * 1024
"""About how many bytes of rows Spark is handed at a time: both sides hold them whole."""

SPARK_LOCAL_ROWS_MAX = 10_000
"""Largest type that a query on Spark reads in this process: a job for it would take longer."""

SPARK_LOCAL_BYTES_MAX = 4 * 1024 * 1024
"""About how many bytes of it may be read: they travel with the plan."""

SPARK_FUSED_MAX = 20_000
"""Most entities that a query on Spark fuses two rankings of in this process."""

CLAIMED_ROWS_MAX = 1024 * 1024
"""Rows whose keys one task of a Spark load reads at a time: what it holds is a few columns."""

CLAIMING_ROWS_MAX = 64 * 1024 * 1024
"""Rows whose keys one task reads in all: a minute or two of work that is lost with an executor."""

PORTION_BYTES_MIN = 4 * 1024 * 1024
"""Least input of one task of a Spark load: reading it takes longer than starting the task."""

PORTION_BYTES_MAX = 128 * 1024 * 1024
"""Most input of one task: few minutes of work are lost with an executor, and memory is bounded."""

PORTIONS_MAX = 32_768
"""Most tasks that read one input of a Spark load; positions of rows have room for twice as many."""

QUARANTINED_ROWS_MAX = 100_000
"""Most rows that a load leaves out: with more of them the input as a whole is wrong."""

PLACES_SHOWN_MAX = 10
"""Rows of each broken rule that the report of a bulk load shows with their places."""

SPARK_HEAP_BYTES_MIN = 1024 * 1024 * 1024
"""Least memory of Spark's Java process on this machine: what Spark itself would take."""

SPARK_HEAP_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Most memory that it takes unasked: only keys pass through it, and what is too much is spilled."""

SPARK_POLL_INTERVAL_S = 0.25
"""How often a running Spark job is looked at: as often as a bar on a terminal wants to move."""

SPARK_CANCEL_WAIT_S = 30.0
"""How long a cancelled Spark job may take to end: its Python workers are killed within seconds."""

SPARK_REASON_CHARACTERS_MAX = 300
"""Longest reason of Spark's that an error repeats: about three lines of a terminal."""

SPARK_CONNECT_RETRIES_MAX = 4
"""How often a Spark Connect server is tried before it does not answer: five seconds in all."""

INLINE_BYTES_MAX = 256 * 1024 * 1024
"""Largest input that a load reads in process unless it is told to: twenty seconds, a few GiB."""

RANGE_BYTES_MAX = 32 * 1024 * 1024
"""About how many bytes of rows that meet by id one task takes: comparing them makes copies."""

RANGES_MAX = 4_096
"""Most ranges of ids that rows of a type are cut at: pieces of what a task reads get too small."""

RANGE_SAMPLES_MAX = 64
"""Ids that tell how those of one task are spread: ranges come out even enough, and few travel."""

UNSAMPLED_ROWS_MAX = 64 * 1024
"""Rows of a type that one task takes without looking how large they are: hundredths of a second."""

EXPORT_INLINE_ROWS_MAX = 20_000_000
"""Most rows that are exported in process unless it is told to: a minute or two of one core."""

MERGE_CONFLICTS_MAX = 10_000
"""Most conflicts that a merge on Spark tells: each holds a row three times, for people to read."""

DIFF_INLINE_ROWS_MAX = 2_000_000
"""Most rows that a diff or a merge compares in process unless it is told to: some seconds, and a
GiB or two of memory."""

PROGRESS_DRAWS_PER_S_MAX = 10
"""How often a bar on a terminal is drawn: more, nobody sees, and terminals far away are slow."""

UPKEEP_ROWS_MAX = 10_000_000
"""Rows that are joined or indexed in process unless somebody says otherwise: with a text among
their properties that takes some minutes, which executors share."""

REWRITTEN_BYTES_MAX = 1024 * 1024 * 1024
"""Largest type that a change of schema writes anew in process unless it is told to: it is held in
memory whole."""

EMBEDDED_ROWS_MAX = 100_000
"""Rows that are embedded in process unless somebody says otherwise: a model that is asked over a
network takes some minutes for so many, and hours for a hundred times as many."""

POLICY_BYTES_MAX = 4 * 1024 * 1024
"""Longest file of a policy: fifty thousand actors by name, and rules for them."""

DECISIONS_KEPT_MAX = 16_384
"""Decisions that a gate remembers: a thousand actors on a handful of branches, in a few MB."""
