"""The statements in plain SQL with which runs are claimed, sent, logged, followed and compacted.

Everything else asks the ORM. A statement is here because it must be one, or because its plan matters;
both databases run it unless its name or its comment says which. Texts never change, so that they
are prepared once (`chat.core.prepared`). ``format`` fills in texts of this module and of
registered features, never a value.
"""

from __future__ import annotations

# --- the queue -------------------------------------------------------------------------------------

# Two columns: any run is queued, and any server is to be told when its runs have ended.
HAS_QUEUED = """
    SELECT EXISTS (SELECT 1 FROM chat_run WHERE status = 'queued'),
        EXISTS (SELECT 1 FROM chat_upstream WHERE is_draining)
"""
# Locks out other claims, but not people who queue a run.
LOCK_SERVERS = """
    SELECT id FROM chat_upstream WHERE id = ANY(%s::bigint[]) ORDER BY id FOR NO KEY UPDATE
"""
# A statement of its own: what it counts was committed before the lock was given.
CLAIM_QUEUED = """
    WITH queued AS (
        SELECT run.id, run.upstream_id, wanted.place,
            ROW_NUMBER() OVER (PARTITION BY run.upstream_id ORDER BY wanted.place) AS turn
        FROM unnest(%s::bigint[]) WITH ORDINALITY AS wanted (id, place)
        JOIN chat_run AS run ON run.id = wanted.id AND run.status = 'queued'
    ), busy AS (
        SELECT upstream_id, COUNT(*) AS count FROM (
            SELECT upstream_id FROM chat_run
            WHERE status = 'running' AND upstream_id IN (SELECT upstream_id FROM queued)
            UNION ALL
            SELECT upstream_id FROM chat_titlerequest WHERE status = 'running'
        ) AS executing
        GROUP BY upstream_id
    ), ready AS (
        SELECT queued.id FROM queued
        LEFT JOIN chat_upstream AS server ON server.id = queued.upstream_id
        LEFT JOIN busy ON busy.upstream_id = queued.upstream_id
        WHERE queued.upstream_id IS NULL OR (
            NOT server.is_draining
            AND queued.turn <= server.concurrency_limit - COALESCE(busy.count, 0)
        )
        ORDER BY queued.place LIMIT %s
    ), chat_run AS (
        UPDATE chat_run
        SET status = 'running', runner_id = %s, claimed_at = STATEMENT_TIMESTAMP()
        WHERE status = 'queued' AND id IN (SELECT id FROM ready)
        RETURNING *
    )
"""

# --- attempts --------------------------------------------------------------------------------------

# Marks the run as sent, and counts its attempts; `unless` is a query that must find nothing.
MARK_AS_SENT = """
    UPDATE chat_run SET request_sent_at = %s, dialect = %s
    WHERE id = %s AND runner_id = %s AND status = 'running'
    AND stop_requested_at IS NULL AND request_sent_at IS NULL AND NOT EXISTS ({unless})
    RETURNING id
"""
# Inserts the next attempt of the marked run.
INSERT_ATTEMPT = """
    INSERT INTO chat_attempt (run_id, number, started_at, outcome, error_kind, error_message)
    SELECT id, 1 + (SELECT COUNT(*) FROM chat_attempt WHERE run_id = marked.id), %s, '', '', ''
    FROM marked RETURNING number
"""
# The mark alone, for databases that cannot insert in the same statement.
MARK_RUN = MARK_AS_SENT.format(unless="SELECT 1 WHERE FALSE")
# The attempt of a run that is marked already.
COUNT_ATTEMPT = "WITH marked AS (SELECT %s AS id)" + INSERT_ATTEMPT
# The mark and the attempt in one statement.
MARK_AND_COUNT_ATTEMPT = f"WITH marked AS ({MARK_RUN})" + INSERT_ATTEMPT
# The outcome of an attempt, as part of the statement that ends a run on PostgreSQL. A number of 0
# finds nothing.
RECORD_ATTEMPT = """
    UPDATE chat_attempt
    SET outcome = %s, error_kind = %s, error_message = %s, retry_after_seconds = %s
    FROM ended WHERE chat_attempt.run_id = ended.id AND chat_attempt.number = %s
"""

# --- the prompt ------------------------------------------------------------------------------------

# One statement reads the path alone: other branches may be many times as long.
PATH_TO_MESSAGE = """
    WITH RECURSIVE path (id, parent_id, role, text, steps) AS (
        SELECT id, parent_id, role, text, 0 FROM chat_message WHERE id = %s
        UNION ALL
        SELECT message.id, message.parent_id, message.role, message.text, path.steps + 1
        FROM path JOIN chat_message AS message ON message.id = path.parent_id
    ){marking}
    SELECT
        {attempt}, path.id, path.role, path.text,
        EXISTS (SELECT 1 FROM chat_attachment WHERE chat_attachment.message_id = path.id),
        start.id, start.kind,
        run.id, run.position, run.upstream_id, run.dialect, run.status, run.response_id,
        run.result, run.inputs, sent.start_id
    FROM path
    LEFT JOIN chat_contextstart AS start ON start.message_id = path.id
    LEFT JOIN chat_run AS run ON run.message_id = path.id AND path.role = 'assistant'
    LEFT JOIN chat_sentcontext AS sent ON sent.run_id = run.id
    ORDER BY path.steps DESC, run.position
"""
# The path, without marking the run.
PATH = PATH_TO_MESSAGE.format(marking="", attempt="NULL")
# Pictures have to be read before the run is marked as sent: if reading fails, it must not be marked.
PICTURES_ON_PATH = (
    "SELECT 1 FROM path JOIN chat_attachment AS picture ON picture.message_id = path.id"
)
# The path, whose run is marked as sent unless there are pictures on it.
MARKED_PATH = PATH_TO_MESSAGE.format(
    marking=f", marked AS ({MARK_AS_SENT.format(unless=PICTURES_ON_PATH)}), attempt AS ({INSERT_ATTEMPT})",
    attempt="(SELECT number FROM attempt)",
)
# A run that is queued again before it was sent takes the instructions of its next attempt.
RECORD_INSTRUCTIONS = """
    INSERT INTO chat_runinstructions (run_id, project_id, text) VALUES (%s, %s, %s)
    ON CONFLICT (run_id) DO UPDATE SET project_id = excluded.project_id, text = excluded.text
"""
RECORD_PERSONAL_INSTRUCTIONS = """
    INSERT INTO chat_runpersonalinstructions (run_id, user_id, text) VALUES (%s, %s, %s)
    ON CONFLICT (run_id) DO UPDATE SET text = excluded.text
"""
# Records the part of the conversation that a run is sent; an earlier attempt may have recorded another one.
RECORD_SENT_CONTEXT = """
    INSERT INTO chat_sentcontext (run_id, start_id, left_out) VALUES (%s, %s, %s)
    ON CONFLICT (run_id) DO UPDATE SET start_id = excluded.start_id, left_out = excluded.left_out
"""
FORGET_SENT_CONTEXT = "DELETE FROM chat_sentcontext WHERE run_id = %s"

# --- segments, and the end of a run ----------------------------------------------------------------

# Inserts the segments whose run still belongs to the writer and whose seq is the next. The run is found
# by its key alone: for a join PostgreSQL may use the index of runners, and read all runs that a
# runner ever had for each segment.
KEEP_SEGMENTS = """
    INSERT INTO chat_runsegment (run_id, first_seq, last_seq, is_compressed, body, raw)
    SELECT wanted.run_id, wanted.first_seq, wanted.last_seq, FALSE, wanted.body, {raw}
    FROM {wanted}
    WHERE wanted.runner_id = (
        SELECT CASE run.status WHEN 'running' THEN run.runner_id END
        FROM chat_run AS run WHERE run.id = wanted.run_id
    ) AND wanted.first_seq = 1 + COALESCE((
        SELECT last.last_seq FROM chat_runsegment AS last
        WHERE last.run_id = wanted.run_id ORDER BY last.first_seq DESC LIMIT 1
    ), 0)
    ON CONFLICT (run_id, first_seq) DO NOTHING
    RETURNING run_id
"""
_NO_RAW = "NULLIF(wanted.raw, '')"
# PostgreSQL prepares every table and expression of a statement, used or not. Hence three texts: for one
# run, for many, and for many with the times of their first events (0.24, 0.36 and 0.63 ms of its CPU
# for one run). The texts do not depend on the number of runs, so that their plans are reused. `%b`
# sends arrays in binary form, which costs the driver a third.
APPEND_ONE = KEEP_SEGMENTS.format(
    raw=_NO_RAW,
    wanted="""(
        SELECT %b::bigint AS run_id, %b::uuid AS runner_id, %b::bigint AS first_seq,
            %b::bigint AS last_seq, %b::bytea AS body, %b::bytea AS raw
    ) AS wanted""",
)
APPEND_MANY = KEEP_SEGMENTS.format(
    raw=_NO_RAW,
    wanted="""unnest(
        %b::bigint[], %b::uuid[], %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[]
    ) AS wanted (run_id, runner_id, first_seq, last_seq, body, raw)""",
)
APPEND_WITH_TIMES = f"""
    WITH wanted AS (
        SELECT *
        FROM unnest(
            %b::bigint[], %b::uuid[], %b::bigint[], %b::bigint[], %b::bytea[],
            %b::bytea[], %b::timestamptz[], %b::timestamptz[]
        ) AS write (
            run_id, runner_id, first_seq, last_seq, body, raw, first_event_at, first_token_at
        )
    ), kept AS (
        {KEEP_SEGMENTS.format(raw=_NO_RAW, wanted="wanted")}
    ), times AS (
        UPDATE chat_run
        SET first_event_at = COALESCE(wanted.first_event_at, chat_run.first_event_at),
            first_token_at = COALESCE(wanted.first_token_at, chat_run.first_token_at)
        FROM wanted JOIN kept USING (run_id)
        WHERE chat_run.id = wanted.run_id
        AND (wanted.first_event_at IS NOT NULL OR wanted.first_token_at IS NOT NULL)
    )
    SELECT run_id FROM kept
"""  # noqa: S608 - made of our own text alone
# The same for a database without arrays; ``rows`` has a place for each value.
APPEND_IN_SQLITE = f"""
    WITH wanted (run_id, runner_id, first_seq, last_seq, body, raw) AS (VALUES {{rows}})
    {KEEP_SEGMENTS.format(raw="wanted.raw", wanted="wanted")}
"""
# Columns of a run that are stored with a segment.
SET_COLUMNS = "UPDATE chat_run SET {assignments} WHERE id = %s"
# Changes nothing if another process owns the run, or if its log is another one after a restored backup.
# The run is locked before its conversation.
END_RUN = """
    UPDATE chat_run SET {assignments}
    WHERE id = %s AND runner_id = %s AND status = 'running' AND %s = 1 + COALESCE((
        SELECT last.last_seq FROM chat_runsegment AS last
        WHERE last.run_id = chat_run.id ORDER BY last.first_seq DESC LIMIT 1
    ), 0)
    RETURNING id, conversation_id, message_id, upstream_id, model, queued_at
"""
# The end of a run with its last segment, its attempt and the rows of features, on PostgreSQL.
END_AT_ONCE = """
    WITH ended AS ({end}), segment AS (
        INSERT INTO chat_runsegment (run_id, first_seq, last_seq, is_compressed, body, raw)
        SELECT id, %s, %s, FALSE, %s, NULLIF(%s::bytea, '') FROM ended
    ), attempt AS ({attempt}), touched AS (
        UPDATE "chat_conversation" SET revision = revision + 1, updated_at = %s
        WHERE EXISTS (SELECT FROM ended) AND "chat_conversation"."id" = %s
    ){rows}
    SELECT id FROM ended
"""
# The last segment, in a statement of its own.
INSERT_SEGMENT = """
    INSERT INTO chat_runsegment (run_id, first_seq, last_seq, is_compressed, body, raw)
    VALUES (%s, %s, %s, FALSE, %s, %s)
"""
# The rows of the followers that are told of the end, as part of the same statement.
FOLLOWED_ROWS = """
    INSERT INTO chat_endedrun (run_id, follower, failures, due_at)
    SELECT ended.id, follower.name, 0, now() FROM ended, unnest(%s::text[]) AS follower (name)
"""
# Stored with the segments while a run is live, later in rows of their own. One statement reads both:
# between two, a compaction could make the bytes appear twice or not at all.
READ_FRAMES = """
    SELECT is_compressed, body FROM (
        SELECT part, place, is_compressed, body,
            SUM(LENGTH(body)) OVER (ORDER BY part, place) - LENGTH(body) AS ahead_bytes
        FROM (
            SELECT 0 AS part, position AS place, is_compressed, body
            FROM chat_rawsegment WHERE run_id = %s
            UNION ALL
            SELECT 1, first_seq, FALSE, raw
            FROM chat_runsegment WHERE run_id = %s AND raw IS NOT NULL
        ) AS kept
    ) AS measured
    WHERE ahead_bytes < %s
    ORDER BY part, place
"""

# --- followers -------------------------------------------------------------------------------------

# The segments behind each number, by its place, those nearest to their follower first, as far as the
# bytes go. The segment with the next number is the last one that begins at or before it: found
# in the index, however long the log is. All is of one moment: a run that has ended there has its
# last segment there, too. Bodies are read last: SQLite sorts rows with all their columns, and what all
# followers together have not read yet can be a hundred megabytes.
ENTRIES_BEHIND = """
    WITH wanted (place, run_id, after) AS ({wanted}),
    begun AS (
        SELECT place, run_id, after, COALESCE((
            SELECT MAX(earlier.first_seq) FROM chat_runsegment earlier
            WHERE earlier.run_id = wanted.run_id AND earlier.first_seq <= wanted.after + 1
        ), 0) AS start
        FROM wanted
    ),
    found AS (
        SELECT begun.place, segment.id,
            SUM(LENGTH(segment.body)) OVER (ORDER BY segment.first_seq - begun.after, begun.place)
                - LENGTH(segment.body) AS ahead_bytes
        FROM begun JOIN chat_runsegment segment
            ON segment.run_id = begun.run_id
            AND segment.first_seq >= begun.start
            AND segment.last_seq > begun.after
    )
    SELECT wanted.place, run.status, run.last_seq,
        segment.first_seq, segment.is_compressed, segment.body
    FROM wanted
    JOIN chat_run run ON run.id = wanted.run_id
    LEFT JOIN found ON found.place = wanted.place AND found.ahead_bytes < %s
    LEFT JOIN chat_runsegment segment ON segment.id = found.id
"""
# The text for PostgreSQL, which does not depend on the number of followers.
ENTRIES_BEHIND_IN_POSTGRES = ENTRIES_BEHIND.format(
    wanted="SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[])"
)
# As in `read_entries`, with the run's key: where nothing is behind ``after`` it comes alone.
FIRST_ENTRIES = """
    SELECT run.id, segment.first_seq, segment.is_compressed, segment.body
    FROM chat_run run LEFT JOIN chat_runsegment segment
        ON segment.run_id = run.id AND segment.last_seq > %s
        AND segment.first_seq >= COALESCE((
            SELECT MAX(earlier.first_seq) FROM chat_runsegment earlier
            WHERE earlier.run_id = run.id AND earlier.first_seq <= %s
        ), 0)
    WHERE run.public_id = %s
    ORDER BY segment.first_seq
    LIMIT %s
"""

# --- compaction ------------------------------------------------------------------------------------

# Constants are in the text: SQLite needs them to use a partial index.
DUE_FOR_COMPACTION = """
    SELECT run.id FROM chat_runsegment AS segment JOIN chat_run AS run ON run.id = segment.run_id
    WHERE segment.first_seq = 1 AND NOT segment.is_compressed AND run.finished_at < %s
    ORDER BY segment.run_id LIMIT %s
"""
# Bytes of a log that is not compacted yet, raw frames included.
LOG_SIZE = """
    SELECT SUM(LENGTH(body) + COALESCE(LENGTH(raw), 0)) FROM chat_runsegment WHERE run_id = %s
"""
# The first and last number of each segment.
SEGMENT_PLACES = (
    "SELECT first_seq, last_seq FROM chat_runsegment WHERE run_id = %s ORDER BY first_seq"
)
# The events of one segment.
SEGMENT_BODY = (
    "SELECT is_compressed, body FROM chat_runsegment WHERE run_id = %s AND first_seq = %s"
)
# The raw frames of one segment, if it has any.
SEGMENT_FRAMES = """
    SELECT raw FROM chat_runsegment WHERE run_id = %s AND first_seq = %s AND raw IS NOT NULL
"""
# The raw frames that are in rows of their own.
KEPT_FRAMES = "SELECT is_compressed, body FROM chat_rawsegment WHERE run_id = %s ORDER BY position"
# The whole log in place of its first segment.
REPLACE_FIRST_SEGMENT = """
    UPDATE chat_runsegment SET last_seq = %s, is_compressed = TRUE, body = %s, raw = NULL
    WHERE run_id = %s AND first_seq = 1
"""
# The segments after the first one.
DELETE_OTHER_SEGMENTS = "DELETE FROM chat_runsegment WHERE run_id = %s AND first_seq > 1"
# All raw frames in rows of their own.
DELETE_KEPT_FRAMES = "DELETE FROM chat_rawsegment WHERE run_id = %s"
# All raw frames of a run as one row.
KEEP_FRAMES_AS_ONE = """
    INSERT INTO chat_rawsegment (run_id, position, is_compressed, body) VALUES (%s, 0, TRUE, %s)
"""
# The segments without the raw frames, which are elsewhere.
DROP_FRAMES_OF_SEGMENTS = (
    "UPDATE chat_runsegment SET raw = NULL WHERE run_id = %s AND raw IS NOT NULL"
)

# --- kinds of events -------------------------------------------------------------------------------

# The kinds of events that a server has sent, as rows.
SEEN_IN_POSTGRES = "SELECT * FROM unnest(%s::text[], %s::bigint[], %s::boolean[], %s::text[])"
SEEN_IN_SQLITE = """
    SELECT
        json_extract(value, '$[0]'), json_extract(value, '$[1]'),
        json_extract(value, '$[2]'), json_extract(value, '$[3]')
    FROM json_each(%s)
"""
# Always in one order, because two answers of a server that end at once wait for each other. Another
# run may have been first with a new kind; then both only raise the count. The run that waited read
# its clock before the other one wrote, so the times are compared and not just replaced.
RAISE_COUNTS = """
    WITH came (name, count, is_known, sample) AS ({came}), placed AS (
        SELECT
            came.*, known.id IS NULL AS is_new,
            ROW_NUMBER() OVER (PARTITION BY known.id IS NULL ORDER BY came.name) AS place
        FROM came LEFT JOIN chat_seenevent AS known
        ON known.upstream_id = %s AND known.name = came.name
    )
    INSERT INTO chat_seenevent AS seen
        (upstream_id, name, is_known, count, sample, first_seen_at, last_seen_at)
    SELECT %s, name, is_known, count, sample, %s, %s FROM placed
    WHERE NOT is_new OR place <= %s - (SELECT COUNT(*) FROM chat_seenevent WHERE upstream_id = %s)
    ORDER BY name
    ON CONFLICT (upstream_id, name) DO UPDATE SET
        count = seen.count + excluded.count,
        first_seen_at = CASE WHEN excluded.first_seen_at < seen.first_seen_at
            THEN excluded.first_seen_at ELSE seen.first_seen_at END,
        last_seen_at = CASE WHEN excluded.last_seen_at > seen.last_seen_at
            THEN excluded.last_seen_at ELSE seen.last_seen_at END,
        is_known = seen.is_known OR excluded.is_known,
        sample = CASE
            WHEN excluded.is_known THEN ''
            WHEN seen.sample = '' AND NOT seen.is_known THEN excluded.sample
            ELSE seen.sample
        END
"""
